"""A case: the inputs of one explanation, settled once, with queries for its sentences.

A case is about a closed set of names (`Names.closure`), so that one session of a ledger of
millions is explained without settling the others; under the newest-file rule, and for the
policies whose answer is not a sum, it is about all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

import numpy as np

from rightful import limits
from rightful.encoding.envelope import Envelope
from rightful.log.log import Log
from rightful.policies import Policy
from rightful.projections.credit.bins_and_credits import in_time
from rightful.projections.credit.inputs import RETRACTED, canonical_arms
from rightful.projections.credit.runs import IN_FORCE, Quarantine, link_states, quarantine_of, withdrawn_by
from rightful.projections.credit.settle import trace_settlement
from rightful.projections.facts.columns import Ints, Mask
from rightful.projections.facts.facts import ERASED, EVIDENCE, RELATIONS, Facts
from rightful.reports.explain.phrases import listed

_DENSE = 32
"""Rows of the log to each one that is wanted, up to which whole pages are read."""


class Case:
    """Everything about a closed set of names under a policy.

    Args:
        facts: The columns.
        policy: The rule.
        through: The last position that counts.
        names: The closed set; None for all names.
    """

    def __init__(self, facts: Facts, policy: Policy, through: int, names: list[int] | None) -> None:
        self.facts, self.policy, self.through, self.names = facts, policy, through, names
        self.tried_rows = 0
        found = trace_settlement(facts, policy, through, names)
        self.inputs, self.claims, self.placed, self.effective_grades, self.targets, self.sources, self.settlement = (
            found
        )
        self.unit_of: dict[int, int] = {row: unit for unit, row in enumerate(self.settlement.unit_grade.tolist())}
        ranges = self.targets if self.sources is None else self.sources
        self.low, self.high = ranges.low, ranges.high
        self.order: Ints = self.targets.reach.order if self.sources is None else self.sources.order

    @cached_property
    def claim_of(self) -> dict[int, int]:
        """The claim that each row of `CreditInputs.grades` is, for those that are one."""
        return {row: claim for claim, row in enumerate(self.claims.grade.tolist())}

    def competing_claims(self, claim: int) -> list[int]:
        """Return the claims at the place of a claim that its own competes with, by rank; units first."""
        grade, rank = self.claims.grade, self.inputs.grades.rank
        found = np.flatnonzero((self.placed == self.placed[claim]) & (self.claims.bin != RETRACTED))
        units = set(self.effective_grades.grade.tolist())
        others = [other for other in found.tolist() if other != claim]
        return sorted(others, key=lambda other: (rank[grade[other]], int(grade[other]) not in units))

    @cached_property
    def quarantine(self) -> Quarantine:
        """Which rows are in conflict, and which were withdrawn."""
        return quarantine_of(self.facts, self.through)

    def withdrawn_text(self, position: int) -> str:
        """Return the beginning of a sentence that names the withdrawals of a row."""
        places = listed([f"#{at}" for at in withdrawn_by(self.facts, position, self.through)])
        return f"It was withdrawn by the `event.withdrawn` at {places}, so it no longer"

    @cached_property
    def in_conflict(self) -> dict[int, str]:
        """The event id of each position whose id has rows in quarantine."""
        return {at: event_id for event_id, rows in self.facts.quarantine.items() for at in rows.values()}

    @cached_property
    def canonical(self) -> Ints:
        """For each arm the number of the arm that the policy makes of it."""
        return canonical_arms(self.facts, self.policy)[0]

    @cached_property
    def place(self) -> Ints:
        """The place of each row of `CreditInputs.shown` in `order`."""
        place = np.empty(len(self.order), np.int64)
        place[self.order] = np.arange(len(self.order))
        return place

    @cached_property
    def _starts(self) -> tuple[Ints, Ints]:
        """Where the ranges of the units begin, sorted, and whose each is."""
        by_start = np.argsort(self.low, kind="stable")
        return self.low[by_start], by_start

    @cached_property
    def _sessions(self) -> Ints:
        sessions: Ints = self.inputs.shown.session[self.order]
        return sessions

    def text(self, number: int) -> str:
        """Return a session's name."""
        return self.facts.names.text(number)

    def distinct_name(self, number: int) -> str:
        """Return a session's name, marked if another name of the ledger has the same text."""
        text = self.text(number)
        twin = self.facts.names.texts.find(text) if self.facts.names.alias[number] else None
        known = twin is not None and self.facts.names.is_known(twin, self.through)
        return f"{text} (from a file name)" if known else text

    # -- exposures and grades ------------------------------------------------------------

    def exposure_at(self, row: int) -> int | None:
        """Return the row of `CreditInputs.shown` of a row of `facts.shown`; None if it was skipped."""
        at = int(np.searchsorted(self.inputs.shown.row, row))
        return at if at < len(self.inputs.shown.row) and self.inputs.shown.row[at] == row else None

    def grade_at(self, row: int) -> int | None:
        """Return the row of `CreditInputs.grades` of a row of `facts.grades`; None if it was skipped."""
        at = int(np.searchsorted(self.inputs.grades.row, row))
        return at if at < len(self.inputs.grades.row) and self.inputs.grades.row[at] == row else None

    def reached(self, unit: int) -> Ints:
        """Return the rows of `CreditInputs.shown` that a unit reaches, by position."""
        return np.sort(self.order[self.low[unit] : self.high[unit]])

    def payable(self, unit: int) -> set[str]:
        """Return the arms that a unit's exposures list in time, aliases resolved."""
        reached = self.reached(unit)
        live = reached[self.timing(unit, reached)[0]]
        arms = {arm for shown in live.tolist() for arm in self.arms_of(int(self.inputs.shown.row[shown]))}
        return {self.policy.arm_aliases.get(arm, arm) for arm in arms}

    def timing(self, unit: int, shown: Ints) -> tuple[Mask, Mask]:
        """Return which exposures count for a unit, and which came after it."""
        at = np.full(len(shown), self.inputs.grades.at[self.effective_grades.grade[unit]])
        return in_time(self.inputs, at, shown)

    def reaching(self, shown: int) -> Ints:
        """Return the units that reach a row of `CreditInputs.shown`, by the position of their grades."""
        place = self.place[shown]
        starts, by_start = self._starts
        key = self.targets.reach.run if self.sources is None else self._sessions
        begin = np.searchsorted(key, key[place], "left")  # no range begins before the run's own
        low, high = np.searchsorted(starts, begin, "left"), np.searchsorted(starts, place, "right")
        found = by_start[low:high]
        found = found[self.high[found] > place]
        ordered: Ints = found[np.argsort(self.inputs.grades.pos[self.effective_grades.grade[found]], kind="stable")]
        return ordered

    def counts_for(self, units: Ints, shown: int) -> tuple[Mask, Mask]:
        """Return for which units an exposure counts, and for which it came too late."""
        return in_time(
            self.inputs, self.inputs.grades.at[self.effective_grades.grade[units]], np.full(len(units), shown)
        )

    def arms_of(self, row: int) -> list[str]:
        """Return the arms that a row of `facts.shown` lists, in order."""
        start, size = int(self.facts.shown["start"][row]), int(self.facts.shown["count"][row])
        return [self.facts.arms.values[arm] for arm in self.facts.arms_shown["arm"][start : start + size].tolist()]

    def withheld_of(self, row: int) -> list[str]:
        """Return the arms that a row of `facts.shown` withheld."""
        table = self.facts.withheld
        low, high = (int(np.searchsorted(table["row"], row, side)) for side in ("left", "right"))
        return [self.facts.arms.values[arm] for arm in table["arm"][low:high].tolist()]

    def was_shown(self, number: int) -> bool:
        """Return whether an exposure of exactly this name counts."""
        return bool((self.inputs.shown.usable & (self.inputs.shown.name == number)).any())

    def grader(self, row: int) -> tuple[str, str]:
        """Return the producer and rubric of a row of `facts.grades`."""
        producer, rubric = self.facts.graders.values[int(self.facts.grades["grader"][row])]
        return producer, rubric

    def grade_label(self, row: int) -> str:
        """Return the label of a grade: grader, seq and position."""
        grades = self.facts.grades
        grader = "/".join(self.grader(row))
        return f"{grader} seq {int(grades['seq'][row])} (#{int(grades['pos'][row])})"

    def stream(self, run: int, grader: int) -> Ints:
        """Return a grader's grades of a run, as rows of `CreditInputs.grades`; the one that counts last."""
        grades = self.inputs.grades
        mine = np.flatnonzero(
            (grades.grader == grader) & (self.inputs.runs.of[grades.name] == run) & (grades.kind != ERASED)
        )
        return mine[np.lexsort((grades.at[mine], grades.seq[mine]))]

    # -- runs and links --------------------------------------------------------------------

    @cached_property
    def links(self) -> list[tuple[int, int, int, int, str, str]]:
        """The links of the case: (row, session, other, state, relation, evidence), in log order."""
        among = None
        if self.names is not None:
            among = np.zeros(len(self.facts.names), np.bool_)
            among[self.names] = True
        states = link_states(self.facts, self.through, self.quarantine, among)
        table = self.facts.links
        rows = np.arange(len(states)) if among is None else np.flatnonzero(among[table["session"][: len(states)]])
        return [
            (row, int(table["session"][row]), int(table["other"][row]), int(states[row]),
             RELATIONS[int(table["relation"][row])], EVIDENCE[int(table["evidence"][row])])
            for row in rows.tolist()
        ]  # fmt: skip

    @cached_property
    def _linked_names(self) -> dict[int, set[int]]:
        linked_names: dict[int, set[int]] = {}
        for _, session, other, state, *_ in self.links:
            if state == IN_FORCE:
                linked_names.setdefault(session, set()).add(other)
                linked_names.setdefault(other, set()).add(session)
        return linked_names

    def component(self, number: int) -> list[int]:
        """Return all names that links in force join with one, ambiguous or not; by first mention."""
        found, waiting = {number}, [number]
        while waiting:
            for other in self._linked_names.get(waiting.pop(), ()):
                if other not in found:
                    found.add(other)
                    waiting.append(other)
        return sorted(found)

    def latest_us(self) -> int:
        """Return the largest time of an event in the ledger; manual events come after it."""
        return max(self.facts.clock, default=0)


def case_of(facts: Facts, policy: Policy, through: int, names: Iterable[int]) -> Case:
    """Return the case of some names: they and all that can influence them."""
    whole = policy.join == "newest"
    return Case(facts, policy, through, None if whole else facts.names.closure(names))


def envelopes_at(log: Log, positions: Iterable[int]) -> dict[int, Envelope]:
    """Return the envelopes at some positions; in one read if they are close together."""
    found: dict[int, Envelope] = {}
    wanted = sorted(set(positions))
    for first, last in _stretches(wanted):
        among = set(wanted[first:last])
        for page in log.pages(wanted[first] - 1, wanted[last - 1]):
            found |= {at: envelope for at, envelope in enumerate(page.envelopes, page.after + 1) if at in among}
    return found


def _stretches(wanted: list[int]) -> Iterator[tuple[int, int]]:
    """Yield ranges of `wanted` that are read together."""
    start = 0
    for place in range(1, len(wanted) + 1):
        if (
            place == len(wanted)
            or wanted[place] - wanted[place - 1] > _DENSE
            or (wanted[place] - wanted[start] >= limits.PAGE_ROWS)
        ):
            yield start, place
            start = place
