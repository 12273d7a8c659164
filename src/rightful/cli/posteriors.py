"""Show what the bandit believes of each arm.

Replays exposures and grades under a policy. The first line says in words what happened to the
grades; the table has one row an arm, best first. Nothing is written but the projection, which
can be rebuilt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rightful.cli import asking, common

if TYPE_CHECKING:
    import argparse

    from rightful.projections.posteriors import Posterior, Posteriors

_BAR_CHARS = 24


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the policy, the position, the time of decay, the context."""
    parser.add_argument(
        "--policy",
        default="bound",
        metavar="NAME|FILE|JSON",
        help="the rule: bound (default), historical-newest, gptme …",
    )
    parser.add_argument("--contexts", action="store_true", help="show the beliefs by context too")
    asking.add_position(parser)


def run(args: argparse.Namespace) -> int:
    """Print the beliefs."""
    asking.refuse_unknown_time(args.decay_at)
    policy = asking.policy_named(args.policy)
    with asking.folded(args) as ledger:
        found = ledger.posteriors(policy, as_of=asking.as_of(args), decay_at=args.decay_at)
    if args.json:
        common.print_json(_document(found))
    else:
        _show(found, args.policy, contexts=args.contexts)
    return common.DONE


def _document(found: Posteriors) -> dict[str, Any]:
    from rightful.reports.beta import interval

    document = found.as_dict()
    for arm, one in found.arms.items():
        document["arms"][arm]["ci95"] = interval(one.alpha, one.beta)
    for shown, one in zip(document["contexts"], found.contexts, strict=True):
        shown["ci95"] = interval(one.alpha, one.beta)
    return document


def _show(found: Posteriors, asked: str, *, contexts: bool) -> None:
    from rightful.cli import tables

    common.say(_words(found, asked))
    columns = {"arm": "", "mean": "reward", "95%": "reward", "0 … 1": "", "credits": "n", "mass": "weight"}
    ranked = sorted(found.arms.items(), key=lambda pair: (-pair[1].mean, pair[0]))
    if ranked:
        tables.show_table(columns, ([arm, *_cells(one)] for arm, one in ranked))
    if contexts and found.contexts:
        rows = ([one.arm, " · ".join(part or "-" for part in one.context), *_cells(one)] for one in found.contexts)
        tables.show_table({"arm": "", "context": "", **dict(list(columns.items())[1:])}, rows, title="By context")


def _words(found: Posteriors, asked: str) -> str:
    bins = {
        name.removesuffix("_grades").replace("_", "-"): count
        for name, count in found.counters.items()
        if name.endswith("_grades") and name != "foreign_grades"
    }
    pending = found.counters.get("pending_sessions", 0)
    waiting = f" {pending} exposed sessions wait for a grade." if pending else ""
    rule = f" Policy {asked} ({found.policy.hash[:12]}), through position {found.through:,}."
    if not bins:
        return f"No grades yet; every arm without an opening balance stands at its prior.{waiting}{rule}"
    others = ", ".join(f"{count} {name}" for name, count in bins.items() if name != "credited")
    credited = f"{bins.get('credited', 0)} of {sum(bins.values())} grades are credited to {len(found.arms)} arms"
    return f"{credited} ({others}).{waiting}{rule}" if others else f"{credited}.{waiting}{rule}"


def _cells(one: Posterior) -> list[str]:
    from rightful.reports.beta import interval

    low, high = interval(one.alpha, one.beta)
    return [
        asking.fixed(one.mean),
        f"{low:.3f} to {high:.3f}",
        _bar(low, one.mean, high),
        f"{one.n:,}",
        asking.number(one.mass),
    ]


def _bar(low: float, mean: float, high: float) -> str:
    """Draw an interval between 0 and 1: `·` outside it, `─` inside it, `●` at the mean."""
    places = [min(int(value * _BAR_CHARS), _BAR_CHARS - 1) for value in (low, mean, high)]
    line = ["─" if places[0] <= at <= places[2] else "·" for at in range(_BAR_CHARS)]
    line[places[1]] = "●"
    return "".join(line)
