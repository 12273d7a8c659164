"""Projected: the facts kept up with the log, and answers under any policy and at any position.

The answer under the default join without decay is kept as exact sums. New rows change the
answers of few names: those are settled in the old and the new state, and the difference is
added. The result is the same number as a replay from the first row, because the sums are exact.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import ParamSpec, TypeVar

from msgspec import structs

from rightful import times
from rightful.errors import RightfulError, UsageError
from rightful.events import EventWithdrawn
from rightful.log.log import Log
from rightful.log.rows import recorded
from rightful.log.withdrawals import WITHDRAWAL
from rightful.policies import Policy
from rightful.projections.arithmetic.sums import Sums, sums_of
from rightful.projections.cached_answer import POLICY as DEFAULT_POLICY
from rightful.projections.cached_answer import CachedAnswer, cached_answer_of
from rightful.projections.credit.bins_and_credits import Settlement
from rightful.projections.credit.posteriors import Beliefs, Posteriors, beliefs_of, posteriors_of, sorted_posteriors
from rightful.projections.credit.runs import Runs, quarantine_of, runs_of
from rightful.projections.credit.settle import SettlementTrace, adds_up, counters_of, settle, tally, trace_settlement
from rightful.projections.facts import withdrawn_mentions
from rightful.projections.facts.facts import Facts
from rightful.projections.facts.fold import WITHDRAWABLE, fold
from rightful.projections.facts.log_clock import latest_at_us, position_at
from rightful.projections.store import Store
from rightful.storage.critical_sections import run_locked

P = ParamSpec("P")
T = TypeVar("T")

CACHED_POLICIES = 8
"""Policies whose answer is kept up with new rows."""

MANY_NAMES = 20_000
"""Beyond so many touched names a settlement of all is cheaper than two of the touched ones."""

SAVE_ROWS = 20_000
"""Rows folded since the last save before the projection is written again; it can be rebuilt."""

Progress = Callable[[int, int], None]
"""Told the position reached and the position aimed at."""


class PolicySums:
    """What one policy's credits add up to, kept up with the facts.

    Attributes:
        policy: The rule; joined `bound` and without decay, so that it can be kept up.
        through: The position it holds for.
        sums: The statistics.
        counters: How many grades ended in each bin, and what else was counted.
        beliefs: What was answered last; few of them change with a few new rows.
    """

    def __init__(self, policy: Policy, through: int, sums: Sums, counters: dict[str, int]) -> None:
        self.policy = policy
        self.through = through
        self.sums = sums
        self.counters = counters
        self.beliefs: Beliefs = {}

    def shift(self, facts: Facts, settlement: Settlement, sign: int) -> None:
        """Add a settlement of a closed set of names, or take it away."""
        self.sums.add(sums_of(facts, settlement, self.policy, 0).of, sign)
        for name, count in counters_of(settlement).items():
            self.counters[name] = self.counters.get(name, 0) + sign * count


class Projected:
    """The projections of one ledger.

    An exception inside a method, at whatever line a signal handler raises it, may leave a part half changed. The
    next call then loads and folds all again. Errors of ours come from places where nothing is half changed.

    Args:
        log: Where the rows are read.
        store: Where the projections are kept between processes; None keeps them in memory only.
    """

    def __init__(self, log: Log, store: Store | None = None) -> None:
        self.log = log
        self.store = store
        self.facts = Facts()
        self._policy_sums: dict[str, PolicySums] = {}
        self._cached: CachedAnswer | None = None
        self._runs: tuple[int, Runs] | None = None
        self._saved = 0
        self._lock = threading.RLock()
        self._loaded = store is None
        self._is_whole = True  # not while a method is at work, nor after an exception interrupted it

    def _locked(self, work: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Return what the work returns, with the lock held and from whole facts."""
        return run_locked(self._lock, partial(self._from_whole, work, *args, **options))

    def _from_whole(self, work: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        is_torn, self._is_whole = not self._is_whole, False
        if is_torn:
            self._start_again()
        if not self._loaded:
            self._load()
        facts = self.facts
        try:
            if is_torn:
                self._catch_up()
            result = work(*args, **options)
        except RightfulError:
            self._is_whole = self.facts is facts
            raise
        self._is_whole = self.facts is facts  # else a signal handler that interrupted this read it again
        return result

    def behind(self) -> int:
        """Return how many rows of the log are not folded yet."""
        return self._locked(lambda: self.log.head() - self.facts.watermark)

    def catch_up(self, progress: Progress | None = None) -> Facts:
        """Fold what was added to the log since the last time, and return the facts.

        Raises:
            UpgradeError: A row was written by a newer program. What stands before it is kept.
            DamagedRowError: A row does not fit its checksum.
        """
        return self._locked(self._catch_up, progress)

    def _catch_up(self, progress: Progress | None = None) -> Facts:
        facts, head = self.facts, self.log.head()
        if facts.watermark >= head:
            return facts
        try:
            self._fold(head, progress)
        except RightfulError:
            self._policy_sums.clear()  # which names the rows so far have touched is not known any more
            raise
        if self.store is not None and facts.watermark - self._saved >= SAVE_ROWS:
            self._save()
        return facts

    def _fold(self, head: int, progress: Progress | None) -> None:
        facts = self.facts
        facts.touched, facts.all_touched = (set() if self._policy_sums else None), False
        before = facts.watermark
        self._await(before, head)
        for page in self.log.pages(before, head):
            fold(facts, page)
            if progress is not None:
                progress(facts.watermark, head)
        withdrawn_mentions.find(self.log, facts)
        self._shift(before)

    def _await(self, before: int, head: int) -> None:
        """Find what new withdrawals name: rows that are folded already are looked up, others are met by the fold."""
        rows = (row for page in self.log.of_type(WITHDRAWAL, before, head) for row in page)
        new = (recorded(row, self.log.path).event for row in rows)
        ids = {event.id for event in new if isinstance(event, EventWithdrawn)} - self.facts.awaited
        self.facts.awaited |= ids
        for event_id in sorted(ids) if before else ():
            for row in self.log.of_id(event_id):
                if row.position <= before and row.envelope.type != WITHDRAWAL:
                    is_read = row.envelope.type in WITHDRAWABLE
                    self.facts.note_withdrawn_row(row.envelope, row.position, is_read=is_read)

    def _start_again(self) -> None:
        self.facts, self._saved, self._loaded = Facts(), 0, self.store is None
        self._policy_sums.clear()
        self._cached = self._runs = None

    def _load(self) -> None:
        self._loaded = True
        assert self.store is not None
        if (stored := self.store.load(self.log.head(), self._anchor)) is not None:
            self.facts, self._cached = stored
            self._saved = self.facts.watermark
            policy_sums = PolicySums(DEFAULT_POLICY, self._saved, self._cached.sums.copy(), dict(self._cached.counters))
            self._policy_sums[DEFAULT_POLICY.hash] = policy_sums

    def _anchor(self, position: int) -> str:
        """Return what tells the log up to a position from any other: the salted commitment of its last row."""
        return next(iter(self.log.scan(position - 1, position)))[0].envelope.commitment

    def _shift(self, before: int) -> None:
        """Update the kept-up sums with the rows after a position."""
        touched, self.facts.touched = self.facts.touched, None
        if touched is None:
            return
        if self.facts.all_touched or len(touched) > MANY_NAMES:
            self._policy_sums.clear()
            return
        closed = self.facts.names.closure(touched)
        for policy_sums in self._policy_sums.values():
            policy_sums.shift(self.facts, settle(self.facts, policy_sums.policy, before, closed), -1)
            policy_sums.shift(self.facts, settle(self.facts, policy_sums.policy, self.facts.watermark, closed), 1)
            policy_sums.through = self.facts.watermark

    def save(self) -> bool | None:
        """Write the projections to their store, with their watermark, in one transaction.

        Returns:
            Whether they are stored now; None when there was nothing new to store.
        """
        return run_locked(self._lock, self._save_whole)

    def _save_whole(self) -> bool | None:
        return self._from_whole(self._save) if self._is_whole and self.facts.watermark > self._saved else None

    def _save(self) -> bool | None:
        if self.store is None or not self.store.writable or self.facts.watermark <= self._saved:
            return None
        policy_sums = self._policy_sums.get(DEFAULT_POLICY.hash)
        known = policy_sums is not None and policy_sums.through == self.facts.watermark
        answer = (
            cached_answer_of(self.facts, policy_sums.sums, policy_sums.counters)
            if policy_sums and known
            else cached_answer_of(self.facts)
        )
        saved = self.store.save(self.facts, answer, self._anchor(self.facts.watermark))
        self._saved = self.facts.watermark if saved else self._saved
        return saved

    def prefix(self, as_of: int | str | datetime | None) -> int:
        """Return the position that `as_of` means: a position, or the last one recorded by a time.

        Raises:
            UsageError: It lies beyond the log.
        """
        return self._locked(self._prefix, as_of)

    def _prefix(self, as_of: int | str | datetime | None) -> int:
        facts = self._catch_up()
        if as_of is None:
            return facts.watermark
        if isinstance(as_of, int) and not isinstance(as_of, bool):
            if not 0 <= as_of <= facts.watermark:
                raise UsageError(
                    f"position {as_of} is not in this ledger, which ends at {facts.watermark}; name one of it"
                )
            return as_of
        return position_at(self.log, facts.watermark, times.us_from(as_of))

    def settle(self, policy: Policy, through: int) -> Settlement:
        """Return what a policy makes of the log up to a position."""
        return self._locked(self._settle, policy, through)

    def _settle(self, policy: Policy, through: int) -> Settlement:
        answer = self._cached
        if (
            answer is not None
            and answer.watermark == through
            and answer.settlement is not None
            and policy == DEFAULT_POLICY
        ):
            return answer.settlement
        return settle(self.facts, policy, through, runs=self._runs_at(through))

    def trace_settlement(self, policy: Policy, through: int) -> SettlementTrace:
        """Return what `settle` does, with what it was made from."""
        return self._locked(lambda: trace_settlement(self.facts, policy, through, runs=self._runs_at(through)))

    def _runs_at(self, through: int) -> Runs | None:
        """Return the runs as of the end of the log, computed once; None for a position before it."""
        if through != self.facts.watermark:
            return None
        if self._cached is not None and self._cached.watermark == through:
            return self._cached.runs
        if self._runs is None or self._runs[0] != through:
            self._runs = through, runs_of(self.facts, through, quarantine_of(self.facts, through))
        return self._runs[1]

    def posteriors(
        self,
        policy: Policy,
        *,
        as_of: int | str | datetime | None = None,
        decay_at: datetime | str | float | None = None,
    ) -> Posteriors:
        """Return the beliefs under a policy.

        Args:
            policy: The rule.
            as_of: A position, or a time: the longest prefix recorded by then. All of the log if None.
            decay_at: The time of the decay: a datetime, RFC 3339 text, or seconds since 1970. The
                largest event time up to the position if None.
        """
        return self._locked(self._posteriors, policy, as_of, decay_at)

    def _posteriors(
        self, policy: Policy, as_of: int | str | datetime | None, decay_at: datetime | str | float | None
    ) -> Posteriors:
        through = self._prefix(as_of)
        facts = self.facts
        at_us = latest_at_us(self.log, facts, through) if decay_at is None else times.us_from(decay_at)
        if not adds_up(policy):
            settlement = settle(facts, policy, through, runs=self._runs_at(through))
            return posteriors_of(facts, settlement, policy, through, at_us)
        if policy.decay is None and through == facts.watermark:
            policy_sums = self._kept_up_sums(policy)
            sums, counters, known = policy_sums.sums, policy_sums.counters, policy_sums.beliefs
        else:
            sums, counters = tally(facts, policy, through, at_us, self._runs_at(through))
            known = {}
        return sorted_posteriors(beliefs_of(facts, sums, policy, through, known), policy, through, at_us, counters)

    def _kept_up_sums(self, policy: Policy) -> PolicySums:
        """Return the kept-up answer of a policy; of the oldest ones only the last few are kept."""
        key = policy.hash
        policy_sums = self._policy_sums.pop(key, None)
        if policy_sums is None:
            if policy.without_sessions:
                policy_sums = self._without(policy)
            else:
                through = self.facts.watermark
                sums, counters = tally(self.facts, policy, through, 0, self._runs_at(through))
                policy_sums = PolicySums(policy, through, sums, counters)
            self.facts.names.index()
        self._policy_sums[key] = policy_sums
        while len(self._policy_sums) > CACHED_POLICIES:
            del self._policy_sums[next(iter(self._policy_sums))]
        return policy_sums

    def _without(self, policy: Policy) -> PolicySums:
        """Return the answer of a policy that leaves sessions out, from that of the policy which does not.

        Only what those sessions can influence is settled, with them and without them.
        """
        facts, whole = self.facts, structs.replace(policy, without_sessions=())
        base = self._kept_up_sums(whole)
        numbers = [
            number for session in policy.without_sessions for number in facts.names.numbers_of(session, base.through)
        ]
        closed = facts.names.closure(numbers)
        policy_sums = PolicySums(policy, base.through, base.sums.copy(), dict(base.counters))
        policy_sums.beliefs = base.beliefs.copy()  # the same prior and balances: few of them change
        if closed:
            policy_sums.shift(facts, settle(facts, whole, base.through, closed), -1)
            policy_sums.shift(facts, settle(facts, policy, base.through, closed), 1)
        return policy_sums
