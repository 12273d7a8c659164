"""Handles of one process on a journal, beside each other and beside other processes."""

from __future__ import annotations

from pathlib import Path

import pytest
from eventsourcing.dcb.api import DCBQuery, DCBQueryItem
from tests.faults.support import event, filled, in_tables, journal, opened, run

from rightful import limits
from rightful.errors import ForeignStoreError, ReadOnlyStoreError


def test_a_handle_for_reading_goes_on_when_one_for_writing_comes(tmp_path: Path) -> None:
    folder = filled(tmp_path / "s")
    with opened(folder, readonly=True) as reader:
        assert [row.position for row in reader.rows(0)] == [1, 2, 3]
        with opened(folder) as writer:
            assert [row.position for row in reader.rows(0)] == [1, 2, 3]
            assert writer.append([event("ours")]) == 4
            assert reader.head() == 4
            assert in_tables(reader) == 0
            with pytest.raises(ReadOnlyStoreError):
                reader.append([event()])
        assert [each.event.data for each in reader.read(after=3)] == [b"ours"]
        with opened(folder) as again:
            assert again.append([event("again")]) == 5
        assert reader.head() == 5


def test_a_read_that_began_before_sees_all_that_stands(tmp_path: Path) -> None:
    """It has hold of the journal, and has not looked at it, when the file is opened for writing."""
    with opened(filled(tmp_path / "s"), readonly=True) as reader:
        begun = reader.tables().env.journal
        with opened(tmp_path / "s"):
            tail, last, _ = begun.read_state()
            assert (last, len(tail.rows)) == (3, 3)


def test_failed_open_for_writing_leaves_the_reading_handle(tmp_path: Path) -> None:
    folder = filled(tmp_path / "s")
    with opened(folder, readonly=True) as reader:
        assert reader.head() == 3
        journal(folder).rename(folder / "away")
        for _ in range(2):
            with pytest.raises(ForeignStoreError, match="store/journal is missing"):
                opened(folder)
        assert [row.position for row in reader.rows(0)] == [1, 2, 3]

        (folder / "away").rename(journal(folder))
        with opened(folder) as writer:
            assert writer.append([event()]) == 4
        assert reader.head() == 4


ROUND = """
import sys
from pathlib import Path
from rightful import limits
from tests.faults.support import event, opened
with opened(Path(sys.argv[1])) as recorder:
    recorder.append([event("x" * limits.JOURNAL_COMMIT_BYTES, tags=("all",))])
    recorder.append([event("journal", tags=("all",))])
"""


def test_what_another_process_empties_and_begins_anew_is_seen_and_followed(tmp_path: Path) -> None:
    folder = filled(tmp_path / "s")
    one = DCBQuery(items=[DCBQueryItem(tags=["all"])])
    with opened(folder) as recorder, opened(folder, readonly=True) as reader:
        following = reader.subscribe(after=0)
        assert [next(following).position for _ in range(3)] == [1, 2, 3]
        for n in range(3):
            assert run(ROUND, folder).returncode == 0
            head = 5 + 3 * n
            assert reader.head() == head
            assert [next(following).position for _ in range(2)] == [head - 1, head]
            assert [row.position for row in reader.rows(0)] == list(range(1, head + 1))
            assert [each.position for each in reader.read(one, after=head - 2)] == [head - 1, head]
            assert recorder.append([event("ours")]) == head + 1
            assert next(following).position == head + 1
        following.stop()
        assert in_tables(recorder) == 10
    with opened(folder) as recorder:
        assert len(recorder.rows(0)) == 12
    assert limits.JOURNAL_ROWS > 12
