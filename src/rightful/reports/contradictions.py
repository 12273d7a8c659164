"""Contradictions of identity: two sources that name a session, its folder or its run differently."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from rightful import limits
from rightful.events import SessionEnded, SessionStarted, ToolCallSnapshotted, ToolResultSnapshotted, TranscriptBound
from rightful.log.log import Log
from rightful.log.rows import Recorded
from rightful.projections.facts.identity_claims import FIELD, named_by, named_by_file
from rightful.reports.session_coverage import Alarm

_FEW = ("session.started", "session.ended", "transcript.bound")
_CALLS = ("tool_call.snapshotted", "tool_result.snapshotted")
_FOLDER = "working folder"
_LISTED = 8  # claims after which a contradiction is listed without the rest


class _Claim(NamedTuple):
    """What one row says of a session: which thing, who says it, and its value."""

    session: str
    of: str
    source: str
    value: str
    position: int


def contradictions(log: Log, *, everything: bool) -> list[Alarm]:
    """Return each contradiction with both sources and their rows.

    Of each session only hashes of its first values are kept, so memory does not grow with its rows.

    Args:
        log: The ledger's log.
        everything: Read all rows and those of tool calls too; else the last `limits.STATUS_ROWS` rows without them.
    """
    types, after = (*_FEW, *_CALLS) if everything else _FEW, 0
    if not everything:
        after = max(log.head() - limits.STATUS_ROWS, 0)
    first: dict[int, int] = {}
    found: dict[tuple[str, str], None] = {}
    for row in log.read(types=types, after=after):
        for claim in _claims(row):
            if _differs(claim, first):
                found[claim.session, claim.of] = None
    alarms = (_alarm(log, session, of, types, after) for session, of in found)
    return [alarm for alarm in alarms if alarm is not None]


def _differs(claim: _Claim, first: dict[int, int]) -> bool:
    """Return whether a claim has another value than the first claim on the same thing, which is kept as a hash.

    A tool may change its folder later, so of each source only the first folder counts.
    """
    value = hash(claim.value)
    if claim.of == _FOLDER and first.setdefault(hash((claim.session, claim.of, claim.source)), value) != value:
        return False
    return first.setdefault(hash((claim.session, claim.of)), value) != value


def _claims(row: Recorded) -> Iterator[_Claim]:
    match row.event:
        case SessionStarted(session=session) as event:
            if isinstance(event.run_nonce, str):
                yield _Claim(session, "run nonce", event.producer, event.run_nonce, row.position)
            if isinstance(event.cwd, str):
                yield _Claim(session, _FOLDER, event.producer, event.cwd, row.position)
            if (ids := named_by_file(session, event.extra)) is not None:
                yield _Claim(session, "session id", "id inside the file", ids[0], row.position)
                yield _Claim(session, "session id", "name of the file", ids[1], row.position)
            yield from _of_path(session, event.extra, row.position)
        case SessionEnded(session=session) | ToolCallSnapshotted(session=session) as event:
            yield from _of_path(session, event.extra, row.position)
        case ToolResultSnapshotted(session=session) as event:
            yield from _of_path(session, event.extra, row.position)
        case TranscriptBound(session=session, uri=uri):
            yield from _ids(session, uri, "bound file", row.position)
        case _:
            pass


def _of_path(session: str, extra: object, position: int) -> Iterator[_Claim]:
    path = extra.get(FIELD) if isinstance(extra, Mapping) else None
    if isinstance(path, str):
        yield from _ids(session, path, "transcript_path of the hook", position)


def _ids(session: str, path: str, source: str, position: int) -> Iterator[_Claim]:
    """Yield the id that a row is recorded under and the one that a path names, of a session of Claude Code."""
    ids = named_by(session, path)
    if ids is not None:
        yield _Claim(session, "session id", "session_id", ids[0], position)
        yield _Claim(session, "session id", source, ids[1], position)


def _alarm(log: Log, session: str, of: str, types: tuple[str, ...], after: int) -> Alarm | None:
    """Return the contradiction on one thing, with the first row of each source and value; None if all agree."""
    first: dict[Any, _Claim] = {}
    for row in log.read(session=session, types=types, after=after):
        for claim in _claims(row):
            if claim.of == of:
                first.setdefault(claim.source if of == _FOLDER else (claim.source, claim.value), claim)
        if len(first) >= _LISTED and len({claim.value for claim in first.values()}) > 1:
            break
    if len({claim.value for claim in first.values()}) < 2:  # noqa: PLR2004 - a contradiction needs two
        return None
    sources = ", ".join(f"{claim.source} {claim.value} (#{claim.position})" for claim in first.values())
    return Alarm("identity", f"{session}: its sources contradict each other on the {of}: {sources}.", session=session)
