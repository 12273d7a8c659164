"""Show the posterior of each arm: what a bandit should believe about it.

Exposures and grades are replayed under a policy. The first line says what happened to the grades; the table has one
row per arm, best first. Only the projection is written, which can be rebuilt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rightful import times
from rightful.cli.output import decay_notice, terminal
from rightful.cli.support import options, what_if
from rightful.policies import TimeDecay

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from rightful.cli.support.options import NamedPolicy
    from rightful.ledger import Ledger
    from rightful.projections.arithmetic.sums import Key
    from rightful.projections.credit.posteriors import Posterior, Posteriors

    Credits = Mapping[Key, int] | None  # of grades, by arm and context; None if no opening balance adds to `n`

_BAR_CHARS = 24
_PICTURE = "0 … 1"
_BALANCE = "balance"
_COLUMNS = {
    "mean": "reward", "95%": "reward", _PICTURE: "",
    "alpha": "weight", "beta": "weight", "credits": "n", _BALANCE: "n", "mass": "weight",
}  # fmt: skip

_MISSING = {
    (True, True): "",
    (False, False): " The ledger has no exposures and no grades. Import both with `rightful import auto FOLDER`, or "
    "record those of one session with `rightful credit --exposure-session-id ID --grade X`.",
    (True, False): " Import grades from a session-records.jsonl with `rightful import auto FILE`, or record one with "
    "`rightful credit --exposure-session-id ID --grade X`.",
    (False, True): " The ledger has no exposures, so no arm can be credited. Import the state files of the lesson "
    "hook with `rightful import auto FOLDER`, or record lessons from now on with `rightful hook install claude-code`.",
}
"""What to do, by whether there are exposures and whether there are grades."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the policy, the position, the time of decay, the context."""
    parser.add_argument(
        "--policy",
        default="bound",
        metavar="NAME|FILE|JSON",
        help="policy to replay, such as historical-newest or gptme (default: bound)",
    )
    parser.add_argument("--contexts", action="store_true", help="also show the beliefs by context")
    options.add_position(parser)
    what_if.add(parser)


def run(args: argparse.Namespace) -> int:
    """Print the beliefs."""
    policy, as_of = options.policy_named(args.policy), options.as_of(args)
    with options.open_folded(args) as ledger:
        policy = what_if.apply_options(args, policy, ledger)
        decay_at = options.decay_at(args, policy.policy)
        found = ledger.posteriors(policy.for_ledger, as_of=as_of, decay_at=decay_at)
        by_then = options.hint_before_first_row(args, found.through, ledger)
        decay_notice.note_far(args, ledger, found.through, policy.policy)
        facts = ledger.projected().facts
        grades = int((facts.grades["pos"] <= found.through).sum())
        exposures = int((facts.shown["pos"] <= found.through).sum())
        credits_ = _credits(ledger, found)
    if args.contexts and not found.contexts:
        terminal.note_stderr("--contexts has no effect: no credited exposure has a context.")
    elif args.contexts and args.json:
        terminal.note_stderr("--contexts has no effect with --json, which always lists contexts.")
    if args.json:
        if by_then:
            terminal.note_stderr(by_then)
        terminal.print_json(_document(found))
    else:
        words = by_then or f"{_counts(found, grades, credits_)}{_MISSING[bool(exposures), bool(grades)]}"
        _show(found, f"{words}{_rule(found, policy)}", credits_, contexts=args.contexts)
    return terminal.DONE


def _credits(ledger: Ledger, found: Posteriors) -> Credits:
    """Count the credits of grades, where the `n` of a belief contains those of an opening balance too."""
    from rightful.projections.arithmetic.sums import sums_of
    from rightful.projections.credit.inputs import balances

    projected = ledger.projected()
    if not balances(projected.facts, found.policy, found.through):
        return None
    settlement = projected.settle(found.policy, found.through)
    sums = sums_of(projected.facts, settlement, found.policy, found.decay_at_us)
    return {key: count for key, (count, _, _) in sums.of.items()}


def _document(found: Posteriors) -> dict[str, Any]:
    from rightful.reports.beta_math.beta import interval

    answer = found.as_dict()
    document = {"policy": answer["policy"], "through": found.through, "decay_at": _decay_at(found)} | answer
    for arm, posterior in found.arms.items():
        document["arms"][arm]["ci95"] = interval(posterior.alpha, posterior.beta)
    for row, posterior in zip(document["contexts"], found.contexts, strict=True):
        row["ci95"] = interval(posterior.alpha, posterior.beta)
    return document


def _decay_at(found: Posteriors) -> str | None:
    """The time of a decay; None for an empty log, which has none."""
    return times.text_of(found.decay_at_us) if found.decay_at_us else None


def _show(found: Posteriors, words: str, credits_: Credits, *, contexts: bool) -> None:
    from rightful.cli.output import tables

    terminal.wrap_stdout(words)
    picture = tables.draws()
    without = {*([] if picture else [_PICTURE]), *([_BALANCE] if credits_ is None else [])}
    columns = {name: unit for name, unit in _COLUMNS.items() if name not in without}
    drop = [name for name in (_PICTURE, "mass", "95%") if name in columns]
    ranked = sorted(found.arms.items(), key=lambda pair: (-pair[1].mean, pair[0]))
    if ranked:
        rows = [[arm, *_cells(posterior, credits_, (arm, None), picture=picture)] for arm, posterior in ranked]
        tables.show_table({"arm": "", **columns}, rows, drop=drop)
    if contexts and found.contexts:
        dot = " · " if picture else " / "
        rows = [
            [
                belief.arm, dot.join(part or "-" for part in belief.context),
                *_cells(belief, credits_, (belief.arm, belief.context), picture=picture),
            ]
            for belief in found.contexts
        ]  # fmt: skip
        tables.show_table({"arm": "", "context": "", **columns}, rows, title="By context", drop=drop)


def _rule(found: Posteriors, policy: NamedPolicy) -> str:
    decayed = f", decayed as of {_decay_at(found)}" if isinstance(found.policy.decay, TimeDecay) else ""
    return f" Policy {policy.title}, through position {found.through:,}{decayed}."


def _counts(found: Posteriors, grades: int, credits_: Credits) -> str:
    bins = {
        name.removesuffix("_grades").replace("_", "-"): count
        for name, count in found.counters.items()
        if name.endswith("_grades") and name != "foreign_grades"
    }
    pending = found.counters.get("pending_sessions", 0)
    wait = "waits" if pending == 1 else "wait"
    waiting = f" {terminal.plural(pending, 'exposed session')} {wait} for a grade." if pending else ""
    arms = len(found.arms) if credits_ is None else sum((arm, None) in credits_ for arm in found.arms)
    if opened := len(found.arms) - arms:
        have = "has" if opened == 1 else "have"
        waiting = f" {terminal.plural(opened, 'arm')} {have} only the numbers of an opening balance.{waiting}"
    if not bins:
        none = f"None of {grades:,} grades counts under this policy" if grades else "No grades yet"
        return f"{none}; every arm without an opening balance has its prior.{waiting}"
    others = ", ".join(f"{count:,} {name}" for name, count in bins.items() if name != "credited")
    count, total = bins.get("credited", 0), sum(bins.values())
    of = f"{count:,} of {terminal.plural(total, 'grade')} {'is' if 1 in {count, total} else 'are'} credited"
    credited = f"{of} to {terminal.plural(arms, 'arm')}" if count else of
    held = f" {options.IN_BALANCE}" if bins.get("in-balance") else ""
    return f"{credited} ({others}).{held}{waiting}" if others else f"{credited}.{waiting}"


def _cells(posterior: Posterior, credits_: Credits, key: Key, *, picture: bool) -> list[str]:
    from rightful.reports.beta_math.beta import interval

    count = posterior.n if credits_ is None else min(credits_.get(key, 0), posterior.n)  # a prune can drop some

    low, high = interval(posterior.alpha, posterior.beta)
    return [
        options.fixed(posterior.mean),
        f"{low:.3f} to {high:.3f}",
        *([_bar(low, posterior.mean, high)] if picture else []),
        options.number(posterior.alpha),
        options.number(posterior.beta),
        f"{count:,}",
        *([] if credits_ is None else [f"{posterior.n - count:,}"]),
        options.number(posterior.mass),
    ]


def _bar(low: float, mean: float, high: float) -> str:
    """Draw an interval between 0 and 1: `·` outside it, `─` inside it, `●` at the mean."""
    places = [min(int(value * _BAR_CHARS), _BAR_CHARS - 1) for value in (low, mean, high)]
    line = ["─" if places[0] <= at <= places[2] else "·" for at in range(_BAR_CHARS)]
    line[places[1]] = "●"
    return "".join(line)
