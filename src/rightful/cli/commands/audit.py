"""Compare the credit that two attribution rules assign.

A policy is compared with a reference policy on the same log. The first line says how many grades went to another
session's lessons. Nothing is changed.

With --recorded, every rule is compared with a bandit's state file instead. The first line says which rule wrote the
file, which change of rule explains it, or which rule is nearest and what the log lacks. The exit code is 1 if no rule
fits.
"""

from __future__ import annotations

import shlex
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from rightful import times
from rightful.cli.output import decay_notice, terminal
from rightful.cli.support import audit_recorded, options, what_if
from rightful.policies import PRESETS

if TYPE_CHECKING:
    import argparse

    from rightful.cli.support.options import NamedPolicy
    from rightful.reports.audits.rule_audit import Audit

_BALANCES = "balances"
_BALANCES_HELP = "source pattern of opening balances to count on both sides (default: none; repeatable)"
_BAR_CHARS = 40
_DAYS = 14  # that are shown of those with foreign grades
_FOREIGN = 30  # grades that are shown
_BIN_CHARS = 12  # the longest name of a bin
_COUNT_CHARS = 7
_LABEL_CHARS = 24
_HASH_DIGITS = 12
_POLICY_CHARS = 300  # the longest policy that is printed in a command
_SESSIONS = 3  # that are named
_UNTIMED = (
    "The count is a range because the order of some files is not known. No exact times are in the ledger for lessons "
    "of {}."
)
_INEXACT = (
    "The count is a range because it is not known which file was the newest at the grade of {}: a time is equal to "
    "another, has whole seconds only, or is the time of a file, such as that of a record without an end."
)
_UNTIL = (
    "These sessions were recorded after position {:,}, with later times than the grades up to it. If they began after "
    "those grades, audit the ledger as of that position:"
)
_IMPORT = (
    "If you have a trajectory log or lesson events of {}, import them "
    "(`rightful import lesson-hook state/lesson-trajectories`) and audit again."
)
_EXCLUDE = "To audit without {} and its grades{}:"
_NO_GRADES = (
    "There is nothing to audit: no grade counts under the policy. Import session records "
    "(`rightful import session-records FILE`), or check the `graders` of the policy."
)
_IN_BALANCE = "Already in an opening balance: {}. Run the audit without --balances to count them from the log."
_UNMATCHED = (
    "{} matched no exposure. Import the records of shown lessons, such as the lesson hook's files, and audit again."
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the two policies, the position and the time of decay."""
    parser.add_argument(
        "policy", nargs="?", metavar="POLICY",
        help="policy to audit: preset, JSON file or JSON object (default: historical-newest)",
    )  # fmt: skip
    parser.add_argument(
        "--against", metavar="POLICY",
        help="reference policy; without POLICY, the policy to audit (default: bound)",
    )  # fmt: skip
    parser.add_argument(
        "--policy", dest="shared", metavar="POLICY",
        help="policy whose fields, such as aliases and graders, apply to both sides",
    )  # fmt: skip
    parser.add_argument(
        "--recorded", metavar="FILE",
        help="bandit state file whose rule to identify; `-` for stdin",
    )  # fmt: skip
    options.add_position(parser)
    what_if.add(parser, **{_BALANCES: _BALANCES_HELP})


def run(args: argparse.Namespace) -> int:
    """Print the comparison."""
    if args.recorded is not None:
        return audit_recorded.run(args)
    (policy, against), as_of = _sides(args), options.as_of(args)
    with options.open_folded(args) as ledger:
        given, policy = policy, what_if.apply_options(args, policy, ledger, but=_BALANCES)
        if given.policy != against.policy:
            against = _without_sessions(against, given, policy)
        decay_at = options.decay_at(args, policy.policy, against.policy)
        counted = what_if.balances(args.balances)
        found = ledger.audit(policy.for_ledger, against.for_ledger, as_of=as_of, decay_at=decay_at, balances=counted)
        by_then = options.hint_before_first_row(args, found.through, ledger)
        decay_notice.note_far(args, ledger, found.through, policy.policy, against.policy)
    if by_then:
        terminal.note_stderr(by_then)
    _note_own_balances(policy, against)
    if args.json:
        terminal.print_json(found.as_dict())
    else:
        _show(args, found, policy, against, advice=[] if by_then else _advice(found))
    return terminal.DONE


def _without_sessions(against: NamedPolicy, given: NamedPolicy, changed: NamedPolicy) -> NamedPolicy:
    """Return the reference without the sessions that an option excludes: an audit compares two rules on one log.

    A rule that is audited against itself shows the effect of the option, so its reference keeps them.
    """
    excluded = [name for name in changed.policy.without_sessions if name not in given.policy.without_sessions]
    names = tuple(dict.fromkeys([*against.policy.without_sessions, *excluded]))
    if names == against.policy.without_sessions:
        return against
    label = f"{against.label}, without session {' and '.join(excluded)}"
    return options.NamedPolicy(label, None, structs.replace(against.policy, without_sessions=names))


def _note_own_balances(*sides: NamedPolicy) -> None:
    for named in sides:
        if named.policy.balances:
            terminal.note_stderr(
                f"the field `balances` of {named.label} has no effect in an audit, which counts the same opening "
                f"balances on both sides; use --balances SOURCE to count some."
            )


def _sides(args: argparse.Namespace) -> tuple[NamedPolicy, NamedPolicy]:
    """Return the audited policy and the reference: `--against P` alone compares P with bound.

    With a what-if option and no policy, the reference itself is changed.
    """
    text = args.policy or args.against or _default(args)
    audited = options.policy_named(text, "POLICY" if args.policy else "--against")
    reference = options.policy_named(args.against or "bound" if args.policy else "bound", "--against")
    if args.shared is None:
        return audited, reference
    shared = options.policy_named(args.shared)
    return options.with_fields_of(audited, shared), options.with_fields_of(reference, shared)


def _default(args: argparse.Namespace) -> str:
    return "bound" if what_if.is_used(args, but=_BALANCES) else "historical-newest"


def _balances(found: Audit) -> str | None:
    """Return which opening balances both sides count, in words; None in a ledger without any."""
    left_out = terminal.plural(len(found.balances_left_out), "source")
    if not found.balances:
        return f"left out of both sides ({left_out})" if found.balances_left_out else None
    counted = f"those of {' and '.join(found.balances)} count on both sides"
    held = max(found.bins_policy.get("in_balance", 0), found.bins_bound.get("in_balance", 0))
    inside = f", and contain {terminal.plural(held, 'grade')}" if held else ""
    return f"{counted}{inside}; {left_out} left out" if found.balances_left_out else f"{counted}{inside}"


class _SideNames(NamedTuple):
    """What the two sides are called in the columns."""

    policy: str
    reference: str


def _side_names(policy: NamedPolicy, against: NamedPolicy) -> _SideNames:
    """Return the labels; if they are equal or too long for a column, the words of the lines that have them."""
    names = _SideNames(terminal.safe(policy.label), terminal.safe(against.label))
    fit = names.policy != names.reference and max(map(len, names)) <= _LABEL_CHARS
    return names if fit else _SideNames("audited", "against")


def _title(named: NamedPolicy, policy_hash: str, found: Audit) -> str:
    """Return the label and the hash of a side; an audit sets the field `balances` if the ledger has any."""
    if policy_hash == named.policy.hash:
        return named.title
    balances = f"with the opening balances of {' and '.join(found.balances)}" if found.balances else what_if.NO_BALANCES
    return f"{named.label}, {balances} ({policy_hash[:_HASH_DIGITS]})"


def _show(
    args: argparse.Namespace, found: Audit, policy: NamedPolicy, against: NamedPolicy, *, advice: list[str]
) -> None:
    from rightful.cli.output import tables

    named = structs.replace(found, policy=terminal.safe(policy.label), reference=terminal.safe(against.label))
    terminal.wrap_stdout(named.verdict(), *advice)
    if _is_range(found) and advice:
        terminal.print_stdout(f"  {_narrowed(args, found)}")
    given, owed = options.number(found.policy_mass), options.number(found.bound_mass)
    compared = bool(found.bound_credited_grades)
    facts = {
        "audited": _title(policy, found.policy_hash, found),
        "against": _title(against, found.reference_hash, found),
        "through": f"position {found.through:,}",
        "opening balances": _balances(found),
        "reward gone astray": _part(found.foreign_reward, "of all credited reward", found.foreign_reward_share),
        "evidence misassigned": _part(
            found.spurious_mass, f"of {given} in weight", found.misassigned_fraction if compared else None
        ),
        "evidence lost": _part(found.missing_mass, f"of {owed} in weight", found.lost_fraction),
        "selection shift": f"{found.selection_shift:.1%} of Thompson picks would differ"
        if found.per_arm and compared
        else None,
    }
    tables.show_facts({name: fact for name, fact in facts.items() if fact is not None})
    names = _side_names(policy, against)
    _show_bins(found, names)
    _show_arms(found, names)
    _show_days(found)
    _show_foreign(args, found, policy)


def _advice(found: Audit) -> list[str]:
    """Return why the first line has no number, or a range, and what to do about it; nothing where it has one."""
    if _is_range(found):
        return [_range_reason(found)]
    if found.policy_credited_grades:
        return []
    if not found.grades:
        return [_NO_GRADES]
    bins = found.bins_policy
    if held := bins.get("in_balance", 0):
        return [_IN_BALANCE.format(terminal.plural(held, "grade"))]
    if lost := bins.get("unmatched", 0):
        return [_UNMATCHED.format(terminal.plural(lost, "grade"))]
    return ["The table of bins shows where they went; `rightful explain SESSION` gives the reason for one."]


def _is_range(found: Audit) -> bool:
    """Return whether sessions leave the count open; where nothing is credited, only those that can have been paid."""
    credited = found.policy_credited_grades and found.undecided_sessions
    return not found.is_ordered and bool(found.untimed_sessions or credited)


def _range_reason(found: Audit) -> str:
    """Return why a count is a range: the sessions that leave it open, what to import, and how to audit without them."""
    untimed, unlogged = found.untimed_sessions, found.unlogged_sessions
    open_sessions = _open_sessions(found)
    reason = [_UNTIMED.format(_sessions(untimed)) if untimed else _INEXACT.format(_sessions(open_sessions))]
    if unlogged:
        reason.append(
            _IMPORT.format(_sessions(unlogged) if unlogged != untimed else "it" if len(untimed) == 1 else "them")
        )
    if found.decided_until is not None:
        return " ".join([*reason, _UNTIL.format(found.decided_until)])
    more = " (repeat the option to exclude more sessions)" if len(open_sessions) > 1 else ""
    return " ".join([*reason, _EXCLUDE.format(terminal.safe(open_sessions[0]), more)])


def _open_sessions(found: Audit) -> tuple[str, ...]:
    """Return the sessions that leave the count open: those whose files have no exact times, else the graded ones."""
    return found.untimed_sessions or found.undecided_sessions


def _narrowed(args: argparse.Namespace, found: Audit) -> str:
    """Return this audit without one session more, or of an earlier position, as it has to be typed."""
    until = found.decided_until
    session = [] if until is not None else ["--without-session", _open_sessions(found)[0]]
    named = {"ledger": args.ledger, "against": args.against, "policy": args.shared}
    places = {"as-of": args.as_of if until is None else until, "decay-at": args.decay_at}
    policy = [args.policy] if args.policy is not None else [] if args.against is not None else [_default(args)]
    before, *words = [
        [f"--{name}", str(value)] if value is not None else [] for name, value in (named | places).items()
    ]
    changes = what_if.as_typed(args)
    return shlex.join(["rightful", *before, "audit", *policy, *chain.from_iterable(words), *changes, *session])


def _sessions(names: tuple[str, ...]) -> str:
    """Return the first few sessions, and how many more there are."""
    more = len(names) - _SESSIONS
    return terminal.safe(", ".join([*names[:_SESSIONS], *([f"{more:,} more"] if more > 0 else [])]))


def _show_arms(found: Audit, names: _SideNames) -> None:
    from rightful.cli.output import tables

    best = [f"P(best),\n{names.reference}", f"P(best),\n{names.policy}"]
    columns = {
        "arm": "", f"mean,\n{names.reference}": "reward", f"mean,\n{names.policy}": "reward",
        "Δ mean" if tables.draws() else "change": "reward",
        "W1": "reward", "TV": "0 to 1", best[0]: "0 to 1", best[1]: "0 to 1",
    }  # fmt: skip
    rows = [
        [
            shift.arm, options.fixed(_mean(shift.bound)), options.fixed(_mean(shift.policy)),
            options.fixed(shift.delta_mean, sign=True),
            options.fixed(shift.w1), options.fixed(shift.tv),
            options.fixed(found.p_best_bound[shift.arm]), options.fixed(found.p_best_policy[shift.arm]),
        ]
        for shift in sorted(found.per_arm, key=lambda shift: (-shift.w1, shift.arm))
    ]  # fmt: skip
    if rows:
        note = "sorted by W1, the distance of the two beliefs in reward"
        tables.show_table(columns, rows, note=note, drop=["TV", *best, "W1"])


def _show_days(found: Audit) -> None:
    """Show the days on which grades can have gone astray; a day without any is counted in the note."""
    from rightful.cli.output import tables

    foreign_days = [day for day in found.days if day.foreign_bounds[1]]
    if not foreign_days:
        return
    rows = [
        [
            day.day, f"{day.grades:,}", f"{day.credited:,}", _foreign_text(day.foreign, day.foreign_bounds),
            options.number(day.foreign_reward), f"{len(day.robbed_sessions):,}",
        ]
        for day in foreign_days[-_DAYS:]
    ]  # fmt: skip
    columns = {"day": "", "grades": "n", "credited": "n", "foreign": "n", "gone astray": "reward", "robbed": "sessions"}
    notes = ["days are UTC"]
    if earlier := len(foreign_days) - len(rows):
        notes.append(f"{terminal.plural(earlier, 'earlier day')} in --json")
    if others := len(found.days) - len(foreign_days):
        notes.append(f"{terminal.plural(others, 'day')} without foreign grades left out")
    tables.show_table(columns, rows, title="Foreign grades by day", note="; ".join(notes))


def _foreign_text(foreign: int, bounds: tuple[int, int]) -> str:
    low, high = bounds
    return f"{low:,}" if low == high else f"{foreign:,} ({low:,} to {high:,})"


def _show_foreign(args: argparse.Namespace, found: Audit, policy: NamedPolicy) -> None:
    """Show the newest foreign grades: their session, and the session that was credited."""
    from rightful.cli.output import indented, tables

    if not found.foreign:
        return
    rows = [
        [
            f"#{grade.grade}", indented.time_text(times.us_from(grade.at)), grade.session, options.number(grade.reward),
            grade.paid_session or "one of several", ", ".join(_file_name(arm) for arm in grade.arms),
            "in every order" if grade.certain else "by its time",
        ]
        for grade in found.foreign[-_FOREIGN:]
    ]  # fmt: skip
    columns = dict.fromkeys(["grade", "given", "robbed session", "reward", "paid session", "arms", "foreign"], "")
    earlier = len(found.foreign) - len(rows)
    note = f"{terminal.plural(earlier, 'earlier grade')} in --json" if earlier else None
    tables.show_table(columns, rows, title="Foreign grades", note=note, drop=["arms", "foreign", "given"])
    terminal.print_stdout("What this rule did with a grade N:", f"  {_explain(args, policy)}")


def _explain(args: argparse.Namespace, policy: NamedPolicy) -> str:
    """Return the command that explains a grade under the audited policy, as it has to be typed."""
    base, rule = PRESETS["bound"].as_dict(), policy.policy.as_dict()
    text = policy.preset or terminal.json_text({name: value for name, value in rule.items() if value != base.get(name)})
    if len(text) > _POLICY_CHARS:
        text = "FILE"
    ledger = [] if args.ledger is None else ["--ledger", str(args.ledger)]
    return shlex.join(["rightful", *ledger, "explain", "#N", "--policy", text])


def _file_name(arm: str) -> str:
    return arm.rstrip("/").rpartition("/")[2] or arm


def _show_bins(found: Audit, names: _SideNames) -> None:
    """Print one bar per policy: each grade is in exactly one bin."""
    from rightful.cli.output import tables

    sides = (found.bins_bound, found.bins_policy)
    block = "█" if tables.draws() else "#"
    chars = min(_BAR_CHARS, (tables.width() - _BIN_CHARS) // 2 - _COUNT_CHARS - 4)
    rows = [
        [name.replace("_", "-"), *(_bar(bins.get(name, 0), sum(bins.values()), chars, block) for bins in sides)]
        for name in found.bins_bound | found.bins_policy
    ]
    if rows:
        tables.show_table({"bin": "", f"grades,\n{names.reference}": "", f"grades,\n{names.policy}": ""}, rows)


def _bar(count: int, total: int, chars: int, block: str) -> str:
    return f"{count:>6,} {block * round(count / max(total, 1) * chars)}"


def _mean(belief: tuple[float, float]) -> float:
    return belief[0] / (belief[0] + belief[1])


def _part(part: float, whole: str, share: float | None) -> str | None:
    """Return a part of a whole in words; None if the whole is unknown."""
    return None if share is None else f"{options.number(part)} {whole} ({share:.0%})"
