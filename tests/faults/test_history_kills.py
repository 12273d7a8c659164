"""Histories of processes that die at any step, and of several that append and compact at once."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.faults.support import at_once, started

from rightful import ledger as app

HISTORIAN = "tests.faults.historian"
LARGE = ["x" * 9_000] * 3


@pytest.mark.parametrize(
    ("act", "before", "after", "answer", "rows"),
    [
        ("extend", ["a", "b"], ["a", "b", "c", "d"], 1, ["history.appended"] * 2),
        ("parts", ["a", "b"], ["a", "b", *LARGE], 3, ["history.appended"] * 4),
        ("pop", ["a", "b"], ["a"], "b", ["history.appended", "history.popped"]),
        ("clear", ["a", "b"], [], True, ["history.appended", "history.cleared"]),
        ("compact", ["a", "b"], ["sum"], True, ["history.appended", "history.compacted"]),
        ("fork", [], ["a", "b"], True, ["history.forked"]),
    ],
)
def test_who_died_at_any_step_has_done_all_or_nothing_and_can_do_it_again(
    act: str, before: list[Any], after: list[Any], answer: object, rows: list[str], tmp_path: Path
) -> None:
    with app.open(tmp_path / "ledger", create=True):
        pass
    process = started(HISTORIAN, "kills", str(tmp_path / "ledger"), act)
    out, complaints = process.communicate(timeout=120)
    assert process.returncode == 0, complaints

    told = [json.loads(line) for line in out.splitlines()]

    assert [one["status"] for one in told] == [-signal.SIGKILL] * (len(told) - 1) + [0]
    assert [one["left"] for one in told if one["left"] not in (before, after)] == []
    assert {str(one["left"]) for one in told[:-1]} == {str(before), str(after)}
    assert [one["answers"] for one in told] == [[answer, answer]] * len(told)
    assert [one["items"] for one in told] == [after] * len(told)
    assert [one["rows"] for one in told] == [rows] * len(told)


def flat(item: Any) -> list[str]:
    return [text for one in item["sum"] for text in flat(one)] if isinstance(item, dict) else [item]


def test_concurrent_appends_and_compactions_lose_and_repeat_nothing(tmp_path: Path) -> None:
    """A summary says all that it stands for, so what is shown says everything, once, and in each writer's order."""
    path = str(tmp_path / "ledger")
    with app.open(path, create=True):
        pass
    calls = [("appends", path, name, "40") for name in "xy"] + [("compacts", path, "15")] * 2
    said = at_once(HISTORIAN, calls)

    with app.open(path) as ledger:
        shown = [text for item in ledger.history("t:a").items for text in flat(item)]
        whole = [entry.item for entry in ledger.full_history("t:a").entries if not entry.summary]
        compactions = ledger.full_history("t:a").compactions
    expected = {name: [f"{name}{n}" for n in range(40)] for name in "xy"}
    assert {name: [text for text in shown if text[0] == name] for name in "xy"} == expected
    assert {name: [text for text in whole if text[0] == name] for name in "xy"} == expected
    counts = [tuple(map(int, out.split())) for out in said[2:]]
    assert sum(won for won, _ in counts) == len(compactions)
    assert [won + stale for won, stale in counts] == [15, 15]
