"""The earlier grades of a grader, to compute the `seq` of producers without sequence numbers.

Such a producer reads the last value of its grade: an equal grade is a duplicate, a different one is a regrade with
the next `seq`, appended on condition that no other writer graded the session meanwhile (design: attribution).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from eventsourcing.dcb.api import DCBQuery, DCBQueryItem

from rightful import times
from rightful.events import GradeRecorded, GradeRetracted

if TYPE_CHECKING:
    from rightful.log.log import Log

GRADES = ("grade.recorded", "grade.retracted")
"""The types that have a `seq`."""

ROW_AT = "row_at"
"""In `extra` of a grade: the time of its source row, if that is not the grade's own time."""

CORRECTS = "corrects"
"""In `extra` of a grade: the `seq` of the same grade with a wrong time, which this one replaces."""


class GradeContent(NamedTuple):
    """The content of a grade, without its `seq`.

    Attributes:
        reward: The reward, 0 to 1.
        outcome: The outcome word.
        exposure_session: The session whose exposure earns the reward, if the grader names it.
        per_arm: Rewards of single arms.
        decay_rate: The factor by which the updater decays everything with this grade.
    """

    reward: float | None
    outcome: str | None
    exposure_session: str | None = None
    per_arm: Mapping[str, float] | None = None
    decay_rate: float | None = None


class Grade(NamedTuple):
    """One grade of a grader for a session.

    Attributes:
        id: Its event id.
        seq: The grader's number.
        said: Its content; None for a retraction.
        at_us: The grade's own time; microseconds since 1970, UTC; None if only an upper bound is known.
        extra: Its `extra` fields.
    """

    id: str
    seq: int
    said: GradeContent | None
    at_us: int | None = None
    extra: Mapping[str, Any] | None = None

    @property
    def row_us(self) -> int | None:
        """The time of its source row, by which copies of a row are ordered; None if there is none."""
        at = (self.extra or {}).get(ROW_AT)
        return times.us_from(at) if isinstance(at, str) else self.at_us


class Grader:
    """All grades of one grader for one session, by ascending position."""

    def __init__(self) -> None:
        self._grades: list[Grade] = []
        self._ids: dict[str, Grade] = {}

    def add(self, grade: Grade) -> None:
        """Add the next grade."""
        self._grades.append(grade)
        self._ids.setdefault(grade.id, grade)

    def known(self, event_id: str) -> Grade | None:
        """Return the grade of that id."""
        return self._ids.get(event_id)

    def last(self) -> Grade | None:
        """Return the grade with the highest seq."""
        return max(self._grades, key=lambda grade: grade.seq, default=None)

    def last_of(self, exposure_session: str | None) -> Grade | None:
        """Return the grade with the highest seq among those for one exposure session."""
        of = (grade for grade in self._grades if grade.said and grade.said.exposure_session == exposure_session)
        return max(of, key=lambda grade: grade.seq, default=None)

    def newest_us(self) -> int | None:
        """Return the latest time of the rows that its grades were read from; microseconds since 1970, UTC."""
        return max((row_us for grade in self._grades if (row_us := grade.row_us) is not None), default=None)

    @property
    def next_seq(self) -> int:
        """The seq of the next grade, from 1."""
        last = self.last()
        return 1 if last is None else last.seq + 1


def graders_of(log: Log, session: str, producer: str, *, until: int) -> dict[str, Grader]:
    """Return the graders of a producer for a session, by rubric.

    Args:
        log: The log.
        session: The session's full name.
        producer: The producer's name.
        until: The last position that counts.
    """
    graders: dict[str, Grader] = {}
    for row in log.read(session=session, types=GRADES, until=until):
        match row.event:
            case GradeRecorded(producer=wrote) as event if wrote == producer:
                said = GradeContent(
                    event.reward, event.outcome, event.exposure_session, event.per_arm, event.decay_rate
                )
                grade = Grade(row.id, event.seq, said, _own_us(event), event.extra)
                graders.setdefault(event.rubric, Grader()).add(grade)
            case GradeRetracted(producer=wrote) as event if wrote == producer:
                graders.setdefault(event.rubric, Grader()).add(Grade(row.id, event.seq, None, _own_us(event)))
            case _:
                pass
    return graders


def _own_us(event: GradeRecorded | GradeRetracted) -> int | None:
    return times.us_of(event.at) if event.at_basis is None else None


def graded_again(sessions: Iterable[str]) -> DCBQuery:
    """Return the query that matches any grade of these sessions."""
    tags = dict.fromkeys(f"session:{session}" for session in sessions)
    return DCBQuery(items=[DCBQueryItem(types=list(GRADES), tags=[tag]) for tag in tags])
