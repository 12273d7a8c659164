from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run

import rightful

EVENTS: list[dict[str, Any]] = [
    {
        "type": "exposure.recorded", "producer": "hook", "key": "1", "session": "claude-code:a",
        "at": "2026-08-01T10:00:00Z", "arms": [{"arm": "lessons/a.md"}], "context": ["code", "opus"],
    },
    {
        "type": "exposure.recorded", "producer": "hook", "key": "2", "session": "claude-code:b",
        "at": "2026-08-01T10:05:00Z", "arms": [{"arm": "lessons/b\u202e.md"}],
    },
    {
        "type": "grade.recorded", "producer": "judge", "key": "3", "session": "claude-code:a",
        "at": "2026-08-01T10:10:00Z", "reward": 0.8, "seq": 1,
    },
    {
        "type": "grade.recorded", "producer": "judge", "key": "4", "session": "claude-code:ghost",
        "at": "2026-08-01T10:11:00Z", "reward": 0.4, "seq": 1,
    },
]  # fmt: skip


def fill(ledger: Path) -> None:
    with rightful.open(ledger) as opened:
        assert {receipt.outcome for receipt in opened.append(EVENTS)} == {"appended"}


def test_json_has_the_keys_and_numbers_of_the_design(run: Run, ledger: Path) -> None:
    fill(ledger)

    document = run("posteriors", "--json").document

    assert list(document) == ["policy", "through", "arms", "contexts", "counters"]
    assert document["policy"]["hash"] == "d9db8dfd61ec1629484424d10ffabcfec3b1c7332de12ce1d1151dc57210e6ed"
    assert document["through"] == 4
    assert document["counters"] == {"credited_grades": 1, "unmatched_grades": 1, "pending_sessions": 1}
    assert list(document["arms"]) == ["lessons/a.md"]
    arm = document["arms"]["lessons/a.md"]
    assert {key: arm[key] for key in ("alpha", "beta", "n", "mass", "mean")} == {
        "alpha": 1.8, "beta": 1.2, "n": 1, "mass": 1.0, "mean": 1.8 / 3.0,
    }  # fmt: skip
    assert arm["ci95"] == pytest.approx([0.11231291292966648, 0.9732260068150657], abs=1e-9)
    assert document["contexts"][0]["context"] == ["code", "opus"]


def test_people_read_first_what_happened_to_the_grades(run: Run, ledger: Path) -> None:
    fill(ledger)

    first, *rest = run("posteriors", "--contexts").out.splitlines()

    assert first == (
        "1 of 2 grades are credited to 1 arms (1 unmatched). 1 exposed sessions wait for a grade. "
        "Policy bound (d9db8dfd61ec), through position 4."
    )
    assert any("lessons/a.md" in line and "0.600" in line and "0.112 to 0.973" in line for line in rest)
    assert any("code · opus" in line for line in rest)


def test_an_empty_ledger_says_that_nothing_was_graded(run: Run, ledger: Path) -> None:
    assert run("posteriors").out.startswith("No grades yet; every arm without an opening balance stands at its prior.")
    assert run("posteriors", "--json").document["arms"] == {}


def test_a_policy_comes_by_name_as_json_or_from_a_file(run: Run, ledger: Path, here: Path) -> None:
    fill(ledger)
    (here / "rule.json").write_text(json.dumps({"prior": [2, 5]}))

    answers = [
        run("posteriors", "--json", "--policy", asked).document["arms"]["lessons/a.md"]["alpha"]
        for asked in ("bound", '{"prior": [2, 5]}', str(here / "rule.json"), "rule.json")
    ]

    assert answers == [1.8, 2.8, 2.8, 2.8]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--policy", "best"], "there is no preset 'best'"),
        (["--policy", "{}x"], "Expected JSON"),
        (["--policy", "missing.json"], "missing.json cannot be read"),
        (["--policy", '{"joint": 1}'], "unknown field `joint`"),
        (["--as-of", "5"], "position 5 is not in this ledger, which ends at 4"),
        (["--as-of", "soon"], "'soon' is no time"),
        (["--decay-at", " "], "an empty time was given"),
    ],
)
def test_wrong_usage_is_a_sentence_and_exit_2(run: Run, ledger: Path, words: list[str], sentence: str) -> None:
    fill(ledger)

    done = run("posteriors", *words)

    assert (done.code, done.out) == (2, "")
    assert sentence in done.err


def test_as_of_a_position_or_a_time_shows_what_was_recorded_by_then(run: Run, ledger: Path) -> None:
    fill(ledger)

    assert run("posteriors", "--json", "--as-of", "2").document["arms"] == {}
    assert run("posteriors", "--json", "--as-of", "3").document["through"] == 3
    assert run("posteriors", "--json", "--as-of", "2026-08-01T00:00:00Z").document["through"] == 0


def test_a_name_cannot_steer_the_terminal(run: Run, ledger: Path) -> None:
    fill(ledger)

    assert "\u202e" not in run("posteriors", "--policy", "historical-newest").out
    assert "lessons/b\\u202e.md" in run("posteriors", "--policy", "historical-newest").out


def test_asking_twice_gives_the_same_bytes(run: Run, ledger: Path) -> None:
    fill(ledger)

    assert run("posteriors", "--json").out == run("posteriors", "--json").out
