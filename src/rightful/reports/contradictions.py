"""Contradictions of identity: two sources that name a session, its folder or its run differently."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from rightful import limits
from rightful.events import SessionEnded, SessionStarted, ToolCallSnapshotted, ToolResultSnapshotted, TranscriptBound
from rightful.identity import split_session
from rightful.ledger.log import Log
from rightful.ledger.recorded import Recorded
from rightful.reports.coverage import Alarm

_FEW = ("session.started", "session.ended", "transcript.bound")
_CALLS = ("tool_call.snapshotted", "tool_result.snapshotted")
_FILE = re.compile(r"(?:\A|/)([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})\.jsonl\Z")
_NATIVE = "claude-code"


class _Claim(NamedTuple):
    """What one row says of a session: which thing, who says it, and its value."""

    session: str
    of: str
    source: str
    value: str
    position: int


def contradictions(log: Log, *, calls: bool) -> list[Alarm]:
    """Return each contradiction among the last `limits.STATUS_ROWS` rows, with both sources and their rows.

    Args:
        log: The ledger's log.
        calls: Whether the rows of tool calls are read too, which may be many.
    """
    types = (*_FEW, *_CALLS) if calls else _FEW
    claims: dict[tuple[str, str], list[_Claim]] = {}
    for row in log.read(types=types, after=max(log.head() - limits.STATUS_ROWS, 0)):
        for claim in _claims(row):
            claims.setdefault((claim.session, claim.of), []).append(claim)
    return [alarm for (session, of), said in claims.items() if (alarm := _alarm(session, of, said)) is not None]


def _claims(row: Recorded) -> Iterator[_Claim]:
    match row.event:
        case SessionStarted(session=session) as event:
            if isinstance(event.run_nonce, str):
                yield _Claim(session, "run nonce", event.producer, event.run_nonce, row.position)
            if isinstance(event.cwd, str):
                yield _Claim(session, "working folder", event.producer, event.cwd, row.position)
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
    path = extra.get("transcript_path") if isinstance(extra, Mapping) else None
    if isinstance(path, str):
        yield from _ids(session, path, "transcript_path of the hook", position)


def _ids(session: str, path: str, source: str, position: int) -> Iterator[_Claim]:
    """Yield the id that a row is recorded under and the one that a path names, of a session of Claude Code."""
    namespace, value = split_session(session)
    found = _FILE.search(path)
    if namespace == _NATIVE and found is not None:
        yield _Claim(session, "session id", "session_id", value.partition("/")[0], position)
        yield _Claim(session, "session id", source, found[1], position)


def _alarm(session: str, of: str, said: list[_Claim]) -> Alarm | None:
    """Return the contradiction of what was said of one thing; None where all sources agree.

    A tool may change its folder later, so of each source only the first folder counts.
    """
    first: dict[Any, _Claim] = {}
    for claim in said:
        first.setdefault(claim.source if of == "working folder" else (claim.source, claim.value), claim)
    if len({claim.value for claim in first.values()}) < 2:  # noqa: PLR2004 - a contradiction needs two
        return None
    told = ", ".join(f"{claim.source} {claim.value} (#{claim.position})" for claim in first.values())
    return Alarm("identity", f"{session}: its sources contradict each other on the {of}: {told}.", session=session)
