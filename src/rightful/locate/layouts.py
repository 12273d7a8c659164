"""Where each tool keeps its transcripts, and the small files that point at them.

| tool | folder | named by |
|---|---|---|
| Claude Code | `projects/<slug>/<id>.jsonl` | `CLAUDE_CONFIG_DIR`, else `~/.claude`; contrib reads `CLAUDE_HOME` |
| Codex | `sessions/YYYY/MM/DD/rollout-*.jsonl` | `CODEX_HOME`, else `~/.codex`; contrib reads `CODEX_SESSIONS_DIR` |
| Copilot CLI | `session-state/<id>/events.jsonl` | `COPILOT_HOME`, else `~/.copilot` |
| gptme | `<name>/conversation.jsonl` | `GPTME_LOGS_HOME`, else `$XDG_DATA_HOME/gptme/logs`; contrib `GPTME_LOGS_DIR` |
| gptme runs | `gptme-runs/gptme-logs-<session>/<name>/conversation.jsonl` | the workspace or the home |
| Grok | `state/sessions/grok-trajectories/<session>.jsonl` | the workspace |
| `rightful run` of gptme | `runs/<mark>/logs/gptme/<name>/conversation.jsonl` | the ledger |
| launchers | `cc-session-*.log` and pointer files | `TMPDIR`, and `/tmp`, which some write into whatever it says |

Folders named by variables of other programs are searched too, in addition to those of the tool itself:
an extra folder costs time, a missing folder loses a transcript. No path is built from a session's id:
folders are listed, and the ids are read from the names in them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from rightful.identity import RUN_LOGS_FOLDER, RUNS_FOLDER

_SLUG_CHARS = 200
_POINTERS = (
    ("claude-code", re.compile(r"cc-session-log-ref-(?P<id>.+)\.txt", re.DOTALL)),
    ("gptme", re.compile(r"gptme-traj-(?P<id>.+)\.path", re.DOTALL)),
    ("grok", re.compile(r"grok-build-session-log-ref-(?P<id>.+)\.txt", re.DOTALL)),
)
_RUN_FOLDER = re.compile(r"gptme-logs-(?P<id>.+)", re.DOTALL)
_OWN_LOGS = re.compile(rf".*/{RUNS_FOLDER}/(?P<id>[^/]+)/{RUN_LOGS_FOLDER}/gptme/[^/]+/conversation\.jsonl", re.DOTALL)
_GROK_FOLDER = "grok-trajectories"
_LOG = re.compile(r"cc-session-[^/]*\.log")
_ROLLOUT = re.compile(r"rollout-[^/]*\.jsonl")


class Root(NamedTuple):
    """A folder that is searched.

    Attributes:
        path: The folder.
        depth: The number of folder levels; 1 is the folder itself.
    """

    path: str
    depth: int


def roots(
    environ: Mapping[str, str], home: Path, workspaces: tuple[Path, ...] = (), ledger: Path | None = None
) -> tuple[Root, ...]:
    """Return the folders that the tools use here, without duplicates, the most specific first.

    Args:
        environ: The environment.
        home: The home folder.
        workspaces: Folders that agents work in.
        ledger: The ledger's folder.
    """

    def named(variable: str, *below: str) -> list[Path]:
        return [Path(environ[variable], *below)] if environ.get(variable) else []

    data = Path(environ.get("XDG_DATA_HOME") or home / ".local/share")
    cache = Path(environ.get("XDG_CACHE_HOME") or home / ".cache")
    claude = named("CLAUDE_CONFIG_DIR") or [home / ".claude", home / ".config/claude"]
    found = [Root(str(path / "projects"), 2) for path in [*claude, *named("CLAUDE_HOME")]]
    codex = named("CODEX_HOME") or [home / ".codex"]
    found += [Root(str(path / folder_name), 4) for path in codex for folder_name in ("sessions", "archived_sessions")]
    found += [Root(str(path), 4) for path in named("CODEX_SESSIONS_DIR")]
    found += [Root(str(path / "session-state"), 2) for path in named("COPILOT_HOME") or [home / ".copilot"]]
    logs = [*(named("GPTME_LOGS_HOME") or [data / "gptme/logs"]), *named("GPTME_LOGS_DIR"), cache / "gptme/logs"]
    found += [Root(str(path), 3) for path in logs]
    found += [Root(str(ledger / RUNS_FOLDER), 5)] if ledger is not None else []
    around = [*workspaces, *(place / "state" for place in workspaces), home, data, cache]
    around += [folder.parent for folder in logs]
    found += [Root(str(place / "gptme-runs"), 3) for place in around]
    found += [Root(str(place / "state/sessions" / _GROK_FOLDER), 1) for place in workspaces]
    found += [Root(str(path), 1) for path in [*named("TMPDIR"), Path("/tmp")]]  # noqa: S108 - where launchers write
    return tuple({os.path.realpath(root.path): root for root in reversed(found)}.values())[::-1]


def real_path(path: str) -> str:
    """Return an absolute path with the links in its folders resolved; its last part may be a link.

    A relative path, and text that cannot be a file name, are returned normalised.
    """
    normal = os.path.normpath(path)
    if not os.path.isabs(normal):  # noqa: PTH117 - text, as the rest
        return normal
    folder, name = os.path.split(normal)
    try:
        return os.path.join(os.path.realpath(folder), name)  # noqa: PTH118 - as above
    except ValueError:  # a NUL, or half a character
        return normal


def is_transcript(path: str) -> bool:
    """Return whether a path has the form of a tool's transcript; its content is checked later."""
    folder, name = os.path.split(path)
    parent, above = os.path.basename(folder), os.path.basename(os.path.dirname(folder))  # noqa: PTH119, PTH120 - text
    if name == "conversation.jsonl" or _ROLLOUT.fullmatch(name) or _LOG.fullmatch(name):
        return True
    if name == "events.jsonl":
        return above == "session-state"
    return name.endswith(".jsonl") and (above == "projects" or parent == _GROK_FOLDER)


def may_be_transcript(path: str) -> bool:
    """Return whether a file may be a transcript outside of its tool's folders; its content decides later."""
    return path.endswith((".jsonl", ".log")) or is_transcript(path)


def pointer_of(path: str) -> tuple[str, str] | None:
    """Return the tool and session in the name of a pointer file; None for other files."""
    name = os.path.basename(path)  # noqa: PTH119 - text, as the rest
    for tool, form in _POINTERS:
        if (hit := form.fullmatch(name)) is not None:
            return tool, hit["id"]
    return None


def own_session(path: str) -> str | None:
    """Return the session whose own folder contains a transcript, from the names above it; None if there is none."""
    folder, name = os.path.split(path)
    parent, above = os.path.basename(folder), os.path.basename(os.path.dirname(folder))  # noqa: PTH119, PTH120 - text
    if name == "conversation.jsonl" and (hit := _RUN_FOLDER.fullmatch(above)) is not None:
        return hit["id"]
    if (hit := _OWN_LOGS.fullmatch(path)) is not None:
        return hit["id"]
    return name.removesuffix(".jsonl") if parent == _GROK_FOLDER else None


def slug_fits(slug: str, cwd: str) -> bool:
    """Return whether a project folder of Claude Code can be that of a working folder.

    Claude Code replaces all but ASCII letters and digits with `-`, and cuts a name after 200
    characters and adds a hash. Other programs only replace `/`. Both forms are lossy, so a folder
    that fits proves nothing.
    """
    real = re.sub(r"[^a-zA-Z0-9]", "-", cwd)
    if len(real) > _SLUG_CHARS:
        return bool(re.fullmatch(re.escape(real[:_SLUG_CHARS]) + r"-[0-9a-z]+", slug))
    return slug in {real, cwd.replace("/", "-")}
