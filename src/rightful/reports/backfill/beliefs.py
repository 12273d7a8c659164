"""The numbers that a tool's file gets: posteriors with the counts and times that tools keep beside them.

The belief is the policy's (`Posteriors`). What a tool counts beside it comes from the credits
of the same settlement: how many rewards were above 0.5, when the last one came, how many
sessions there were. The target's own opening balance counts with them, also while it is not in
the ledger yet.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Iterator
from typing import NamedTuple, cast

import msgspec
import numpy as np

from rightful import times
from rightful.envelope import Envelope
from rightful.errors import InvalidEventError
from rightful.events import BalanceOpened
from rightful.parts import BalanceArm, BalanceContext
from rightful.policies import EventDecay, Policy
from rightful.producers.fields import moment_us
from rightful.projections.exact import scaled
from rightful.projections.facts import Balance, Facts
from rightful.projections.paying import Settlement
from rightful.projections.posteriors import Posterior, Posteriors, posteriors_of
from rightful.projections.scene import CREDITED, EMPTY, balances
from rightful.projections.settle import settle
from rightful.projections.sums import Key, Sums, sums_of
from rightful.reports.backfill.tool_forms import Number, Numbers, State, context_of

_REWARDED = 0.5  # a reward above it is a success to gptme_sessions


class Beliefs(NamedTuple):
    """What a policy makes of the log at a position, the target's own balance counted.

    Attributes:
        facts: The columns, with a balance that is not in the ledger yet.
        settlement: Every unit and credit.
        posteriors: The beliefs.
        openings: The opening balances in force, whole.
        own: All balances of the file, whether they count or not, that of the bytes that stand there among them.
    """

    facts: Facts
    settlement: Settlement
    posteriors: Posteriors
    openings: list[BalanceOpened]
    own: list[Balance]


class _Stamp(NamedTuple):
    """What the fold of a balance reads of its envelope; nothing names one that is not in the ledger yet."""

    at_us: int
    id: str = ""


class Ground(NamedTuple):
    """What the beliefs of a file rest on.

    Attributes:
        facts: The columns; of the file's own balances the one that counts, at position 0.
        events: The `balance.opened` of each position.
        own: All balances of the file, that of the bytes that stand there among them.
    """

    facts: Facts
    events: dict[int, BalanceOpened]
    own: list[Balance]


def ground_of(
    facts: Facts, events: dict[int, BalanceOpened], source: str, policy: Policy,
    *, opened: BalanceOpened | None, before: int | None,
) -> Ground:  # fmt: skip
    """Return facts as they will be once the file's own balance is opened; the columns are shared and not changed.

    Which balance of the file counts has nothing to do with the position of a plan: what stands in
    the file is made of it, whenever it was opened.

    Args:
        facts: The columns.
        events: The `balance.opened` of each position.
        source: The file.
        policy: The rule.
        opened: The balance that the plan opens; None where it opens none.
        before: Balances of the file from this position on do not count; None where all do.
    """
    now, found = facts.watermark + 1, copy.copy(facts)
    found.balances = [one for one in facts.balances if one.source == source]
    if opened is not None:
        found.balance(cast("Envelope", _Stamp(times.us_of(opened.at))), opened, now)
        events = events | {now: opened}
    own = found.balances
    found.balances = [one for one in own if before is None or one.position < before]
    counts = balances(found, policy, now)
    others = [one for one in facts.balances if one.source != source]
    every = sorted([*others, *counts], key=lambda one: one.position)
    found.balances = [one._replace(id="", position=0) if one.source == source else one for one in every]
    return Ground(found, events | {0: events[counts[0].position]} if counts else events, own)


def beliefs_of(ground: Ground, policy: Policy, through: int, decay_at_us: int) -> Beliefs:
    """Return a policy's beliefs.

    Args:
        ground: What they rest on, folded through `through` at least.
        policy: The rule.
        through: The last position that counts.
        decay_at_us: The time of a decay; microseconds since 1970, UTC.
    """
    settlement = settle(ground.facts, policy, through)
    posteriors = posteriors_of(ground.facts, settlement, policy, through, decay_at_us)
    openings = [ground.events[one.position] for one in balances(ground.facts, policy, through)]
    return Beliefs(ground.facts, settlement, posteriors, openings, ground.own)


class _Kept:
    """What is counted of one arm, or arm in a context, beside its belief."""

    __slots__ = ("latest_us", "rewards", "text")

    def __init__(self) -> None:
        self.rewards, self.latest_us, self.text = 0, -1, ""

    def add(self, rewards: int, at_us: int, text: str) -> None:
        self.rewards += rewards
        if at_us > self.latest_us:
            self.latest_us, self.text = at_us, text


def numbers_of(found: Beliefs, takes: Callable[[str], bool], state: State) -> Numbers:
    """Return what is written of some arms.

    No time goes back behind one that stands there, or that a balance of the file has, whatever becomes of
    the old numbers: of two states of a file that are opened, the one with the later time counts.

    Args:
        found: The beliefs.
        takes: Says which arms belong into the file.
        state: What the file holds.
    """
    kept, stood = _counted(found), _times_of(state)
    opened = [(one.at_us, _text(one.at_us)) for one in found.own]
    _, latest = max([*stood.values(), _latest(found), *opened], key=lambda one: one[0])
    created = state.top.get("created")
    created = created if isinstance(created, str) else _text(_first_us(found))
    latest = latest or created

    def number(key: Key, one: Posterior) -> Number:
        beside = kept.get(key) or _marginal(kept, key)
        at_us, text = stood.get(key, (-1, ""))
        text = text if at_us >= beside.latest_us else beside.text
        return Number(one.alpha, one.beta, one.n, beside.rewards, text or beside.text or latest)

    of_arms = {arm: number((arm, None), one) for arm, one in found.posteriors.arms.items() if takes(arm)}
    of_contexts: dict[str, dict[str, Number]] = {}
    for one in found.posteriors.contexts:
        if takes(one.arm):  # a file can hold an arm in a context alone
            inside = of_contexts.setdefault(one.arm, {})
            inside[json.dumps(list(one.context))] = number((one.arm, one.context), one)
    bins = found.settlement.unit_bin
    sessions = int(np.isin(bins, (CREDITED, EMPTY)).sum()) + sum(one.sessions or 0 for one in found.openings)
    return Numbers(of_arms, of_contexts, sessions, created, latest)


def _times_of(state: State) -> dict[Key | None, tuple[int, str]]:
    """Return the times that a file says of each arm, and arm in a context, and under None of itself."""
    said: list[tuple[Key | None, object]] = [(None, state.top.get("last_updated"))]
    said += [((arm, None), entry.get("last_updated")) for arm, entry in state.arms.items()]
    for arm, inside in state.contexts.items():
        said += [((arm, context_of(key)), entry.get("last_updated")) for key, entry in inside.items()]
    read = ((key, text, _us(text)) for key, text in said if isinstance(text, str))
    return {key: (at_us, text) for key, text, at_us in read if at_us is not None}


def _counted(found: Beliefs) -> dict[Key, _Kept]:
    kept: dict[Key, _Kept] = {}
    for opened in found.openings:
        for key, one in _entries(opened, found.posteriors.policy):
            text = one.last_updated or ""
            at_us = _us(text)
            kept.setdefault(key, _Kept()).add(one.rewards or 0, -1 if at_us is None else at_us, text)
    dropped = _dropped(found)
    for key, reward, position, at_us in _credits(found):
        if position > dropped.get(key, 0):
            kept.setdefault(key, _Kept()).add(int(reward > _REWARDED), at_us, _text(at_us))
    return kept


def _entries(opened: BalanceOpened, policy: Policy) -> Iterator[tuple[Key, BalanceArm | BalanceContext]]:
    """Yield what a balance holds of each arm, and arm in a context, aliases resolved."""
    canonical = policy.arm_aliases.get
    for arm, held in opened.arms.items():
        yield (canonical(arm, arm), None), held
    for one in opened.contexts:
        yield (canonical(one.arm, one.arm), one.context), one


def _credits(found: Beliefs) -> Iterator[tuple[Key, float, int, int]]:
    """Yield each credit's arm, and arm in its context, with the reward, the grade's position and its time."""
    facts, settled = found.facts, found.settlement
    grade = settled.unit_grade[settled.credit_unit]
    rows = zip(
        settled.credit_arm.tolist(), settled.credit_context.tolist(), settled.credit_reward.tolist(),
        facts.grades["pos"][grade].tolist(), facts.grades["at"][grade].tolist(), strict=True,
    )  # fmt: skip
    contexts = facts.contexts.values
    for arm, context, reward, position, at_us in rows:
        name = settled.arms[arm]
        yield (name, None), reward, position, at_us
        if context >= 0:
            yield (name, contexts[context]), reward, position, at_us


def _dropped(found: Beliefs) -> dict[Key, int]:
    """Return where another updater last dropped an arm, whose counts then began anew."""
    policy, through = found.posteriors.policy, found.posteriors.through
    canonical, dropped = policy.arm_aliases.get, dict[Key, int]()
    if isinstance(policy.decay, EventDecay):
        for one in found.facts.pruned:
            keys: list[Key] = [(canonical(arm, arm), None) for arm in one.arms]
            keys += [(canonical(arm, arm), context) for arm, context in one.contexts]
            if one.position <= through:
                dropped |= dict.fromkeys(keys, one.position)
    return dropped


def _marginal(kept: dict[Key, _Kept], key: Key) -> _Kept:
    """Return what is counted of one dimension alone: of all contexts that have that value in it."""
    found = _Kept()
    arm, context = key
    for (other, whole), one in kept.items():
        if other == arm and whole is not None and context is not None and context[0] in whole:
            found.add(one.rewards, one.latest_us, one.text)
    return found


def _latest(found: Beliefs) -> tuple[int, str]:
    """Return when the last session was counted: by a grade, or by the state that a balance was opened of."""
    settled = found.settlement
    counted = settled.unit_grade[np.isin(settled.unit_bin, (CREDITED, EMPTY))]
    latest = [int(found.facts.grades["at"][counted].max())] if len(counted) else []
    latest += [times.us_of(one.through) for one in found.openings if one.through is not None]
    return (max(latest), _text(max(latest))) if latest else (-1, "")


def _first_us(found: Beliefs) -> int:
    """Return when the first thing happened that the log has, whatever the order in which it came to the ledger."""
    facts, through = found.facts, found.posteriors.through
    first = [table["at"][table["pos"] <= through] for table in (facts.shown, facts.grades)]
    return min((int(one.min()) for one in first if len(one)), default=0)


def until_of(found: Beliefs) -> str | None:
    """Return the time of the latest grade that was looked at, or that an opening balance contains."""
    seen = found.facts.grades["at"][found.settlement.unit_grade]
    latest = [int(seen.max())] if len(seen) else []
    latest += [times.us_of(one.through) for one in found.openings if one.through is not None]
    return times.text_of(max(latest)) if latest else None


def _text(at_us: int) -> str:
    """Return a time as the tools write it: ISO 8601 with `+00:00`."""
    return times.at_of(at_us).isoformat()


def _us(text: str) -> int | None:
    try:
        return moment_us(text, "$")[0] if text else None
    except InvalidEventError:
        return None


def digest_of(found: Beliefs) -> str:
    """Return SHA-256 of the sufficient statistics.

    One compact JSON array of [arm, context or null, n, mass, success], by arm, an arm before its
    contexts. Mass and success are totals above the prior as whole numbers of 2**-1126 in
    hexadecimal (`projections.exact`), opening balances included.
    """
    statistics = _statistics(found).of
    rows = [[arm, context, n, f"{mass:x}", f"{won:x}"] for arm, context, n, mass, won in Sums(statistics).rows()]
    return hashlib.sha256(msgspec.json.encode(rows)).hexdigest()


def _statistics(found: Beliefs) -> Sums:
    policy = found.posteriors.policy
    if policy.arithmetic == "sequential":  # floats in log order are the statistics there
        states: dict[Key, Posterior] = {(arm, None): one for arm, one in found.posteriors.arms.items()}
        states |= {(one.arm, one.context): one for one in found.posteriors.contexts}
        start = scaled(policy.prior[0])
        return Sums({key: (one.n, scaled(one.mass), scaled(one.alpha) - start) for key, one in states.items()})
    sums = sums_of(found.facts, found.settlement, policy, found.posteriors.decay_at_us)
    one = scaled(1.0)
    for opened in found.openings:
        for key, held in _entries(opened, policy):
            won, lost = scaled(held.alpha) - one, scaled(held.beta) - one
            sums.add(Sums({key: (held.n, won + lost, won)}))
    return sums
