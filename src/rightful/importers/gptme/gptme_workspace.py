"""Where gptme, gptme-contrib and its Claude Code hook keep the files of one workspace.

| what | place | variable |
|---|---|---|
| session records | `state/sessions/`, `~/.local/share/gptme-sessions/` | `GPTME_SESSIONS_DIR` |
| trajectories, dropout logs | `state/lesson-trajectories/`, `state/lesson-dropout/` | `LESSON_DROPOUT_LOG_DIR` |
| state files, lesson events of the hook | `/tmp/claude-lesson-match/`, `/tmp/cc-session-*-lessons.jsonl` | `TMPDIR` |
| conversations | `~/.local/share/gptme/logs/`, and folders of runs | `GPTME_LOGS_HOME`, `GPTME_LOGS_DIR` |
| action receipts | `~/.local/share/gptme/receipts.jsonl` | `GPTME_RECEIPTS_LEDGER` |
| bandit states | `state/{lesson-thompson,bandit,thompson-control,pm-dispatch}/` | `PM_BANDIT_STATE_DIR` |
| the lesson matcher's bandit | `~/.local/state/gptme/lessons/bandit-state.json` | `GPTME_LESSONS_TS_STATE` |
| trajectories that a runner saved | `state/sessions/*-trajectories/` | |

`XDG_DATA_HOME`, `XDG_STATE_HOME` and `XDG_CACHE_HOME` replace their folders. A relative path in a
variable is one of the workspace, where its tools run.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

_TMP = "/tmp"  # noqa: S108 - where the hook writes if TMPDIR is not set
_RECORDS = "session-records.jsonl"
_TRANSCRIPTS = ("claude-code", "codex", "copilot", "grok", "gptme")


class Place(NamedTuple):
    """One place of a workspace.

    Attributes:
        what: The kind of data, in words.
        path: A file, a folder, or a pattern of files.
        kinds: The import kinds of its files.
        is_usual: Whether its absence is reported; other places exist on few machines.
    """

    what: str
    path: str
    kinds: tuple[str, ...]
    is_usual: bool = True

    @property
    def is_one(self) -> bool:
        """Whether it is a usual place of one name, and not a pattern."""
        return self.is_usual and not glob.has_magic(os.path.basename(self.path))  # noqa: PTH119 - text, as the pattern

    def paths(self) -> list[str]:
        """Return the existing paths."""
        folder, name = os.path.split(self.path)
        if glob.has_magic(name):
            return sorted(glob.glob(os.path.join(glob.escape(folder), name)))  # noqa: PTH118, PTH207 - as above
        return [self.path] if os.path.lexists(self.path) else []


def places(workspace: Path, environ: Mapping[str, str], home: Path) -> list[Place]:
    """Return the places that a workspace and its tools use, each once."""

    def named(variable: str) -> list[Path]:
        value = environ.get(variable)
        return [workspace / Path(value).expanduser()] if value else []

    state = workspace / "state"
    data, state_home, cache = (
        Path(environ.get(variable) or home / default)
        for variable, default in (
            ("XDG_DATA_HOME", ".local/share"),
            ("XDG_STATE_HOME", ".local/state"),
            ("XDG_CACHE_HOME", ".cache"),
        )
    )
    records = [state / "sessions", *(named("GPTME_SESSIONS_DIR") or [home / ".local/share/gptme-sessions"])]
    logs = named("GPTME_LOGS_HOME") or [data / "gptme/logs"]
    found = [Place("session records", str(folder / _RECORDS), ("session-records",)) for folder in records]
    found += [Place("session records", str(data / "gptme-sessions" / _RECORDS), ("session-records",), is_usual=False)]
    found += [Place("lesson trajectories", str(state / "lesson-trajectories"), ("lesson-hook",))]
    dropout = named("LESSON_DROPOUT_LOG_DIR") or [state / "lesson-dropout"]
    found += [Place("lesson dropout", str(folder), ("lesson-hook",)) for folder in dropout]
    for number, folder in enumerate([*named("TMPDIR"), Path(_TMP)]):
        what = ("lesson-hook",)
        found += [
            Place("lessons shown", str(folder / "claude-lesson-match"), what, is_usual=number == 0),
            Place("lesson events", str(folder / "cc-session-*-lessons.jsonl"), what, is_usual=number == 0),
        ]
    found += [Place("conversations", str(folder), ("gptme",)) for folder in logs]
    around = [folder / "gptme-runs" for folder in (workspace, state, data, cache, *(folder.parent for folder in logs))]
    others = [*named("GPTME_LOGS_DIR"), cache / "gptme/logs", *around]
    found += [Place("conversations", str(folder), ("gptme",), is_usual=False) for folder in others]
    found += [Place("saved trajectories", str(state / "sessions/*-trajectories"), _TRANSCRIPTS, is_usual=False)]
    receipts = named("GPTME_RECEIPTS_LEDGER") or [data / "gptme/receipts.jsonl"]
    found += [Place("action receipts", str(path), ("receipts",)) for path in receipts]
    bandits = [state / "lesson-thompson", state / "bandit", state / "thompson-control"]
    bandits += named("PM_BANDIT_STATE_DIR") or [state / "pm-dispatch"]
    bandits += named("GPTME_LESSONS_TS_STATE") or [state_home / "gptme/lessons/bandit-state.json"]
    found += [Place("bandit state", str(path), ("bandit-state",)) for path in bandits]
    once: dict[str, Place] = {}
    for place in found:
        once.setdefault(os.path.realpath(place.path), place)
    return list(once.values())
