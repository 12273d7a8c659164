"""Record the owner of a transcript as `transcript.bound`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from rightful import times
from rightful.identity import composite_key
from rightful.locate.evidence import evidence_of, hashed
from rightful.locate.ranks import WORDS
from rightful.locate.verdicts import Answer
from rightful.log.log import Clock, Log
from rightful.log.rows import Receipt

PRODUCER = "locate"
"""The producer of bindings that were found by searching."""


class BindingResult(NamedTuple):
    """The result of one binding.

    Attributes:
        session: The session.
        path: The transcript.
        receipt: The ledger's receipt; None if nothing was recorded.
        why: Why nothing was recorded.
    """

    session: str
    path: str
    receipt: Receipt | None
    why: str | None = None


def bind(log: Log, answers: list[Answer], clock: Clock) -> tuple[BindingResult, ...]:
    """Bind each transcript that has an owner to it; a repeated call writes nothing twice.

    The evidence of the file is read again after it was hashed: a transcript that was replaced
    in between is not bound.

    Args:
        log: The ledger's log.
        answers: The answers; those without an owner are skipped.
        clock: Returns the time of the binding; microseconds since 1970, UTC.
    """
    done: list[BindingResult] = []
    events: list[dict[str, Any]] = []
    for answer in answers:
        if answer.owner is None:
            continue
        path = answer.owner.file.path
        try:
            events.append(_event(answer, clock()))
            done.append(BindingResult(answer.session, path, None))
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            done.append(BindingResult(answer.session, path, None, why))
    receipts = iter(log.append(events) if events else [])
    return tuple(result if result.why is not None else result._replace(receipt=next(receipts)) for result in done)


def _event(answer: Answer, now_us: int) -> dict[str, Any]:
    assert answer.owner is not None
    file, evidence = answer.owner.file, WORDS[answer.owner.rank]
    found = hashed(file.path)
    again = evidence_of(file.path, follow=False)
    if again is None or (again.native_id, again.sentinel) != (file.native_id, file.sentinel):
        raise ValueError("it was replaced during the search; search again")
    uri = Path(file.path).absolute().as_uri()
    at = None if file.started_at_us is None else times.text_of(file.started_at_us)
    return {
        "type": "transcript.bound",
        "producer": PRODUCER,
        "key": composite_key(answer.session, "bound", uri, found.sha256, found.bytes, evidence, at),
        "session": answer.session,
        "at": times.text_of(now_us),
        "uri": uri,
        "bytes": found.bytes,
        "sha256": found.sha256,
        "evidence": evidence,
    } | ({} if at is None else {"started_at": at})
