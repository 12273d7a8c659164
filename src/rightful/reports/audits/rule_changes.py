"""One change of rule in time: a state file written under one rule until a time, and under another after it.

For a pair of rules, the file at the end is the second rule's state plus, for every grade up to the time of the
change, the first rule's increment less the second's, each decayed to the end. So one running sum per arm over the
grades finds all times that explain the file, in O(C log C) for C credits. Both rules must decay alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import permutations
from typing import NamedTuple

import msgspec
import numpy as np

from rightful import limits
from rightful.policies import EventDecay, Policy, TimeDecay
from rightful.projections.arithmetic import sequential
from rightful.projections.arithmetic.sequential import Change
from rightful.projections.arithmetic.sums import Key, decay_of
from rightful.projections.credit.bins_and_credits import Settlement
from rightful.projections.credit.posteriors import Posterior, posteriors_of
from rightful.projections.credit.settle import settle
from rightful.projections.facts.columns import Floats, Ints, Mask
from rightful.projections.facts.facts import Facts
from rightful.reports.audits.state_beliefs import StateFile
from rightful.reports.audits.updater_cutoffs import CLOSE, LATER_US, cutoffs, facts_until, filter_grades


class RuleChange(msgspec.Struct, frozen=True, kw_only=True):
    """One change of rule that explains the whole file.

    Attributes:
        first: The name of the rule up to the change.
        second: The name of the rule after the change.
        after: The time of the last grade that the first rule must have paid; microseconds since 1970, UTC.
        before: The time of the first grade that the second rule must have paid. The change was at or after
            `after`, and before `before`.
        grades_first: How many grades of the log have a time up to `after`.
        grades_second: How many have a time from `before` on, up to the file's time.
        until: The latest time of an event that was looked at; microseconds since 1970, UTC. None: all.
    """

    first: str
    first_hash: str
    second: str
    second_hash: str
    after: int
    before: int
    grades_first: int
    grades_second: int
    until: int | None


class _Steps(NamedTuple):
    """What each grade added to alpha (`up`), beta (`down`) and the selections of a belief, decayed to the end."""

    key: Ints
    at_us: Ints
    up: Floats
    down: Floats
    n: Ints

    def of(self, mask: Mask) -> _Steps:
        return _Steps(self.key[mask], self.at_us[mask], self.up[mask], self.down[mask], self.n[mask])

    def undone(self, at_us: Ints) -> _Steps:
        """Return the steps that take these back at other times."""
        return _Steps(self.key, at_us, -self.up, -self.down, -self.n)


class _Replay(NamedTuple):
    """One rule, replayed.

    Attributes:
        decay: Everything that decides how its evidence decays; equal for rules that decay alike.
        end: Its beliefs at the end: alpha, beta, selections.
        live: Its increments as the grades came: a regrade replaces what its run had been paid. None where a run
            has too many grades (`limits.CHANGE_REVISIONS`).
        final: The credits in force at the end, each at the time of its own grade.
    """

    label: str
    policy: Policy
    decay: object
    end: dict[Key, tuple[float, float, int]]
    live: _Steps | None
    final: _Steps


def rule_changes(
    facts: Facts, state: StateFile, through: int, decay_at_us: int, rules: Iterable[tuple[str, Policy]]
) -> list[RuleChange]:
    """Return every change from one rule to another that explains a state file which no rule explains alone.

    Where the arms' own times agree with some of the changes, the others are left out.

    Args:
        facts: The columns, folded through `through` at least.
        state: The file.
        through: The last position that counts.
        decay_at_us: The time of a decay; microseconds since 1970, UTC.
        rules: The rules to pair, each with its name. Those that decay by session or by arm are skipped: what is
            left of a credit depends on the later credits, and so on the time of the change.
    """
    chosen = [
        (label, policy)
        for label, policy in rules
        if isinstance(policy.decay, EventDecay | TimeDecay | None) and not policy.marginals
    ]
    for cutoff in cutoffs(facts, state, through):
        search = _Search(facts_until(facts, cutoff), state, through, decay_at_us, cutoff)
        if found := list(search.pairs(chosen)):
            least = min(doubt for _, doubt in found)
            return [change for change, doubt in found if doubt == least]
    return []


class _Search:
    """The pairs of rules over one prefix of the log."""

    def __init__(self, facts: Facts, state: StateFile, through: int, decay_at_us: int, cutoff: int | None) -> None:
        self._facts = filter_grades(facts, facts.grades["pos"] <= through)
        self._state, self._through, self._decay_at_us, self._cut = state, through, decay_at_us, cutoff
        self._numbers: dict[Key, int] = {}
        self._with_contexts = any(context is not None for _, context in state.beliefs)
        self._at_us = np.sort(self._facts.grades["at"])
        self._times = np.unique(self._at_us)

    def pairs(self, rules: list[tuple[str, Policy]]) -> Iterator[tuple[RuleChange, int]]:
        """Yield the changes that explain the file's numbers, each with its doubt (`_doubt`)."""
        replays = [self._replay(label, policy) for label, policy in rules]
        for first, second in permutations(replays, 2):
            if first.decay != second.decay or first.live is None:
                continue
            laters = [second.final]
            if second.live is not None and second.policy.revision == "last_wins":
                laters.append(second.live)
            spans: dict[tuple[int, int], int] = {}
            for later in laters:
                for low, high in self._fitting_spans(first.live, later, second):
                    doubt = self._doubt(first.live, later, int(self._times[low - 1]))
                    spans[low, high] = min(doubt, spans.get((low, high), doubt))
            yield from ((self._change(first, second, *span), spans[span]) for span in sorted(spans))

    def _doubt(self, first: _Steps, second: _Steps, after: int) -> int:
        """Compare the times of the last credits with those of the arms in the file.

        Returns:
            2: an arm was credited after its last update, which cannot be. 1: one was updated long after its last
            credit, and another grade came between, as where an updater pays many grades at once. 0: neither.
        """
        credited = np.full(len(self._numbers), np.iinfo(np.int64).min)
        for steps, paid in ((first, first.at_us <= after), (second, second.at_us > after)):
            mask = paid & (steps.n > 0)
            np.maximum.at(credited, steps.key[mask], steps.at_us[mask])
        timed = [(self._numbers[key], belief.last_us) for key, belief in self._state.beliefs.items() if belief.last_us]
        pairs = np.array(timed, np.int64).reshape(len(timed), 2)
        pairs = pairs[credited[pairs[:, 0]] >= self._times[0]]
        last, updated = credited[pairs[:, 0]], pairs[:, 1]
        between = np.searchsorted(self._times, updated, "right") > np.searchsorted(self._times, last, "right")
        if (last > updated + LATER_US).any():
            return 2
        return int((between & (updated > last + LATER_US)).any())

    def _change(self, first: _Replay, second: _Replay, low: int, high: int) -> RuleChange:
        after, before = int(self._times[low - 1]), int(self._times[high])
        return RuleChange(
            first=first.label,
            first_hash=first.policy.hash,
            second=second.label,
            second_hash=second.policy.hash,
            after=after,
            before=before,
            grades_first=int(np.searchsorted(self._at_us, after, "right")),
            grades_second=len(self._at_us) - int(np.searchsorted(self._at_us, before, "left")),
            until=self._cut,
        )

    def _replay(self, label: str, policy: Policy) -> _Replay:
        settlement = settle(self._facts, policy, self._through)
        found = posteriors_of(self._facts, settlement, policy, self._through, self._decay_at_us)
        beliefs: dict[Key, Posterior] = {(arm, None): belief for arm, belief in found.arms.items()}
        beliefs |= {(belief.arm, belief.context): belief for belief in found.contexts}
        end = {key: (belief.alpha, belief.beta, belief.n) for key, belief in beliefs.items()}
        changes = sorted(
            sequential.changes(self._facts, settlement, policy, self._through), key=lambda change: change.position
        )
        events = [(change.position, change.gamma, tuple(change.dropped), change.spared) for change in changes]
        by_time = policy.decay if isinstance(policy.decay, TimeDecay) else None
        final, _ = self._steps(settlement, self._facts, policy, changes)
        live = final if policy.revision == "additive" else self._live(policy, changes)
        return _Replay(label, policy, (policy.prior, policy.balances, by_time, events), end, live, final)

    def _live(self, policy: Policy, changes: list[Change]) -> _Steps | None:
        """Return the increments of a rule by which a regrade replaces the grade before it.

        Runs do not depend on each other, so one settlement gives the state of every run after its k-th grade.
        """
        grades = self._facts.grades
        group = self._facts.names.labels()[grades["name"]]
        order = np.lexsort((grades["pos"], grades["at"], group))
        _, starts, sizes = np.unique(group[order], return_index=True, return_counts=True)
        if not len(sizes) or sizes.max() > limits.CHANGE_REVISIONS:
            return None
        rank, size = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
        rank[order], size[order] = np.arange(len(order)) - np.repeat(starts, sizes), np.repeat(sizes, sizes)
        parts: list[_Steps] = []
        for place in range(int(sizes.max())):
            facts = filter_grades(self._facts, (rank <= place) & (size > place))
            steps, name = self._steps(settle(facts, policy, self._through), facts, policy, changes)
            when = dict(zip(group[rank == place].tolist(), grades["at"][rank == place].tolist(), strict=True))
            later = rank == place + 1
            ended = dict(zip(group[later].tolist(), grades["at"][later].tolist(), strict=True))
            of = self._facts.names.labels()[name].tolist()
            parts.append(steps._replace(at_us=np.array([when[number] for number in of], np.int64)))
            at_us = np.array([ended[number] for number in of if number in ended], np.int64)
            parts.append(steps.of(np.array([number in ended for number in of], np.bool_)).undone(at_us))
        return _concatenated(parts)

    def _steps(
        self, settlement: Settlement, facts: Facts, policy: Policy, changes: list[Change]
    ) -> tuple[_Steps, Ints]:
        """Return a settlement's credits as steps, each with the name that its grade graded."""
        slots, slot = sequential.slots(facts, settlement, [])
        number = np.array([self._numbers.setdefault(key, len(self._numbers)) for key in slots], np.int64)
        grade = np.repeat(settlement.unit_grade[settlement.credit_unit], 2)
        weight = np.repeat(settlement.credit_weight * decay_of(settlement, policy, self._decay_at_us), 2)
        reward, mask = np.repeat(settlement.credit_reward, 2), slot >= 0
        slot, grade, weight, reward = slot[mask], grade[mask], weight[mask], reward[mask]
        key, n = number[slot], np.ones(len(slot), np.int64)
        left, dropped = _remaining(changes, facts.grades["pos"][grade].astype(np.int64), key, self._numbers)
        weight = weight * left
        n[dropped] = 0
        name = facts.grades["name"][grade]
        return _Steps(key, facts.grades["at"][grade], weight * reward, weight * (1.0 - reward), n), name

    def _fitting_spans(self, first: _Steps, second: _Steps, rule: _Replay) -> Iterator[tuple[int, int]]:
        """Yield (low, high): the change lies after the first `low` to `high` times of grades, and not before or later.

        A span that holds the whole log or nothing of it is one rule alone, and is not a change.
        """
        off, n_known = self._distance(rule.end, rule.policy.prior)
        used = np.zeros(len(self._numbers), np.bool_)
        used[off.key] = True
        first, second = first.of(used[first.key]), second.of(used[second.key])
        steps = _concatenated([off, first, second.undone(second.at_us)])
        place = np.searchsorted(self._times, steps.at_us) + 1
        place[: len(off.key)] = 0
        order = np.lexsort((place, steps.key))
        key, place = steps.key[order], place[order]
        starts = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
        up, down = _running(steps.up[order], starts), _running(steps.down[order], starts)
        n = _running(steps.n[order].astype(np.float64), starts)
        wrong = (np.abs(up) > CLOSE) | (np.abs(down) > CLOSE) | ((n != 0) & n_known[key])
        last = len(self._times)
        ends = np.append(place[1:], last + 1)
        ends[np.append(starts[1:], len(key)) - 1] = last + 1
        begun = np.bincount(place[wrong], minlength=last + 2) - np.bincount(ends[wrong], minlength=last + 2)
        fits = np.cumsum(begun)[: last + 1] == 0
        edge = np.diff(np.concatenate([[0], fits.astype(np.int64), [0]]))
        for low, end in zip(np.flatnonzero(edge == 1).tolist(), np.flatnonzero(edge == -1).tolist(), strict=True):
            if low > 0 and end <= last:
                yield low, end - 1

    def _distance(self, end: dict[Key, tuple[float, float, int]], prior: tuple[float, float]) -> tuple[_Steps, Mask]:
        """Return how far a rule's end is from the file, belief by belief, and which selections the file counts."""
        for key in (*end, *self._state.beliefs):
            self._numbers.setdefault(key, len(self._numbers))
        known = np.ones(len(self._numbers), np.bool_)
        numbers: list[int] = []
        rows: list[list[float]] = []
        for key, number in self._numbers.items():
            if not self._state.accepts(key[0]) or (key[1] is not None and not self._with_contexts):
                continue
            log_numbers, belief = end.get(key, (*prior, 0)), self._state.beliefs.get(key)
            file_numbers = (*prior, 0) if belief is None else (belief.alpha, belief.beta, belief.n or 0)
            known[number] = belief is None or belief.n is not None
            numbers.append(number)
            rows.append([ours - theirs for ours, theirs in zip(log_numbers, file_numbers, strict=True)])
        table = np.array(rows, np.float64).reshape(len(rows), 3)
        none = np.zeros(len(rows), np.int64)
        return _Steps(np.array(numbers, np.int64), none, table[:, 0], table[:, 1], table[:, 2].astype(np.int64)), known


def _concatenated(parts: list[_Steps]) -> _Steps:
    return _Steps(*map(np.concatenate, zip(*parts, strict=True)))


def _running(gains: Floats, starts: Ints) -> Floats:
    """Return the running sum of each group; `starts` says where the groups begin."""
    total: Floats = np.cumsum(gains)
    before: Floats = np.append(0.0, total)[starts]
    return total - np.repeat(before, np.diff(np.append(starts, len(gains))))


def _remaining(changes: list[Change], position: Ints, key: Ints, numbers: dict[Key, int]) -> tuple[Floats, Mask]:
    """Return what the decays after each credit leave of it, and which credits a prune dropped."""
    plain = [change for change in changes if change.gamma is not None and not change.spared and not change.dropped]
    factors = np.array([change.gamma for change in plain], np.float64)
    after = np.append(np.cumprod(factors[::-1])[::-1], 1.0)
    left = after[np.searchsorted(np.array([change.position for change in plain], np.int64), position, "right")]
    dropped = np.zeros(len(position), np.bool_)
    for change in changes:
        earlier = position < change.position
        if change.gamma is not None and change.spared:
            spared = [number for (arm, _), number in numbers.items() if arm in change.spared]
            left[earlier & ~np.isin(key, spared)] *= change.gamma
        if change.dropped:
            dropped |= earlier & np.isin(key, [numbers[gone] for gone in change.dropped if gone in numbers])
    left[dropped] = 0.0
    return left, dropped
