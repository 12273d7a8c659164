"""A reader whose rows of the journal are in the tables by now, put there by another process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from eventsourcing.dcb.api import DCBEvent
from tests.contracts.base import event, found, query, tagged
from tests.faults.support import run

from rightful.storage.recorder import LMDBRecorder

INTO_TABLES = """
import sys
from pathlib import Path
from rightful import limits
from tests.faults.support import event, opened
limits.JOURNAL_ROWS = 0
with opened(Path(sys.argv[1])) as recorder:
    recorder.append([event("5", tags=("t",))])
"""


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[LMDBRecorder]:
    """Give one that knows four rows of the journal, after which all five went into the tables."""
    with LMDBRecorder(tmp_path / "s", kind="plain", create=True) as recorder:
        for number in range(1, 5):
            recorder.append([event(str(number), tags=("t", f"nr:{number}"))])
        assert found(recorder, tagged("t")) == [1, 2, 3, 4]
        done = run(INTO_TABLES, tmp_path / "s")
        assert done.returncode == 0, done.stderr
        yield recorder


def test_each_row_is_found_once(recorder: LMDBRecorder) -> None:
    assert found(recorder, tagged("t")) == found(recorder, query((("type",), ()))) == [1, 2, 3, 4, 5]
    assert found(recorder, tagged("t"), after=2) == [3, 4, 5]
    assert [row.position for row in recorder.rows(0)] == found(recorder) == [1, 2, 3, 4, 5]
    assert [row.position for row in recorder.rows(3)] == [4, 5]
    assert recorder.tags_like("nr:", 9) == ["nr:1", "nr:2", "nr:3", "nr:4"]
    assert recorder.tree_head()[0] == 5


def test_a_decision_sees_each_row_once_and_writes_behind_the_last(recorder: LMDBRecorder) -> None:
    seen: list[Any] = []

    def look(view: Any) -> list[DCBEvent]:
        seen[:] = view.head, view.last().data, [position for position, _ in view.tagged("t")]
        return [event("6", tags=("t",))]

    assert recorder.decide(look) == 6
    assert seen == [5, b"5", [1, 2, 3, 4, 5]]
    assert found(recorder, tagged("t")) == [1, 2, 3, 4, 5, 6]
