"""What is read of a map is taken out of the process again, and nothing is lost by it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.storage.test_recorder import row

from rightful import limits
from rightful.storage.environment import resident_pages
from rightful.storage.recorder import LMDBRecorder

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it asks Linux what is resident")


def resident_kb(file: Path) -> int:
    """Return how much of a file is resident in this process's maps; kB."""
    lines = Path("/proc/self/smaps").read_text("utf-8").splitlines()
    begin = next(at for at, line in enumerate(lines) if line.endswith(f" {file}"))
    return next(int(line.split()[1]) for line in lines[begin:] if line.startswith("Rss:"))


def test_pages_are_given_back_and_the_rows_are_read_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RESIDENT_BYTES", 1)
    with LMDBRecorder(tmp_path / "a ledger", create=True) as recorder:
        recorder.append([row(n, payload=bytes([n]) * 100_000) for n in range(5)])
        rows = recorder.rows(0)
        file = recorder.tables().env.data
        assert resident_kb(file) >= 500

        recorder.rest()

        assert resident_kb(file) == 0
        assert recorder.rows(0) == rows
        assert recorder.append([row(5)]) == 6


def test_below_the_limit_nothing_is_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RESIDENT_BYTES", 1 << 40)
    with LMDBRecorder(tmp_path / "ledger", create=True) as recorder:
        recorder.append([row(0)])
        before = resident_kb(recorder.tables().env.data)

        recorder.rest()

        assert resident_kb(recorder.tables().env.data) == before > 0


def test_where_the_system_says_nothing_nothing_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resident_pages, "_STATM", str(tmp_path / "none"))
    resident_pages.give_back(tmp_path)
    monkeypatch.undo()

    monkeypatch.setattr(limits, "RESIDENT_BYTES", 1)
    monkeypatch.setattr(resident_pages, "_MAPS", str(tmp_path / "none"))
    resident_pages.give_back(tmp_path)
