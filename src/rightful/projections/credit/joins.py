"""Joins: which exposures a graded session reaches, under the bound rule and under the newest-file rule."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rightful.projections.credit.effective_grades import EffectiveGrades
from rightful.projections.credit.inputs import AMBIGUOUS, NO_BIN, UNMATCHED, CreditInputs, Shown
from rightful.projections.facts.columns import Ints, Mask

OWN, FOREIGN, UNVERIFIABLE = 0, 1, 2


class Reach(NamedTuple):
    """The exposures sorted by run and name, so that those of either are one range.

    Attributes:
        order: Rows of `CreditInputs.shown`, by (run, name, position).
        run: The run of each, in that order.
        key: (run, name) of each as one number, in that order.
    """

    order: Ints
    run: Ints
    key: Ints


class Targets(NamedTuple):
    """What each grade reaches by the bound rule.

    Attributes:
        reach: The sorted exposures.
        low: Start of its range in `reach.order`.
        high: End of its range; equal to `low` where it reaches nothing.
        run: The run it reaches, or whose exposures are missing.
        bin: AMBIGUOUS or UNMATCHED, or NO_BIN if it reaches exposures.
        unclear: The graded session itself is unknown: several names fit, or its links disagree.
    """

    reach: Reach
    low: Ints
    high: Ints
    run: Ints
    bin: Ints
    unclear: Mask

    def of(self, kept: Ints) -> Targets:
        """Return the targets of some of the grades."""
        if len(kept) == len(self.low):
            return self
        low, high, run, bins = (column[kept] for column in (self.low, self.high, self.run, self.bin))
        return Targets(self.reach, low, high, run, bins, self.unclear[kept])


class Sources(NamedTuple):
    """What each unit pays by the newest-file rule.

    Attributes:
        order: Rows of `CreditInputs.shown`, by session.
        low: Start of the range of the newest session's exposures in `order`.
        high: End of that range.
        name: The newest session's name, or -1.
        bin: AMBIGUOUS if two have the same time, UNMATCHED if there is none, else NO_BIN.
        kind: OWN, FOREIGN or UNVERIFIABLE.
    """

    order: Ints
    low: Ints
    high: Ints
    name: Ints
    bin: Ints
    kind: Ints


def _reach(inputs: CreditInputs) -> Reach:
    run = inputs.runs.of[inputs.shown.name].astype(np.int64)
    key = run << 32 | inputs.shown.name
    order = np.argsort(key, kind="stable")
    return Reach(order, run[order], key[order])


def _range_of_name(reach: Reach, inputs: CreditInputs, name: Ints) -> tuple[Ints, Ints]:
    key = inputs.runs.of[name].astype(np.int64) << 32 | name
    return np.searchsorted(reach.key, key, "left"), np.searchsorted(reach.key, key, "right")


def bound_targets(inputs: CreditInputs, grade: Ints) -> Targets:
    """Return what each grade reaches: the session it names, else its own run, else a unique alias.

    There is no other fallback. A name read from a sanitised form never matches exactly, and no
    alias goes through a link.
    """
    reach = _reach(inputs)
    own = inputs.grades.name[grade]
    named = inputs.grades.target[grade]
    explicit = named >= 0
    wanted = np.where(explicit, named, own)
    run = inputs.runs.of[wanted].astype(np.int64)
    low, high = np.searchsorted(reach.run, run, "left"), np.searchsorted(reach.run, run, "right")
    if explicit.any():
        low[explicit], high[explicit] = _range_of_name(reach, inputs, named[explicit])
    aliased = np.array(inputs.facts.names.alias, np.bool_)[wanted] & ~explicit
    high = np.where(aliased, low, high)
    unclear = np.where(explicit, inputs.runs.reused[wanted], inputs.runs.ambiguous[own])
    high = np.where(unclear, low, high)
    bins = np.full(len(own), NO_BIN, np.int64)
    bins[high == low] = UNMATCHED
    bins[unclear] = AMBIGUOUS
    targets = Targets(reach, low, high, run, bins, unclear)
    _resolve_aliases(inputs, wanted, targets)
    return targets


def _resolve_aliases(inputs: CreditInputs, wanted: Ints, targets: Targets) -> None:
    names = inputs.facts.names
    missing = np.flatnonzero(targets.bin == UNMATCHED)
    if not len(missing):
        return
    for unit in missing[names.may_fit(wanted[missing])].tolist():
        fitting = names.fitting(int(wanted[unit]), inputs.through)
        if len(fitting) > 1:
            targets.bin[unit], targets.unclear[unit] = AMBIGUOUS, True
        elif fitting:
            low, high = _range_of_name(targets.reach, inputs, np.array(fitting))
            if high[0] > low[0]:
                targets.low[unit], targets.high[unit], targets.bin[unit] = low[0], high[0], NO_BIN
                found = targets.reach.order[low[0]]
                targets.run[unit] = inputs.runs.of[inputs.shown.session[found]]


def newest_sources(inputs: CreditInputs, effective_grades: EffectiveGrades, targets: Targets) -> Sources:
    """Return whose exposures each unit pays if the newest session with exposures is taken.

    The historical updater picked the newest file that listed anything. Replayed as of the
    grade's time: among the sessions that had shown an arm by then, the one whose newest exposure
    is latest; two with the same time are ambiguous rather than guessed. A draw that withheld arms
    did not rewrite the file. A file that is named by a sanitised form is that of the one session
    it fits; its time counts for the arms that no exposure of that session gives a time for.
    """
    shown = inputs.shown
    at = inputs.grades.at[effective_grades.grade]
    rows = _timeline(inputs)
    times = shown.at[rows]
    last = np.searchsorted(times, at, "right") - 1
    found = last >= 0
    name = np.where(found, shown.session[rows[last]] if len(rows) else NO_BIN, NO_BIN)
    bins = np.where(found, NO_BIN, UNMATCHED)
    if len(rows):
        bins[found & _tied(shown, rows, times)[last]] = AMBIGUOUS
    order = np.argsort(shown.session, kind="stable")
    low, high = (np.searchsorted(shown.session[order], name, side) for side in ("left", "right"))
    none = bins != NO_BIN
    high = np.where(none, low, high)
    return Sources(
        order, low, high, np.where(none, NO_BIN, name), bins, _kinds(inputs, effective_grades, targets, name)
    )


def _timeline(inputs: CreditInputs) -> Ints:
    """Return the exposures by time, from the moment when their session had shown an arm."""
    shown = inputs.shown
    rewrote = shown.usable & ~shown.superseded & ~shown.draw
    first = np.full(len(inputs.facts.names), np.iinfo(np.int64).max)
    listing = rewrote & (shown.size > 0)
    np.minimum.at(first, shown.session[listing], shown.at[listing])
    rows = np.flatnonzero(rewrote & (shown.at >= first[shown.session]))
    return rows[np.lexsort((shown.pos[rows], shown.at[rows]))]


def _tied(shown: Shown, rows: Ints, times: Ints) -> Mask:
    """Return, for each row of the timeline, whether two sessions share its time."""
    name = shown.session[rows]
    group = np.cumsum(np.append(0, times[1:] != times[:-1]))
    starts = np.append(0, np.flatnonzero(times[1:] != times[:-1]) + 1)
    mixed = np.maximum.reduceat(name, starts) != np.minimum.reduceat(name, starts)
    tied: Mask = mixed[group]
    return tied


def _kinds(inputs: CreditInputs, effective_grades: EffectiveGrades, targets: Targets, source: Ints) -> Ints:
    """Return the kind of each source: own run, another run, or unverifiable.

    A session of a namespace to which the graded run has no link may be the same run under
    another name: that is unverifiable, not foreign.
    """
    paid = np.maximum(source, 0)
    run = inputs.runs.of[paid].astype(np.int64)
    own = (run == effective_grades.run) | (run == targets.run)
    checkable = is_distinguishable(inputs, effective_grades, targets, inputs.facts.names.spaces()[paid])
    kind = np.where(own, OWN, np.where(checkable, FOREIGN, UNVERIFIABLE))
    return np.where(source < 0, NO_BIN, kind)


def is_distinguishable(inputs: CreditInputs, effective_grades: EffectiveGrades, targets: Targets, space: Ints) -> Mask:
    """Return whether a session of a namespace that is not of each unit's run is surely another run."""
    of = inputs.facts.names.spaces()
    known = np.flatnonzero(inputs.facts.known_names(inputs.through))
    spaces = np.unique(inputs.runs.of[known].astype(np.int64) << 32 | of[known])
    shared = np.isin(effective_grades.run << 32 | space, spaces) | np.isin(targets.run << 32 | space, spaces)
    checkable: Mask = shared & ~targets.unclear
    return checkable
