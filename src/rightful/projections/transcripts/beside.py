"""What is said about a session and stands beside its entries: how it began and ended, and its subagents."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import UNSET

from rightful.ledger.recorded import Stored
from rightful.projections.transcripts.entries import Ended, Started, Transcript
from rightful.projections.transcripts.facts import said


def put_beside(transcript: Transcript, rows: Iterable[Stored]) -> None:
    """Put into a transcript what the accepted starts, ends and links of its session say."""
    subagents: dict[str, None] = {}
    for row in rows:
        body = said(row)
        match row.envelope.type:
            case "session.started":
                transcript.started = _started(transcript.started, row, body)
            case "session.ended":
                transcript.ended = _put(Ended(at_us=row.envelope.at_us), body, ("turns", "exit_code"))
            case "session.linked" if body is not None and body.as_ == "subagent" and not body.alias:
                subagents[body.other] = None
            case "session.unlinked" if body is not None:
                subagents.pop(body.other, None)
            case _:
                pass
    transcript.subagents = sorted(subagents)


def _started(before: Started | None, row: Stored, body: Any) -> Started:  # noqa: ANN401 - the body's struct
    started = before or Started(at_us=row.envelope.at_us)
    _put(started, body, ("harness", "model", "cwd", "work_item"))
    if body is not None and body.extra:
        started.extra = ({} if started.extra is UNSET else started.extra) | body.extra
    return started


def _put(into: Any, body: Any, names: tuple[str, ...]) -> Any:  # noqa: ANN401 - one of two structs
    for name in names:
        if getattr(body, name, None) is not None:
            setattr(into, name, getattr(body, name))
    return into
