"""Annotations of a session in addition to its entries: its start, its end and its subagents.

Of several starts the earliest counts and of several ends the latest, but a time that is exact before a file's
time, which is only an upper bound: in which order they were imported decides nothing. Where a producer counts each
stretch of a session for itself, as its usage says, the turns of its ends are added up. A session that was resumed
after its latest end, and has not ended again, has no end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any

from msgspec import UNSET, structs

from rightful.log.rows import Stored
from rightful.projections.transcripts.entries import Ended, Started, Transcript
from rightful.projections.transcripts.session_facts import restored_body


def add_annotations(transcript: Transcript, rows: Iterable[Stored], stretched: Collection[str] = ()) -> None:
    """Add the accepted starts, ends and links of a session to its transcript.

    `stretched` are the producers that count each stretch of the session for itself.
    """
    subagents: dict[str, None] = {}
    turns: Counter[str] = Counter()
    ender, started_us = "", Counter[str]()
    for row in rows:
        body = restored_body(row)
        match row.envelope.type:
            case "session.started":
                transcript.started = _started(transcript.started, row, body)
                if row.envelope.at_basis is None:
                    started_us[row.envelope.producer] = max(started_us[row.envelope.producer], row.envelope.at_us)
            case "session.ended":
                ended = _put(_dated(Ended, row), body, ("turns", "exit_code"))
                if row.envelope.producer in stretched and ended.turns is not UNSET:
                    turns[row.envelope.producer] += ended.turns
                    ended.turns = turns[row.envelope.producer]
                before = transcript.ended
                if before is None or (_is_exact(ended), ended.at_us) >= (_is_exact(before), before.at_us):
                    transcript.ended, ender = ended, row.envelope.producer
            case "session.linked" if body is not None and body.as_ == "subagent" and not body.alias:
                subagents[body.other] = None
            case "session.unlinked" if body is not None:
                subagents.pop(body.other, None)
            case _:
                pass
    transcript.subagents = sorted(subagents)
    if transcript.ended is not None and max(started_us[ender], _asked_us(transcript, ender)) > transcript.ended.at_us:
        transcript.ended = None


def _asked_us(transcript: Transcript, producer: str) -> int:
    """Return when the user last asked something, by the messages of one producer; 0 if that is not known.

    Other entries prove nothing: a tool may write some of them just after the end.
    """
    asked = (entry for entry in transcript.entries if entry.kind == "message" and entry.role == "user")
    own = (entry for entry in asked if entry.producer == producer and entry.meta is UNSET)
    return max((entry.at_us for entry in own if entry.at_basis is UNSET), default=0)


def _started(before: Started | None, row: Stored, body: Any) -> Started:  # noqa: ANN401 - the body's struct
    found: Started = _dated(Started, row)
    started = before or found
    if (not _is_exact(found), found.at_us) < (not _is_exact(started), started.at_us):
        started.at_us, started.at_basis = found.at_us, found.at_basis
    _put(started, body, ("harness", "model", "cwd", "work_item"))
    if body is not None and body.extra:
        started.extra = ({} if started.extra is UNSET else started.extra) | body.extra
    return started


def merged_start(own: Started | None, other: Started | None) -> Started | None:
    """Return how a run began by its own name's word, and what only the name says under which something was said."""
    if own is None or other is None:
        return own or other
    both = UNSET if own.extra is UNSET and other.extra is UNSET else (other.extra or {}) | (own.extra or {})
    return structs.replace(own, extra=both)


def _dated(of: type[Started | Ended], row: Stored) -> Any:  # noqa: ANN401 - one of two structs
    basis = row.envelope.at_basis
    return of(at_us=row.envelope.at_us, at_basis=UNSET if basis is None else basis)


def _is_exact(annotation: Started | Ended) -> bool:
    return annotation.at_basis is UNSET


def _put(into: Any, body: Any, names: tuple[str, ...]) -> Any:  # noqa: ANN401 - one of two structs
    for name in names:
        if getattr(body, name, None) is not None:
            setattr(into, name, getattr(body, name))
    return into
