"""`audit --recorded FILE`: which rule wrote a bandit's state file, and what the log lacks of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rightful import limits, times
from rightful.cli.output import terminal
from rightful.cli.support import options, what_if
from rightful.errors import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from rightful.cli.support.options import NamedPolicy
    from rightful.reports.audits.recorded_rule import Candidate, Lack, RecordedRule
    from rightful.reports.audits.rule_changes import RuleChange

_STDIN = "-"
_RULES_SHOWN = 12
_ARMS_SHOWN = 30
_TIES_SHOWN = 3


def run(args: argparse.Namespace) -> int:
    """Print which rule, or which change of rule, fits; return 1 if none does."""
    import msgspec

    from rightful.reports.audits import recorded_rule

    if args.against is not None:
        raise UsageError("--recorded compares the file with every rule; omit --against, or pass one more as POLICY.")
    if args.shared is not None:
        raise UsageError("--recorded compares the file with every rule; omit --policy, or pass it as POLICY.")
    is_given = args.policy is not None or what_if.is_used(args)
    named = options.policy_named(args.policy or "bound", "POLICY") if is_given else None
    data, as_of = _read(args.recorded), options.as_of(args)
    with options.open_folded(args) as ledger:
        more: list[NamedPolicy] = [] if named is None else [what_if.apply_options(args, named, ledger)]
        decay_at = options.decay_at(args, *(named.policy for named in more))
        found = recorded_rule.compare_with_rules(
            ledger.projected(),
            data,
            extra_rules=[(named.label, named.policy) for named in more if named.preset is None],
            as_of=as_of,
            decay_at_us=None if decay_at is None else times.us_from(decay_at),
        )
        by_then = options.hint_before_first_row(args, found.through, ledger)
    if by_then:
        terminal.note_stderr(by_then)
    if args.json:
        terminal.print_json({"file": args.recorded, **msgspec.to_builtins(found)})
    else:
        _show(found, args.recorded)
    explained = found.fitting or found.changes
    return terminal.DONE if explained and found.arms + found.contexts else terminal.CHECK_SAID_NO


def _read(path: str) -> bytes:
    try:
        if path == _STDIN:
            data = terminal.stdin_bytes().read(limits.EVENT_BYTES + 1)
        else:
            with Path(path).open("rb") as file:
                data = file.read(limits.EVENT_BYTES + 1)
    except (OSError, ValueError) as error:  # a NUL in a path is a ValueError
        raise UsageError(f"--recorded {path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > limits.EVENT_BYTES:
        raise UsageError(f"--recorded {path} is larger than {limits.EVENT_BYTES:,} bytes, the limit of a state file.")
    return data


def _show(found: RecordedRule, path: str) -> None:
    from rightful.cli.output import tables

    best = found.candidates[0]
    terminal.wrap_stdout(verdict(found))
    for note in found.notes:
        terminal.note_stderr(note)
    if not found.arms + found.contexts or (found.credited and not found.common):
        return
    if not found.changes:
        terminal.wrap_stdout(lacking(found))
    contexts = f", {terminal.plural(found.contexts, 'belief')} by context" if found.contexts else ""
    tables.show_facts({
        "recorded": f"{path}: {terminal.plural(found.arms, 'arm')}{contexts}",
        "last updated": "not recorded" if found.last_updated is None else times.text_of(found.last_updated),
        "rule": "changed in time" if found.changes else f"{best.policy} ({best.policy_hash[:12]})",
        "through": f"position {found.through:,}",
    })  # fmt: skip
    _show_changes(found)
    _show_rules(found)
    if not found.changes:
        _show_arms(found, best)


def _show_changes(found: RecordedRule) -> None:
    columns = {
        "until the change": "", "after it": "", "change at or after": "", "and before": "", "grades until": "n",
        "grades after": "n",
    }  # fmt: skip
    rows = [
        [
            change.first, change.second, times.text_of(change.after), times.text_of(change.before),
            change.grades_first, change.grades_second,
        ]
        for change in found.changes
    ]  # fmt: skip
    _show_first(columns, rows, _RULES_SHOWN, "Changes of rule that explain the file")


def _show_rules(found: RecordedRule) -> None:
    columns = {
        "rule": "", "bit for bit": "n", "within 1e-9": "n", "differ": "n", "only in file": "n", "only in log": "n",
        "alpha off by": "weight", "beta off by": "weight",
    }  # fmt: skip
    rows = [
        [
            candidate.policy, candidate.exact, candidate.close, candidate.differ, candidate.only_file,
            candidate.only_log,
            options.number(candidate.max_alpha), options.number(candidate.max_beta),
        ]
        for candidate in found.candidates
    ]  # fmt: skip
    _show_first(columns, rows, _RULES_SHOWN, "Every rule, the nearest first", drop=["beta off by", "within 1e-9"])


def _show_arms(found: RecordedRule, best: Candidate) -> None:
    columns = {"arm": "", "context": "", "alpha": "weight", "beta": "weight", "n": "n", "what that is": ""}
    rows = [
        [
            lack.arm, "" if lack.context is None else " / ".join(part or "-" for part in lack.context),
            f"{lack.alpha:+.3g}", f"{lack.beta:+.3g}", "" if lack.n is None else f"{lack.n:+,}", _what(lack),
        ]
        for lack in sorted(found.lacks, key=lambda lack: (-(abs(lack.alpha) + abs(lack.beta)), lack.arm))
    ]  # fmt: skip
    title = f"What the file has beyond the log under {best.policy}"
    _show_first(columns, rows, _ARMS_SHOWN, title, drop=["context"])


def _show_first(
    columns: dict[str, str], rows: Sequence[Sequence[object]], limit: int, title: str, drop: Sequence[str] = ()
) -> None:
    """Print the first rows as a table, if there are any."""
    from rightful.cli.output import tables

    more = len(rows) - limit
    if rows:
        note = f"{more} more are in --json" if more > 0 else None
        tables.show_table(columns, rows[:limit], title=title, note=note, drop=drop)


def _what(lack: Lack) -> str:
    match lack.what:
        case "missing" | "lost":
            reward = "" if lack.reward is None else f", mean reward {lack.reward:.2f}"
            loses = "the log lacks" if lack.what == "missing" else "the file lost"
            return f"about {terminal.plural(lack.grades, 'credit')} that {loses}{reward}"
        case "changed":
            return f"as many credits, evidence {lack.evidence:+.3g}"
        case _:
            return "other rewards"


def verdict(found: RecordedRule) -> str:
    """Return the first sentence of the answer: which rule wrote the file, or which is the nearest."""
    total = found.arms + found.contexts
    what = "beliefs" if found.contexts else "arms"
    best = found.candidates[0]
    if not total:
        return "The file contains no beliefs, so no rule can be identified."
    if found.credited and not found.common:
        return (
            "It cannot be determined which rule wrote the file: no arm in common. The file and the log use different "
            "names for the same arms (`rightful policy aliases` proposes names), or the file belongs to another bandit."
        )
    if not found.is_decidable:
        by_then = "" if found.last_updated is None else f" up to its time, {times.text_of(found.last_updated)}"
        why = "credits no arm of such a file" if found.grades else "contains no grade"
        return (
            f"It cannot be determined which rule wrote the file: the log {why}{by_then}, so all rules give the same "
            f"result."
        )
    if found.changes:
        return (
            f"No rule fits alone, but one change of rule explains all {total:,} {what} within 1e-9: "
            f"{_change(found.changes[0])}{_other_changes(found.changes[1:])}"
        )
    if not best.fits:
        return (
            f"No rule fits; {_nearest(found)}: {best.wrong:,} of {total + best.only_log:,} {what} differ{_off(best)}."
        )
    same = [candidate for candidate in found.fitting if (candidate.exact, candidate.close) == (best.exact, best.close)]
    names = " and ".join(f"`{candidate.policy}`" for candidate in same)
    fit = "fits" if len(same) == 1 else "fit equally well, and the log cannot distinguish them"
    if best.close:
        return f"{names} {fit}: {best.exact:,} of {total:,} {what} bit for bit, the others within 1e-9."
    return f"{names} {fit}: {best.exact:,} of {total:,} {what} bit for bit."


def _change(change: RuleChange) -> str:
    after, before = times.text_of(change.after), times.text_of(change.before)
    return f"`{change.first}` until a time from {after} and before {before}, `{change.second}` after it."


def _other_changes(changes: Sequence[RuleChange]) -> str:
    if not changes:
        return ""
    explain = "more change explains" if len(changes) == 1 else "more changes explain"
    pairs = _ties([f"`{change.first}` then `{change.second}`" for change in changes])
    return f" {len(changes):,} {explain} the file as well: {', '.join(pairs)}."


def _ties(names: list[str]) -> list[str]:
    more = [f"{len(names) - _TIES_SHOWN:,} more"] if len(names) > _TIES_SHOWN else []
    return [*names[:_TIES_SHOWN], *more]


def _nearest(found: RecordedRule) -> str:
    names = [f"`{candidate.policy}`" for candidate in found.nearest_rules]
    if len(names) == 1:
        return f"the nearest is {names[0]}"
    *first, last = _ties(names)
    return f"the nearest are {', '.join(first)} and {last}, equally near"


def _off(best: Candidate) -> str:
    """Return the largest difference of alpha, beta or selections, with its unit."""
    off, name = max((best.max_alpha, "alpha"), (best.max_beta, "beta"), key=lambda pair: pair[0])
    if off:
        return f"; {name} is off by a weight of up to {options.number(off)}"
    return f"; the selections are off by up to {best.max_n:,}" if best.max_n else ""


def lacking(found: RecordedRule) -> str:
    """Return the sentences about what the log lacks and what the file lost."""
    arms = [lack for lack in found.lacks if lack.context is None]
    if not found.lacks:
        return "The log lacks nothing that the file contains."
    parts = []
    for what, template in (("missing", "lacks {} of {}"), ("lost", "has {} of {} that the file lost")):
        mine = [lack for lack in arms if lack.what == what]
        if mine:
            credits_ = terminal.plural(sum(lack.grades for lack in mine), "credit")
            parts.append(f"The log {template.format(f'about {credits_}', terminal.plural(len(mine), 'arm'))}.")
    if changed := [lack for lack in arms if lack.what == "changed"]:
        have = "1 arm has" if len(changed) == 1 else f"{len(changed):,} arms have"
        evidence = sum(lack.evidence for lack in changed)
        parts.append(f"{have} as many credits as in the log, and other numbers (evidence {evidence:+.3g}).")
    if others := sum(lack.what == "other" for lack in arms):
        noun = "arm was" if others == 1 else "arms were"
        parts.append(f"{others:,} {noun} given other rewards than the log has.")
    if not parts:
        parts.append("The arms agree; only beliefs by context differ.")
    return " ".join(parts)
