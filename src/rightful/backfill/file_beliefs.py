"""The numbers written to a tool's file: posteriors with the counts and times that tools store.

The belief is the policy's (`Posteriors`). The other counts of a tool come from the credits
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
from rightful.encoding.envelope import Envelope
from rightful.errors import InvalidEventError
from rightful.events import BalanceOpened
from rightful.field_types import BalanceArm, BalanceContext
from rightful.importers.bandits.bandit_file import Number, Numbers, State, context_of
from rightful.importers.shared.foreign_fields import moment_us
from rightful.policies import Policy
from rightful.projections.arithmetic.exact import scaled
from rightful.projections.arithmetic.first_use import first_uses
from rightful.projections.arithmetic.sums import Key, Sums, sums_of
from rightful.projections.arithmetic.tallies import Tally, tallies
from rightful.projections.credit.bins_and_credits import Settlement
from rightful.projections.credit.inputs import CREDITED, EMPTY, balances
from rightful.projections.credit.posteriors import Posterior, Posteriors, posteriors_of
from rightful.projections.credit.settle import SettlementTrace, trace_settlement
from rightful.projections.facts.columns import Ints
from rightful.projections.facts.facts import Balance, Facts


class Beliefs(NamedTuple):
    """What a policy makes of the log at a position, the target's own balance counted.

    Attributes:
        facts: The columns, with a balance that is not in the ledger yet.
        made: The settlement, with what it was made from.
        posteriors: The beliefs.
        openings: The opening balances in force, whole.
        own: All balances of the file, whether they count or not, including that of the present bytes.
    """

    facts: Facts
    made: SettlementTrace
    posteriors: Posteriors
    openings: list[BalanceOpened]
    own: list[Balance]

    @property
    def settlement(self) -> Settlement:
        """Every unit and credit."""
        return self.made.settlement


class _Stamp(NamedTuple):
    """What the fold of a balance reads of its envelope; nothing names one that is not in the ledger yet."""

    at_us: int
    id: str = ""


class BeliefInputs(NamedTuple):
    """What the beliefs of a file rest on.

    Attributes:
        facts: The columns; of the file's own balances the one that counts, at position 0.
        events: The `balance.opened` of each position.
        own: All balances of the file, including that of the present bytes.
    """

    facts: Facts
    events: dict[int, BalanceOpened]
    own: list[Balance]


def belief_inputs(
    facts: Facts, events: dict[int, BalanceOpened], source: str, policy: Policy,
    *, opened: BalanceOpened | None, before: int | None,
) -> BeliefInputs:  # fmt: skip
    """Return facts as they will be once the file's own balance is opened; the columns are shared and not changed.

    Which balance of the file counts does not depend on the position of a plan: the file contains it, whenever it was
    opened.

    Args:
        facts: The columns.
        events: The `balance.opened` of each position.
        source: The file.
        policy: The rule.
        opened: The balance that the plan opens; None where it opens none.
        before: Balances of the file from this position on do not count; None where all do.
    """
    now, found = facts.watermark + 1, copy.copy(facts)
    found.balances = [balance for balance in facts.balances if balance.source == source]
    if opened is not None:
        found.balance(cast("Envelope", _Stamp(times.us_of(opened.at))), opened, now)
        events = events | {now: opened}
    own = found.balances
    found.balances = [balance for balance in own if before is None or balance.position < before]
    counts = balances(found, policy, now)
    others = [balance for balance in facts.balances if balance.source != source]
    every = sorted([*others, *counts], key=lambda balance: balance.position)
    found.balances = [balance._replace(id="", position=0) if balance.source == source else balance for balance in every]
    return BeliefInputs(found, events | {0: events[counts[0].position]} if counts else events, own)


def beliefs_of(ground: BeliefInputs, policy: Policy, through: int, decay_at_us: int) -> Beliefs:
    """Return a policy's beliefs through a position, decayed as of a time (microseconds since 1970, UTC)."""
    made = trace_settlement(ground.facts, policy, through)
    posteriors = posteriors_of(ground.facts, made.settlement, policy, through, decay_at_us)
    openings = [ground.events[balance.position] for balance in balances(ground.facts, policy, through)]
    return Beliefs(ground.facts, made, posteriors, openings, ground.own)


def numbers_of(found: Beliefs, takes: Callable[[str], bool], state: State) -> Numbers:
    """Return what is written of some arms, in the order in which an updater would have made them.

    No time becomes earlier than that of the present file or of a balance of it, whatever becomes of
    the old numbers: of two states of a file that are opened, the one with the later time counts.
    """
    counted = tallies(found.facts, found.settlement, found.posteriors.policy, found.posteriors.through)
    file_times, balance_times = _file_times(state), _balance_times(found)
    is_session = np.isin(found.settlement.unit_bin, (CREDITED, EMPTY))
    latest_us = _latest_us(found, found.settlement.unit_grade[is_session])
    opened = [
        (at_us, _iso(at_us)) for at_us in (latest_us, *(balance.at_us for balance in found.own)) if at_us is not None
    ]
    _, latest = max([*file_times.values(), *opened], key=lambda moment: moment[0], default=(-1, ""))
    created = state.top.get("created")
    created = created if isinstance(created, str) else _iso(_first_us(found))
    latest = latest or created

    def number(key: Key, belief: Posterior) -> Number:
        tally = counted.get(key) or _marginal(counted, key)
        last_us = -1 if tally.last_us is None else tally.last_us
        at_us, text = file_times.get(key, (-1, ""))
        if at_us < last_us:
            text = balance_times.get((key, last_us)) or _iso(last_us)
        return Number(belief.alpha, belief.beta, belief.n, tally.rewards, text or latest)

    place = _first_use_order(found, counted)
    arms = sorted(found.posteriors.arms.items(), key=lambda item: place((item[0], None)))
    of_arms = {arm: number((arm, None), belief) for arm, belief in arms if takes(arm)}
    of_contexts: dict[str, dict[str, Number]] = {}
    for belief in sorted(found.posteriors.contexts, key=lambda belief: place((belief.arm, belief.context))):
        if takes(belief.arm):  # a file can hold an arm in a context alone
            inside = of_contexts.setdefault(belief.arm, {})
            inside[json.dumps(list(belief.context))] = number((belief.arm, belief.context), belief)
    sessions = int(is_session.sum()) + sum(balance.sessions or 0 for balance in found.openings)
    return Numbers(of_arms, of_contexts, sessions, created, latest)


def _first_use_order(found: Beliefs, counted: dict[Key, Tally]) -> Callable[[Key], tuple[object, ...]]:
    """Return what sorts arms, and arms in contexts, by their first use.

    What an opening balance holds was there before, by name, since a balance has no order. A replay in
    the order of the log has the log's; else time decides, whatever the order of the log.
    """
    if found.posteriors.policy.arithmetic == "sequential":
        replayed = {key: number for number, key in enumerate(counted)}
        return lambda key: (replayed.get(key, len(replayed)), repr(key))
    opened = {key for balance in found.openings for key, _ in _balance_entries(balance, found.posteriors.policy)}
    uses = first_uses(found.made)

    def place(key: Key) -> tuple[object, ...]:
        if key in opened:
            return (0, repr(key))
        return (1, uses[key], repr(key)) if key in uses else (2, repr(key))

    return place


def _file_times(state: State) -> dict[Key | None, tuple[int, str]]:
    """Return the times that a file says of each arm, and arm in a context, and under None of itself."""
    said: list[tuple[Key | None, object]] = [(None, state.top.get("last_updated"))]
    said += [((arm, None), entry.get("last_updated")) for arm, entry in state.arms.items()]
    for arm, inside in state.contexts.items():
        said += [((arm, context_of(key)), entry.get("last_updated")) for key, entry in inside.items()]
    read = ((key, text, _moment_us(text)) for key, text in said if isinstance(text, str))
    return {key: (at_us, text) for key, text, at_us in read if at_us is not None}


def _balance_times(found: Beliefs) -> dict[tuple[Key, int], str]:
    """Return the times of the balances' arms as their files wrote them, by what they mean."""
    said = (
        (key, entry.last_updated, _moment_us(entry.last_updated or ""))
        for opened in found.openings
        for key, entry in _balance_entries(opened, found.posteriors.policy)
    )
    return {(key, at_us): text for key, text, at_us in said if text and at_us is not None}


def _balance_entries(opened: BalanceOpened, policy: Policy) -> Iterator[tuple[Key, BalanceArm | BalanceContext]]:
    """Yield what a balance holds of each arm, and arm in a context, aliases resolved."""
    canonical = policy.arm_aliases.get
    for arm, held in opened.arms.items():
        yield (canonical(arm, arm), None), held
    for entry in opened.contexts:
        yield (canonical(entry.arm, entry.arm), entry.context), entry


def _marginal(counted: dict[Key, Tally], key: Key) -> Tally:
    """Return what is counted of one dimension alone: of all contexts that have that value in it."""
    arm, context = key
    of = [
        tally
        for (other, whole), tally in counted.items()
        if other == arm and whole is not None and context is not None and context[0] in whole
    ]
    latest = max((tally.last_us for tally in of if tally.last_us is not None), default=None)
    return Tally(sum(tally.n for tally in of), sum(tally.rewards for tally in of), latest, 0)


def _latest_us(found: Beliefs, grades: Ints) -> int | None:
    """Return the time of the latest of some grades, or that an opening balance contains."""
    latest = [int(found.facts.grades["at"][grades].max())] if len(grades) else []
    latest += [times.us_of(balance.through) for balance in found.openings if balance.through is not None]
    return max(latest, default=None)


def _first_us(found: Beliefs) -> int:
    """Return when the first thing happened that the log has, whatever the order in which it came to the ledger."""
    facts, through = found.facts, found.posteriors.through
    first = [table["at"][table["pos"] <= through] for table in (facts.shown, facts.grades)]
    return min((int(column.min()) for column in first if len(column)), default=0)


def until_of(found: Beliefs) -> str | None:
    """Return the time of the latest grade that was looked at, or that an opening balance contains."""
    latest_us = _latest_us(found, found.settlement.unit_grade)
    return None if latest_us is None else times.text_of(latest_us)


def _iso(at_us: int) -> str:
    """Return a time as the tools write it: ISO 8601 with `+00:00`."""
    return times.at_of(at_us).isoformat()


def _moment_us(text: str) -> int | None:
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
        states: dict[Key, Posterior] = {(arm, None): belief for arm, belief in found.posteriors.arms.items()}
        states |= {(belief.arm, belief.context): belief for belief in found.posteriors.contexts}
        start = scaled(policy.prior[0])
        return Sums(
            {key: (belief.n, scaled(belief.mass), scaled(belief.alpha) - start) for key, belief in states.items()}
        )
    sums = sums_of(found.facts, found.settlement, policy, found.posteriors.decay_at_us)
    unit = scaled(1.0)
    for opened in found.openings:
        for key, held in _balance_entries(opened, policy):
            won, lost = scaled(held.alpha) - unit, scaled(held.beta) - unit
            sums.add({key: (held.n, won + lost, won)})
    return sums
