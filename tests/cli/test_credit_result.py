from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.cli.test_credit import A_SAYS, GRADED, alphas, put

from rightful import ledger as app


@pytest.fixture
def state(here: Path) -> Path:
    """Two sessions, each with its exposure record."""
    put(here / "state", "session-a.json", "lessons/session-a.md")
    put(here / "state", "session-b.json", "lessons/session-b.md")
    return here / "state"


def last_line(run: Run, state: Path, *words: str) -> str:
    done = run("credit", "--session-state-dir", state, *words)
    assert done.code == 0
    assert len(done.out.splitlines()) == 3
    return done.err.splitlines()[-1].removeprefix("rightful: ")


def test_the_last_line_says_what_the_ledger_made_of_it(ledger: Path, run: Run, state: Path) -> None:
    a = ("--exposure-session-id", "session-a", "--grade")

    assert last_line(run, state, *a, "0.8") == "ledger: appended"
    assert last_line(run, state, *a, "0.8") == "ledger: already there: credited once"
    assert last_line(run, state, *a, "0.5") == "ledger: appended; replaces grade seq 1"
    assert last_line(run, state, *a, "0.25") == "ledger: appended; replaces grade seq 2"
    assert last_line(run, state, "--exposure-session-id", "session-b", "--grade", "1") == "ledger: appended"


def test_a_grade_beside_what_others_appended_is_found_by_its_position(ledger: Path, run: Run, state: Path) -> None:
    grade = {"type": "grade.recorded", "producer": "judge", "at": "2026-08-01T10:00:00Z", "seq": 1, "reward": 0.5}
    with app.open(ledger) as opened:
        opened.append([grade | {"key": str(at), "session": f"t:{at}"} for at in range(5)])

    assert last_line(run, state, "--exposure-session-id", "session-a", "--grade", "1") == "ledger: appended"


def test_unmapped_outcome_is_reported_without_credit(ledger: Path, run: Run, state: Path) -> None:
    said = last_line(run, state, "--exposure-session-id", "session-a", "--outcome", "weird")

    assert said == (
        "ledger: appended; gives no credit under bound: unmapped outcome 'weird'; the policy maps only "
        "productive, noop, failed, violated_policy"
    )
    assert alphas(run) == {}


def test_two_sessions_graded_for_one_exposure_are_reported_ambiguous(ledger: Path, run: Run, state: Path) -> None:
    a = ("--exposure-session-id", "session-a", "--grade", "1", "--workspace-session-id")
    last_line(run, state, *a, "one")

    said = last_line(run, state, *a, "two")

    assert said == (
        "ledger: appended; gives no credit under bound: ambiguous (its grader also graded the same run under another "
        "name)"
    )
    assert alphas(run) == {}


def test_grade_that_outranks_an_imported_one_is_reported(ledger: Path, run: Run, state: Path) -> None:
    grade = {"type": "grade.recorded", "producer": "session-records", "at": "2026-08-01T10:00:00Z", "seq": 1}
    with app.open(ledger) as opened:
        opened.append([grade | {"key": "1", "session": "claude-code:session-a", "reward": 0.5}])
    words = ("--exposure-session-id", "session-a", "--grade", "1")

    said, again = last_line(run, state, *words), last_line(run, state, *words)

    assert said == "ledger: appended; replaces session-records/overall seq 1 (#1) for credit"
    assert again == "ledger: already there: credited once"
    assert alphas(run) == {"lessons/session-a.md": 2.0}


def test_grade_outranked_by_a_person_is_reported(ledger: Path, run: Run, state: Path) -> None:
    grade = {"type": "grade.recorded", "producer": "human", "at": "2026-08-01T10:00:00Z", "seq": 1, "reward": 0.5}
    with app.open(ledger) as opened:
        opened.append([grade | {"key": "1", "session": "claude-code:session-a"}])

    said = last_line(run, state, "--exposure-session-id", "session-a", "--grade", "1")

    assert said == "ledger: appended; another grade of that session counts under bound"


def test_second_grade_at_one_seq_is_reported_as_contradiction(ledger: Path, run: Run, state: Path) -> None:
    a = ("--exposure-session-id", "session-a", "--grade")
    last_line(run, state, *a, "0.8")
    grade = {"type": "grade.recorded", "producer": "credit", "at": "2090-08-01T10:00:00Z", "seq": 1, "reward": 0.5}
    with app.open(ledger) as opened:
        opened.append([grade | {"key": "forged", "session": "claude-code:session-a"}])

    said = last_line(run, state, *a, "0.8")

    assert said == (
        "ledger: already there; gives no credit under bound: conflicting (It and credit/overall seq 1 (#3) have the "
        "same `seq` but different content; it is not known which one counts)"
    )


def test_grade_replaced_by_one_without_credit_is_reported(ledger: Path, run: Run, state: Path) -> None:
    grade = {"type": "grade.recorded", "producer": "human", "at": "2026-08-01T10:00:00Z", "seq": 1}
    with app.open(ledger) as opened:
        opened.append([grade | {"key": str(at), "session": "claude-code:session-a", "reward": at} for at in (0, 1)])

    said = last_line(run, state, "--exposure-session-id", "session-a", "--grade", "1")

    assert (
        said == "ledger: appended; another grade of that session counts under bound, and gives no credit: conflicting"
    )


def test_conflict_is_reported_as_quarantined(ledger: Path, run: Run, state: Path) -> None:
    forged = {"type": "grade.recorded", "producer": "credit", "key": '[null,"session-a","grade"]', "seq": 1}
    with app.open(ledger) as opened:
        opened.append([forged | {"session": "t:x", "at": "2026-08-01T10:00:00Z", "reward": 0.1}])

    done = run("credit", "--session-state-dir", state, "--exposure-session-id", "session-a", *GRADED)

    assert done.code == 3
    assert done.out == A_SAYS
    assert "rightful: ledger: exposure appended, grade conflict" in done.err.splitlines()
    assert "It stays in quarantine until an `event.withdrawn` settles it; a grade or an exposure" in done.err
