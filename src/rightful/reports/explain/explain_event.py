"""Explain an event: its row, all revisions of its id, and what used it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
import numpy as np

from rightful import times
from rightful.errors import UsageError
from rightful.events import TYPES
from rightful.log.classify import ACCEPTED
from rightful.log.log import Log
from rightful.log.rows import RawEvent, Recorded, Stored, recorded
from rightful.policies import EventDecay, Policy
from rightful.projections.credit.inputs import balances, pays_producer, retired_by
from rightful.projections.credit.runs import quarantine_of
from rightful.projections.facts.facts import Facts
from rightful.projections.facts.fold import WITHDRAWABLE
from rightful.projections.projected import Projected
from rightful.reports.explain.case import case_of
from rightful.reports.explain.explain_session import aside_reason
from rightful.reports.explain.explained_rows import ExposureRow, GradeRow, exposure_row, grade_row
from rightful.reports.explain.phrases import listed
from rightful.reports.explain.run_membership import Link, links_of, run_of


class Revision(msgspec.Struct, frozen=True, kw_only=True):
    """One row of an event id.

    Attributes:
        revision: Which row of its id it is, from 1.
        shown: Whether it is what the id says now.
        withdrawn: Whether an `event.withdrawn` names it.
    """

    position: int
    revision: int
    outcome: str
    recorded_at: str
    shown: bool
    withdrawn: bool


class EventExplained(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="event"):
    """An event, its revisions and what used it.

    Attributes:
        position: The row asked for.
        type: Its type, also one that is newer than this program.
        at_basis: `file` where that is a file's time.
        body: What it says; None where it was erased, text where it is newer than this program.
        through: The position up to which its use was sought.
        verdict: What it is and what became of it, in a sentence or two.
        revisions: All rows of its id.
        used_by: What used it, superseded it or withdrew it, beyond what the verdict says: sentences.
        exposure: What became of it, where it is an exposure.
        grade: What became of it, where it is a grade or a retraction.
        link: What it came to, where it is a link or an unlink.
    """

    position: int
    id: str
    type: str
    outcome: str
    producer: str
    session: str | None
    at: str
    at_basis: str | None
    recorded_at: str
    body: Any
    policy: dict[str, Any]
    through: int
    verdict: str
    revisions: list[Revision]
    used_by: list[str]
    exposure: ExposureRow | None = None
    grade: GradeRow | None = None
    link: Link | None = None


def position_of(log: Log, event_id: str) -> int:
    """Return the position of the row that an event id of the log shows now."""
    return _shown_position(log.of_id(event_id))


def _shown_position(rows: Sequence[Stored]) -> int:
    return next((row.position for row in reversed(rows) if row.envelope.outcome in ACCEPTED), rows[-1].position)


def explain_event(
    projected: Projected | None,
    log: Log,
    policy: Policy,
    position: int,
    *,
    as_of: int | str | datetime | None = None,
) -> EventExplained:
    """Return what a row is, its id's revisions, and what used it under a policy.

    Args:
        projected: The projections; None where they cannot be built, as with rows of a newer
            program. Then the row and its revisions are returned without their use.
        log: The log.
        policy: The rule.
        position: Where the row stands.
        as_of: A position, or a time of recording; what came later used nothing. All if None.

    Raises:
        UsageError: The ledger has no such position.
    """
    head = log.head()
    if not 1 <= position <= head:
        raise UsageError(
            f"position {position} is not in this ledger, which ends at {head}. Pass a position from 1 to {head}."
        )
    row = next(iter(log.pages(position - 1, position))).rows()[0]
    through = head if projected is None else projected.prefix(as_of)
    facts = None if projected is None else projected.facts
    rows = [stored for stored in log.of_id(row.envelope.id) if stored.position <= max(through, position)]
    explainer = _EventExplainer(facts, log, policy, through, row, rows)
    return explainer.explained()


class _EventExplainer:
    """One event on its way to being explained."""

    def __init__(
        self, facts: Facts | None, log: Log, policy: Policy, through: int, row: Stored, rows: list[Stored]
    ) -> None:
        self.facts, self.log, self.policy, self.through = facts, log, policy, through
        self.row, self.rows = row, rows
        self.recorded: Recorded = recorded(row, log.path)

    def explained(self) -> EventExplained:
        position, envelope, _ = self.row
        exposure = grade = link = None
        used: list[str] = []
        if self.facts is not None and position <= self.through:
            exposure, grade, link = self._parts(self.facts)
            used = self._uses(self.facts, exposure, grade, link)
            used += [
                f"The `event.withdrawn` at #{at} withdraws revision {n} of its id."
                for at, n in self._withdrawals(self.facts)
            ]
        return EventExplained(
            position=position,
            id=envelope.id,
            type=envelope.type,
            outcome=envelope.outcome,
            producer=envelope.producer,
            session=envelope.session,
            at=times.text_of(envelope.at_us),
            at_basis=envelope.at_basis,
            recorded_at=times.text_of(envelope.recorded_at_us),
            body=_body(self.row, self.recorded.event),
            policy={**self.policy.as_dict(), "hash": self.policy.hash},
            through=self.through,
            verdict=self._verdict(exposure, grade, link),
            revisions=self._revisions(),
            used_by=used,
            exposure=exposure,
            grade=grade,
            link=link,
        )

    def _parts(self, facts: Facts) -> tuple[ExposureRow | None, GradeRow | None, Link | None]:
        """Return what became of the row, by its kind; all None if the fold skipped it."""
        position = self.row.position
        near = {position: self.row.envelope}
        shown = _row_at(facts.shown["pos"], position)
        if shown is not None:
            case = case_of(facts, self.policy, self.through, [int(facts.shown["name"][shown])])
            return exposure_row(case, shown, near), None, None
        graded = _row_at(facts.grades["pos"], position)
        if graded is not None:
            names = {int(facts.grades[column][graded]) for column in ("name", "target")} - {-1}
            return None, grade_row(case_of(facts, self.policy, self.through, names), graded, near), None
        linked = _row_at(facts.links["pos"], position)
        if linked is not None:
            session = int(facts.links["session"][linked])
            case = case_of(facts, self.policy, self.through, [session])
            found = next(found_link for found_link in links_of(case, {session}) if found_link.position == position)
            named = msgspec.structs.replace(found, id=self.row.envelope.id, producer=self.row.envelope.producer)
            return None, None, named
        return None, None, None

    def _uses(self, facts: Facts, exposure: ExposureRow | None, grade: GradeRow | None, link: Link | None) -> list[str]:
        """Return what used the row, beyond the reason that the verdict gives."""
        if exposure is not None:
            used = exposure.state == "paid"
            return [f"The grade at #{exposure.grade} paid its arms: {listed(exposure.arms)}."] if used else []
        if grade is not None:
            return [f"The arms that it paid: {listed(grade.arms)}."] if grade.arms else []
        if link is not None:
            return [self._run_reason(facts, link.session)]
        return self._other_uses(facts)

    def _other_uses(self, facts: Facts) -> list[str]:
        event = self.recorded.event
        void = quarantine_of(facts, self.through).void.tolist()
        if self.row.envelope.type in WITHDRAWABLE and self.row.position in void:
            return ["It was withdrawn, so it does not count."]
        match self.row.envelope.type:
            case "balance.opened":
                return [self._balance(facts)]
            case "posterior.published":
                return self._publication()
            case "event.withdrawn":
                return [self._withdrawal(facts)]
            case "session.started":
                return [self._run_reason(facts, self.row.envelope.session or "")]
            case "bandit.decayed" | "bandit.pruned":
                return [self._decay()]
            case kind if kind in {"exposure.recorded", "grade.recorded", "grade.retracted", "session.linked"} and event:
                return [aside_reason(self.recorded)]
            case _:
                return ["Attribution does not read events of this type. They only show that the session exists."]

    def _decay(self) -> str:
        if not isinstance(self.policy.decay, EventDecay):
            return "Only policies with decay `events`, such as `gptme`, use it: it then affects every arm known so far."
        if not pays_producer(self.policy, self.row.envelope.producer):
            return "The policy pays from no grader of its producer, so it changes nothing."
        return "It affects every arm known so far, unless an opening balance already contains it."

    def _balance(self, facts: Facts) -> str:
        position = self.row.position
        mine = next((balance for balance in facts.balances if balance.position == position), None)
        if mine is None:
            return "It contains nothing that counts."
        if any(balance.position == position for balance in balances(facts, self.policy, self.through)):
            return f"It is the opening balance in force of {mine.source}, added to the prior of its arms."
        if any(mine.sha256 == sha256 for at, sha256 in facts.published if at <= self.through):
            return "It was opened from bytes that Rightful published itself, so it does not count."
        left = quarantine_of(facts, self.through)
        left_out = {*left.unusable.tolist(), *left.void.tolist()}
        if position in left.unusable.tolist():
            return "Its id is in conflict, so it does not count."
        by = retired_by(facts, self.through, left_out).get(mine.id)
        if by is not None:
            return f"The publication at #{by} rebuilt its file from the log alone, so its numbers no longer count."
        known = [
            balance for balance in facts.balances if balance.source == mine.source and balance.position <= self.through
        ]
        counting = [balance for balance in known if balance.position not in left_out]
        last = max(counting, key=lambda balance: (balance.at_us, balance.position))
        if last.position != position:
            return f"The balance of the same source at #{last.position} is newer and counts instead."
        return "The policy excludes balances of this source (`balances`)."

    def _publication(self) -> list[str]:
        mine = self.recorded.event
        target, sentences = getattr(mine, "target", None), []
        for row in self.log.read(types=["posterior.published"], after=self.row.position, until=self.through):
            if getattr(row.event, "supersedes", None) == self.row.envelope.id:
                sentences.append(f"The publication at #{row.position} supersedes it.")
            elif getattr(row.event, "target", None) == target:
                sentences.append(f"The publication at #{row.position} wrote the same file after it.")
        return sentences or [f"It is the newest publication to {target}."]

    def _withdrawal(self, facts: Facts) -> str:
        event: Any = self.recorded.event
        if event is None:
            return "Its content was erased, so it withdraws nothing."
        what = f"It withdraws revision {event.revision} of {event.id}"
        if facts.withdrawals(self.row.envelope.id, self.through):
            return f"{what}, and was withdrawn itself, so it changes nothing."
        rows = facts.conflicting(event.id.lower(), self.through)
        if event.revision not in rows:
            return f"{what}{self._alone(event)}."
        left = quarantine_of(facts, self.through).unusable.tolist()
        open_rows = [at for at in rows.values() if at in left]
        settles = ", which settles its conflict"
        done = f"; {len(open_rows)} of its rows still contradict each other" if open_rows else settles
        return f"{what} (#{rows[event.revision]}){done}."

    def _alone(self, event: Any) -> str:  # noqa: ANN401 - the event's struct
        """Return what a withdrawal does to a row that stands in no conflict."""
        known = (row for row in self.log.of_id(event.id.lower()) if row.position <= self.through)
        row = next((row for row in known if row.envelope.revision == event.revision), None)
        if row is None:
            return ", which is not in the ledger, so it changes nothing yet"
        place = f" (#{row.position})"
        if row.envelope.type in WITHDRAWABLE and row.envelope.producer != self.row.envelope.producer:
            writer = row.envelope.producer
            return (
                f"{place}, which is not in conflict and belongs to another producer ({writer}), so it changes nothing"
            )
        return f"{place}, which its producer no longer derives"

    def _run_reason(self, facts: Facts, session: str) -> str:
        number = facts.names.texts.find(session)
        if number is None:
            return "Its session was read from a sanitised form, so it starts no session with an exact name."
        return run_of(case_of(facts, self.policy, self.through, [number]), number).reason

    def _withdrawals(self, facts: Facts) -> list[tuple[int, int]]:
        """Return (position, revision) of the withdrawals of the row's id that count.

        In an id in conflict every producer's do; else, of what attribution reads, its own producer's.
        """
        envelope = self.row.envelope
        is_own = envelope.type in WITHDRAWABLE and not facts.conflicting(envelope.id.lower(), self.through)
        return facts.withdrawals(envelope.id.lower(), self.through, envelope.producer if is_own else None)

    def _revisions(self) -> list[Revision]:
        shown = _shown_position(self.rows)
        gone = set() if self.facts is None else {revision for _, revision in self._withdrawals(self.facts)}
        return [
            Revision(
                position=stored.position,
                revision=stored.envelope.revision,
                outcome=stored.envelope.outcome,
                recorded_at=times.text_of(stored.envelope.recorded_at_us),
                shown=stored.position == shown,
                withdrawn=stored.envelope.revision in gone,
            )
            for stored in self.rows
        ]

    def _verdict(self, exposure: ExposureRow | None, grade: GradeRow | None, link: Link | None) -> str:
        envelope = self.row.envelope
        of = f" of {envelope.session}" if envelope.session else ""
        what = f"#{self.row.position}: `{envelope.type}`{of}, written by {envelope.producer} ({envelope.outcome})."
        if envelope.type not in TYPES:
            return f"{what} Its type is newer than this program, so its body is shown as stored."
        if self.recorded.event is None:
            return f"{what} Its content was erased."
        part = exposure or grade or link
        if part is not None:
            return f"{what} It is {part.state}: {part.reason}"
        return f"{what} Its use is unknown: the projections cannot be built." if self.facts is None else what


def _row_at(column: Any, position: int) -> int | None:  # noqa: ANN401 - a column of positions, ascending
    at = int(np.searchsorted(column, position))
    return at if at < len(column) and column[at] == position else None


def _body(row: Stored, event: object) -> Any:  # noqa: ANN401 - any event's fields
    """Return what an event says beyond its envelope, as it is stored."""
    body = row.body
    if body is None:
        return None
    return body.decode("utf-8", "backslashreplace") if isinstance(event, RawEvent) else msgspec.json.decode(body)
