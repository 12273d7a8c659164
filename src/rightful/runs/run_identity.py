"""A run's own identity: its name, its nonce, its folders and its environment.

No part of it is derived from values that two runs can share (the item, the second, the process id, the
machine). The name and the nonce come from the system's random source. Each folder is created by an `mkdir`
that fails if the path exists. So two runs never share one, whether they are in one container or in two.

What each tool allows a run to have of its own:

- gptme: its own log folder, by `GPTME_LOGS_HOME` (gptme/dirs.py) and `GPTME_LOGS_DIR` (gptme-contrib's
  discovery). The folder contains only conversations; configuration and credentials are elsewhere. The
  variables are not set if a conversation is resumed, since that one is in the user's own folder.
- Claude Code: its own session id, by `--session-id <UUID>` (code.claude.com/docs/en/cli-reference). Its
  folder is shared, because `CLAUDE_CONFIG_DIR` also contains credentials, settings and hooks.
- Codex: nothing. `CODEX_HOME` is the root of configuration, authentication and sessions alike
  (developers.openai.com/codex/environment-variables).
- Copilot CLI: nothing. Its home also contains the configuration and the granted permissions.
- Grok: nothing. Its stream does not contain a session id.

For the other tools, the transcript is identified after the run, by evidence (`run_transcripts`).
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rightful import identity, times

PRODUCER = identity.RUN_PRODUCER
"""The producer of the events about a run."""

NAMESPACE = "run"
"""The namespace of generated run names."""

SESSION, NONCE, LEDGER = "RIGHTFUL_SESSION", "RIGHTFUL_RUN_NONCE", "RIGHTFUL_LEDGER"
"""The environment variables with the session's own name, its nonce and the ledger."""

RUNS, WORKTREES = identity.RUNS_FOLDER, "worktrees"
"""The folders in a ledger for the files of runs, and for work trees."""

LOGS = identity.RUN_LOGS_FOLDER
"""The folder for the tool's log, in a run's own folder."""

GIT_LOCATIONS = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_PREFIX",
    "GIT_NAMESPACE",
    "GIT_SHALLOW_FILE",
    "GIT_GRAFT_FILE",
    "GIT_INTERNAL_SUPER_PREFIX",
)
"""Variables that make git use another repository, work tree or index than that of the working folder.

The list is that of `git rev-parse --local-env-vars` without the variables for configuration. git sets some
of them for its hooks. A session that inherits its caller's index would commit the caller's files.
"""

_CALLERS = frozenset({"CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID", "COPILOT_AGENT_SESSION_ID", "GPTME_CONVERSATION_ID"})
"""Variables in which an agent tool passes its session to its commands: the caller's session, not the run's.

Variables of launchers (`CC_SESSION_ID`, `GPTME_SESSION_ID`) are not in the list: they apply to the run.
"""

_PRIVATE = 0o700
_TEMPORARY = ("TMPDIR", "TEMP", "TMP", "TEMPDIR")
_TOOLS = {"claude": "claude-code", "codex": "codex", "copilot": "copilot", "gptme": "gptme", "grok": "grok"}
TOOLS = frozenset(_TOOLS.values())
"""The supported agent tools."""

_RESUMES_CLAUDE = frozenset(
    {"-c", "--continue", "-r", "--resume", "--session-id", "--fork-session", "--from-pr", "--teleport", "--remote"}
)
_TELLS_CLAUDE = frozenset({"-h", "--help", "-v", "--version"})
_CLAUDE_COMMANDS = frozenset(
    {"agents", "auth", "auto-mode", "config", "doctor", "install", "mcp", "migrate-installer", "plugin", "plugins",
     "remote-control", "rc", "setup-token", "update", "upgrade"}
)  # fmt: skip
_RESUMES_GPTME = frozenset({"-r", "--resume"})

Entropy = Callable[[int], bytes]


class Identity(NamedTuple):
    """The values that identify a run uniquely.

    Attributes:
        mark: The name of its folders and of its branch: its start time in seconds, and 64 random bits.
        session: The run's own name.
        nonce: 128 random bits, in hexadecimal; no name contains them.
    """

    mark: str
    session: str
    nonce: str


def new_identity(at_us: int, session: str | None = None, entropy: Entropy = os.urandom) -> Identity:
    """Return a new identity.

    Args:
        at_us: The time; microseconds since 1970, UTC. It is for people: two runs of the same time still differ.
        session: The run's own name, if the user chose one.
        entropy: The source of random bytes.
    """
    mark = f"{times.at_of(at_us):%Y%m%dT%H%M%SZ}-{entropy(8).hex()}"
    return Identity(mark, session or f"{NAMESPACE}:{mark}", entropy(16).hex())


def tool_of(command: Sequence[str]) -> str | None:
    """Return the agent tool that a command starts, by its program's name; None if it is not a known one."""
    return _TOOLS.get(os.path.basename(command[0]))  # noqa: PTH119 - a name is compared, no path is built


class ToolSetup(NamedTuple):
    """The parts of its agent tool that a run does not share with other runs.

    Attributes:
        command: The command to start, including added arguments.
        native_id: The session id passed to the tool.
        logs: The conversation folder passed to the tool.
    """

    command: tuple[str, ...]
    native_id: str | None = None
    logs: Path | None = None


def tool_setup(command: Sequence[str], harness: str | None, folder: Path, entropy: Entropy = os.urandom) -> ToolSetup:
    """Return the command with the session id or log folder of its own; unchanged if it resumes a session.

    Arguments are added only if the program's name is known. In the arguments of a wrapper (`npx …`, a
    script) it is unknown where those of the agent begin.

    Args:
        command: The command as the user entered it.
        harness: The agent tool.
        folder: The run's own folder.
        entropy: The source of random bytes.
    """
    words = tuple(command)
    if harness == "claude-code" and tool_of(command) == harness and _takes_session(words[1:]):
        native = str(uuid.UUID(bytes=entropy(16), version=4))
        return ToolSetup((words[0], "--session-id", native, *words[1:]), native)
    if harness == "gptme" and not _names(words[1:]) & _RESUMES_GPTME:
        return ToolSetup(words, None, folder / LOGS / "gptme")
    return ToolSetup(words)


def _takes_session(words: Sequence[str]) -> bool:
    """Return whether these Claude Code arguments start a new session, which accepts an id."""
    return not (_names(words) & (_RESUMES_CLAUDE | _TELLS_CLAUDE) or (words[:1] and words[0] in _CLAUDE_COMMANDS))


def _names(words: Sequence[str]) -> set[str]:
    """Return the names of the options among arguments, without those after `--`."""
    ours = words[: words.index("--")] if "--" in words else words
    return {word.partition("=")[0] for word in ours if word.startswith("-")}


def environment_of(
    base: Mapping[str, str], identity: Identity, *, ledger: str, cwd: Path, temp: Path, setup: ToolSetup
) -> dict[str, str]:
    """Return the environment of a run's command.

    Args:
        base: The caller's environment.
        identity: The run's identity.
        ledger: The ledger's absolute path.
        cwd: The run's working folder.
        temp: The private folder for temporary files.
        setup: The run's own session id and log folder.
    """
    made = {name: value for name, value in base.items() if name not in GIT_LOCATIONS and name not in _CALLERS}
    made |= {SESSION: identity.session, NONCE: identity.nonce, LEDGER: ledger, "TMPDIR": str(temp)}
    if not _is_folder(base.get("PWD", ""), cwd):
        made["PWD"] = str(cwd)  # some tools trust it, and would work in the caller's folder
    made |= {name: str(temp) for name in _TEMPORARY if name in base}
    if setup.logs is not None:
        made |= {"GPTME_LOGS_HOME": str(setup.logs), "GPTME_LOGS_DIR": str(setup.logs)}
    return made


def _is_folder(path: str, cwd: Path) -> bool:
    """Return whether a path, possibly through symbolic links, is the working folder."""
    try:
        return os.path.isabs(path) and os.path.samefile(path, cwd)  # noqa: PTH117, PTH121 - text of the environment
    except (OSError, ValueError):
        return False


def make_private_folder(folder: Path) -> Path:
    """Create a folder that only this user can read, and its parents, and return it.

    Raises:
        OSError: The folder cannot be created, or it exists.
    """
    folder.parent.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
    folder.mkdir(mode=_PRIVATE)
    folder.chmod(_PRIVATE)  # independent of the umask
    return folder


def without_secrets(url: str) -> str | None:
    """Return the URL of a repository without user name, password and query.

    Return None for the address of a helper program (`ext::…`, gitremote-helpers(7)): it contains arguments.
    """
    if "::" in url.partition("/")[0]:
        return None
    scheme, mark, rest = url.partition("://")
    if not mark:
        return re.sub(r"\A[^/@]*:[^/@]*@", "", url)
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{re.split('[?#]', path)[0]}"
