"""A journal whose file is not what it was: refused and left alone, so that no row is lost without a word."""

from __future__ import annotations

import os
import shutil
import stat
from hashlib import sha256
from pathlib import Path

import lmdb
import msgspec
import pytest
from tests.faults.support import event, filled, journal, needs_root, open_to_everybody, opened, overwrite, run, tabled

from rightful import limits
from rightful.errors import ForeignStoreError, ReadOnlyStoreError, StorageError
from rightful.storage.tables.store_kinds import ABOUT

BOTH = pytest.mark.parametrize("readonly", [False, True], ids=["writing", "reading"])


@BOTH
def test_a_missing_journal_is_refused_and_none_is_made(tmp_path: Path, *, readonly: bool) -> None:
    folder = filled(tmp_path / "s")
    journal(folder).unlink()
    with pytest.raises(ForeignStoreError, match="store/journal is missing"):
        opened(folder, readonly=readonly)
    with pytest.raises(ForeignStoreError, match="store/journal is missing"):
        opened(folder, create=True)

    assert not journal(folder).exists()


@BOTH
@pytest.mark.parametrize("size", [0, 100, limits.JOURNAL_BYTES - 1])
def test_a_journal_cut_short_is_refused_and_left_alone(tmp_path: Path, size: int, *, readonly: bool) -> None:
    folder = filled(tmp_path / "s")
    os.truncate(journal(folder), size)
    with pytest.raises(ForeignStoreError, match=f"store/journal is cut short: {size} of 2097152 bytes"):
        opened(folder, readonly=readonly)

    assert journal(folder).stat().st_size == size


@BOTH
@pytest.mark.parametrize("what", ["folder", "pipe"])
def test_what_is_no_file_is_refused(tmp_path: Path, what: str, *, readonly: bool) -> None:
    folder = filled(tmp_path / "s")
    journal(folder).unlink()
    if what == "folder":
        journal(folder).mkdir()
    else:
        os.mkfifo(journal(folder))
    with pytest.raises(ForeignStoreError, match="store/journal is not a regular file"):
        opened(folder, readonly=readonly)


@BOTH
def test_a_link_is_refused_wherever_it_leads(tmp_path: Path, *, readonly: bool) -> None:
    """Nobody who may write into the folder has us write elsewhere."""
    folder = filled(tmp_path / "s")
    shutil.move(journal(folder), tmp_path / "elsewhere")
    before = (tmp_path / "elsewhere").read_bytes()
    journal(folder).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ForeignStoreError, match="store/journal is not a regular file"):
        opened(folder, readonly=readonly)

    assert (tmp_path / "elsewhere").read_bytes() == before


AS_NOBODY = """
import os, sys
from pathlib import Path
from tests.faults.support import opened
opened(Path(sys.argv[1]).with_name("loads-every-module"), create=True).close()
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
for readonly in (False, True):
    try:
        opened(Path(sys.argv[1]), readonly=readonly)
    except Exception as error:
        print(type(error).__name__, error)
"""


@needs_root
def test_a_journal_that_may_not_be_read_is_said(tmp_path: Path) -> None:
    folder = filled(tmp_path / "s")
    open_to_everybody(tmp_path)
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, 65534, 65534)
    os.chown(journal(folder), 0, 0)

    done = run(AS_NOBODY, folder)

    said = done.stdout.splitlines()
    assert [line.split()[0] for line in said] == [ReadOnlyStoreError.__name__, StorageError.__name__], done.stderr
    assert all("store/journal" in line for line in said), said
    assert "is not readable" in said[1]


def _assert_refused(folder: Path, why: str) -> None:
    """However it is used; the file that is wrong is not written."""
    before = journal(folder).read_bytes()
    with opened(folder) as recorder:
        for use in (recorder.head, lambda: recorder.rows(0), lambda: recorder.append([event()])):
            with pytest.raises(ForeignStoreError, match=why):
                use()
    assert journal(folder).read_bytes() == before


@pytest.mark.parametrize(
    "content", [b"text " * 500_000, b"SQLite format 3\0" + bytes(limits.JOURNAL_BYTES)], ids=["text", "sqlite"]
)
def test_a_file_of_another_program_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    folder = filled(tmp_path / "s")
    journal(folder).write_bytes(content)

    _assert_refused(folder, "its journal is another program's file, or damaged")


ZEROS = [(0, 512), (0, 4_096), (0, limits.JOURNAL_BYTES), (512, 1_024), (512, limits.JOURNAL_BYTES)]


@pytest.mark.parametrize(("start", "end"), ZEROS)
def test_a_journal_that_does_not_begin_as_one_is_refused_and_left_alone(tmp_path: Path, start: int, end: int) -> None:
    """Its first sector, its first page, all of it, or all behind the durable mark: no store is without an anchor."""
    folder = filled(tmp_path / "s", 20)
    overwrite(folder, start, bytes(end - start))
    if (start, end) == (512, 1_024):  # the first record proves what the anchor would
        with opened(folder) as recorder:
            assert [row.position for row in recorder.rows(0)] == list(range(1, 21))
            assert recorder.append([event("next")]) == 21
    else:
        _assert_refused(folder, "its journal begins with zeros" if not start else "its journal is another program's")


def test_a_journal_of_zeros_is_refused_where_the_tables_have_all_rows(tmp_path: Path) -> None:
    folder = tabled(tmp_path / "s", 3)
    journal(folder).write_bytes(bytes(limits.JOURNAL_BYTES))
    _assert_refused(folder, "its journal begins with zeros, so it is damaged")


def _rounds(folder: Path, count: int, name: str = "s") -> None:
    """Have the tables take the journal so often, and leave two rows in it."""
    for n in range(count):
        with opened(folder) as recorder:
            recorder.append([event(f"{name} {n} " + "x" * 200_000)])
            recorder.append([event(f"{name} {n}")])
            recorder.append([event(f"{name} {n}")])


def _journal_of(older: Path, newer: Path) -> Path:
    shutil.copy(journal(older), journal(newer))
    return newer


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_older_tables_with_the_journal_of_newer_ones_are_refused(tmp_path: Path, rounds: int) -> None:
    """Rows between them are missing."""
    folder, older = filled(tmp_path / "s", 2), tmp_path / "older"
    shutil.copytree(folder, older)
    _rounds(folder, rounds)

    _assert_refused(_journal_of(folder, older), "its journal is (damaged, or an older copy|from another time)")


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_a_journal_of_an_older_copy_beside_newer_tables_is_refused(tmp_path: Path, rounds: int) -> None:
    folder, older = filled(tmp_path / "s", 2), tmp_path / "older"
    shutil.copytree(folder, older)
    with opened(folder) as recorder:
        recorder.append([event("one more")])
    _rounds(folder, rounds)

    _assert_refused(_journal_of(older, folder), "its journal is (damaged, or an older copy|from another time)")


def test_a_journal_of_another_store_is_refused(tmp_path: Path) -> None:
    """Of as many rows, in the same round, of the same events."""
    _assert_refused(_journal_of(filled(tmp_path / "a"), filled(tmp_path / "b")), "its journal is that of another store")


def test_a_journal_of_a_copy_that_went_on_by_itself_is_refused(tmp_path: Path) -> None:
    """Both have the same id and key, as many rows, and the same number of rounds."""
    folder, copy = filled(tmp_path / "s", 2), tmp_path / "copy"
    shutil.copytree(folder, copy)
    _rounds(folder, 1, "one")
    _rounds(copy, 1, "two")

    _assert_refused(_journal_of(copy, folder), "its journal belongs to a copy of this store that was")


def test_older_journal_of_current_round_is_one_of_three_undetected_copies(tmp_path: Path) -> None:
    """The second is below. The third is an older copy of the whole folder. Only a checkpoint can detect them."""
    folder = filled(tmp_path / "s", 2)
    before = journal(folder).read_bytes()
    with opened(folder) as recorder:
        assert recorder.append([event("lost")]) == 3
    journal(folder).write_bytes(before)
    with opened(folder) as recorder:
        assert recorder.head() == 2


def test_whole_journal_of_a_previous_round_is_an_undetected_copy(tmp_path: Path) -> None:
    """It ends with the check that the tables stored, as after a kill between the transaction and the next anchor."""
    folder = filled(tmp_path / "s", 2)
    before = journal(folder).read_bytes()
    _rounds(folder, 1)
    with opened(folder) as recorder:
        assert recorder.head() == 5
    journal(folder).write_bytes(before)
    with opened(folder) as recorder:
        assert recorder.head() == 3


def test_the_journal_has_its_room_on_disk_and_is_its_owners_alone(tmp_path: Path) -> None:
    opened(tmp_path / "s", create=True).close()
    found = journal(tmp_path / "s").stat()

    assert found.st_size == limits.JOURNAL_BYTES <= found.st_blocks * 512
    assert stat.S_IMODE(found.st_mode) == 0o600


def test_what_a_store_says_of_itself_names_its_journal(tmp_path: Path) -> None:
    store = filled(tmp_path / "s") / "store"
    with lmdb.open(str(store), max_dbs=9, lib_version=0) as env, env.begin() as txn:
        about = txn.get(ABOUT, db=env.open_db(b"meta", txn=txn, create=False))

    assert about is not None
    said = msgspec.json.decode(about)
    check = said.pop("check")
    assert sha256(msgspec.json.encode({**said, "check": ""})).hexdigest() == check
    assert (said.pop("format"), said.pop("kind"), said.pop("journal_bytes")) == (3, "plain", 2_097_152)
    assert (len(said.pop("id")), len(said.pop("key")), said) == (36, 64, {"rewriting": False})


@pytest.mark.parametrize("name", ["id", "key", "format", "journal_bytes"])
def test_what_a_store_says_of_itself_has_a_check(tmp_path: Path, name: str) -> None:
    """A flip in the id would make another ledger of it."""
    folder = filled(tmp_path / "s")
    with lmdb.open(str(folder / "store"), max_dbs=9, lib_version=0) as env, env.begin(write=True) as txn:
        meta = env.open_db(b"meta", txn=txn, create=False)
        about = bytearray(txn.get(ABOUT, db=meta) or b"")
        about[about.index(name.encode()) + len(name) + 3 - (name in {"format", "journal_bytes"})] ^= 1
        txn.put(ABOUT, bytes(about), db=meta)
    with pytest.raises(ForeignStoreError, match="the checksum does not match"):
        opened(folder, readonly=True)
