"""The harness takes turns, judges by the median and prints one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.__main__ import BENCHMARKS, main, table
from benchmarks.harness import Pair, Result, in_turn


def test_ours_and_the_floor_take_turns_and_the_warm_up_does_not_count() -> None:
    calls: list[str] = []

    def ours() -> float:
        calls.append("ours")
        return float(len(calls))

    def floor() -> float:
        calls.append("floor")
        return float(len(calls))

    assert in_turn(ours, floor, 2) == [Pair(3, 4), Pair(5, 6)]
    assert calls == ["ours", "floor"] * 3


@pytest.mark.parametrize(
    ("at_most", "inverse", "budget", "ratios", "met"),
    [
        (False, False, 2.0, [2.0, 4.0, 1.0], True),
        (False, False, 2.1, [2.0, 4.0, 1.0], False),
        (True, False, 2.0, [2.0, 4.0, 1.0], True),
        (True, False, 1.9, [2.0, 4.0, 1.0], False),
        (False, True, 0.5, [0.5, 0.25, 1.0], True),
    ],
)
def test_the_median_of_the_pairs_is_held_against_the_budget(
    at_most: bool, inverse: bool, budget: float, ratios: list[float], met: bool
) -> None:
    pairs = [Pair(4, 2), Pair(8, 2), Pair(2, 2)]

    result = Result("b", "f", "s", budget, 1, pairs, at_most=at_most, inverse=inverse)

    assert result.ratios == ratios
    assert result.met == met


def test_a_wait_that_is_too_long_fails_a_good_ratio() -> None:
    assert not Result("b", "f", "s", 1, 1, [Pair(9, 1)], ok=False).met


@pytest.mark.parametrize(("words", "code"), [([], 1), (["--quick"], 0)])
def test_a_missed_budget_is_1_but_not_at_small_sizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], code: int
) -> None:
    monkeypatch.setitem(BENCHMARKS, "tree", lambda _: iter([Result("tree", "f", "s", 1, 1, [Pair(1, 2)])]))

    assert main(["tree", "--dir", str(tmp_path), *words]) == code


def test_a_name_that_is_none_is_told_before_anything_is_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(BENCHMARKS, "tree", lambda _: pytest.fail("it was run"))
    with pytest.raises(SystemExit) as ended:
        main(["tree", "appendix"])

    assert ended.value.code == 2
    assert "error: there is no benchmark 'appendix'; there are append-one, " in capsys.readouterr().err


def test_a_line_says_what_was_measured_where() -> None:
    line = json.loads(Result("b", "f", "events/s", 0.5, 7, [Pair(4, 2)], detail={"sessions": 3}).line())

    assert {key: line[key] for key in ("bench", "ratio", "ratios", "budget", "met", "n", "sessions")} == {
        "bench": "b",
        "ratio": 2.0,
        "ratios": [2.0],
        "budget": ">= 0.5",
        "met": True,
        "n": 7,
        "sessions": 3,
    }
    assert line["ours"] == {"median": 4.0, "unit": "events/s"}
    assert line["floor"] == {"median": 2.0, "unit": "events/s"}
    assert {"machine", "python", "lmdb", "commit"} <= line.keys()


def test_the_table_has_a_row_for_each_line() -> None:
    lines = [json.loads(Result(name, "f", "s", 0.5, 1_000, [Pair(4, 2)]).line()) for name in ("one", "two")]

    rows = list(table(lines))

    assert len(rows) == 4
    assert list(table([lines[0] | {"p99_ms": [1.5, 20]}]))[2].endswith("| >= 0.5; p99 1.5 ms, <= 20 ms | yes |")
    assert rows[2] == "| `one` | f | 1,000 | 4 s | 2 s | 2 (2 to 2) | >= 0.5 | yes |"
