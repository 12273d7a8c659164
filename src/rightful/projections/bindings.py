"""Which transcript is bound to which session now: a fold of `transcript.bound` and `.unbound`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rightful import times
from rightful.errors import UpgradeError
from rightful.events import TranscriptBound, TranscriptUnbound
from rightful.log.rows import RawEvent, Recorded

TYPES = ("transcript.bound", "transcript.unbound")
"""What it folds."""

_UNUSED = frozenset({"stale", "conflict"})


class Binding(NamedTuple):
    """A transcript that is bound to a session.

    Attributes:
        session: The session.
        uri: Where the transcript stood.
        bytes: How long it was.
        sha256: SHA-256 of those first bytes, in hexadecimal.
        evidence: What the claim rests on.
        started_at_us: When the transcript says that it began; microseconds since 1970, UTC; None if it does not.
        position: The row that says so.
    """

    session: str
    uri: str
    bytes: int
    sha256: str
    evidence: str
    started_at_us: int | None
    position: int


class Bindings:
    """The transcripts that are bound, by session and place; of one place the newest row counts."""

    def __init__(self) -> None:
        self._bound: dict[tuple[str, str], Binding] = {}

    def of(self, session: str) -> tuple[Binding, ...]:
        """Return the transcripts of a session, in the order in which they were bound."""
        return tuple(binding for binding in self.all() if binding.session == session)

    def all(self) -> tuple[Binding, ...]:
        """Return every binding that is in force, in the order of their rows."""
        return tuple(sorted(self._bound.values(), key=lambda binding: binding.position))

    def disputed(self) -> dict[str, tuple[str, ...]]:
        """Return the transcripts that are bound to several sessions, each with its sessions."""
        return _several((binding.uri, binding.session) for binding in self.all())

    def split(self) -> dict[str, tuple[str, ...]]:
        """Return the sessions that have several transcripts, each with their places."""
        return _several((binding.session, binding.uri) for binding in self.all())

    def fold(self, row: Recorded) -> None:
        """Add one row; an erased row has no effect, and a stale or conflicting one does not count.

        Raises:
            UpgradeError: It is newer than this program.
        """
        event = row.event
        if event is None or row.outcome in _UNUSED:
            return
        match event:
            case TranscriptBound():
                at_us = None if event.started_at is None else times.us_of(event.started_at)
                self._bound[event.session, event.uri] = Binding(
                    event.session, event.uri, event.bytes, event.sha256, event.evidence, at_us, row.position
                )
            case TranscriptUnbound():
                self._bound.pop((event.session, event.uri), None)
            case RawEvent():
                raise UpgradeError(row.position, event.type, event.schema)
            case _:
                raise AssertionError(f"{row.type} is not one of {TYPES}")


def bindings(rows: Iterable[Recorded]) -> Bindings:
    """Return what rows of `TYPES`, in the order of the log, leave bound.

    Raises:
        UpgradeError: A row is newer than this program.
    """
    state = Bindings()
    for row in rows:
        state.fold(row)
    return state


def _several(pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for first, other in pairs:
        found.setdefault(first, []).append(other)
    return {first: tuple(others) for first, others in found.items() if len(others) > 1}
