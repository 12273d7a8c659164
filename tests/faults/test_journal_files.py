"""A journal whose file is not what it was: refused and left alone, so that no row is lost without a word."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import lmdb
import pytest
from tests.faults.support import event, filled, journal, needs_root, opened, overwrite, run, tabled

from rightful import limits
from rightful.errors import ForeignStoreError, ReadOnlyStoreError, StorageError
from rightful.recorders.kinds import ABOUT

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
    with pytest.raises(ForeignStoreError, match="store/journal is no file"):
        opened(folder, readonly=readonly)


@BOTH
def test_a_link_is_refused_wherever_it_leads(tmp_path: Path, *, readonly: bool) -> None:
    """Nobody who may write into the folder has us write elsewhere."""
    folder = filled(tmp_path / "s")
    shutil.move(journal(folder), tmp_path / "elsewhere")
    before = (tmp_path / "elsewhere").read_bytes()
    journal(folder).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ForeignStoreError, match="store/journal is no file"):
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
    for path in [*tmp_path.parents, tmp_path]:
        if path.stat().st_uid == os.geteuid() and str(path).startswith(str(tmp_path.parents[1])):
            path.chmod(0o755)
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, 65534, 65534)
    os.chown(journal(folder), 0, 0)

    done = run(AS_NOBODY, folder)

    said = done.stdout.splitlines()
    assert [line.split()[0] for line in said] == [ReadOnlyStoreError.__name__, StorageError.__name__], done.stderr
    assert all("store/journal" in line for line in said), said
    assert "cannot be read by you" in said[1]


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


def test_a_journal_of_zeros_has_no_rows_and_those_of_the_tables_stay(tmp_path: Path) -> None:
    """As a new one: nothing tells that there was something. What the tables have is whole."""
    folder = tabled(tmp_path / "s", 3)
    with opened(folder) as recorder:
        assert recorder.append([event("in the journal")]) == 4
    journal(folder).write_bytes(bytes(limits.JOURNAL_BYTES))

    with opened(folder) as recorder:
        assert recorder.head() == 3
        assert recorder.append([event("next")]) == 4
        assert [each.event.data for each in recorder.read()] == [b"event-1", b"event-2", b"event-3", b"next"]


def test_a_journal_that_begins_behind_a_gap_is_refused_and_left_alone(tmp_path: Path) -> None:
    """Tables of an older copy beside the journal of a newer one: rows between them are missing."""
    folder, older = tmp_path / "s", tmp_path / "older"
    tabled(folder, 2)
    shutil.copytree(folder, older)
    with opened(folder) as recorder:
        assert recorder.append([event("x" * 200_000)]) == 3
        assert recorder.append([event("behind")]) == 4
    shutil.copy(journal(folder), journal(older))

    _assert_refused(older, "its journal begins at position 4, and its tables end at 2")


def test_a_journal_of_an_older_copy_beside_newer_tables_adds_nothing(tmp_path: Path) -> None:
    folder, older = tmp_path / "s", tmp_path / "older"
    filled(folder, 3)
    shutil.copytree(folder, older)
    with opened(folder) as recorder:
        assert recorder.append([event("x" * 200_000)]) == 4
        assert recorder.append([event("behind")]) == 5
    shutil.copy(journal(older), journal(folder))

    with opened(folder) as recorder:
        assert recorder.head() == 4
        assert [row.position for row in recorder.rows(0)] == [1, 2, 3, 4]


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
    assert about.startswith(b'{"format":2,"kind":"plain","id":"')
    assert about.endswith(b'","journal_bytes":2097152}')


GOLDEN = (
    "52664a3100000082000000000000000100000000000000000000000100000048deeb4e1af30ce693b9d9c151a8e081fcaf40"
    "8bc55b4712b69491a9f79366a0b394c3f12d7d1e8ff7feaf7760201c2da0d072ddc3bbd04233743e69611301585900000000"
    "0000000194c3f12d7d1e8ff7feaf7760201c2da0d072ddc3bbd04233743e6961130158599192c43594c3f12d7d1e8ff7feaf"
    "7760201c2da0d072ddc3bbd04233743e69611301585993a47479706591a474616731c4076576656e742d31c0"
)
"""The first record of a plain store whose first event is `event-1`, as `filled` writes it, in hexadecimal."""


def test_the_form_of_a_record_is_fixed(tmp_path: Path) -> None:
    """Later versions read what this one wrote."""
    folder = filled(tmp_path / "s", 1)
    assert journal(folder).read_bytes().rstrip(b"\0").hex() == GOLDEN

    opened(tmp_path / "empty", create=True).close()
    overwrite(tmp_path / "empty", 0, bytes.fromhex(GOLDEN))
    with opened(tmp_path / "empty") as recorder:
        assert [(each.position, each.event) for each in recorder.read()] == [(1, event("event-1", tags=("tag1",)))]
        assert recorder.append([event("next")]) == 2
