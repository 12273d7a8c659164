"""Show what another attribution rule does with the credit.

Compares a policy with a reference on the same log: the first line says in words how many grades
went to another session's lessons. Nothing is changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rightful.cli import asking, common

if TYPE_CHECKING:
    import argparse

    from rightful.reports.audit import Audit

_BAR_CHARS = 40


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the two policies, the position and the time of decay."""
    parser.add_argument(
        "policy", nargs="?", metavar="POLICY",
        help="what to audit: a preset, a JSON file or object; default historical-newest",
    )  # fmt: skip
    parser.add_argument(
        "--against", metavar="POLICY",
        help="the reference, default bound; without POLICY, the rule to audit against bound",
    )  # fmt: skip
    asking.add_position(parser)


def run(args: argparse.Namespace) -> int:
    """Print the comparison."""
    asking.refuse_unknown_time(args.decay_at)
    policy, against = (asking.policy_named(one) for one in _asked(args.policy, args.against))
    with asking.folded(args) as ledger:
        found = ledger.audit(policy, against, as_of=asking.as_of(args), decay_at=args.decay_at)
    if args.json:
        common.print_json(found.as_dict())
    else:
        _show(found)
    return common.DONE


def _asked(policy: str | None, against: str | None) -> tuple[str, str]:
    """Return what is audited and what it is held against: `--against P` alone holds P against bound."""
    if policy is None:
        return against or "historical-newest", "bound"
    return policy, against or "bound"


def _show(found: Audit) -> None:
    from rightful.cli import tables

    common.say(found.verdict())
    given, owed = asking.number(found.policy_mass), asking.number(found.bound_mass)
    tables.show_facts(
        {
            "audited": f"{found.policy} ({found.policy_hash[:12]})",
            "against": f"{found.reference} ({found.reference_hash[:12]})",
            "through": f"position {found.through:,}",
            "reward gone astray": _part(found.foreign_reward, "of all credited reward", found.foreign_reward_share),
            "evidence misassigned": _part(found.spurious_mass, f"of a weight of {given}", found.misassigned_fraction),
            "evidence lost": _part(found.missing_mass, f"of a weight of {owed}", found.lost_fraction),
            "selection shift": f"{found.selection_shift:.1%} of Thompson picks would differ",
        }
    )
    _show_bins(found)
    columns = {
        "arm": "", f"mean, {found.reference}": "reward", f"mean, {found.policy}": "reward", "Δ mean": "reward",
        "W1": "reward", "TV": "0 to 1", f"P(best), {found.reference}": "0 to 1", f"P(best), {found.policy}": "0 to 1",
    }  # fmt: skip
    rows = [
        [
            one.arm, asking.fixed(_mean(one.bound)), asking.fixed(_mean(one.policy)), f"{one.delta_mean:+.3f}",
            asking.fixed(one.w1), asking.fixed(one.tv),
            asking.fixed(found.p_best_bound[one.arm]), asking.fixed(found.p_best_policy[one.arm]),
        ]
        for one in sorted(found.per_arm, key=lambda one: (-one.w1, one.arm))
    ]  # fmt: skip
    if rows:
        tables.show_table(columns, rows, note="sorted by W1, the distance of the two beliefs in reward")


def _show_bins(found: Audit) -> None:
    """One bar a policy: each grade is in one bin."""
    from rightful.cli import tables

    sides = (found.bins_bound, found.bins_policy)
    rows = [
        [name.replace("_", "-"), *(_bar(bins.get(name, 0), sum(bins.values())) for bins in sides)]
        for name in found.bins_bound | found.bins_policy
    ]
    if rows:
        tables.show_table({"bin": "", f"grades, {found.reference}": "", f"grades, {found.policy}": ""}, rows)


def _bar(count: int, total: int) -> str:
    return f"{count:>6,} {'█' * round(count / max(total, 1) * _BAR_CHARS)}"


def _mean(belief: tuple[float, float]) -> float:
    return belief[0] / (belief[0] + belief[1])


def _part(part: float, whole: str, share: float | None) -> str:
    rate = "none" if share is None else f"{share:.0%}"
    return f"{asking.number(part)} {whole} ({rate})"
