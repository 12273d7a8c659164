"""What a plan says of the new bytes: which arms change, what is refused and why, what there is to know."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rightful import times
from rightful.backfill.file_beliefs import Beliefs
from rightful.backfill.plan_document import ArmChange, Plan, Rule, Uncredited
from rightful.backfill.target_file import FileState
from rightful.events import BalanceOpened
from rightful.importers.bandits.bandit_file import Format, State
from rightful.importers.bandits.bandit_formats import FORMATS
from rightful.policies import TimeDecay
from rightful.projections.credit.inputs import BINS
from rightful.reports.aliases.arm_aliases import same_lesson
from rightful.reports.explain.phrases import count

UNCREDITED_SHARE = 0.1
"""Part of the grades that may end in another bin than `HARMLESS_BINS` before a plan is refused."""

HARMLESS_BINS = ("credited", "empty", "retracted")
"""The bins that say nothing against writing a posterior."""

WOULD_GO = "would go"
"""In a refusal: numbers of the file that are not in the new file."""

NO_ARM = "the file would have no arm"
"""In a refusal: neither the file nor the log has an arm for this reader."""

OTHER_TOOL = "an arm of pm-dispatch"
"""In a refusal: an arm belongs into the file of another tool."""

_EXAMPLES = 3


class Notes(NamedTuple):
    """The text fields of a plan; they are those of `Plan`."""

    counts: bool
    refusals: tuple[str, ...]
    notes: tuple[str, ...]
    changes: tuple[ArmChange, ...]
    unchanged: int


def notes_of(form: Format, real: str, state: State, new: State, found: Beliefs, rule: Rule, seen: FileState) -> Notes:
    """Return the refusals, notes and changes of a plan, from the old and the new content of the file."""
    changes, unchanged = _changes(state, new, found)
    old = _old_numbers(real, found, rule, seen)
    refusals = (
        *_nothing_to_write(form, state, found),
        *_refusals(form, state, new, found, rule),
        *_contexts_removed(state, new, rule),
        *_later_state_returns(old),
    )
    folder = Path(real).parent
    made = () if folder.is_dir() else (f"the folder {folder} is new, and apply creates it",)
    lost = [f"dropped: {'; '.join(lost)}"] if (lost := list(_dropped_keys(state, new))) else []
    decayed = [f"decayed as of {times.text_of(rule.decay_at_us)}"] if isinstance(rule.policy.decay, TimeDecay) else []
    notes = (*made, *_notes_on_arms(form, real, found, state, new), *lost, *old.notes, *decayed)
    return Notes(old.counts, refusals, notes, changes, unchanged)


def advice_for(plan: Plan) -> str:
    """Return the advice for a refused plan."""
    if no_arm := [refusal for refusal in plan.refusals if NO_ARM in refusal]:
        reader = "Pass the --reader of these arms, or import" if "another reader" in no_arm[0] else "Import"
        return f"{reader} sessions with exposures and grades of arms for {plan.reader}, and plan again."
    if any(OTHER_TOOL in refusal for refusal in plan.refusals):
        return "Pass the --reader of these arms, or use a separate file for each reader. With --force they go."
    other = sum(grades.count for name, grades in plan.uncredited.items() if name not in HARMLESS_BINS)
    go = any(WOULD_GO in refusal for refusal in plan.refusals)
    stay = ", or plan without --rebuild" if plan.asked_old == "rebuilt" else ""
    keep = f"To keep the arms, import the sessions in which they were shown and graded{stay}."
    if other - plan.in_balance > UNCREDITED_SHARE * plan.grades or other <= UNCREDITED_SHARE * plan.grades:
        if not go:
            return "Fix these, or plan with --force."
        return f"{keep} {'Fix the other reasons too. ' if len(plan.refusals) > 1 else ''}With --force the arms go."
    more = f" {keep}" if go else " Fix the other reasons too." if len(plan.refusals) > 1 else ""
    drop = ", or with --drop-updates, which drops the tool's updates since the last publication"
    return (
        f"Plan with --rebuild, which takes those grades from the log{drop if plan.updated else ''}; with --force "
        f"if the old numbers are correct.{more}"
    )


def _changes(state: State, new: State, found: Beliefs) -> tuple[tuple[ArmChange, ...], int]:
    prior = found.posteriors.policy.prior
    rows, unchanged = [], 0
    for arm in state.arms | new.arms:
        old_pair, new_pair = state.numbers(arm), new.numbers(arm)
        if old_pair == new_pair:
            unchanged += 1
            continue
        delta = _belief_mean(new_pair or prior) - _belief_mean(old_pair or prior)
        belief = found.posteriors.arms.get(arm)
        n = belief.n if belief is not None and new_pair is not None else 0
        rows.append(ArmChange(arm, old_pair, new_pair, delta, n))
    return tuple(sorted(rows, key=lambda change: (-abs(change.delta_mean), change.arm))), unchanged


def _belief_mean(pair: tuple[float, float]) -> float:
    return pair[0] / (pair[0] + pair[1])


def uncredited_of(found: Beliefs) -> dict[str, Uncredited]:
    """Return the grades that credit no arm, by bin, with a few of their sessions."""
    settled, facts = found.settlement, found.facts
    out: dict[str, Uncredited] = {}
    for number, name in enumerate(BINS[1:], 1):
        units = np.flatnonzero(settled.unit_bin == number)
        if len(units):
            rows = settled.unit_grade[units[:_EXAMPLES]]
            sessions = tuple(facts.names.texts[at].lstrip("\0") for at in facts.grades["name"][rows].tolist())
            out[name.replace("_", "-")] = Uncredited(len(units), sessions)
    return out


def _nothing_to_write(form: Format, state: State, found: Beliefs) -> Iterator[str]:
    """Refuse to write a file without arms: the log credits none, or only those of another reader's file."""
    arms = list(found.posteriors.arms)
    if state.arms or any(map(form.takes, arms)):
        return
    if arms:
        fit = ", ".join(other.name for other in FORMATS.values() if any(map(other.takes, arms)))
        yield (
            f"{NO_ARM}: the log credits no arm that {form.name} takes ({form.asks_for}); its arms, such as {arms[0]}, "
            f"belong into the file of another reader ({fit})"
        )
    else:
        why = "credits no arm" if len(found.settlement.unit_bin) else "holds no grade to pay from"
        yield f"{NO_ARM}: the log {why}"


def _refusals(form: Format, state: State, new: State, found: Beliefs, rule: Rule) -> Iterator[str]:
    if mixed := list(form.mix(state)):
        yield (
            f"the file mixes forms: {_few(mixed)}; {form.name} cannot read such a file, "
            f"and with --force that part is dropped"
        )
    total = len(found.settlement.unit_bin)
    yield from list(_all_removed(form, state, new, rule, grades=total)) or _unknown_removed(state, new, found, rule)
    other = {name: grades.count for name, grades in uncredited_of(found).items() if name not in HARMLESS_BINS}
    if sum(other.values()) > UNCREDITED_SHARE * total:
        bins = ", ".join(f"{count:,} {name}" for name, count in other.items())
        share = f"{sum(other.values()):,} of {total:,} grades"
        yield f"{share} would not be counted ({bins}); at most {UNCREDITED_SHARE:.0%} may be"


def _all_removed(form: Format, state: State, new: State, rule: Rule, *, grades: int) -> Iterator[str]:
    held = [arm for arm in state.arms if state.numbers(arm) is not None]
    if not held or any(new.numbers(name) is not None for arm in held for name in _names(arm, rule)):
        return
    left = [arm for arm in new.arms if new.numbers(arm) is not None]
    stay = "; without --rebuild they stay" if rule.old == "rebuilt" and all(map(form.takes, held)) else ""
    which = f"{len(held):,}, such as {held[0]}"
    if left:
        yield f"every arm of the file {WOULD_GO} ({which}), and only other arms are added; with --force they go{stay}"
    else:
        why = f"credits no arm that {form.name} takes ({form.asks_for})" if grades else "holds no grade to pay from"
        yield (
            f"every arm of the file {WOULD_GO} ({which}), and none would be left: the log {why}; with --force they "
            f"go{stay}"
        )


def _names(arm: str, rule: Rule) -> tuple[str, str]:
    """Return an arm and the arm that the policy's aliases make of it; renamed, it is not lost."""
    return arm, rule.policy.arm_aliases.get(arm, arm)


def _unknown_removed(state: State, new: State, found: Beliefs, rule: Rule) -> Iterator[str]:
    """Refuse a rebuild that would remove half of the tool's own arms because their past is not in the ledger.

    The arms that only our publications added say nothing about the tool's past, so they are not counted.
    """
    if rule.old != "rebuilt":
        return
    own = _own_arms(state, found, rule.first_published)
    known = _known_arms(found, rule)
    gone = [arm for arm in own if new.numbers(arm) is None and rule.policy.arm_aliases.get(arm, arm) not in known]
    if gone and 2 * len(gone) >= len(own):
        yield (
            f"{len(gone):,} of {count(len(own), 'arm')} that the tool wrote {WOULD_GO} ({file_names(gone)}), and the "
            f"ledger has no exposure or grade of {'it' if len(gone) == 1 else 'them'}"
        )


def _own_arms(state: State, found: Beliefs, first_published: int | None) -> list[str]:
    """Return the arms of the file that it had before the first publication to it."""
    held = [arm for arm in state.arms if state.numbers(arm) is not None]
    if first_published is None:
        return held
    before = [balance for balance in found.own if balance.position < first_published]
    opened = {arm for balance in before or found.own for arm in balance.arms}
    return [arm for arm in held if arm in opened]


def _known_arms(found: Beliefs, rule: Rule) -> set[str]:
    """Return the arms that an exposure lists or a grade rewards, aliases resolved."""
    facts, canonical = found.facts, rule.policy.arm_aliases.get
    listed = facts.arms_shown["arm"][: int(facts.shown["count"][facts.shown["pos"] <= rule.through].sum())]
    arms = {facts.arms.values[number] for number in np.unique(listed).tolist()}
    asides = facts.grades["aside"][(facts.grades["pos"] <= rule.through) & (facts.grades["aside"] >= 0)]
    arms |= {arm for at in asides.tolist() for arm in facts.asides[at].per_arm or ()}
    return {canonical(arm, arm) for arm in arms}


def removed_arms(changes: Sequence[ArmChange]) -> str:
    """Return how many arms go, and a few of their short names; an empty text if none goes."""
    gone = [change.arm for change in changes if change.new is None]
    return f"{count(len(gone), 'arm')} removed: {file_names(gone)}" if gone else ""


def file_names(arms: Sequence[str]) -> str:
    """Return the file names of a few arms."""
    names = [arm.rstrip("/").rpartition("/")[2] or arm for arm in arms[:_EXAMPLES]]
    more = f" and {len(arms) - _EXAMPLES:,} more" if len(arms) > _EXAMPLES else ""
    return f"{', '.join(names)}{more}"


def _few(texts: Sequence[str]) -> str:
    more = f", and {len(texts) - _EXAMPLES:,} more" if len(texts) > _EXAMPLES else ""
    return f"{'; '.join(texts[:_EXAMPLES])}{more}"


def _contexts_removed(state: State, new: State, rule: Rule) -> Iterator[str]:
    held = [(arm, key) for arm, inside in state.contexts.items() for key in inside]
    kept = {(arm, key) for arm, inside in new.contexts.items() for key in inside}
    gone = [f"{key} of {arm}" for arm, key in held if kept.isdisjoint((name, key) for name in _names(arm, rule))]
    if gone:
        stay = "; without --rebuild they stay" if rule.old == "rebuilt" else ""
        which = f"{len(gone):,} of {len(held):,}, such as {gone[0]}"
        yield (
            f"contexts of the file would be dropped ({which}): the log credits none of them; with --force they go{stay}"
        )


class _OldNumbers(NamedTuple):
    counts: bool
    later: BalanceOpened | None
    notes: tuple[str, ...]


def _old_numbers(real: str, found: Beliefs, rule: Rule, seen: FileState) -> _OldNumbers:
    held = {balance.sha256 for balance in found.own}
    counted = {balance.sha256: balance for balance in found.openings if balance.source == real}
    passed_over = rule.old == "counted" and seen.sha256 in held - counted.keys()
    later = next(iter(counted.values()), None) if passed_over else None
    notes = tuple(_notes_on_old(found, rule, seen, passed_over=passed_over, later=later))
    return _OldNumbers(not passed_over, later, notes)


def _later_state_returns(old: _OldNumbers) -> Iterator[str]:
    if old.later is not None:
        yield (
            f"the present numbers do not count, since a later state of this file was opened "
            f"({old.later.at.isoformat(' ', 'seconds')}); with --force that state comes back, and with "
            f"--rebuild neither counts"
        )


def _notes_on_arms(form: Format, real: str, found: Beliefs, state: State, new: State) -> Iterator[str]:
    arms = found.posteriors.arms
    if foreign := [arm for arm in arms if not form.takes(arm)]:
        yield f"arms of another tool are not written: {len(foreign):,}, such as {foreign[0]}"
    written = [arm for arm in arms if form.takes(arm)]
    if written and not any(map(form.looks_up, written)):
        yield (
            f"no arm has the form that {form.name} looks up ({form.asks_for}), so it finds none of them; "
            f"map them in the policy's arm_aliases"
        )
    if form.name == "lesson-hook":
        yield from _moved_lesson(real, written)
    if two_names := list(_two_names(state, new, found.posteriors.policy.arm_aliases)):
        yield (
            f"one lesson has two names, by its path: {_few(two_names)}; "
            f"map one of them to the other in the policy's arm_aliases"
        )


def _moved_lesson(real: str, arms: Sequence[str]) -> Iterator[str]:
    """Yield a note if a lesson has the path from before its workspace was moved, so that the hook does not find it."""
    for arm in arms[:_EXAMPLES]:
        parts = Path(arm).parts[1:]
        paths = (str(folder.joinpath(*parts[at:])) for folder in Path(real).parents for at in range(len(parts) - 1))
        if moved := not os.path.exists(arm) and next(filter(os.path.isfile, paths), None):  # noqa: PTH110 - False for any text
            yield (
                f"{arm} does not exist, but {moved} does: the workspace was moved, and the hook looks up the new "
                f"path only; map the old paths to the new ones in the policy's arm_aliases"
            )
            return


def _two_names(state: State, new: State, aliases: Mapping[str, str]) -> Iterator[str]:
    """Yield each pair of names of one lesson of which the new file has at least one and the policy merges none."""
    held, left = ({arm for arm in each.arms if each.numbers(arm) is not None} for each in (state, new))
    of_file: dict[str, list[str]] = defaultdict(list)
    for arm in {aliases.get(arm, arm): arm for arm in [*state.arms, *new.arms]}.values():
        of_file[arm.rpartition("/")[2]].append(arm)
    for arm, other in chain.from_iterable(combinations(arms, 2) for arms in of_file.values()):
        if left.isdisjoint({arm, other}) or not {arm, other} <= held | left or not same_lesson(arm, other):
            continue
        if {arm, other} <= left:
            yield f"{arm} and {other} are both in the new file"
        else:
            goes, stays = (other, arm) if arm in left else (arm, other)
            yield f"{goes} goes and {stays} {'stays' if stays in held else 'is added'}"


def _notes_on_old(
    found: Beliefs, rule: Rule, seen: FileState, *, passed_over: bool, later: BalanceOpened | None
) -> Iterator[str]:
    if rule.old != rule.asked.old:
        yield "the present numbers were rebuilt from the log only, and so are the new ones"
    if rule.is_ours and all(sha256 != seen.sha256 for _, sha256 in found.facts.published):
        yield "a tool wrote the file after it was published and changed no belief; its other changes stay"
    if rule.opens and rule.supersedes is not None:
        among = "" if passed_over or rule.old == "rebuilt" else "; its updates are among the old numbers"
        yield f"a tool wrote the file after it was published{among}"
    elsewhere = rule.supersedes is None and any(sha256 == seen.sha256 for _, sha256 in found.facts.published)
    if elsewhere and rule.old == "rebuilt":
        yield "these bytes were published to another file, and the balance opened from that file does not count here"
    if rule.policy.hash != rule.asked.policy.hash and rule.old != "rebuilt":
        yield "opening balances of other files do not count here: the policy in force names only that of this file"
    if passed_over and later is None:
        yield "the present numbers do not count: the policy's `balances` exclude this file"
    elif later is not None:
        yield "the present numbers do not count; those of a later state of this file, which was opened, do"
    if any(balance.through is None for balance in found.openings):
        yield (
            "the file gives no time, so grades that its old numbers contain count again; with --rebuild the old "
            "numbers are dropped, and the grades count once"
        )


def _dropped_keys(state: State, new: State) -> Iterator[str]:
    """Yield the keys that the new file loses: of arms that stay, and of the file itself."""
    for arm, entry in state.arms.items():
        if keys := entry.keys() - new.arms.get(arm, entry).keys() - {"lesson_path"}:
            yield f"{', '.join(sorted(keys))} of {arm}"
    if keys := state.top.keys() - new.top.keys() - {"contextual_arms"}:
        yield f"{', '.join(sorted(keys))} of the file"
