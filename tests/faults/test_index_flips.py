"""A flipped bit in an index, and a damaged row inside a session, are named; no row is left out without a word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.faults.support import flip, into_tables, journal

import rightful
from rightful.errors import DamagedRowError
from rightful.identity import event_id
from rightful.storage.tables.store_tables import Tables, pack_position

SESSIONS = ("t:a", "t:b", "t:c")


def fact(number: int) -> dict[str, Any]:
    return {
        "type": "message.recorded",
        "producer": "p",
        "key": f"k{number}",
        "session": SESSIONS[number % 3],
        "at": "2026-08-01T10:00:00Z",
        "role": "user",
        "content": f"message {number}",
    }


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a closed ledger of nine rows, three in each session, all in the tables."""
    into_tables(monkeypatch)
    with rightful.open(tmp_path / "l", create=True) as ledger:
        ledger.append([fact(number) for number in range(9)])
    return tmp_path / "l"


def flipped(folder: Path, entry: bytes, byte: int) -> None:
    """Flip a bit in a byte behind the beginning of an entry, wherever the data file has it."""
    path = folder / "store" / "data.mdb"
    data = bytearray(path.read_bytes())
    at = data.find(entry)
    assert at >= 0
    while at >= 0:
        data[at + byte] ^= 1 << byte % 7
        at = data.find(entry, at + 1)
    path.write_bytes(data)


def damaged(folder: Path, entry: bytes, first: int, last: int) -> None:
    """Change all bytes of an entry from one through another, wherever the data file has it."""
    path = folder / "store" / "data.mdb"
    run = bytes(byte ^ 0x15 for byte in entry[first : last + 1])
    path.write_bytes(path.read_bytes().replace(entry, entry[:first] + run + entry[last + 1 :]))


def outcome(folder: Path, number: int) -> str:
    try:
        with rightful.open(folder) as ledger:
            return ledger.append([fact(number)])[0].outcome
    except DamagedRowError:
        return "damaged"


def read(folder: Path, session: str) -> list[int] | str:
    try:
        with rightful.open(folder) as ledger:
            return [row.position for row in ledger.read(session=session)]
    except DamagedRowError:
        return "damaged"


def test_flipped_id_key_or_position_is_named_on_append_and_read(folder: Path) -> None:
    whole = (folder / "store" / "data.mdb").read_bytes()
    for number in (0, 4, 8):
        tag = f"id:{event_id('p', f'k{number}')}".encode()
        for byte in range(0, len(tag) + 8, 2):
            flipped(folder, tag + pack_position(number + 1), byte)
            assert outcome(folder, number) in ("damaged", "duplicate"), (number, byte)
            (folder / "store" / "data.mdb").write_bytes(whole)


def test_damaged_run_of_id_key_is_named_wherever_it_is(folder: Path) -> None:
    whole = (folder / "store" / "data.mdb").read_bytes()
    tag = f"id:{event_id('p', 'k4')}".encode()
    for count in (2, 5, 20, len(tag)):
        for first in range(0, len(tag) - count + 1, 3):
            damaged(folder, tag + pack_position(5), first, first + count - 1)
            assert (folder / "store" / "data.mdb").read_bytes() != whole
            assert outcome(folder, 4) in ("damaged", "duplicate"), (first, count)
            (folder / "store" / "data.mdb").write_bytes(whole)


def test_append_of_new_ids_reads_no_row_next_to_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys alone show that none of them is a damaged one."""
    stored = sorted(event_id("p", f"k{number}") for number in range(9))
    between = [number for number in range(9, 99) if stored[0] < event_id("p", f"k{number}") < stored[-1]]
    compared = list[bytes]()
    monkeypatch.setattr(Tables, "_see_entry", lambda _, __, word, ___, **____: compared.append(word))
    with rightful.open(folder) as ledger:
        receipts = ledger.append([fact(number) for number in between])

    assert {receipt.outcome for receipt in receipts} == {"appended"}
    assert not compared


def test_flipped_session_key_is_named_and_loses_no_row_silently(folder: Path) -> None:
    whole = (folder / "store" / "data.mdb").read_bytes()
    for session, rows in zip(SESSIONS, ([1, 4, 7], [2, 5, 8], [3, 6, 9]), strict=True):
        tag = f"session:{session}".encode()
        for byte in range(len(tag)):
            flipped(folder, tag, byte)
            assert read(folder, session) in ("damaged", rows), (session, byte)
            (folder / "store" / "data.mdb").write_bytes(whole)


@pytest.mark.parametrize("is_tabled", [False, True], ids=["journal", "tables"])
@pytest.mark.parametrize("byte", [0, 70])
def test_damaged_row_in_a_session_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, byte: int, *, is_tabled: bool
) -> None:
    folder = tmp_path / "l"
    with rightful.open(folder, create=True) as ledger:
        for number in range(9):
            ledger.append([fact(number)])
        [row] = [row for row in ledger.log.recorder.rows(0) if row.position == 4]
    at = journal(folder).read_bytes().index(row.envelope)
    flip(folder, at + byte)
    if is_tabled:
        with rightful.open(folder) as ledger, monkeypatch.context() as patch:
            into_tables(patch)
            ledger.append([fact(9)])
    with rightful.open(folder) as ledger:
        for session in ("t:a", "workspace:none"):
            with pytest.raises(DamagedRowError) as caught:
                list(ledger.read(session=session))
            assert caught.value.position == 4
        with pytest.raises(DamagedRowError):
            ledger.transcript("t:a")
        assert ledger.append([fact(12)])[0].outcome == "appended", "appending goes on"
