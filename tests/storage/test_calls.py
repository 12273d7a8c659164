"""What one append costs in calls: the numbers may only fall."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest
from eventsourcing.dcb.api import DCBEvent
from tests.contracts.base import event

import rightful
from rightful import limits
from rightful.storage.journal.journal_records import END_BYTES, START
from rightful.storage.port import View
from rightful.storage.recorder import LMDBRecorder

MOST_CALLS: Final = 90
SOURCE: Final = str(Path(rightful.__file__).parent)


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


def test_turn_after_batch_does_not_search_new_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches alone leave a new journal as it was made, so its beginning shows that no record is in it."""
    real, read_bytes = os.pread, list[int]()

    def pread(fd: int, count: int, at: int) -> bytes:
        read_bytes.append(count)
        return real(fd, count, at)

    with LMDBRecorder(tmp_path / "s", kind="plain", create=True) as recorder:
        monkeypatch.setattr(limits, "JOURNAL_COMMIT_BYTES", 0)
        recorder.append([event()])
        monkeypatch.setattr(os, "pread", pread)
        for _ in range(3):
            recorder.append([event()])
        monkeypatch.undo()

    assert read_bytes
    assert max(read_bytes) <= 16_384


def test_one_append_makes_no_more_calls(tmp_path: Path) -> None:
    """Counts the calls of functions of ours, in the caller's thread and the writer's."""
    calls: list[str] = []

    def count(frame: FrameType, kind: str, _: object) -> None:
        if kind == "call" and frame.f_code.co_filename.startswith(SOURCE):
            calls.append(frame.f_code.co_qualname)

    def count_in_writer(_: View) -> Sequence[DCBEvent]:
        sys.setprofile(count)
        return ()

    with rightful.open(tmp_path / "l", create=True) as ledger:
        for key in "abc":
            ledger.append([wire(key)])
        ledger.log.recorder.decide(count_in_writer)
        sys.setprofile(count)
        counted = []
        for key in "defgh":  # a finalizer of another test, or a rare look at the store, may fall into one of them
            calls.clear()
            (receipt,) = ledger.append([wire(key)])
            counted.append((len(calls), list(calls)))
            assert receipt.outcome == "appended"
        sys.setprofile(None)

    fewest, names = min(counted)
    assert fewest <= MOST_CALLS, names


def wire(key: str) -> dict[str, Any]:
    return {
        "type": "session.started",
        "session": "claude-code:8a8b0e29-b2ab-4cf9-a3c1-d1a1f6c0f3ed",
        "at": "2026-01-01T00:00:00Z",
        "producer": "tests/1",
        "key": key,
    }
