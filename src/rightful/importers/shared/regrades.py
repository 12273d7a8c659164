"""Grades of producers that have no sequence number: read the last value, append the next on that condition."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from eventsourcing.dcb.api import DCBQuery, DCBQueryItem

from rightful.errors import ConditionFailedError, UsageError
from rightful.events import GradeRecorded, GradeRetracted
from rightful.identity import composite_key
from rightful.log.log import Log
from rightful.log.rows import Receipt, Recorded, valid

TYPES: Final = ("grade.recorded", "grade.retracted")
ATTEMPTS: Final = 100
"""How often a grade is computed again after a conflict; at each conflict another writer succeeded."""

_VALUE = ("reward", "outcome", "per_arm", "salience", "exposure_session", "decay_rate", "alias", "extra")


class LastGrade(NamedTuple):
    """The last grade of a grader for a session, and the position at which it was read.

    Attributes:
        read_at: The position that the log was read through.
        seq: The next free seq.
        event: The grade or retraction with the highest seq; None when there is none, or it is in conflict.
        recorded: The row of it.
    """

    read_at: int
    seq: int
    event: GradeRecorded | GradeRetracted | None
    recorded: Recorded | None


class GradeAppender:
    """Appends the grades of one producer.

    Args:
        log: The ledger's log.
        producer: The producer's name.
    """

    def __init__(self, log: Log, producer: str) -> None:
        self._log = log
        self._producer = producer

    def grade(self, fields: Mapping[str, Any], at: datetime, *, seq: int | None, key: str | None) -> Receipt:
        """Append a grade, unless an equal one is the last; see `Producer.grade`."""
        return self._append_decided(GradeRecorded, "grade", fields, at, seq=seq, key=key)

    def retract(self, fields: Mapping[str, Any], at: datetime, *, seq: int | None, key: str | None) -> Receipt:
        """Append a retraction, unless an equal one is the last; see `Producer.retract`."""
        return self._append_decided(GradeRetracted, "retraction", fields, at, seq=seq, key=key)

    def _append_decided(
        self,
        kind: type[GradeRecorded | GradeRetracted],
        word: str,
        fields: Mapping[str, Any],
        at: datetime,
        *,
        seq: int | None,
        key: str | None,
    ) -> Receipt:
        session, rubric = fields["session"], fields.get("rubric", "overall")
        if seq is not None:
            key = key or composite_key(session, rubric, word, seq)
            return self._append(kind(producer=self._producer, at=at, key=key, seq=seq, **fields))
        last = self.last(session, rubric)
        for _ in range(ATTEMPTS):
            event = kind(
                producer=self._producer, at=at, key=_next_key(key, word, last, session, rubric), seq=last.seq, **fields
            )
            if last.recorded is not None and _equal(event, last.event):
                return Receipt(last.recorded.id, "duplicate", last.recorded.position, last.recorded.first)
            if kind is GradeRetracted and last.event is None:
                raise UsageError(f"{self._producer}/{rubric} has not graded {session}; there is no grade to retract.")
            try:
                return self._append(event, unless=grades_of(session), after=last.read_at)
            except ConditionFailedError:
                last = self.last(session, rubric)
        raise ConditionFailedError(last.read_at)

    def _append(self, event: GradeRecorded | GradeRetracted, **condition: Any) -> Receipt:  # noqa: ANN401 - as `Log.append`
        [receipt] = self._log.append([event], **condition)
        return valid(receipt)

    def last(self, session: str, rubric: str) -> LastGrade:
        """Return this grader's last grade of a session."""
        read_at = self._log.head()
        newest: Recorded | None = None
        highest = erased = 0
        disputed: set[str] = set()
        for row in self._log.read(session=session, types=TYPES, until=read_at):
            event = row.event
            if event is None:
                erased += 1  # its seq is unknown
            if not isinstance(event, GradeRecorded | GradeRetracted):
                continue
            if event.producer != self._producer or event.rubric != rubric:
                continue
            if row.outcome == "conflict":
                disputed.add(row.id)
            if event.seq >= highest:
                highest, newest = event.seq, row
        if newest is None or newest.id in disputed:
            return LastGrade(read_at, highest + erased + 1, None, None)
        return LastGrade(read_at, highest + erased + 1, newest.event, newest)  # type: ignore[arg-type]


def _next_key(key: str | None, word: str, last: LastGrade, session: str, rubric: str) -> str:
    if key is None:
        return composite_key(session, rubric, word, last.seq)
    return key if last.seq == 1 else composite_key(key, last.seq)


def _equal(event: GradeRecorded | GradeRetracted, last: GradeRecorded | GradeRetracted | None) -> bool:
    """Return whether an event equals the last one, except for seq, time and ids, and the reason of a retraction."""
    if type(event) is not type(last):
        return False
    if isinstance(event, GradeRetracted):
        return True
    return all(getattr(event, name) == getattr(last, name) for name in _VALUE)


def grades_of(session: str) -> DCBQuery:
    """Return the query for an append condition: any grade of a session."""
    return DCBQuery(items=[DCBQueryItem(types=list(TYPES), tags=[f"session:{session}"])])
