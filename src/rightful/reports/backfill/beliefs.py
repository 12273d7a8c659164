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
from collections.abc import Iterable, Iterator
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
from rightful.projections.facts import Facts
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
    """

    facts: Facts
    settlement: Settlement
    posteriors: Posteriors
    openings: list[BalanceOpened]


class _Stamp(NamedTuple):
    """What the fold of a balance reads of its envelope; nothing names one that is not in the ledger yet."""

    at_us: int
    id: str = ""


def with_opening(facts: Facts, opened: BalanceOpened) -> Facts:
    """Return facts as they will be once a balance is opened; the columns are shared and not changed."""
    at_us = times.us_of(opened.at)
    found = copy.copy(facts)
    found.balances = [held for held in facts.balances if held.source != opened.source or held.at_us > at_us]
    found.balance(cast("Envelope", _Stamp(at_us)), opened, 0)
    return found


def beliefs_of(
    facts: Facts, policy: Policy, through: int, decay_at_us: int, events: dict[int, BalanceOpened]
) -> Beliefs:
    """Return a policy's beliefs.

    Args:
        facts: The columns, folded through `through` at least.
        policy: The rule.
        through: The last position that counts.
        decay_at_us: The time of a decay; microseconds since 1970, UTC.
        events: The `balance.opened` of each position; 0 for the one that is not in the ledger yet.
    """
    settlement = settle(facts, policy, through)
    posteriors = posteriors_of(facts, settlement, policy, through, decay_at_us)
    openings = [events[one.position] for one in balances(facts, policy, through)]
    return Beliefs(facts, settlement, posteriors, openings)


class _Kept:
    """What is counted of one arm, or arm in a context, beside its belief."""

    __slots__ = ("latest_us", "rewards", "text")

    def __init__(self) -> None:
        self.rewards, self.latest_us, self.text = 0, -1, ""

    def add(self, rewards: int, at_us: int, text: str) -> None:
        self.rewards += rewards
        if at_us > self.latest_us:
            self.latest_us, self.text = at_us, text


def numbers_of(found: Beliefs, arms: Iterable[str], state: State, source: str, *, created: str | None) -> Numbers:
    """Return what is written of some arms.

    No time goes back behind one that stands there, or that a balance of the file has, whatever becomes of
    the old numbers: of two states of a file that are opened, the one with the later time counts.

    Args:
        found: The beliefs.
        arms: The arms that belong into the file.
        state: What the file holds.
        source: The file, as its balances name it.
        created: When the state began, as the file has it; the first row's time has to be given otherwise.
    """
    kept, chosen, stood = _counted(found), set(arms), _times_of(state)
    opened = [(one.at_us, _text(one.at_us)) for one in found.facts.balances if one.source == source]
    _, latest = max([*stood.values(), _latest(found), *opened], key=lambda one: one[0])
    created = created or latest
    latest = latest or created

    def number(key: Key, one: Posterior) -> Number:
        beside = kept.get(key) or _marginal(kept, key)
        at_us, text = stood.get(key, (-1, ""))
        text = text if at_us >= beside.latest_us else beside.text
        return Number(one.alpha, one.beta, one.n, beside.rewards, text or beside.text or latest)

    of_arms = {arm: number((arm, None), one) for arm, one in found.posteriors.arms.items() if arm in chosen}
    of_contexts: dict[str, dict[str, Number]] = {}
    for one in found.posteriors.contexts:
        if one.arm in chosen:
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
