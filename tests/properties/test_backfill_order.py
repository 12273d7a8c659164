"""Two ledgers with the same events in another order give the same digest and the same bytes."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.amounts import examples
from tests.backfilling import arm, asked, state, written
from tests.log.memory import MemoryRecorder
from tests.projections.telling import exposed, graded, linked, opened, retracted
from tests.strategies import Wire

from rightful.backfill.planning import Books, make_plan
from rightful.log.log import Log
from rightful.projections.projected import Projected

HOURS = 3600
SOME = settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
ARMS = ("a", "b", "é")
POLICIES: list[dict[str, Any]] = [
    {},
    {"decay": {"mode": "time", "half_life": 3600.0}},
    {"marginals": True},
    {"credit": "split"},
    {"arm_aliases": {"b": "a"}},
    {"revision": "additive"},
]
"""Rules under which the order of the log decides nothing: no decay by session or arm, nothing sequential."""

arms = st.lists(st.sampled_from(ARMS), min_size=1, max_size=3, unique=True)
contexts = st.none() | st.tuples(st.sampled_from(["code", "x"]), st.sampled_from(["opus", None]))


@st.composite
def events(draw: st.DrawFn) -> list[Wire]:
    """Sessions around noon, each with exposures and grades of distinct numbers; and what was opened of files."""
    told: list[Wire] = []
    for number in range(draw(st.integers(0, 5))):
        name, at = f"t:{number}", 12 * HOURS + draw(st.integers(0, 4)) * 60
        for shown in range(draw(st.integers(0, 2))):
            context = draw(contexts)
            more: dict[str, Any] = {} if context is None else {"context": list(context)}
            told.append(exposed(name, *draw(arms), at=at + shown, **more))
        for seq in range(1, 1 + draw(st.integers(0, 2))):
            reward = draw(st.floats(0, 1))
            told.append(graded(name, reward, at=at + draw(st.integers(0, 90)), seq=seq, key=f"g{number}-{seq}"))
        if draw(st.booleans()):
            told.append(retracted(name, 9, at=13 * HOURS))
        if draw(st.booleans()):
            told.append(linked(name, f"t:{number + 1}"))
    if draw(st.booleans()):
        held = {"a": {"alpha": 30.0, "beta": 2.0, "n": 30}}
        told.append(opened(at=9 * HOURS, source="/else.json", arms=held, through="1970-01-01T09:00:00Z"))
    return told


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@SOME
@given(st.data(), events(), st.booleans())
def test_the_order_in_which_the_past_came_to_the_ledger_decides_nothing(
    policy: dict[str, Any], data: st.DataObject, told: list[Wire], stands: bool
) -> None:
    other = data.draw(st.permutations(told))
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "b.json"
        if stands:
            written(target, state(arm("a", 2.5, 1.5, 2), arm("z", 2.0, 2.0, 1)))
        first, second = (_planned(one, target, policy) for one in (told, other))

    assert first == second


def _planned(told: list[Wire], target: Path, policy: dict[str, Any]) -> tuple[str, bytes]:
    log = Log(MemoryRecorder())
    log.append(told)
    plan, data, _ = make_plan(Books(Projected(log), Path("nowhere"), "memory"), asked(target, policy=policy))
    return plan.digest, data
