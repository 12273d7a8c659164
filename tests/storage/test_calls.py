"""What one append costs in calls: the numbers may only fall."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.contracts.base import event

from rightful.storage.journal.journal_records import END_BYTES, START
from rightful.storage.recorder import LMDBRecorder


def test_turn_compares_journal_with_file_in_two_short_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other processes may have written, so a turn cannot begin without a look at the file; one is enough."""
    real, read_bytes = os.pread, list[int]()

    def pread(fd: int, count: int, at: int) -> bytes:
        read_bytes.append(count)
        return real(fd, count, at)

    with LMDBRecorder(tmp_path / "s", kind="plain", create=True) as recorder:
        for _ in range(3):
            recorder.append([event()])
        monkeypatch.setattr(os, "pread", pread)
        recorder.append([event()])
        monkeypatch.undo()

    assert read_bytes == [END_BYTES, START]
