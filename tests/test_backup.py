"""A backup is a copy of the whole folder, made while nobody has the ledger open (docs/reference/files.md)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.log.facts import exposure

import rightful
from rightful import limits
from rightful.errors import ForeignStoreError
from rightful.events import ExposureRecorded


def append(path: Path, *keys: str) -> None:
    with rightful.open(path, create=True) as ledger:
        for key in keys:
            assert ledger.append([exposure(key)])[0].outcome == "appended"


def keys_of(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def positions(path: Path) -> list[int]:
    with rightful.open(path, readonly=True) as ledger:
        assert all(isinstance(one.event, ExposureRecorded) for one in ledger.read())
        return [one.position for one in ledger.read()]


@pytest.mark.parametrize("count", [1, limits.JOURNAL_ROWS, limits.JOURNAL_ROWS + 3])
def test_a_copy_of_the_folder_has_every_row_and_goes_on(tmp_path: Path, count: int) -> None:
    """Whether they stand in the journal alone, fill it, or stand in the tables and behind them."""
    append(tmp_path / "l", *keys_of(count))
    shutil.copytree(tmp_path / "l", tmp_path / "copy")

    assert positions(tmp_path / "copy") == list(range(1, count + 1))
    append(tmp_path / "copy", "another")
    assert positions(tmp_path / "copy") == list(range(1, count + 2))
    assert positions(tmp_path / "l") == list(range(1, count + 1))


@pytest.mark.parametrize("readonly", [False, True])
def test_a_copy_without_the_journal_is_refused_and_not_changed(tmp_path: Path, readonly: bool) -> None:
    append(tmp_path / "l", "a")
    shutil.copytree(tmp_path / "l", tmp_path / "copy", ignore=shutil.ignore_patterns("journal"))
    before = sorted(tmp_path.rglob("copy/**/*"))

    with pytest.raises(ForeignStoreError, match="store/journal is missing"):
        rightful.open(tmp_path / "copy", readonly=readonly)
    assert sorted(tmp_path.rglob("copy/**/*")) == before


def test_tables_of_one_day_with_the_journal_of_another_are_refused(tmp_path: Path) -> None:
    """The journal was emptied between, so rows of neither would be missing without a word."""
    append(tmp_path / "l", *keys_of(3))
    shutil.copytree(tmp_path / "l", tmp_path / "old")
    append(tmp_path / "l", *keys_of(limits.JOURNAL_ROWS + 5)[3:])
    shutil.copy(tmp_path / "l" / "store" / "journal", tmp_path / "old" / "store" / "journal")

    with pytest.raises(ForeignStoreError, match="its journal is from another time: it is in round 2, and its tables"):
        positions(tmp_path / "old")
