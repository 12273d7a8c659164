"""Coverage: which sessions have an exposure, a grade, a binding and all of their transcript, and what looks wrong.

A session counts on the day, and for the producer, of the first row that names it; several names
of one run that a producer names first on one day are one session. It has an
exposure, a grade or a binding if its run has: a link in force gives all names of a run what one
of them has. Names read from a sanitised form are not sessions of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import NamedTuple

import msgspec
import numpy as np

from rightful import limits, times
from rightful.policies import Policy
from rightful.projections.credit.bins_and_credits import Settlement
from rightful.projections.credit.inputs import BINS, CreditInputs, credit_inputs
from rightful.projections.credit.runs import quarantine_of
from rightful.projections.facts.columns import Ints, Mask
from rightful.projections.facts.facts import GRADE, Facts
from rightful.projections.facts.turn_rows import transcript_states
from rightful.projections.projected import Projected
from rightful.reports.explain.phrases import count

MEASURES = ("exposure", "grade", "binding")
"""What a session can have, in the order in which it is shown."""

STATES = ("complete", "incomplete", "unknown")
"""What is known of whether a transcript is all there."""


class Day(msgspec.Struct, frozen=True):
    """What the sessions that one producer named first on one day have.

    Attributes:
        producer: Who wrote the first row of each.
        day: The UTC day of those rows' `at`.
        sessions: How many sessions.
        exposure: How many have an exposure.
        grade: How many have a grade, of whatever grader.
        binding: How many share a run with another name by a link in force.
        bins: How many of their grades ended in each bin under the policy; without those that are 0.
        complete: False for the day of the ledger's last recording, which may go on, and for what is stamped later.
        transcripts: How many of the sessions have a transcript of each state; without those that are 0.
    """

    producer: str
    day: str
    sessions: int
    exposure: int
    grade: int
    binding: int
    bins: dict[str, int]
    complete: bool
    transcripts: dict[str, int] = {}

    def measured(self, measure: str) -> tuple[int, int]:
        """Return how many sessions have something, and of how many: of a transcript, of those that have one."""
        if measure == "transcript":
            return self.transcripts.get("complete", 0), sum(self.transcripts.values())
        return getattr(self, measure), self.sessions


class Alarm(msgspec.Struct, frozen=True):
    """Something that looks wrong.

    Attributes:
        kind: `exposure-drop`, `grade-drop`, `binding-drop`, `transcript-drop`, `only-decays`, `no-rewards`,
            `withheld-but-shown`, `doubtful-grades`, `unended-runs`, `earlier-rules`, `identity`.
        what: A sentence.
        producer: Whose sessions, of a drop.
        day: Which day, of a drop.
        share: That day's share, 0 to 1, of a drop; that of the grades in doubt, or of those that are credited.
        median: The median before, 0 to 1, of a drop.
        arms: Which arms, where it is about arms.
        session: An example, where there is one.
        bins: How many of the grades that are not credited ended in each bin, of `uncredited-grades`.
    """

    kind: str
    what: str
    producer: str | None = None
    day: str | None = None
    share: float | None = None
    median: float | None = None
    arms: list[str] = []
    session: str | None = None
    bins: dict[str, int] = {}


class Ground(NamedTuple):
    """What coverage is computed from, of one position.

    Attributes:
        facts: The columns.
        policy: The rule.
        through: The last position that counts.
        inputs: What the rule looks at.
        settlement: What it makes of it.
        today: The day of the last recording, by the ledger's own clock; days since 1970, UTC. Events
            may be stamped later, by a wrong clock or as a file's time.
    """

    facts: Facts
    policy: Policy
    through: int
    inputs: CreditInputs
    settlement: Settlement
    today: int


def ground_of(projected: Projected, policy: Policy) -> Ground:
    """Return what coverage is computed from, at the end of the log."""
    through = projected.prefix(None)
    facts = projected.facts
    settlement = projected.settle(policy, through)
    last = next(iter(projected.log.scan(through - 1, through)))[0].envelope.recorded_at_us if through else 0
    return Ground(facts, policy, through, credit_inputs(facts, policy, through, None), settlement, last // times.DAY_US)


def days_of(ground: Ground) -> list[Day]:
    """Return one row a producer and day, by producer and then by day."""
    facts = ground.facts
    names = facts.names
    seen = np.array(names.seen_us, np.int64)
    by = np.array(names.by, np.int64)
    mentioned = np.flatnonzero(facts.known_names(ground.through))
    if not len(mentioned):
        return []
    key = np.full(len(names), -1, np.int64)
    key[mentioned] = by[mentioned] << 32 | seen[mentioned] // times.DAY_US
    keys, group = np.unique(key[mentioned], return_inverse=True)
    of = np.full(len(names), -1, np.int64)
    of[mentioned] = group
    counted = mentioned[~np.array(names.alias, np.bool_)[mentioned]]
    _, first_of_run = np.unique(of[counted] << 32 | ground.inputs.runs.of[counted], return_index=True)
    runs = counted[first_of_run]
    columns = [np.bincount(of[runs], minlength=len(keys))]
    columns += [np.bincount(of[runs[has[runs]]], minlength=len(keys)) for has in _having(ground)]
    bins = _bins(ground, of, len(keys))
    transcripts = _transcripts(ground, of, frozenset(counted.tolist()))
    rows = []
    for at, key_of_day in enumerate(keys.tolist()):
        sessions, exposure, grade, binding = (int(column[at]) for column in columns)
        ended = {name: int(bins[number, at]) for number, name in enumerate(BINS) if bins[number, at]}
        producer, day = facts.producers.values[key_of_day >> 32], key_of_day & 0xFFFFFFFF
        held = transcripts.get(at, {})
        rows.append(Day(producer, _text(day), sessions, exposure, grade, binding, ended, day < ground.today, held))
    listed = [row for row in rows if row.sessions or row.bins]
    return sorted(listed, key=lambda row: (row.producer, row.day))


def _having(ground: Ground) -> tuple[Mask, Mask, Mask]:
    """Return which names have an exposure, a grade and a binding, themselves or by their run.

    A grade that was retracted is one: its grader reached the session. The bins say what became of it.
    """
    inputs, facts = ground.inputs, ground.facts
    runs, size = inputs.runs, len(facts.names)
    exposed, graded = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
    exposed[runs.of[inputs.shown.session[inputs.shown.usable]]] = True
    table = facts.grades
    void = quarantine_of(facts, ground.through).void
    rows = np.flatnonzero((table["pos"] <= ground.through) & (table["kind"] == GRADE) & ~np.isin(table["pos"], void))
    graded[runs.of[table["name"][rows]]] = True
    targets = table["target"][rows]
    graded[runs.of[targets[targets >= 0]]] = True
    return exposed[runs.of], graded[runs.of], runs.is_linked()


def _bins(ground: Ground, of: Ints, groups: int) -> Ints:
    """Return how many units of each group ended in each bin; shape (bins, groups)."""
    found = ground.settlement
    group = of[ground.facts.grades["name"][found.unit_grade]]
    inside = group >= 0
    flat = np.bincount(found.unit_bin[inside] * groups + group[inside], minlength=len(BINS) * groups)
    return flat.reshape(len(BINS), groups)


def _transcripts(ground: Ground, of: Ints, counted: frozenset[int]) -> dict[int, dict[str, int]]:
    """Return, for each group that has transcripts, how many are in each state."""
    found: dict[int, dict[str, int]] = {}
    for name, state in transcript_states(ground.facts.turns).items():
        if name in counted:
            states = found.setdefault(int(of[name]), {})
            states[state] = states.get(state, 0) + 1
    return {at: {state: states[state] for state in STATES if state in states} for at, states in found.items()}


def transcripts(rows: list[Day]) -> dict[str, int]:
    """Return how many sessions have a transcript of each state, over all days."""
    return {state: sum(row.transcripts.get(state, 0) for row in rows) for state in STATES}


def _text(day: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=day)).date().isoformat()


def newest(rows: list[Day], days: int) -> list[Day]:
    """Return the rows of the last days that any producer has sessions on; all of them for 0.

    Days that are not complete count as one, so that what is stamped in the future hides no other day.
    """
    if not days:
        return rows
    complete = sorted({row.day for row in rows if row.complete})
    count_left = days - any(not row.complete for row in rows)
    among = set(complete[len(complete) - min(count_left, len(complete)) :])
    return [row for row in rows if not row.complete or row.day in among]


def drops(rows: list[Day], days: int) -> list[Alarm]:
    """Return the days among the last ones whose coverage lies far below the median of the days before.

    The day of the ledger's last recording is not judged, since it may go on, nor what is stamped
    later; nor are days with fewer than `limits.COVERAGE_SESSIONS` sessions, on either side.
    """
    among = {row.day for row in newest(rows, days)}
    found = [alarm for measure in (*MEASURES, "transcript") for alarm in _drops(rows, among, measure)]
    return sorted(found, key=lambda alarm: (alarm.day or "", alarm.producer or "", alarm.kind))


def _drops(rows: list[Day], among: set[str], measure: str) -> Iterator[Alarm]:
    judged: dict[str, list[Day]] = {}
    for row in rows:
        if not row.complete or row.measured(measure)[1] < limits.COVERAGE_SESSIONS:
            continue
        before = judged.setdefault(row.producer, [])
        if before and row.day in among and (alarm := _drop(row, before[-limits.COVERAGE_DAYS :], measure)) is not None:
            yield alarm
        before.append(row)


def _drop(row: Day, before: list[Day], measure: str) -> Alarm | None:
    usual = median(have / of for have, of in (day.measured(measure) for day in before))
    have, of = row.measured(measure)
    share = have / of
    if round((usual - share) * 100, 9) <= limits.COVERAGE_POINTS:
        return None
    what = (
        f"{row.producer} on {row.day}: {_having_words(have, of, measure)} "
        f"({share:.0%}); the median of the {count(len(before), 'day')} before is {usual:.0%}."
    )
    return Alarm(f"{measure}-drop", what, row.producer, row.day, share, usual)


def _having_words(have: int, of: int, measure: str) -> str:
    if measure == "transcript":
        return f"{have} of {count(of, 'transcript')} {'is' if have == 1 else 'are'} complete"
    verb = "has" if have == 1 else "have"
    return f"{have} of {count(of, 'session')} {verb} {'an' if measure == 'exposure' else 'a'} {measure}"
