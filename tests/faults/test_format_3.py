"""A store of format 3 that an earlier build wrote: read, written and refused as before."""

from __future__ import annotations

import gzip
import json
import signal
import tempfile
from pathlib import Path

from tests.faults import test_format_2
from tests.faults.support import ROOT, event, in_tables, journal, opened, records, run
from tests.faults.test_format_1 import about

from rightful import limits
from rightful.storage.environment import store_files

GOLDEN = ROOT / "tests" / "golden"
ID, ROOT_HASH = (
    "842a871a-158c-4a9e-967d-ab795d8d7d53",
    "a3eb05498039bb59d1850bef5d4f8be528ffef4708bfd261a556dfa6a01a4363",
)


def test_what_is_stored_is_read_and_written_as_it_was(tmp_path: Path) -> None:
    folder = test_format_2.old(tmp_path / "s")
    tables = gzip.decompress((GOLDEN / "store-format-3.mdb.gz").read_bytes())
    record = gzip.decompress((GOLDEN / "store-format-3.journal.gz").read_bytes()).ljust(limits.JOURNAL_BYTES, b"\0")
    (folder / "store" / store_files.DATA).write_bytes(tables)
    journal(folder).write_bytes(record)
    with opened(folder, readonly=True) as recorder:
        assert [each.event.data for each in recorder.read()] == [b"event-%d" % n for n in range(1, 6)]
        assert [row.payload for row in recorder.rows(2)] == [None, b"payload-4", b"payload-5"]
        assert (recorder.ledger_id, recorder.tree_head()[1].hex(), in_tables(recorder)) == (ID, ROOT_HASH, 3)
    assert (folder / "store" / store_files.DATA).read_bytes() == tables
    assert journal(folder).read_bytes() == record
    with opened(folder) as recorder:
        assert recorder.append([event("next")]) == 6
        assert in_tables(recorder) == 3
    assert [each.first for _, each in records(folder)] == [4, 5, 6]
    assert about(folder)["format"] == 3


BEFORE_EACH_CALL = """
import json, os, signal, sys
from pathlib import Path
from rightful import limits
from tests.faults.support import event, opened

limits.JOURNAL_ROWS = 2
folders, left = Path(sys.argv[1]), 0

def killed(real):
    def call(*arguments, **options):
        global left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **options)
    return call

def append(folder, at, answers):
    global left
    left = at
    for name in ("pwrite", "fdatasync", "fsync", "open", "rename", "mkdir", "posix_fallocate", "unlink"):
        setattr(os, name, killed(getattr(os, name)))
    with opened(folder, create=True) as recorder:
        for n in range(7):
            os.write(answers, bytes([recorder.append([event(f"row-{n}")])]))

def look(folder, answers):
    with opened(folder, create=True) as recorder:
        rows = [each.event.data.decode() for each in recorder.read()]
        assert rows == [f"row-{n}" for n in range(len(rows))], rows
        assert recorder.append([event("next")]) == len(rows) + 1
    with opened(folder) as recorder:
        assert recorder.head() == len(rows) + 1
    os.write(answers, bytes([len(rows)]))

def in_child(work, *arguments):
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        code = 1
        try:
            work(*arguments, writing)
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = list(pipe.read())
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), said

found, at, code = [], 0, -9
while code:
    at += 1
    folder = folders / str(at) / "s"
    folder.parent.mkdir()
    code, answered = in_child(append, folder, at)
    found.append([code, answered, *in_child(look, folder)])
print(json.dumps(found))
"""


def test_killed_before_each_call_of_creation_and_of_rounds_it_opens_again() -> None:
    """From the first folder to the third round: what was answered is there, and it can be written."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        done = run(BEFORE_EACH_CALL, folder)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)

    assert len(found) > 30
    for at, (code, answered, looked, rows) in enumerate(found, 1):
        assert (code, looked) == (0 if at == len(found) else -signal.SIGKILL, 0), (at, done.stderr)
        assert answered == list(range(1, len(answered) + 1)), at
        assert len(answered) <= rows[0] <= len(answered) + 1, at
