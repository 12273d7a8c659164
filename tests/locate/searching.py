"""Searches below a folder of invented transcripts, for the tests of whose they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.importers import transcript_writers as write

from rightful import times
from rightful.locate import find_transcripts
from rightful.locate.find_transcripts import LedgerSessions
from rightful.locate.verdicts import Answer
from rightful.locate.wanted_sessions import WantedSession, session_of_name

WRITERS: dict[str, Any] = {
    "claude-code": write.claude,
    "codex": write.codex,
    "copilot": write.copilot,
    "gptme": lambda root, *args, **more: write.gptme(root / "logs", *args, **more),
}
TOOLS = list(WRITERS)
A = "7fbe4341-0d57-4016-8374-1ed5e8da4b1b"
B = "203a971d-e91f-4c53-bc91-065beaa5b283"


def run(label: str, start: str | None = "2026-08-01T10:15:00Z", **known: Any) -> WantedSession:
    """A run that a workspace knows by a label."""
    one = session_of_name(f"workspace:{label}@{start}" if start else f"workspace:{label}")
    one.start_us = None if start is None else times.us_from(start)
    for name, value in known.items():
        setattr(one, name, value)
    return one


def answers(root: Path, *sessions: WantedSession) -> list[Answer]:
    """What a search finds for each of the sessions, all of which are known."""
    known = LedgerSessions(sessions={one.name: one for one in sessions})
    where = find_transcripts.search_folders([str(root)], {}, root)
    return [find_transcripts.locate(known, one.name, where)[0] for one in sessions]


def owners(root: Path, *sessions: WantedSession) -> list[str | None]:
    """The transcript of each session; None where none is shown to be its own."""
    return [None if one.owner is None else one.owner.file.path for one in answers(root, *sessions)]


def pointer(root: Path, name: str, target: object) -> Path:
    path = root / "tmp" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{target}\n")
    return path
