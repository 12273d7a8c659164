"""Damage inside LMDB's whole file: each row carries its checksum. In the journal: `test_journal_rows`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest
from eventsourcing.dcb.api import DCBQuery, DCBQueryItem
from tests.faults.support import event, into_tables, opened, tabled

from rightful.errors import DamagedRowError, ForeignStoreError, StorageError
from rightful.storage.port import LedgerEvent
from rightful.storage.recorder import LMDBRecorder
from rightful.storage.tables.store_tables import pack_position


def _flip(folder: Path, text: bytes) -> None:
    """Flip one bit in the middle of the text, in every page that has it."""
    path = folder / "store" / "data.mdb"
    data = bytearray(path.read_bytes())
    at = data.find(text)
    assert at > 0
    while at > 0:
        data[at + len(text) // 2] ^= 1
        at = data.find(text)
    path.write_bytes(data)


def _change(folder: Path, table: bytes, key: bytes, value: bytes | None) -> None:
    with lmdb.open(str(folder / "store"), map_size=1 << 40, max_dbs=9, lib_version=0) as env:
        db = env.open_db(table)
        with env.begin(write=True) as txn:
            if value is None:
                assert txn.delete(key, db=db)
            else:
                txn.put(key, value, db=db)


def test_flipped_bit_is_a_damaged_row_at_its_position_for_every_read(tmp_path: Path) -> None:
    """LMDB itself has no page checksums: it served 336 of 400 flips as if nothing were."""
    folder = tabled(tmp_path / "s", 5)
    _flip(folder, b"event-3")
    one = DCBQuery(items=[DCBQueryItem(tags=["tag3"])])
    with opened(folder) as recorder:
        reads: list[Callable[[], object]] = [
            lambda: recorder.rows(0, 100),
            lambda: list(recorder.read()),
            lambda: list(recorder.read(one)),
            lambda: recorder.decide(lambda view: [row for _, row in view.tagged("tag3")]),
        ]
        for read in reads:
            with pytest.raises(DamagedRowError) as caught:
                read()
            assert caught.value.position == 3

        assert [row.position for row in recorder.rows(3, 100)] == [4, 5]
        assert recorder.append([event()]) == 6, "appending goes on"


def test_a_missing_row_is_a_damaged_row_with_its_position(tmp_path: Path) -> None:
    _change(tabled(tmp_path / "s", 5), b"rows", pack_position(2), None)
    with opened(tmp_path / "s") as recorder:
        for read in (lambda: recorder.rows(0, 100), lambda: list(recorder.read())):
            with pytest.raises(DamagedRowError) as caught:
                read()
            assert caught.value.position == 2
        assert [row.position for row in recorder.rows(2, 100)] == [3, 4, 5]


def test_a_row_missing_at_the_end_is_damage_and_no_end(tmp_path: Path) -> None:
    _change(tabled(tmp_path / "s", 3), b"rows", pack_position(3), None)
    with opened(tmp_path / "s") as recorder, pytest.raises(DamagedRowError) as caught:
        recorder.rows(0, 100)
    assert caught.value.position == 3


def test_a_record_that_cannot_be_read_is_a_damaged_row(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    with LMDBRecorder(folder, create=True) as ledger:
        ledger.append([LedgerEvent(type="t", data=b"not json", tags=[], payload=b"p")])
        with pytest.raises(DamagedRowError, match="cannot be read"):
            list(ledger.read())


def test_a_payload_that_was_erased_is_none_and_its_neighbours_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    into_tables(monkeypatch)
    folder = tmp_path / "s"
    with opened(folder, create=True) as recorder:
        recorder.append([LedgerEvent(type="t", data=b"d", tags=[], payload=f"p{n}".encode()) for n in range(4)])
    _change(folder, b"payloads", pack_position(2), None)

    with opened(folder) as recorder:
        assert [row.payload for row in recorder.rows(0, 100)] == [b"p0", None, b"p2", b"p3"]
        assert [getattr(each.event, "payload", None) for each in recorder.read()] == [b"p0", None, b"p2", b"p3"]


def test_a_damaged_frontier_stops_writing_and_nothing_is_written(tmp_path: Path) -> None:
    folder = tabled(tmp_path / "s")
    with lmdb.open(str(folder / "store"), map_size=1 << 40, max_dbs=9, lib_version=0) as env:
        meta = env.open_db(b"meta")
        with env.begin() as txn:
            tree = bytearray(txn.get(b"tree", db=meta) or b"")
    tree[-1] ^= 1
    _change(folder, b"meta", b"tree", bytes(tree))

    with opened(folder) as recorder:
        with pytest.raises(ForeignStoreError, match="its root does not fit its frontier"):
            recorder.append([event()])
        assert len(recorder.rows(0, 100)) == 3


def test_entries_beyond_the_last_row_stop_writing_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a later row would silently take over what another one left in an index."""
    into_tables(monkeypatch)
    folder = tabled(tmp_path / "s")
    _change(folder, b"rows", pack_position(9), b"stray")
    with opened(folder) as recorder:
        for batch in ([event()], [event(), event()]):
            with pytest.raises(StorageError, match="entries beyond its last row"):
                recorder.append(batch)
        assert recorder.head() == 3
