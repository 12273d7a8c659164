"""What is kept of the default policy between processes: runs, credits and posteriors, at one watermark.

They follow from the facts, so they are an answer that need not be computed again: a new process
goes on from the stored sums with the rows that came since, and an audit takes its reference from
the stored credits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import numpy as np

from rightful.policies import PRESETS
from rightful.projections.arithmetic.sums import Context, Sums
from rightful.projections.credit.bins_and_credits import Settlement
from rightful.projections.credit.runs import Runs, quarantine_of, runs_of
from rightful.projections.credit.settle import settle, tally
from rightful.projections.facts.columns import Column
from rightful.projections.facts.facts import Facts

POLICY = PRESETS["bound"]
"""The policy whose answer is stored."""

CREDIT_ROWS = 1 << 20
"""Exposures and grades up to which the single credits are kept; beyond, only runs and sums are."""

_ARRAYS = tuple(name for name in Settlement._fields if name not in {"arms", "counters"})
_FLOATS = frozenset({"unit_reward", "credit_weight", "credit_reward"})


class CachedAnswer(NamedTuple):
    """The answer of the default policy at a watermark.

    Attributes:
        watermark: The position it holds for.
        runs: Which run each name belongs to.
        sums: The statistics of all arms.
        counters: How many grades ended in each bin, and what else was counted.
        settlement: Every unit and credit; None in a ledger of more than `CREDIT_ROWS`.
    """

    watermark: int
    runs: Runs
    sums: Sums
    counters: dict[str, int]
    settlement: Settlement | None


class _Statistic(msgspec.Struct, array_like=True):
    arm: str
    context: Context | None
    n: int
    mass: str
    success: str


class _Posteriors(msgspec.Struct):
    sums: list[_Statistic]
    counters: dict[str, int]


def cached_answer_of(facts: Facts, sums: Sums | None = None, counters: dict[str, int] | None = None) -> CachedAnswer:
    """Return the answer of the default policy to keep; its sums are computed where they are not known."""
    through = facts.watermark
    if sums is None or counters is None:
        sums, counters = tally(facts, POLICY, through, 0)
    runs = runs_of(facts, through, quarantine_of(facts, through))
    few = len(facts.shown) + len(facts.grades) <= CREDIT_ROWS
    return CachedAnswer(through, runs, sums, counters, settle(facts, POLICY, through, runs=runs) if few else None)


def to_values(kept: CachedAnswer) -> dict[str, bytes]:
    """Return an answer as named byte strings."""
    rows = [_Statistic(arm, context, n, f"{mass:x}", f"{won:x}") for arm, context, n, mass, won in kept.sums.rows()]
    values = {
        "posteriors": msgspec.msgpack.encode(_Posteriors(rows, kept.counters)),
        "runs/of": kept.runs.of.astype("<i4").tobytes(),
        "runs/ambiguous": kept.runs.ambiguous.astype("u1").tobytes(),
        "runs/reused": kept.runs.reused.astype("u1").tobytes(),
    }
    if kept.settlement is not None:
        values |= {f"credits/{name}": getattr(kept.settlement, name).tobytes() for name in _ARRAYS}
        values["credits/counters"] = msgspec.msgpack.encode(kept.settlement.counters)
    return values


def from_values(values: dict[str, bytes], facts: Facts) -> CachedAnswer:
    """Return the answer that was stored with the facts.

    Raises:
        KeyError: A part is missing.
        ValueError: A part does not have its form.
    """
    stored = msgspec.msgpack.decode(values["posteriors"], type=_Posteriors)
    sums = Sums({(row.arm, row.context): (row.n, int(row.mass, 16), int(row.success, 16)) for row in stored.sums})
    ambiguous, reused = (
        np.frombuffer(values[name], "u1").astype(np.bool_) for name in ("runs/ambiguous", "runs/reused")
    )
    runs = Runs(np.frombuffer(values["runs/of"], "<i4").copy(), ambiguous, reused)
    if len(runs.of) != len(facts.names):
        raise ValueError("the runs are not those of the facts")
    settlement = None
    if "credits/counters" in values:
        arrays: dict[str, Any] = {name: _array(values[f"credits/{name}"], name) for name in _ARRAYS}
        counters = msgspec.msgpack.decode(values["credits/counters"], type=dict[str, int])
        settlement = Settlement(**arrays, arms=list(facts.arms.values), counters=counters)
    return CachedAnswer(facts.watermark, runs, sums, stored.counters, settlement)


def _array(value: bytes, name: str) -> Column:
    return np.frombuffer(value, "<f8" if name in _FLOATS else "<i8").copy()
