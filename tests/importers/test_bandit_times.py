"""Which balance of one file counts: the one with the newest time, and of one time the one imported last."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.importers.conftest import Importer

from rightful.ledger import Ledger

SAME = "2026-08-01T10:15:11+00:00"
LATER = "2026-08-02T10:15:11+00:00"
AGAIN = (
    "note: the file was restored to an earlier state with the same time: it is opened again, since the balance that is "
    "imported last counts"
)
NO_LATER = (
    "note: it has the time of the balance opened from this file before, but other content; "
    "the balance that is imported last counts"
)
EARLIER = "note: its time is before that of the balance opened from this file earlier, so that balance counts"
BACK = "note: the file was restored to a state older than its newest balance: the newest balance counts"


def write(path: Path, alpha: float, last: str | None = SAME, arm: str = "x") -> Path:
    time: dict[str, Any] = {} if last is None else {"last_updated": last}
    path.write_text(json.dumps({"arms": {arm: {"alpha": alpha, "beta": 1.0, "total_selections": 2}}} | time))
    return path


def alpha(ledger: Ledger) -> float:
    return ledger.posteriors().arms["x"].alpha


@pytest.mark.parametrize("last", [SAME, None])
@pytest.mark.parametrize("order", [[9.0, 5.0], [5.0, 9.0], [5.0, 9.0, 5.0], [5.0, 9.0, 5.0, 9.0], [5.0, 9.0, 9.0]])
def test_of_one_time_the_state_that_is_imported_last_counts(
    ledger: Ledger, imported: Importer, tmp_path: Path, order: list[float], last: str | None
) -> None:
    path = tmp_path / "bandit-state.json"
    for one in order:
        imported("bandit-state", write(path, one, last))

    [again] = imported("bandit-state", path)

    assert alpha(ledger) == order[-1]
    assert (again.appended, again.duplicate) == (0, 1)


def test_a_state_with_the_same_time_and_other_numbers_is_worth_a_note(imported: Importer, tmp_path: Path) -> None:
    path = tmp_path / "bandit-state.json"
    reports = [imported("bandit-state", write(path, one))[0] for one in (5.0, 9.0, 5.0)]

    assert [[one.what for one in report.problems] for report in reports] == [[], [NO_LATER], [AGAIN]]
    assert [report.appended for report in reports] == [1, 1, 1]


def test_a_later_state_goes_on_to_count_and_a_note_says_so(ledger: Ledger, imported: Importer, tmp_path: Path) -> None:
    path = tmp_path / "bandit-state.json"
    reports = [
        imported("bandit-state", write(path, one, at))[0] for one, at in ((5.0, SAME), (9.0, LATER), (5.0, SAME))
    ]
    [older] = imported("bandit-state", write(path, 7.0))

    assert [[one.what for one in report.problems] for report in reports] == [[], [], [BACK]]
    assert [one.what for one in older.problems] == [EARLIER]
    assert (reports[2].appended, reports[2].duplicate, alpha(ledger)) == (0, 1, 9.0)


def test_a_balance_of_another_file_makes_none_older(ledger: Ledger, imported: Importer, tmp_path: Path) -> None:
    imported("bandit-state", write(tmp_path / "a.json", 5.0))

    [other] = imported("bandit-state", write(tmp_path / "b.json", 9.0, arm="y"))
    [again] = imported("bandit-state", tmp_path / "a.json")

    assert (other.problems, again.problems, again.duplicate) == ([], [], 1)
