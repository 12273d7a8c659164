"""Alarms: arms that only decay, rewards that never come, arms withheld and shown, grades that pay no arm."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rightful import limits, times
from rightful.log.log import Log
from rightful.policies import RULES
from rightful.projections.credit.bins_and_credits import crossed
from rightful.projections.credit.inputs import (
    AMBIGUOUS,
    BINS,
    CONFLICTING,
    CREDITED,
    IN_BALANCE,
    RETRACTED,
    balances,
    pays_producer,
)
from rightful.projections.credit.runs import quarantine_of
from rightful.projections.facts.facts import Balance
from rightful.projections.publications import in_force, publications
from rightful.reports.explain.phrases import count, listed
from rightful.reports.session_coverage import Alarm, Ground

_DAY_CHARS = len("2026-08-01")


def alarms(ground: Ground, log: Log) -> list[Alarm]:
    """Return everything that looks wrong with the arms and grades of a ledger, under the policy of the ground.

    Args:
        ground: What coverage is computed from.
        log: Where the bodies of balances are read.
    """
    return [
        *_only_decays(ground), *_shrinking(ground), *_no_rewards(ground, log), *_withheld(ground), *_uncredited(ground),
        *_doubtful(ground), *_earlier_rules(log),
    ]  # fmt: skip


def _earlier_rules(log: Log) -> Iterator[Alarm]:
    """Files whose publication in force was computed by earlier rules of attribution."""
    for target, chain in publications(log).items():
        last = next(reversed(in_force(chain)), None)
        if last is not None and last.rules < RULES:
            what = (
                f"{target} was published at #{last.position} with attribution rules {last.rules}. This version uses "
                f"rules {RULES}, and the same policy may give other numbers now. Plan its backfill again."
            )
            yield Alarm("earlier-rules", what)


def _only_decays(ground: Ground) -> Iterator[Alarm]:
    """Arms with evidence that got no credit within the last `limits.DECAYS_ALONE` decays of the log."""
    decays = sorted(_decays(ground))
    if len(decays) < limits.DECAYS_ALONE:
        return
    since = decays[-limits.DECAYS_ALONE][0]
    left = float(np.prod([gamma for _, gamma in decays[-limits.DECAYS_ALONE :]]))
    found = ground.settlement
    position = ground.facts.grades["pos"][found.unit_grade[found.credit_unit]]
    aliases = ground.policy.arm_aliases
    opened = {
        aliases.get(arm, arm)
        for balance in balances(ground.facts, ground.policy, ground.through)
        for arm, held in balance.arms.items()
        if (held.alpha, held.beta) != (1.0, 1.0)
    }
    last = dict.fromkeys(opened, 0)
    newest = np.zeros(len(found.arms), np.int64)
    np.maximum.at(newest, found.credit_arm, position)
    last |= {found.arms[arm]: int(newest[arm]) for arm in np.flatnonzero(newest).tolist()}
    pruned_at = _pruned_at(ground)
    arms = sorted(arm for arm, at in last.items() if at < since and at >= pruned_at.get(arm, 0))
    if arms:
        decay = "decays" if len(arms) == 1 else "decay"
        what = (
            f"{count(len(arms), 'arm')} only {decay}: no credit was recorded since #{since}, and "
            f"{limits.DECAYS_ALONE} decays left {left:.0%} of the evidence ({listed(arms)})."
        )
        yield Alarm("only-decays", what, arms=arms)


def _decays(ground: Ground) -> Iterator[tuple[int, float]]:
    """Yield (position, gamma) of every decay that leaves less than all, of updaters that the policy pays from."""
    facts = ground.facts
    void = _void(ground)
    for decay in facts.decayed:
        known = decay.position <= ground.through and decay.position not in void
        if known and decay.gamma < 1.0 and pays_producer(ground.policy, decay.producer):
            yield decay.position, decay.gamma
    table = facts.grades
    for row in np.flatnonzero((table["aside"] >= 0) & (table["pos"] <= ground.through)).tolist():
        gamma = facts.asides[int(table["aside"][row])].decay_rate
        producer = facts.graders.values[int(table["grader"][row])][0]
        position = int(table["pos"][row])
        if gamma is not None and gamma < 1.0 and position not in void and pays_producer(ground.policy, producer):
            yield position, gamma


def _void(ground: Ground) -> set[int]:
    """Return the positions of the rows that were withdrawn."""
    return set(quarantine_of(ground.facts, ground.through).void.tolist())


def _pruned_at(ground: Ground) -> dict[str, int]:
    """Return where an updater that the policy pays from last dropped each arm; a withdrawn prune dropped nothing."""
    aliases, void = ground.policy.arm_aliases, _void(ground)
    last: dict[str, int] = {}
    for prune in ground.facts.pruned:
        if prune.position > ground.through or prune.position in void:
            continue
        if pays_producer(ground.policy, prune.producer):
            for arm in prune.arms:
                name = aliases.get(arm, arm)
                last[name] = max(last.get(name, 0), prune.position)
    return last


def _by_source(ground: Ground) -> dict[str, list[Balance]]:
    """Return the balances of each source that counts, oldest first, without withdrawn ones."""
    void = _void(ground)
    counting = {balance.source for balance in balances(ground.facts, ground.policy, ground.through)}
    found: dict[str, list[Balance]] = {source: [] for source in sorted(counting)}
    for balance in sorted(ground.facts.balances, key=lambda balance: (balance.at_us, balance.position)):
        if balance.source in found and balance.position <= ground.through and balance.position not in void:
            found[balance.source].append(balance)
    return found


def _shrinking(ground: Ground) -> Iterator[Alarm]:
    """Arms whose evidence shrank from a source's oldest balance to its newest one without a selection."""
    for source, found in _by_source(ground).items():
        first, last = found[0].arms, found[-1].arms
        arms = sorted(
            arm for arm in first.keys() & last.keys()
            if first[arm].n == last[arm].n and last[arm].alpha + last[arm].beta < first[arm].alpha + first[arm].beta
        )  # fmt: skip
        if arms:
            what = (
                f"{source}: {count(len(arms), 'arm')} lost evidence between the balances at #{found[0].position} and "
                f"#{found[-1].position} without being selected once: only decay moves it ({listed(arms)})."
            )
            yield Alarm("only-decays", what, arms=arms)


def _no_rewards(ground: Ground, log: Log) -> Iterator[Alarm]:
    """Bandit files, and graders, with many selections and no reward above 0.5."""
    for source, found in _by_source(ground).items():
        event = next(
            iter(log.read(types=["balance.opened"], after=found[-1].position - 1, until=found[-1].position))
        ).event
        arms = list(getattr(event, "arms", {}).values())
        with_rewards = [arm for arm in arms if arm.rewards is not None]
        selections = sum(arm.n for arm in with_rewards)
        if with_rewards and not sum(arm.rewards or 0 for arm in with_rewards) and selections >= limits.REWARDLESS_COUNT:
            yield Alarm(
                "no-rewards", _rewardless(event, f"{source} (#{found[-1].position})", len(with_rewards), selections)
            )
    yield from _rewardless_graders(ground)


def _rewardless(event: object, source: str, with_rewards: int, selections: int) -> str:
    """Return the sentence; of a file whose arms do not all tell their rewards it is about those that do."""
    arms, sessions = len(getattr(event, "arms", {})), getattr(event, "sessions", None)
    counted = count(selections, "selection")
    if with_rewards < arms:
        verb = "records its rewards" if with_rewards == 1 else "record their rewards"
        return (
            f"{source} counts {counted} and total_rewards 0 for the {with_rewards:,} of {count(arms, 'arm')} "
            f"that {verb}. "
            f"Its updater never saw a reward above 0.5 for them."
        )
    of = f" in {count(sessions, 'session')}" if sessions is not None else ""
    return f"{source} counts {counted}{of} and total_rewards 0. Its updater never saw a reward above 0.5."


def _rewardless_graders(ground: Ground) -> Iterator[Alarm]:
    found, facts = ground.settlement, ground.facts
    if not len(found.credit_unit):
        return
    best = np.zeros(len(found.unit_grade))
    np.maximum.at(best, found.credit_unit, found.credit_reward)
    units = np.unique(found.credit_unit)
    grader = facts.grades["grader"][found.unit_grade[units]]
    for number in np.unique(grader).tolist():
        mine = units[grader == number]
        if len(mine) >= limits.REWARDLESS_COUNT and best[mine].max() <= 0.5:  # noqa: PLR2004 - gptme counts above it
            name = "/".join(facts.graders.values[number])
            what = f"{name}: {count(len(mine), 'credited grade')} and no reward above 0.5, so total_rewards stays 0."
            yield Alarm("no-rewards", what)


def _withheld(ground: Ground) -> Iterator[Alarm]:
    """Arms that a run was shown though another exposure of the same run says that they were withheld."""
    both = crossed(ground.inputs)
    if not len(both):
        return
    arms = ground.inputs.arms
    run, arm = both >> 32, both & 0xFFFFFFFF
    numbers, times = np.unique(arm, return_counts=True)
    order = np.argsort(-times, kind="stable")
    most = [f"{arms[numbers[at]]} in {count(int(times[at]), 'run')}" for at in order.tolist()]
    example = ground.facts.names.text(int(run[arm == numbers[order[0]]][0]))
    what = f"Withheld and shown in the same run: {listed(most)}; for example in {example}."
    yield Alarm("withheld-but-shown", what, arms=[arms[numbers[at]] for at in order.tolist()], session=example)


def _doubtful(ground: Ground) -> Iterator[Alarm]:
    """Grades in conflict or ambiguous, where they are more than `limits.DOUBTFUL_PERCENT` of all."""
    found = ground.settlement
    doubtful = np.flatnonzero(np.isin(found.unit_bin, [CONFLICTING, AMBIGUOUS]))
    total = len(found.unit_bin)
    if len(doubtful) * 100 <= total * limits.DOUBTFUL_PERCENT:
        return
    numbers, times = np.unique(found.unit_bin[doubtful], return_counts=True)
    ends = " or ".join(f"{BINS[number]} ({times[at]:,})" for at, number in enumerate(numbers.tolist()))
    newest = int(found.unit_grade[doubtful].max())
    example = ground.facts.names.text(int(ground.facts.grades["name"][newest]))
    share = f"{len(doubtful):,} of {count(total, 'grade')} ({len(doubtful) / total:.0%})"
    verb = "ends" if len(doubtful) == 1 else "end"
    what = (
        f"{share} {verb} in {ends} and {'pays' if len(doubtful) == 1 else 'pay'} no arm; for example that of {example}."
    )
    yield Alarm("doubtful-grades", what, share=len(doubtful) / total, session=example)


def _uncredited(ground: Ground) -> Iterator[Alarm]:
    """Almost no grade of the last `limits.CREDITED_DAYS` days is credited: the grades and exposures do not meet.

    A retracted grade is not to be paid, and one in a balance was paid before.
    """
    found, table = ground.settlement, ground.facts.grades
    counted = np.flatnonzero(~np.isin(found.unit_bin, [RETRACTED, IN_BALANCE]))
    if not len(counted):
        return
    at = table["at"][found.unit_grade[counted]]
    newest = int(at.max())
    recent = counted[at >= newest - limits.CREDITED_DAYS * times.DAY_US]
    credited, total = int((found.unit_bin[recent] == CREDITED).sum()), len(recent)
    few = credited == 0 if total < limits.CREDITED_COUNT else credited * 100 < total * limits.CREDITED_PERCENT
    if not few:
        return
    unpaid = recent[found.unit_bin[recent] != CREDITED]
    numbers, times_each = np.unique(found.unit_bin[unpaid], return_counts=True)
    bins = {BINS[number]: int(times_each[at]) for at, number in enumerate(numbers.tolist())}
    ends = listed([f"{name.replace('_', '-')} ({number:,})" for name, number in bins.items()], len(BINS))
    example = ground.facts.names.text(int(table["name"][found.unit_grade[unpaid].max()]))
    day = times.text_of(newest)[:_DAY_CHARS]
    what = (
        f"{credited:,} of {count(total, 'grade')} in the {limits.CREDITED_DAYS} days up to {day} "
        f"{'is' if 1 in (credited, total) else 'are'} credited; the others are {ends}. "
        f"`rightful explain {example}` names the reason."
    )
    yield Alarm("uncredited-grades", what, share=credited / total, session=example, bins=bins)
