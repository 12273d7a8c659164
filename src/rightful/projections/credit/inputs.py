"""The inputs of a settlement: the exposures and grades up to a position, as columns.

Rows of an id in conflict are marked, withdrawn ones are left out, and grades of graders that
the policy does not name never come in: they are recorded and never pay.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from fnmatch import fnmatchcase
from typing import NamedTuple

import numpy as np

from rightful.policies import Policy
from rightful.projections.credit.runs import Quarantine, Runs, quarantine_of, runs_of
from rightful.projections.facts.columns import Floats, Ints, Mask, expanded
from rightful.projections.facts.facts import DRAW, ERASED, ERASED_EXPOSURE, FILE_TIME, RETRACTION, Balance, Facts

BINS = (
    "credited", "unmatched", "empty", "ambiguous", "conflicting",
    "retracted", "late_only", "unmapped", "in_balance", "erased",
)  # fmt: skip
"""The bins; each grade stream (each grade event under `additive`) is in exactly one."""

(CREDITED, UNMATCHED, EMPTY, AMBIGUOUS, CONFLICTING, RETRACTED, LATE_ONLY, UNMAPPED, IN_BALANCE, ERASED_BIN) = range(10)

NO_BIN = -1

_NEVER_LATE = np.iinfo(np.int64).min
"""Of an exposure of which only an upper bound is known."""


class Shown(NamedTuple):
    """The exposures under consideration, one row each, in log order.

    `draw`: it only says what a draw withheld. `superseded`: a file's mention of arms for which the
    same session has times (only under the join `newest`). `late_from`: for a grade before this time
    the exposure is late; see `_late_from`.
    """

    row: Ints
    name: Ints
    session: Ints
    at: Ints
    pos: Ints
    context: Ints
    file_time: Mask
    usable: Mask
    erased: Mask
    draw: Mask
    superseded: Mask
    late_from: Ints
    start: Ints
    size: Ints


class Grades(NamedTuple):
    """The grade rows under consideration, in log order; `file_time`: its time is only an upper bound."""

    row: Ints
    name: Ints
    rank: Ints
    grader: Ints
    seq: Ints
    at: Ints
    pos: Ints
    reward: Floats
    outcome: Ints
    target: Ints
    aside: Ints
    kind: Ints
    conflicting: Mask
    file_time: Mask


class CreditInputs(NamedTuple):
    """Everything that a settlement looks at.

    Attributes:
        facts: The columns.
        through: The last position that counts.
        policy: The rule.
        runs: Which run each name belongs to.
        shown: The exposures.
        grades: The grades of paying graders.
        balances: The opening balances in force.
        canonical: For each arm, the number of the arm that it is an alias of.
        arms: The arms' names, by number.
    """

    facts: Facts
    through: int
    policy: Policy
    runs: Runs
    shown: Shown
    grades: Grades
    balances: list[Balance]
    canonical: Ints
    arms: list[str]

    @property
    def through_balance_us(self) -> int:
        """The latest time of a grade that a balance contains; microseconds since 1970, -1 without balances."""
        return max((balance.through_us for balance in self.balances), default=-1)

    def contained_until(self) -> Ints:
        """Return, for each arm, the latest time of a grade of it that a balance contains; -1 where none holds it."""
        number = {arm: place for place, arm in enumerate(self.arms)}
        until = np.full(len(self.arms), -1, np.int64)
        for balance in self.balances:
            for arm in balance_arms(balance, self.policy):
                place = number.get(arm)
                if place is not None:
                    until[place] = max(until[place], balance.through_us)
        return until


def credit_inputs(
    facts: Facts, policy: Policy, through: int, names: Iterable[int] | Mask | None, runs: Runs | None = None
) -> CreditInputs:
    """Return the inputs of a settlement at a position."""
    quarantine = quarantine_of(facts, through)
    among: Mask | None = None
    shown, grades = facts.shown.columns, facts.grades.columns
    if isinstance(names, np.ndarray):
        among = names
        shown_rows, grade_rows = np.flatnonzero(among[shown["name"]]), np.flatnonzero(among[grades["name"]])
    elif names is not None:
        chosen = list(names)
        among = np.zeros(len(facts.names), np.bool_)
        among[chosen] = True
        shown_rows, grade_rows = facts.shown_of.rows(chosen), facts.grades_of.rows(chosen)
    else:
        shown_rows, grade_rows = np.arange(len(shown["pos"])), np.arange(len(grades["pos"]))
    runs = runs or runs_of(facts, through, quarantine, among)
    if policy.without_sessions:
        gone = _gone(facts, policy, runs, through)
        shown_rows = shown_rows[~gone[shown["name"][shown_rows]]]
        grade_rows = grade_rows[~(gone[grades["name"][grade_rows]] | gone[grades["target"][grade_rows]])]
    canonical, arms = canonical_arms(facts, policy)
    return CreditInputs(
        facts,
        through,
        policy,
        runs,
        _shown(facts, shown_rows[shown["pos"][shown_rows] <= through], quarantine, through, policy, canonical),
        _grades(facts, policy, grade_rows[grades["pos"][grade_rows] <= through], quarantine, through),
        balances(facts, policy, through, quarantine),
        canonical,
        arms,
    )


def balances(facts: Facts, policy: Policy, through: int, quarantine: Quarantine | None = None) -> list[Balance]:
    """Return the opening balances in force: of each source the newest, without bytes that we published.

    A source that no pattern of the policy's `balances` fits is left out, and so is a balance whose
    file was rebuilt from the log since: its numbers are in that file no more.
    """
    if not facts.balances:
        return []
    quarantine = quarantine_of(facts, through) if quarantine is None else quarantine
    left_out = {*quarantine.unusable.tolist(), *quarantine.void.tolist()}
    ours = {sha256 for position, sha256 in facts.published if position <= through}
    retired = retired_by(facts, through, left_out)
    newest: dict[str, Balance] = {}
    for balance in facts.balances:
        if (
            balance.position > through
            or balance.position in left_out
            or balance.sha256 in ours
            or balance.id in retired
        ):
            continue
        if policy.balances is not None and not _fits(balance.source, policy.balances):
            continue
        best = newest.get(balance.source)
        if best is None or (balance.at_us, balance.position) > (best.at_us, best.position):
            newest[balance.source] = balance
    return list(newest.values())


def balance_arms(balance: Balance, policy: Policy) -> set[str]:
    """Return the arms that a balance holds, aliases resolved."""
    arms = {*balance.arms, *(arm for arm, _, _ in balance.contexts)}
    return {policy.arm_aliases.get(arm, arm) for arm in arms}


def retired_by(facts: Facts, through: int, left_out: Container[int] = ()) -> dict[str, int]:
    """Return the balances that a publication retired, by event id, with its position."""
    back = {rollback for position, rollback in facts.taken_back if position <= through and position not in left_out}
    return {
        balance: retirement.position
        for retirement in facts.retired
        if retirement.position <= through and retirement.position not in left_out and retirement.id not in back
        for balance in retirement.balances
    }


def _gone(facts: Facts, policy: Policy, runs: Runs, through: int) -> Mask:
    """Return, by name, what belongs to an excluded session: all names of its run, and their sanitised forms.

    The extra last element, never gone, is the target of a grade that has none (-1).
    """
    gone = np.zeros(len(facts.names) + 1, np.bool_)
    for session in policy.without_sessions:
        for number in facts.names.numbers_of(session, through):
            gone[:-1] |= runs.of == runs.of[number]
    if gone.any():
        own = gone.copy()
        for number in np.flatnonzero(np.array(facts.names.alias, np.bool_)).tolist():
            fitting = facts.names.fitting(number, through)
            gone[number] |= len(fitting) == 1 and own[fitting[0]]
    return gone


def canonical_arms(facts: Facts, policy: Policy) -> tuple[Ints, list[str]]:
    """Return, for each arm, the number of the arm it is an alias of; and all arms' names."""
    arms = list(facts.arms.values)
    canonical = np.arange(len(arms), dtype=np.int64)
    if not policy.arm_aliases:
        return canonical, arms
    numbers = {arm: number for number, arm in enumerate(arms)}
    for alias, arm in policy.arm_aliases.items():
        if alias in numbers:
            if arm not in numbers:
                numbers[arm] = len(arms)
                arms.append(arm)
            canonical[numbers[alias]] = numbers[arm]
    return canonical, arms


def _shown(facts: Facts, rows: Ints, quarantine: Quarantine, through: int, policy: Policy, canonical: Ints) -> Shown:
    columns = facts.shown.columns
    rows = rows[~np.isin(columns["pos"][rows], quarantine.void)]
    keys = ("pos", "flags", "name", "at", "ctx", "start", "count")
    pos, flags, name, at, context, start, count = [columns[key][rows].astype(np.int64) for key in keys]
    erased = flags & ERASED_EXPOSURE != 0
    usable = ~np.isin(pos, quarantine.unusable) & ~erased
    session = _session_of(facts, name, through)
    shown = Shown(
        rows, name, session, at, pos, context, flags & FILE_TIME != 0, usable, erased,
        flags & DRAW != 0, np.zeros(len(rows), np.bool_), at, start, count,
    )  # fmt: skip
    if policy.join == "bound":
        return shown._replace(late_from=_late_from(facts, shown, canonical))
    return shown._replace(superseded=_superseded(facts, shown, canonical))


def _late_from(facts: Facts, shown: Shown, canonical: Ints) -> Ints:
    """Return for each exposure the threshold that decides whether it is late: it is, for a grade before this time.

    It is no time of the exposure: for one that is never late it is the smallest number. An exposure stamped after
    the grade does not count; a file's time is an upper bound and never late. A state file and a trajectory log are
    two records of one exposure where they name the same arm of the same session. Its time is then known: the hook
    logs an arm when it shows it first, and the file only lists it. So the earliest of the exact times decides, also
    where the file's time (`last_pretool`) is before the grade. An exposure of several arms is late only if all of
    them are.

    The session is compared, not the run: a resumed session is shown its arms again, which is another exposure.
    """
    if not shown.file_time.any():
        return shown.at
    late_from = np.where(shown.file_time, _NEVER_LATE, shown.at)
    vague = np.flatnonzero(_superseded(facts, shown, canonical))
    if len(vague):
        exact = np.flatnonzero(shown.usable & (shown.size > 0) & ~shown.file_time)
        place, key = listed_arms(facts, shown, exact, canonical)
        order = np.lexsort((shown.at[exact[place]], key))
        keys, first = np.unique(key[order], return_index=True)
        row, wanted = listed_arms(facts, shown, vague, canonical)
        earliest = np.full(len(vague), np.iinfo(np.int64).max)
        np.minimum.at(earliest, row, shown.at[exact[place]][order][first][np.searchsorted(keys, wanted)])
        late_from[vague] = earliest
    return late_from


def _superseded(facts: Facts, shown: Shown, canonical: Ints) -> Mask:
    """Return which exposures are a file's mention of arms that the same session's own times cover.

    A state file lists every arm that its session was ever shown, at one time. An arm that a log of the
    same session lists with the time of its injection was shown then, whatever the file's time is.
    """
    sized = shown.usable & (shown.size > 0)
    vague = np.flatnonzero(sized & shown.file_time)
    mask = np.zeros(len(shown.row), np.bool_)
    if len(vague):
        exact = np.flatnonzero(sized & ~shown.file_time)
        row, key = listed_arms(facts, shown, vague, canonical)
        open_rows = row[~np.isin(key, listed_arms(facts, shown, exact, canonical)[1])]
        mask[vague] = True
        mask[vague[open_rows]] = False
    return mask


def listed_arms(facts: Facts, shown: Shown, rows: Ints, canonical: Ints) -> tuple[Ints, Ints]:
    """Return, for every arm of some exposures, the place in `rows` and (session, canonical arm) as one number."""
    place, listed = expanded(shown.start[rows], shown.size[rows])
    arm = canonical[facts.arms_shown.columns["arm"][listed]]
    return place, shown.session[rows][place] << 32 | arm


def _session_of(facts: Facts, name: Ints, through: int) -> Ints:
    """Return the names with each that was read from a sanitised form replaced by the one session it fits.

    If it fits several, or only other sanitised forms, it is its own session.
    """
    alias = np.array(facts.names.alias, np.bool_)
    session = np.arange(len(alias), dtype=np.int64)
    for number in np.unique(name[alias[name]]).tolist():
        fitting = facts.names.fitting(number, through)
        if len(fitting) == 1 and not alias[fitting[0]]:
            session[number] = fitting[0]
    return session[name]


def corrected(facts: Facts, rows: Ints, void: Container[int], through: int) -> Mask:
    """Return which rows of `facts.grades` were said again by the same grader with another time."""
    table = facts.grades
    counted = (
        correction
        for correction in facts.corrected
        if correction.position <= through and correction.position not in void
    )
    wrong = {(correction.name, correction.grader, correction.seq) for correction in counted}
    found: Mask = np.isin(table["name"][rows], [name for name, _, _ in wrong])
    keys = ("name", "grader", "seq")
    for place in np.flatnonzero(found).tolist():
        found[place] = tuple(int(table[key][rows[place]]) for key in keys) in wrong
    return found


def _grades(facts: Facts, policy: Policy, rows: Ints, quarantine: Quarantine, through: int) -> Grades:
    columns = facts.grades.columns
    if facts.corrected:
        rows = rows[~corrected(facts, rows, set(quarantine.void.tolist()), through)]
    ranks = _ranks(facts, policy)
    kind = columns["kind"][rows]
    pays = (ranks[columns["grader"][rows]] >= 0) | (kind == ERASED)  # the grader of an erased grade is erased too
    pays &= ~np.isin(columns["pos"][rows], quarantine.void)
    if policy.revision == "additive":
        pays &= kind != RETRACTION
    rows = rows[pays]
    keys = ("pos", "grader", "kind", "name", "seq", "at", "outcome", "target", "aside")
    pos, grader, kind, name, seq, at, outcome, target, aside = [columns[key][rows].astype(np.int64) for key in keys]
    conflicting = np.isin(pos, quarantine.unusable)
    reward = columns["reward"][rows]
    file_time = columns["flags"][rows] & FILE_TIME != 0
    return Grades(
        rows, name, ranks[grader], grader, seq, at, pos, reward, outcome, target, aside, kind, conflicting, file_time
    )


def _ranks(facts: Facts, policy: Policy) -> Ints:
    """Return each grader's place among those that pay, or -1: its grades are recorded and never pay."""
    ranks = np.full(max(len(facts.graders.values), 1), -1)
    for number, grader in enumerate(facts.graders.values):
        text = "/".join(grader)
        if policy.without_graders and _fits(text, policy.without_graders):
            continue
        for place, pattern in enumerate(policy.graders):
            if fnmatchcase(text, pattern):
                ranks[number] = place
                break
    return ranks


def pays_producer(policy: Policy, producer: str) -> bool:
    """Return whether a policy pays from graders of a producer; then its decays and prunes count too.

    Of a pattern `producer/rubric` the part before the last `/` is compared; the rubric does not matter, unless
    the pattern fits the producer's rubric `overall` as a whole. One that leaves that grader out decides.
    """
    grader = f"{producer}/overall"
    if _fits(grader, policy.without_graders):
        return False
    return _fits(grader, policy.graders) or any(
        fnmatchcase(producer, pattern.rpartition("/")[0]) for pattern in policy.graders
    )


def _fits(text: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(text, pattern) for pattern in patterns)
