"""Which grade of a session record counts: the latest by the row's own time, in whatever order its copies come."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.amounts import examples
from tests.importers.conftest import KINDS, Importer, said
from tests.importers.import_files import import_paths
from tests.importers.test_session_records import grades, row, write

from rightful import ledger as app
from rightful.ledger import Ledger

OLDER = (
    "note: grades of an older copy, which were not imported, since the ledger has a later grade of the same session "
    "and rubric, by the times of their rows"
)


def copy(minute: int, reward: float | None, **fields: Any) -> dict[str, Any]:
    return row(timestamp=f"2026-08-01T10:{minute:02}:00+00:00", trajectory_grade=reward, **fields)


def effective(ledger: Ledger, rubric: str = "overall") -> float | None:
    return max(grades(ledger, rubric))[1]


@pytest.fixture
def records(tmp_path: Path) -> Path:
    return tmp_path / "session-records.jsonl"


def test_an_older_backup_that_is_imported_later_turns_no_grade_back(
    ledger: Ledger, imported: Importer, records: Path
) -> None:
    old = records.parent / "old" / records.name
    old.parent.mkdir()
    imported("session-records", write(records, copy(40, 0.9, grades={"harm": 0.1})))

    [report] = imported("session-records", write(old, copy(30, 0.2, grades={"harm": 0.8, "alignment": 0.5})))
    [again] = imported("session-records", old)

    assert [one.what for one in report.problems] == [f"{OLDER}: 2"]
    assert said(again) == {"appended": 0, "duplicate": 2, "problems": [{"line": None, "what": f"{OLDER}: 2"}]}
    assert (report.exit_code, report.appended, report.duplicate) == (0, 1, 1)
    assert (grades(ledger), grades(ledger, "harm")) == ([(1, 0.9, None)], [(1, 0.1, None)])
    assert grades(ledger, "alignment") == [(1, 0.5, None)]


def test_grades_of_one_time_count_as_they_come(ledger: Ledger, imported: Importer, records: Path) -> None:
    imported("session-records", write(records, copy(30, 0.9), copy(30, 0.2)))

    assert grades(ledger) == [(1, 0.9, None), (2, 0.2, None)]


def test_a_files_own_time_makes_no_grade_older(ledger: Ledger, imported: Importer, records: Path) -> None:
    """It is only an upper bound, so it tells nothing of what came first."""
    timeless = {"session_id": "g", "trajectory_grade": 0.9}
    imported("session-records", write(records, timeless))

    imported(
        "session-records", write(records, timeless | {"end_time": "2026-08-01T10:30:00Z", "trajectory_grade": 0.2})
    )

    assert grades(ledger) == [(1, 0.9, None), (2, 0.2, None)]


def test_an_older_grade_than_a_retraction_does_not_undo_it(ledger: Ledger, imported: Importer, records: Path) -> None:
    taken = {"type": "grade.retracted", "producer": "session-records", "key": "took it back", "seq": 2}
    imported("session-records", write(records, copy(30, 0.9)))
    session = next(iter(ledger.read())).session
    ledger.append([taken | {"session": session, "at": "2026-08-01T12:00:00Z"}])

    imported("session-records", write(records, copy(40, 0.2)))

    assert grades(ledger) == [(1, 0.9, None)]


@settings(max_examples=examples(40), deadline=None)
@given(st.permutations([(1, 0.1), (2, 0.2), (3, None), (4, 0.4), (5, 0.5)]), st.lists(st.integers(1, 4), max_size=3))
def test_the_order_in_which_copies_are_imported_decides_nothing(
    copies: Sequence[tuple[int, float | None]], cuts: list[int]
) -> None:
    """Each part is a file; two handles, as of two processes, import them in turn, and then all once more."""
    rows = [copy(minute, reward, outcome=None if reward else "unknown") for minute, reward in copies]
    edges = [0, *sorted(set(cuts)), len(rows)]
    parts = [rows[start:end] for start, end in pairwise(edges)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger"
        with app.open(path, create=True) as one, app.open(path) as other:
            for at, part in enumerate([*parts, rows, *reversed(parts)]):
                data = io.BytesIO("".join(json.dumps(item) + "\n" for item in part).encode())
                list(import_paths((one, other)[at % 2].log, KINDS["session-records"], ["-"], stdin=data))

            assert effective(one) == 0.5
            arm = {"type": "exposure.recorded", "producer": "p", "key": "1", "arms": [{"arm": "x"}]}
            session = next(iter(one.read())).session
            one.append([arm | {"session": session, "at": "2026-08-01T10:00:00Z"}])
            assert one.posteriors().arms["x"].alpha == 1.5


def test_concurrent_later_grade_makes_this_one_older(
    ledger: Ledger, imported: Importer, records: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = ledger.log.append
    rivals = iter([copy(50, 0.9)])

    def raced(events: Any, **condition: Any) -> Any:
        if (rival := next(rivals, None)) is not None:
            imported("session-records", "-", stdin=json.dumps(rival).encode())
        return original(events, **condition)

    monkeypatch.setattr(ledger.log, "append", raced)

    [report] = imported("session-records", write(records, copy(30, 0.2)))

    assert [one.what for one in report.problems] == [f"{OLDER}: 1"]
    assert grades(ledger) == [(1, 0.9, None)]
