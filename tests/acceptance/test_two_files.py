"""The failure that the ledger ends: A is graded, and the newest exposure file is B's."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import rightful
from rightful.cli import main

A, B = "lessons/session-a.md", "lessons/session-b.md"
Wire = dict[str, Any]


def shown(session: str, arm: str | None, minute: int, **more: Any) -> Wire:
    arms = [] if arm is None else [{"arm": arm}]
    return {"type": "exposure.recorded", "producer": "hook", "key": f"{session} {arm} {minute}", "session": session,
            "at": f"2026-08-01T10:{minute:02}:00Z", "arms": arms, **more}  # fmt: skip


def graded(session: str, minute: int = 30, **more: Any) -> Wire:
    return {"type": "grade.recorded", "producer": "judge", "key": f"grade {session}", "session": session,
            "at": f"2026-08-01T10:{minute:02}:00Z", "reward": 0.8, "seq": 1, **more}  # fmt: skip


def linked(session: str, other: str, kind: str = "session.linked") -> Wire:
    claim = {"as": "native", "evidence": "native-id"} if kind == "session.linked" else {}
    return {"type": kind, "producer": "runner", "key": f"{kind} {session} {other}", "session": session,
            "at": "2026-08-01T11:00:00Z", "other": other, **claim}  # fmt: skip


def means(ledger: rightful.Ledger) -> dict[str, tuple[float, float]]:
    return {arm: (one.alpha, one.beta) for arm, one in ledger.posteriors().arms.items()}


@pytest.fixture
def ledger(tmp_path: Path) -> Any:
    with rightful.open(tmp_path / "ledger", create=True) as opened:
        yield opened


@pytest.mark.parametrize("b_first", [False, True], ids=["a appended first", "b appended first"])
@pytest.mark.parametrize("b_minute", [10, 5, 1], ids=["b newer", "same time", "b older"])
def test_neither_time_nor_order_moves_the_credit(ledger: rightful.Ledger, b_first: bool, b_minute: int) -> None:
    exposures = [shown("claude-code:a", A, 5), shown("claude-code:b", B, b_minute)]
    ledger.append(exposures[::-1] if b_first else exposures)
    ledger.append([graded("claude-code:a")])

    assert means(ledger) == {A: (1.8, 1.2)}


def test_a_grade_that_comes_before_the_exposures_is_credited_on_replay(ledger: rightful.Ledger) -> None:
    ledger.append([graded("claude-code:a")])
    assert means(ledger) == {}

    ledger.append([shown("claude-code:b", B, 10), shown("claude-code:a", A, 5)])

    assert means(ledger) == {A: (1.8, 1.2)}


@pytest.mark.parametrize(
    ("events", "counter"),
    [
        ([], "unmatched_grades"),
        ([shown("claude-code:a", None, 5)], "empty_grades"),
        ([shown("claude-code:a", A, 5), shown("claude-code:a", A, 5, withheld=[{"arm": B}])], "conflicting_grades"),
        ([shown("claude-code:a", A, 45)], "late_only_grades"),
    ],
    ids=["missing", "empty", "two contents under one id", "later than the grade"],
)
def test_without_an_exposure_of_its_own_the_grade_pays_nothing(
    ledger: rightful.Ledger, events: list[Wire], counter: str
) -> None:
    ledger.append([shown("claude-code:b", B, 10), *events, graded("claude-code:a")])

    posteriors = ledger.posteriors()

    assert dict(posteriors.arms) == {}
    assert posteriors.counters[counter] == 1


def test_a_sanitised_name_that_fits_two_sessions_pays_nothing(ledger: rightful.Ledger) -> None:
    ledger.append([shown("claude-code:a/1", A, 5), shown("claude-code:a:1", B, 10), graded("claude-code:a_1")])

    assert means(ledger) == {}
    assert ledger.posteriors().counters["ambiguous_grades"] == 1


def test_later_link_brings_credit_and_its_withdrawal_removes_it(
    ledger: rightful.Ledger,
) -> None:
    ledger.append([shown("claude-code:a", A, 5), shown("claude-code:b", B, 10), graded("workspace:w@1")])
    assert means(ledger) == {}

    ledger.append([linked("workspace:w@1", "claude-code:a")])
    assert means(ledger) == {A: (1.8, 1.2)}

    ledger.append([linked("workspace:w@1", "claude-code:a", "session.unlinked")])
    assert means(ledger) == {}


def test_credit_and_the_session_records_of_one_run_are_two_graders_of_it(ledger: rightful.Ledger) -> None:
    """`credit` knows the run as `workspace:w`, the records as `workspace:w@1`; the native session joins them."""
    ledger.append([shown("claude-code:a", A, 5), linked("workspace:w@1", "claude-code:a")])
    ledger.append([graded("workspace:w@1", producer="session-records", reward=0.2)])
    ledger.append([graded("workspace:w", producer="credit", exposure_session="claude-code:a")])

    assert means(ledger) == {A: (1.8, 1.2)}
    assert ledger.posteriors().counters == {"credited_grades": 1}


def test_exposure_reached_by_two_runs_of_equal_rank_pays_neither(ledger: rightful.Ledger) -> None:
    ledger.append([shown("claude-code:a", A, 5), graded("claude-code:a", reward=0.2)])
    ledger.append([graded("workspace:w", exposure_session="claude-code:a")])

    assert means(ledger) == {}
    assert ledger.posteriors().counters == {"ambiguous_grades": 2}


def test_a_state_file_beside_its_own_log_is_no_second_session(ledger: rightful.Ledger) -> None:
    """The state file names the session by a sanitised form, at the same time as the log names it in full."""
    ledger.append([shown("claude-code:a", A, 5), shown("claude-code:a", A, 5, key="state", alias=True)])
    ledger.append([graded("claude-code:a")])

    assert means(ledger) == {A: (1.8, 1.2)}
    assert ledger.posteriors().counters == {"credited_grades": 1}
    assert ledger.posteriors("historical-newest").counters == {"credited_grades": 1}


def test_the_audit_shows_what_the_newest_file_rule_did(ledger: rightful.Ledger) -> None:
    ledger.append([shown("claude-code:a", A, 5), shown("claude-code:b", B, 10), graded("claude-code:a")])

    audit = ledger.audit("historical-newest")

    assert (audit.foreign_grades, audit.foreign_credit_rate, audit.foreign_reward) == (1, 1.0, 0.8)
    assert audit.verdict().startswith("1 of 1 credited grades (100%) went to another session's lessons.")


@pytest.mark.parametrize("newer", ["session-a", "session-b"])
def test_credit_pays_the_session_that_was_named_whichever_file_is_newer(
    tmp_path: Path, newer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The two files on disk, through the command that replaces the updater."""
    state = tmp_path / "claude-lesson-match"
    state.mkdir()
    for at, name in enumerate(sorted(["session-a", "session-b"], key=lambda name: name == newer)):
        file = state / f"{name}.json"
        file.write_text(json.dumps({"injected": [f"lessons/{name}.md"], "last_pretool": 0}))
        os.utime(file, (1_785_500_000 + at, 1_785_500_000 + at))
    words = ["--ledger", str(tmp_path / "ledger"), "credit", "--session-state-dir", str(state),
             "--exposure-session-id", "session-a", "--workspace-session-id", "41c2", "--outcome", "productive",
             "--grade", "0.8"]  # fmt: skip

    for _ in range(2):
        assert main(words) == 0

    out = capsys.readouterr().out.splitlines()
    assert out[:3] == [
        "Session: session-a",
        "Outcome: productive (reward 0.800, from the grade)",
        "Lessons (1): session-a.md",
    ]
    with rightful.open(tmp_path / "ledger") as ledger:
        assert means(ledger) == {A: (1.8, 1.2)}
