"""How much of a newest-file audit the evidence decides: bounds over every order that it allows.

The historical updater paid the newest state file. A replay of it needs the order of what was
written, and the evidence does not always give that:

| evidence | when it was written |
|---|---|
| an exposure with a time of its own | at that time; a whole second may be any time within that second |
| a file's time (`at_basis: file`) | at that time or earlier: a clone, a copy or an rsync makes it later |
| the same, of a session that was graded later | perhaps again, up to the grade: a prompt leaves `last_pretool` |
| the same, of a session without a grade | perhaps again, at any time: nothing says when it ended |
| a file of a session whose start is known | not before that start |
| a file that was rewritten after a grade | before the grade, after it, or both |
| a graded session without an exposure, where not every session has a log | unknown: its file may be deleted |

So each write is an interval of time. A session can be the newest at a grade if one of its writes
can be at or after the latest of the writes that surely came before the grade. Equal times order nothing.
Each grade is judged by itself, so the sums can be wider than any single order of all writes gives.
A log that gives a time for each injection is taken as complete, and its file as present.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rightful.projections.credit.bins_and_credits import Settlement
from rightful.projections.credit.inputs import (
    CONFLICTING,
    ERASED_BIN,
    IN_BALANCE,
    RETRACTED,
    UNMAPPED,
    CreditInputs,
    canonical_arms,
    listed_arms,
)
from rightful.projections.credit.joins import is_distinguishable
from rightful.projections.credit.settle import SettlementTrace
from rightful.projections.facts.columns import Ints, Mask
from rightful.projections.facts.facts import Facts
from rightful.projections.facts.session_names import NO_TIME

_SECOND_US = 1_000_000
_EVER, _NEVER = -(2**62), 2**62
"""Times before and after all others."""

_NOTHING = _EVER - 1
_NOT_IN_PLAY = (CONFLICTING, RETRACTED, UNMAPPED, IN_BALANCE, ERASED_BIN)
"""Bins that no order of the writes changes."""


class Outcomes(NamedTuple):
    """What can have become of each unit under the newest-file rule.

    Attributes:
        own: It can have paid its own run.
        foreign: It can have paid another run.
        unpaid: It can have paid no run.
        untimed: The sessions whose files have no exact times and can be the newest at a unit whose outcome is open;
            their numbers, oldest first.
        unlogged: Those of them without any exposure with an exact time.
        undecided: The graded sessions of the units whose outcome is open; their numbers, oldest first.
        decided_until: The position before the untimed sessions' files, if all grades up to it are earlier ones.
    """

    own: Mask
    foreign: Mask
    unpaid: Mask
    untimed: tuple[int, ...] = ()
    unlogged: tuple[int, ...] = ()
    undecided: tuple[int, ...] = ()
    decided_until: int | None = None


def bounds_of(found: Outcomes) -> dict[str, Any]:
    """Return counts over every order that the evidence allows, (lower, upper), under their names in an audit."""
    own, foreign, unpaid = found[:3]
    surely_foreign = int((foreign & ~own & ~unpaid).sum())
    surely_own = int((own & ~foreign & ~unpaid).sum())
    can_be_foreign, can_be_own = int(foreign.sum()), int(own.sum())
    low, high = surely_foreign + can_be_own, can_be_foreign + surely_own
    rate = None
    if low or high:
        lowest = surely_foreign / low if low else 1.0
        rate = (lowest, can_be_foreign / high if high else 0.0)
    paid = own | foreign
    return {
        "foreign_grades_bounds": (surely_foreign, can_be_foreign),
        "policy_credited_grades_bounds": (int((paid & ~unpaid).sum()), int(paid.sum())),
        "foreign_credit_rate_bounds": rate,
    }


def open_sessions(facts: Facts, found: Outcomes) -> dict[str, Any]:
    """Return the sessions that make a count a range, under their names in an audit."""
    sessions = {"untimed": found.untimed, "unlogged": found.unlogged, "undecided": found.undecided}
    return {f"{which}_sessions": tuple(map(facts.names.text, numbers)) for which, numbers in sessions.items()}


class _Writes(NamedTuple):
    """Writes of state files, each at some time from `low` to `high`; `sure`: it happened at all."""

    low: Ints
    high: Ints
    sure: Mask
    session: Ints
    by_file: Mask


def possible_outcomes(found: SettlementTrace) -> Outcomes:
    """Return what can have become of each grade under the policy, which joins by the newest file."""
    inputs, settlement = found.inputs, found.settlement
    writes = _writes(inputs, settlement)
    low, high = _grade_times(inputs, found)
    before = _latest_before(writes, low)
    own, foreign, unclear = _candidates(found, writes, before, high)
    in_play = ~np.isin(settlement.unit_bin, _NOT_IN_PLAY)
    outcomes = Outcomes((own | unclear) & in_play, (foreign | unclear) & in_play, (before == _NOTHING) | ~in_play)
    is_open = outcomes.own.astype(np.int64) + outcomes.foreign + outcomes.unpaid > 1
    untimed = _untimed_sessions(writes, before[is_open], high[is_open])
    is_logged = np.isin(inputs.runs.of[untimed], inputs.runs.of[_with_exact_times(inputs)])
    undecided = np.unique(inputs.grades.name[found.effective_grades.grade[is_open]])
    return outcomes._replace(
        untimed=tuple(untimed.tolist()),
        unlogged=tuple(untimed[~is_logged].tolist()),
        undecided=tuple(undecided.tolist()),
        decided_until=_decided_until(found, untimed),
    )


def _decided_until(found: SettlementTrace, untimed: Ints) -> int | None:
    """Return the position before the sessions' files; None unless grades of other runs alone precede it in time."""
    shown, grades = found.inputs.shown, found.inputs.grades
    files = shown.file_time & np.isin(shown.session, untimed)
    rows = found.effective_grades.grade
    first = shown.pos[files].min(initial=_NEVER)
    earlier = rows[grades.pos[rows] < first]
    of = found.inputs.runs.of
    if not len(earlier) or first == _NEVER or np.isin(of[grades.name[earlier]], of[untimed]).any():
        return None
    return int(first) - 1 if grades.at[earlier].max() < shown.at[files].min() else None


def _untimed_sessions(writes: _Writes, before: Ints, grade: Ints) -> Ints:
    """Return the sessions that have a file which can be the newest at one of the grades."""
    by_file = np.flatnonzero(writes.by_file)
    begun = np.searchsorted(np.sort(grade), writes.low[by_file], "left")  # grades that are earlier than the write
    ended = np.searchsorted(np.sort(before), writes.high[by_file], "right")  # grades that it does not precede
    return np.unique(writes.session[by_file[ended > begun]])


def _with_exact_times(inputs: CreditInputs) -> Ints:
    """Return the session of each exposure with an exact time."""
    shown = inputs.shown
    return shown.session[shown.usable & ~shown.file_time & ~shown.draw]


def _writes(inputs: CreditInputs, settlement: Settlement) -> _Writes:
    """Return every write that made or rewrote a file which lists an arm."""
    shown = inputs.shown
    rows = np.flatnonzero(shown.usable & (shown.size > 0) & ~shown.superseded)
    rows = rows[~_has_finer_time(inputs, rows)]
    at, session, by_file = shown.at[rows], shown.session[rows], shown.file_time[rows]
    starts = _session_starts(inputs)
    low = np.where(by_file, np.minimum(starts[session], at), at)
    whole = (at % _SECOND_US == 0) & ~by_file
    high = np.where(whole, at + _SECOND_US - 1, at)
    lost = _runs_with_lost_files(inputs, settlement, rows[by_file])
    ends = _session_ends(inputs)[session]
    later = np.flatnonzero(by_file & (ends > at))
    return _Writes(
        np.concatenate([low, at[later], starts[lost]]),
        np.concatenate([high, ends[later], np.full(len(lost), _NEVER)]),
        np.concatenate([np.ones(len(rows), np.bool_), np.zeros(len(later) + len(lost), np.bool_)]),
        np.concatenate([session, session[later], lost]),
        np.concatenate([by_file, by_file[later], np.zeros(len(lost), np.bool_)]),
    )


def _session_ends(inputs: CreditInputs) -> Ints:
    """Return the time of the last grade of each name's run, by which it had ended; `_NEVER` without one.

    The time of a state file can be the `last_pretool` in it. A prompt rewrites the file after that and leaves
    `last_pretool`. So the time is not an upper bound of the last write, and a session without a grade has no known end.
    """
    grades = inputs.grades
    latest = np.full(len(inputs.runs.of), _EVER)
    np.maximum.at(latest, inputs.runs.of[grades.name], grades.at)
    return np.where(latest == _EVER, _NEVER, latest)[inputs.runs.of]


def _has_finer_time(inputs: CreditInputs, rows: Ints) -> Mask:
    """Return which exposures have a whole second for arms that the same session has a finer time of, in that second."""
    at = inputs.shown.at[rows]
    is_whole = (at % _SECOND_US == 0) & ~inputs.shown.file_time[rows]
    whole, fine = rows[is_whole], rows[~is_whole & ~inputs.shown.file_time[rows]]
    mask = np.zeros(len(rows), np.bool_)
    if len(whole) and len(fine):
        canonical, _ = canonical_arms(inputs.facts, inputs.policy)
        listed = (listed_arms(inputs.facts, inputs.shown, some, canonical) for some in (whole, fine))
        place, keys = zip(*listed, strict=True)
        _, number = np.unique(np.concatenate(keys), return_inverse=True)
        seconds = (inputs.shown.at[np.concatenate([whole[place[0]], fine[place[1]]])] - at.min()) // _SECOND_US
        number = number.astype(np.int64) << 32 | seconds
        mask[is_whole] = True
        left = place[0][~np.isin(number[: len(keys[0])], number[len(keys[0]) :])]
        mask[np.flatnonzero(is_whole)[left]] = False
    return mask


def _session_starts(inputs: CreditInputs) -> Ints:
    """Return when the run of each name started, at the latest; `_EVER` where that is not known."""
    names, runs = inputs.facts.names, inputs.runs
    checkable = np.array(names.started_us, np.int64)
    earliest = np.full(len(checkable), NO_TIME)
    np.minimum.at(earliest, runs.of, np.where(np.array(names.started, np.int64) <= inputs.through, checkable, NO_TIME))
    found = earliest[runs.of]
    return np.where((found == NO_TIME) | runs.ambiguous, _EVER, found)


def _runs_with_lost_files(inputs: CreditInputs, settlement: Settlement, by_file: Ints) -> Ints:
    """Return the graded runs whose files may be gone: they have no exposure, and not every session has a log."""
    shown, timed = inputs.shown, _with_exact_times(inputs)
    if len(timed) and np.isin(shown.session[by_file], timed).all():
        return np.empty(0, np.int64)
    exposed = inputs.runs.of[shown.session[shown.usable & ~shown.draw]]
    return np.setdiff1d(settlement.unit_run, exposed)


def _grade_times(inputs: CreditInputs, found: SettlementTrace) -> tuple[Ints, Ints]:
    """Return the earliest and the latest time of each unit's grade."""
    rows = found.effective_grades.grade
    at, by_file = inputs.grades.at[rows], inputs.grades.file_time[rows]
    low = np.where(by_file, np.minimum(_session_starts(inputs)[inputs.grades.name[rows]], at), at)
    return low, np.where((at % _SECOND_US == 0) & ~by_file, at + _SECOND_US - 1, at)


def _latest_before(writes: _Writes, grade: Ints) -> Ints:
    """Return, for each grade, the time that the newest write before it has at least; `_NOTHING` without one."""
    sure = np.flatnonzero(writes.sure)
    order = sure[np.argsort(writes.high[sure], kind="stable")]
    latest = np.append(np.int64(_NOTHING), np.maximum.accumulate(writes.low[order]))
    return latest[np.searchsorted(writes.high[order], grade, "left")]


def _candidates(found: SettlementTrace, writes: _Writes, before: Ints, grade: Ints) -> tuple[Mask, Mask, Mask]:
    """Return, for each unit, whether its own run can be the newest, another run, or a run whose identity is unknown."""
    inputs, effective_grades, targets = found.inputs, found.effective_grades, found.targets
    runs = inputs.runs.of[writes.session].astype(np.int64)
    space = inputs.facts.names.spaces()[writes.session]
    own, foreign, unclear = (np.zeros(len(grade), np.bool_) for _ in range(3))
    for number in np.unique(space).tolist():
        mine = space == number
        within = _NewestCounts(writes.low[mine], writes.high[mine], runs[mine], before, grade)
        of_own = within.of_run(effective_grades.run) + np.where(
            targets.run == effective_grades.run, 0, within.of_run(targets.run)
        )
        others = within.all() > of_own
        checkable = is_distinguishable(inputs, effective_grades, targets, np.full(len(grade), number, np.int64))
        own |= of_own > 0
        foreign |= others & checkable
        unclear |= others & ~checkable
    return own, foreign, unclear


class _NewestCounts:
    """Counts the writes that can be the newest at each grade: from `before` on, up to the grade.

    Such a write begins by the grade and does not end before `before`. No write ends before `before`
    and begins after the grade, so the count is a difference of two searches.
    """

    def __init__(self, low: Ints, high: Ints, run: Ints, before: Ints, grade: Ints) -> None:
        self._size = len(low) + 1
        self._begun = np.searchsorted(np.sort(low), grade, "right")
        self._ended = np.searchsorted(np.sort(high), before, "left")
        self._by_low, self._by_high = (self._ranked(times, run) for times in (low, high))

    def _ranked(self, times: Ints, run: Ints) -> Ints:
        """Return run and rank by time of each write as one number, sorted."""
        rank = np.empty(len(times), np.int64)
        rank[np.argsort(times, kind="stable")] = np.arange(len(times))
        return np.sort(run * self._size + rank)

    def all(self) -> Ints:
        return self._begun - self._ended

    def of_run(self, run: Ints) -> Ints:
        base = run * self._size
        counts = [
            np.searchsorted(ranked, base + rank, "left") - np.searchsorted(ranked, base, "left")
            for ranked, rank in ((self._by_low, self._begun), (self._by_high, self._ended))
        ]
        return counts[0] - counts[1]
