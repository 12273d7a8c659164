"""Settling: every grade ends in one bin, and credited ones pay arms. Pure, for any prefix.

`settle` computes with whole columns, because a ledger has millions of rows: *units* (the
grades that a policy pays from), *pairs* (unit, exposure it reaches) and *credits* (unit, arm).
It settles all names, or a set of names closed under `Names.closure`; the settlements of
disjoint closed sets add up to the settlement of all.
"""

from __future__ import annotations

from collections.abc import Iterable

from rightful.policies import Policy
from rightful.projections.facts import Facts
from rightful.projections.joins import bound_targets, newest_sources
from rightful.projections.paying import Settlement, pay
from rightful.projections.scene import scene_of
from rightful.projections.units import units_of


def settle(facts: Facts, policy: Policy, through: int, names: Iterable[int] | None = None) -> Settlement:
    """Return what a policy makes of the log up to a position.

    Args:
        facts: The columns, folded through `through` at least.
        policy: The rule.
        through: The last position that counts.
        names: A set of names closed under `Names.closure`; None for all. Only for the `bound`
            join: the newest session is sought among all.
    """
    scene = scene_of(facts, policy, through, names)
    units = units_of(scene)
    targets = bound_targets(scene, units)
    sources = None if policy.join == "bound" else newest_sources(scene, units, targets)
    return pay(scene, units, targets, sources)
