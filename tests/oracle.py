"""An oracle of attribution: slow, plain, written from docs/explanation/attribution.md alone.

It knows nothing of columns, closures or sums kept up: it takes the rows as their reader sees them,
goes through dicts and lists, and counts in `fractions.Fraction`. Where that page leaves a choice
open, the code's is taken over, since it is a reasonable one:

- A grade without `exposure_session` competes in its own run whether or not that was shown anything; one whose
  `exposure_session` shows nothing, or fits several names, competes nowhere.
- What is retracted or in conflict is of its own run; what is retracted is a unit only where no other grader's
  grade of that run stands.
- Of a name whose links disagree only the grades under that very name meet.
- Under `newest` a grader that grades one run under two runs' names pays for each: that rule has no target.
- A sanitised form that fits one session is that session for `newest`, for pending and for crossovers.
- An alias is sought too where a grade's `exposure_session` shows nothing under its exact name.
- A name is *in the ledger* once a row carries it as its session or a link as its `other`.
- Two names that both started are two sessions: neither is an alias of the other.
- A link whose session is marked alias joins nothing: no alias goes through a link.
- A name under which two runs started pays nobody, whoever names it. So does a session of Claude Code of which a row has
  the transcript path of another session; the withdrawal of that row settles it, whoever writes it.
- A second unmarked native name is counted over the whole run, not for each owner.
- A `cwd-window` link loses to any other evidence for the same `other`, or for the owner's native name.
- Of equal contents at one `seq` the one with the latest time counts, then the last one written.
- A retracted grader does not stand in the way of the next in the policy's list; one in conflict does.
- Retracted and conflicting come before unmapped, that before the bins of the join; in-balance is what else would
  be credited. A balance holds the arms of its contexts too; an arm with the weight 0 is not paid.
- A grade that reaches a countable exposure without arms is empty, even if later ones came too late.
- Under `salience_*` an arm that the grade does not name weighs nothing; without salience all weigh alike.
- An arm's context is that of its first countable exposure, of one time that with a context, by its text; the age
  of a run is that of its first one.
- A run of which an opening balance holds a grade is in it, whatever is graded later: it cannot be taken out again.
  So the time that counts is that of the run's earliest grade.
- `newest` seeks the exposures of one name, not of its run, and takes all times as they are. What only says what a
  draw withheld did not rewrite the file; a file's mention of arms counts only where the session gives one of them no
  time of its own.
- A withdrawal counts whatever position it has, and whether or not its own id is in conflict.
- In an id in conflict every producer's withdrawal counts; any other event only its own producer withdraws, and so it is
  with the withdrawal of a withdrawal. What its producer said again in another turn stands until that is withdrawn too.
- An erased grade is a unit of its own, since its grader is no longer known.
- What another updater decayed or dropped at or before a balance's `through`, or before the balance was taken, is in
  the arms that it holds, and the decay of a call at or before its `through` too; other arms are decayed and dropped.
- A decay is of the graders of its producer: a pattern's part before the last `/` fits, or all of it `overall`.
- A call in conflict decays nothing; all other calls do, whichever bin they end in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import partial
from typing import Any

from tests.oracle_facts import (
    Answer,
    Belief,
    Context,
    Credit,
    Grade,
    Key,
    Line,
    Name,
    Shown,
    Told,
    Unit,
    name_of,
    space_of,
)

from rightful import events
from rightful.policies import ArmDecay, EventDecay, Policy, SessionDecay, TimeDecay

BINS = (
    "credited", "unmatched", "empty", "ambiguous", "conflicting",
    "retracted", "late_only", "unmapped", "in_balance", "erased",
)  # fmt: skip


def replay(lines: Iterable[Line], policy: Policy, decay_at_us: int | None = None) -> Answer:
    """What a policy makes of these rows."""
    told = Told(lines, policy)
    if decay_at_us is None:
        decay_at_us = max((line.at for line in told.lines if line.row.type != "posterior.published"), default=0)
    return _Oracle(told, policy, decay_at_us).answer()


class _Oracle:
    """One question: these rows, under this policy."""

    def __init__(self, told: Told, policy: Policy, decay_at_us: int) -> None:
        self.told = told
        self.policy = policy
        self.decay_at_us = decay_at_us
        self.newest = policy.join == "newest"
        self.late: set[tuple[int, str]] = set()
        self.exact: dict[tuple[Name, str], int] | None = None
        self.unexposed = 0

    def answer(self) -> Answer:
        claims = [*(self._additive() if self.policy.revision == "additive" else self._streams()), *self._erased()]
        for claim in claims:
            self._aim(claim)
        units = claims if self.policy.revision == "additive" else self._ranked(claims)
        for unit in units:
            if self.newest:
                self._aim_newest(unit)
            if unit.effective:
                self._reach(unit)
        payers = self._payers(units)
        for unit in units:
            unit.bin = unit.bin or self._bin(unit, payers)
        owed = []
        for unit in units:
            credits_, unexposed = self._credits(unit)
            if any(unit.since <= self.told.balanced_until(credit.arm) for credit in credits_):
                unit.bin = "in_balance"
                continue
            owed += credits_
            self.unexposed += unexposed
        beliefs = self._running(units, owed) if self.policy.arithmetic == "sequential" else self._summed(owed)
        return Answer(beliefs, self._counters(units), len(units))

    # Effective grades.

    def _additive(self) -> list[Unit]:
        given = [one for one in self.told.grades if not one.retraction]
        runs = [self.told.run(one.name) for one in given]
        return [
            Unit(one, run, one.position, "conflicting" if one.quarantined else None, run, since=one.at)
            for one, run in zip(given, runs, strict=True)
        ]

    def _erased(self) -> list[Unit]:
        units = []
        for line in self.told.erased:
            row = line.row
            grade = Grade(name_of(row), line.at, row.position, "", 0, False, False, None)
            units.append(Unit(grade, grade.name, row.position, "erased", grade.name, since=line.at))
        return units

    def _streams(self) -> list[Unit]:
        """The grade in force of each grader under each run's own names."""
        streams: dict[tuple[Name, str], list[Grade]] = {}
        for grade in self.told.grades:
            streams.setdefault((self.told.run(grade.name), grade.grader), []).append(grade)
        claims = []
        for (run, _), stream in streams.items():
            highest = [one for one in stream if one.seq == max(other.seq for other in stream)]
            chosen = max(highest, key=lambda one: (one.at, one.position))
            state = "retracted" if chosen.retraction else None
            if len({one.says for one in highest}) > 1 or any(one.quarantined for one in highest):
                state = "conflicting"
            since = min(one.at for one in stream)
            slot = min((one.retraction, one.position) for one in stream)
            claims.append(Unit(chosen, run, 0, state, run, since, first=slot))
        return claims

    @staticmethod
    def _named(grade: Grade) -> str | None:
        named = getattr(grade.event, "exposure_session", None)
        return None if named is None else str(named)

    def _place(self, claim: Unit) -> tuple[Any, ...]:
        """The run that a grade speaks of; a place of its own where that is unmatched or ambiguous."""
        named = None if claim.bin else self._named(claim.grade)
        if claim.bin == "erased" or (named is not None and (claim.unclear or not claim.reached)):
            return "alone", id(claim)
        if named is not None:
            return "run", self.told.run((named, False))
        return "doubtful" if claim.grade.name in self.told.ambiguous else "run", claim.run

    def _ranked(self, claims: list[Unit]) -> list[Unit]:
        places: dict[tuple[Any, ...], list[Unit]] = {}
        for claim in claims:
            claim.place = self._place(claim)
            places.setdefault(claim.place, []).append(claim)
        units: list[Unit] = []
        for mine in places.values():
            for claim in mine:
                claim.since = min(one.since for one in mine)
                claim.slot = min(one.first for one in mine)[1]
            standing = [one for one in mine if one.bin != "retracted"]
            rank = min(self.told.rank(one.grade.grader) or 0 for one in standing or mine)
            best = [one for one in standing or mine if (self.told.rank(one.grade.grader) or 0) == rank]
            if not standing:
                best = best[:1]
            elif len({one.grade.grader for one in best}) > 1:
                best = best[:1]
                best[0].bin = "conflicting"
            elif len(best) > 1:
                for one in best:
                    one.shared = one.bin is None
            units += best
        for unit in units:
            unit.effective = unit.bin is None
        return units

    def _session(self, name: Name) -> Name:
        """The one session that a sanitised form fits."""
        fits = self.told.fitting(name) if name[1] else []
        return fits[0] if len(fits) == 1 and not fits[0][1] else name

    # Joins.

    def _aim(self, unit: Unit) -> None:
        """The bound join: the session it names, else its own run, else a unique alias."""
        told, wanted = self.told, unit.grade.name
        named = getattr(unit.grade.event, "exposure_session", None)
        if named is not None:
            wanted = (named, False)
            unit.target = told.run(wanted)
            if wanted in told.reused:
                unit.unclear = True
                return
            unit.reached = [one for one in told.shown if one.name == wanted]
        elif wanted in told.ambiguous:
            unit.unclear = True
            return
        elif not wanted[1]:
            unit.reached = [one for one in told.shown if told.run(one.name) == unit.run]
        if not unit.reached:
            fits = told.fitting(wanted)
            unit.unclear = len(fits) > 1
            if len(fits) == 1:
                unit.reached = [one for one in told.shown if one.name == fits[0]]
                unit.target = told.run(self._session(fits[0])) if unit.reached else unit.target

    def _aim_newest(self, unit: Unit) -> None:
        """The newest-file rule as of the grade's time: the session that had listed an arm and was written last."""
        usable = [one for one in self.told.shown if one.usable]
        of = {one.name: self._session(one.name) for one in usable}
        timed = {(of[one.name], arm) for one in usable if not one.file_time for arm in one.arms}
        shown = [
            one
            for one in usable
            if one.at <= unit.grade.at
            and not (one.file_time and one.arms and all((of[one.name], arm) in timed for arm in one.arms))
        ]
        written: dict[Name, int] = {}
        for name in {of[one.name] for one in shown if one.arms}:
            written[name] = max(one.at for one in shown if of[one.name] == name and not one.is_draw)
        newest = [name for name, at in written.items() if at == max(written.values())]
        unit.source = newest[0] if len(newest) == 1 else None
        unit.tied = len(newest) > 1
        unit.reached = [one for one in shown if of[one.name] == unit.source]

    def _reach(self, unit: Unit) -> None:
        usable = [one for one in unit.reached if one.usable]
        self.exact = self._exact_times() if self.exact is None else self.exact
        unit.live = [one for one in usable if not self._is_late(one, unit)]
        kept = {arm for one in unit.live for arm in one.arms}
        self.late |= {(id(unit), arm) for one in usable for arm in one.arms if arm not in kept}

    def _is_late(self, shown: Shown, unit: Unit) -> bool:
        if self.newest or self.policy.causal_order == "lenient":
            return False
        latest = unit.grade.at + round(self.policy.skew_s * 1_000_000)
        if not shown.file_time:
            return shown.at > latest
        exact = self.exact or {}
        times = [exact.get((self._session(shown.name), arm)) for arm in shown.arms]
        return (
            bool(times) and all(at is not None for at in times) and min(at for at in times if at is not None) > latest
        )

    def _exact_times(self) -> dict[tuple[Name, str], int]:
        """The first exact time of each arm of each session: what a file says of that arm is the same exposure."""
        found: dict[tuple[Name, str], int] = {}
        for one in self.told.shown:
            if one.usable and not one.file_time:
                for arm in one.arms:
                    key = self._session(one.name), arm
                    found[key] = min(one.at, found.get(key, one.at))
        return found

    # Bins.

    @staticmethod
    def _payers(units: list[Unit]) -> dict[int, set[Any]]:
        payers: dict[int, set[Any]] = {}
        for unit in units:
            for one in unit.live:
                payers.setdefault(one.position, set()).add(unit.place)
        return payers

    def _bin(self, unit: Unit, payers: dict[int, set[Any]]) -> str:
        if self._reward(unit) is None:
            return "unmapped"
        if unit.tied if self.newest else unit.unclear:
            return "ambiguous"
        if not unit.reached:
            return "unmatched"
        if not self.newest and (unit.shared or any(len(payers[one.position]) > 1 for one in unit.live)):
            return "ambiguous"
        if unit.live:
            return "credited" if any(one.arms for one in unit.live) else "empty"
        if any(one.usable for one in unit.reached):
            return "late_only"
        return "erased" if any(one.erased for one in unit.reached) else "conflicting"

    def _reward(self, unit: Unit) -> float | None:
        event = unit.grade.event
        return self.policy.outcomes.get(event.outcome) if event.reward is None else float(event.reward)

    # Credits.

    def _credits(self, unit: Unit) -> tuple[list[Credit], int]:
        """What a unit gives arms, and how many rewards of single arms name an arm that it does not reach."""
        if unit.bin != "credited":
            return [], 0
        sequential = self.policy.arithmetic == "sequential"
        order = sorted(unit.live, key=lambda one: one.position if sequential else one.told_first())
        listed = [(arm, one.context) for one in order for arm in one.arms]
        if not sequential:
            listed = list({arm: (arm, context) for arm, context in reversed(listed)}.values())
        return self._weighed(unit, listed)

    def _weighed(self, unit: Unit, listed: list[tuple[str, Context | None]]) -> tuple[list[Credit], int]:
        event, rule, arms = unit.grade.event, self.policy.credit, [arm for arm, _ in listed]
        base = self._reward(unit) or 0.0
        rewards = self._by_arm(event.per_arm or {})
        weights = [Fraction(1)] * len(arms)
        if rule.startswith("salience") and event.salience is not None:
            said = self._by_arm(event.salience)
            weights = [Fraction(said.get(arm, 0.0)) for arm in arms]
        if rule in {"split", "salience_split"} and sum(weights) > 0:
            weights = [weight / sum(weights) for weight in weights]
        credits_ = [
            Credit(unit, arm, context, weight, rewards.get(arm, base))
            for (arm, context), weight in zip(listed, weights, strict=True)
            if weight > 0
        ]
        return credits_, len(rewards.keys() - set(arms))

    def _by_arm(self, said: dict[str, float]) -> dict[str, float]:
        out: dict[str, float] = {}
        for arm in sorted(said):
            out.setdefault(self.told.arm(arm), said[arm])
        return out

    # Beliefs.

    def _openings(self) -> Iterable[tuple[Key, Any]]:
        for one in self.told.balances():
            yield from (((self.told.arm(arm), None), state) for arm, state in one.arms.items())
            yield from (((self.told.arm(state.arm), state.context), state) for state in one.contexts)

    def _summed(self, owed: list[Credit]) -> dict[Key, Belief]:
        beliefs: dict[Key, Belief] = {}
        for credit in owed:
            weight, reward = credit.weight * self._decay(credit, owed), Fraction(credit.reward)
            for key in self._keys(credit):
                self._add(beliefs, key, 1, weight * reward, weight * (1 - reward))
        for key, state in self._openings():
            self._add(beliefs, key, state.n, Fraction(state.alpha) - 1, Fraction(state.beta) - 1)
        return beliefs

    def _add(self, beliefs: dict[Key, Belief], key: Key, n: int, up: Any, down: Any) -> None:
        exact = self.policy.arithmetic == "exact"
        a0, b0 = (Fraction(one) if exact else one for one in self.policy.prior)
        old = beliefs.get(key, Belief(a0, b0, 0, Fraction(0) if exact else 0.0))
        beliefs[key] = Belief(old.alpha + up, old.beta + down, old.n + n, old.mass + (up + down))

    def _keys(self, credit: Credit) -> list[Key]:
        keys: list[Key] = [(credit.arm, None)]
        if credit.context is not None:
            keys.append((credit.arm, credit.context))
            if self.policy.marginals and len(credit.context) > 1:
                values = dict.fromkeys(value for value in credit.context if value is not None)
                keys += [(credit.arm, (value,)) for value in values]
        return keys

    def _decay(self, credit: Credit, owed: list[Credit]) -> Fraction:
        slot = credit.unit.slot
        match self.policy.decay:
            case TimeDecay(half_life=half_life):
                age_us = max(0, self.decay_at_us - min(one.at for one in credit.unit.live))
                return Fraction(2.0 ** -(age_us / 1_000_000 / half_life))
            case SessionDecay(gamma=gamma):
                return Fraction(gamma) ** len({one.unit.slot for one in owed if one.unit.slot > slot})
            case ArmDecay(gamma=gamma):
                return Fraction(gamma) ** sum(one.arm == credit.arm and one.unit.slot > slot for one in owed)
            case _:
                return Fraction(1)

    # The sequential arithmetic: float operations in log order.

    def _running(self, units: list[Unit], owed: list[Credit]) -> dict[Key, Belief]:
        state: dict[Key, Belief] = {}
        for key, one in self._openings():
            old = state.get(key, Belief(*self.policy.prior, 0, 0.0))
            mass = old.mass + ((one.alpha - 1.0) + (one.beta - 1.0))
            state[key] = Belief((old.alpha - 1.0) + one.alpha, (old.beta - 1.0) + one.beta, old.n + one.n, mass)
        calls: list[tuple[int, Callable[[], None]]] = []
        for unit in units:
            mine = [one for one in owed if one.unit is unit]
            calls.append((unit.grade.position, partial(self._call, state, unit, mine)))
        if isinstance(self.policy.decay, EventDecay):
            calls += self._said_by_others(state)
        for _, call in sorted(calls, key=lambda one: one[0]):
            call()
        return state

    def _call(self, state: dict[Key, Belief], unit: Unit, owed: list[Credit]) -> None:
        rate = getattr(unit.grade.event, "decay_rate", None)
        if isinstance(self.policy.decay, EventDecay) and rate is not None and unit.bin != "conflicting":
            self._forget(state, rate, self.told.spared(unit.grade.at))
        for credit in owed:
            weight = float(credit.weight)
            keys: list[Key] = [(credit.arm, None), *([] if credit.context is None else [(credit.arm, credit.context)])]
            for key in keys:
                old = state.get(key, Belief(*self.policy.prior, 0, 0.0))
                alpha, beta = old.alpha + weight * credit.reward, old.beta + weight * (1.0 - credit.reward)
                state[key] = Belief(alpha, beta, old.n + 1, old.mass + weight)

    def _forget(self, state: dict[Key, Belief], gamma: float, spared: set[str]) -> None:
        a0, b0 = self.policy.prior
        for key, old in state.items():
            if key[0] not in spared:
                alpha, beta = a0 + gamma * (old.alpha - a0), b0 + gamma * (old.beta - b0)
                state[key] = Belief(alpha, beta, old.n, old.mass * gamma)

    def _drop(self, state: dict[Key, Belief], pruned: events.BanditPruned, spared: set[str]) -> None:
        keys = [(self.told.arm(arm), None) for arm in pruned.arms]
        for key in [*keys, *((self.told.arm(one.arm), one.context) for one in pruned.contexts)]:
            if key[0] not in spared:
                state.pop(key, None)

    def _said_by_others(self, state: dict[Key, Belief]) -> Iterable[tuple[int, Callable[[], None]]]:
        for line in self.told.sound:
            event = line.row.event
            if not isinstance(event, events.BanditDecayed | events.BanditPruned) or not self.told.pays_from(event):
                continue
            spared = self.told.spared(line.at, or_taken=True)
            if isinstance(event, events.BanditDecayed):
                yield line.row.position, partial(self._forget, state, event.gamma, spared)
            else:
                yield line.row.position, partial(self._drop, state, event, spared)

    # Counters.

    def _counters(self, units: list[Unit]) -> dict[str, int]:
        run = self.told.run
        usable = [one for one in self.told.shown if one.usable]
        of = {one.name: run(self._session(one.name)) for one in usable}
        given = {(of[one.name], arm) for one in usable for arm in one.arms}
        held = {(of[one.name], arm) for one in usable for arm in one.withheld}
        exposed = {of[one.name] for one in usable if one.arms}
        counted = {f"{name}_grades": sum(unit.bin == name for unit in units) for name in BINS}
        counted["pending_sessions"] = len(exposed - {unit.target for unit in units if unit.effective})
        counted["late_exposures"] = len(self.late)
        counted["crossover_arms"] = len(given & held)
        counted["per_arm_unexposed"] = self.unexposed
        counted["foreign_grades"] = sum(unit.bin == "credited" and self._is_foreign(unit) for unit in units)
        return {name: count for name, count in counted.items() if count}

    def _is_foreign(self, unit: Unit) -> bool:
        """Another run; where its namespace is not linked to the graded run, it cannot be told."""
        if unit.source is None or unit.unclear:
            return False
        mine = {unit.run, unit.target}
        spaces = {space_of(name) for name in self.told.known if self.told.run(name) in mine}
        return self.told.run(unit.source) not in mine and space_of(unit.source) in spaces
