"""A run's own identity: its name, its nonce, its folders and its environment.

Nothing of it is derived from what two runs can share (the item, the second, the process id, the
machine): both values come from the system's own randomness, and each folder is made by an `mkdir`
that fails where something stands. So two runs share nothing, in two containers as little as in one.

What each tool lets a run have for its own:

- gptme: `GPTME_LOGS_HOME` (gptme/dirs.py) and `GPTME_LOGS_DIR` (gptme-contrib's discovery) lead to the
  run's own folder. Only conversations are there; configuration and credentials are elsewhere. Left alone
  where a conversation is resumed: that one is in the user's own folder.
- Claude Code: `--session-id <UUID>` (code.claude.com/docs/en/cli-reference). Its folder cannot be the
  run's own: `CLAUDE_CONFIG_DIR` also holds credentials, settings and hooks.
- Codex: nothing. `CODEX_HOME` is the root of configuration, authentication and sessions alike
  (developers.openai.com/codex/environment-variables).
- Copilot CLI: nothing. Its home also holds the configuration and the permissions that were given.
- Grok: nothing. Its stream names nobody.

What a tool does not give for the run's own is looked for afterwards, by evidence (`transcripts`).
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
"""The producer of what is recorded of a run."""

NAMESPACE = "run"
"""The namespace of the names that runs are given."""

SESSION, NONCE, LEDGER = "RIGHTFUL_SESSION", "RIGHTFUL_RUN_NONCE", "RIGHTFUL_LEDGER"
"""The variables by which a session finds its own name, its nonce and the ledger."""

RUNS, WORKTREES = identity.RUNS_FOLDER, "worktrees"
"""The folders in a ledger for what is a run's own, and for work trees."""

LOGS = identity.RUN_LOGS_FOLDER
"""The folder in a run's own for its tool's log."""

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
"""Variables that lead git to another repository, work tree or index than the working folder's.

Those of `git rev-parse --local-env-vars`, without the ones that carry configuration. A hook of git sets
some of them; a session that inherits its caller's index commits the caller's files.
"""

_CALLERS = frozenset({"CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID", "COPILOT_AGENT_SESSION_ID", "GPTME_CONVERSATION_ID"})
"""Variables by which an agent tool tells its commands which session they are in: the caller's, and not the run's.

What launchers set (`CC_SESSION_ID`, `GPTME_SESSION_ID`) is meant for what they start.
"""

_PRIVATE = 0o700
_TEMPORARY = ("TMPDIR", "TEMP", "TMP", "TEMPDIR")
_TOOLS = {"claude": "claude-code", "codex": "codex", "copilot": "copilot", "gptme": "gptme", "grok": "grok"}
TOOLS = frozenset(_TOOLS.values())
"""The tools that are known."""

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
    """What tells a run from every other.

    Attributes:
        mark: The name of its folders and of its branch: its second, and 64 random bits.
        session: The run's own name.
        nonce: 128 random bits, in hexadecimal; they stand in no name.
    """

    mark: str
    session: str
    nonce: str


def drawn(at_us: int, session: str | None = None, entropy: Entropy = os.urandom) -> Identity:
    """Return a new identity.

    Args:
        at_us: The time; microseconds since 1970, UTC. It is for people: two runs of one time differ all the same.
        session: The run's own name, where somebody gave it one.
        entropy: Where random bytes come from.
    """
    mark = f"{times.at_of(at_us):%Y%m%dT%H%M%SZ}-{entropy(8).hex()}"
    return Identity(mark, session or f"{NAMESPACE}:{mark}", entropy(16).hex())


def tool_of(command: Sequence[str]) -> str | None:
    """Return which agent tool a command starts, by its program's name; None if that is not known."""
    return _TOOLS.get(os.path.basename(command[0]))  # noqa: PTH119 - a name is compared, no path is built


class Own(NamedTuple):
    """What a run has of its tool for its own.

    Attributes:
        command: The command to start, with what was added to it.
        native_id: The id that the tool was told to use.
        logs: The folder that the tool was told to write its conversations to.
    """

    command: tuple[str, ...]
    native_id: str | None = None
    logs: Path | None = None


def own_of(command: Sequence[str], harness: str | None, folder: Path, entropy: Entropy = os.urandom) -> Own:
    """Return what can be a run's own of its tool; nothing where a session of before is gone on with.

    Only the words of a program that is known by its name are added to: in those of a wrapper
    (`npx …`, a script) nobody knows where the agent's begin.

    Args:
        command: The command, as it was given.
        harness: The tool.
        folder: The run's own folder.
        entropy: Where random bytes come from.
    """
    words = tuple(command)
    if harness == "claude-code" and tool_of(command) == harness and _takes_session(words[1:]):
        native = str(uuid.UUID(bytes=entropy(16), version=4))
        return Own((words[0], "--session-id", native, *words[1:]), native)
    if harness == "gptme" and not _names(words[1:]) & _RESUMES_GPTME:
        return Own(words, None, folder / LOGS / "gptme")
    return Own(words)


def _takes_session(words: Sequence[str]) -> bool:
    """Say whether these words of Claude Code's begin a session that can be given an id."""
    return not (_names(words) & (_RESUMES_CLAUDE | _TELLS_CLAUDE) or (words[:1] and words[0] in _CLAUDE_COMMANDS))


def _names(words: Sequence[str]) -> set[str]:
    """Return the names of the options among words, those behind `--` left out."""
    ours = words[: words.index("--")] if "--" in words else words
    return {word.partition("=")[0] for word in ours if word.startswith("-")}


def environment_of(
    base: Mapping[str, str], identity: Identity, *, ledger: str, cwd: Path, temp: Path, own: Own
) -> dict[str, str]:
    """Return the environment of a run's command.

    Args:
        base: The caller's environment.
        identity: Who the run is.
        ledger: The ledger's absolute path.
        cwd: Its working folder.
        temp: The private folder for temporary files.
        own: What the run has of its tool.
    """
    made = {name: value for name, value in base.items() if name not in GIT_LOCATIONS and name not in _CALLERS}
    made |= {SESSION: identity.session, NONCE: identity.nonce, LEDGER: ledger, "TMPDIR": str(temp)}
    if not _is_folder(base.get("PWD", ""), cwd):
        made["PWD"] = str(cwd)  # some tools believe it, and would work in the caller's folder
    made |= {name: str(temp) for name in _TEMPORARY if name in base}
    if own.logs is not None:
        made |= {"GPTME_LOGS_HOME": str(own.logs), "GPTME_LOGS_DIR": str(own.logs)}
    return made


def _is_folder(path: str, cwd: Path) -> bool:
    """Say whether a path, which may lead through links, is the working folder."""
    try:
        return os.path.isabs(path) and os.path.samefile(path, cwd)  # noqa: PTH117, PTH121 - text of the environment
    except (OSError, ValueError):
        return False


def made_private(folder: Path) -> Path:
    """Make a folder that nobody else may look into, and those above it; return it.

    Raises:
        OSError: It cannot be made, or stands there already.
    """
    folder.parent.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
    folder.mkdir(mode=_PRIVATE)
    folder.chmod(_PRIVATE)  # whatever the umask took
    return folder


def without_secrets(url: str) -> str | None:
    """Return the address of a repository without the name, password and query that may stand in it.

    None for the words of a helper program (`ext::…`, gitremote-helpers(7)): they are arguments.
    """
    if "::" in url.partition("/")[0]:
        return None
    scheme, mark, rest = url.partition("://")
    if not mark:
        return re.sub(r"\A[^/@]*:[^/@]*@", "", url)
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{re.split('[?#]', path)[0]}"
