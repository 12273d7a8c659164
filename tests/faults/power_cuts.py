"""What a power cut may leave of a store: files made of what `strace` saw processes write and sync.

A write is on the disk for sure once a sync of its file that began after it has returned, or itself if
its file was opened for that. Of what was written since, any sector may be there or not, in any of the
versions it had, whoever wrote it, of the tables and of the journal each on its own. So each cut
allows many images; some are made of each, opened with our own store in a process of its own, and
asked for all that had been acknowledged by then; then it is written, and asked again.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from tests.faults.support import event, opened, run

from rightful.encoding.merkle import Frontier, leaf_hash
from rightful.storage.recorder import LMDBRecorder

SECTOR: Final = 512
"""What a disk writes whole or not at all; bytes."""

_CALLS = "openat,write,writev,pwrite64,pwritev,pwritev2,lseek,fsync,fdatasync,ftruncate,fallocate,mmap"
_SYNCS = frozenset({"fsync", "fdatasync"})
_LINE = re.compile(r"(\d+) +(?:<\.\.\. (\w+) resumed>|(\w+)\((?:NULL, \d+, [A-Z_|]+, [A-Z_|]+, )?(\d+)<([^>]*)>)(.*)")

FILES: Final = ("data.mdb", "journal")
"""What is written of a store: the tables and the journal."""

_WAYS: Final = ("none", "all", "newest", "all but the newest", "writes", "sectors", "sectors")


def body(name: str) -> str:
    """Return an event's text, which follows from its name; every seventh is longer than a page."""
    digest = sha256(name.encode()).hexdigest()
    return f"{name} {digest * (100 if int(digest, 16) % 7 == 0 else 4)}"


# -- what processes do, under strace -----------------------------------------------------------

WRITE = """
import contextlib, os, sys
from pathlib import Path
from rightful import limits
from rightful.errors import StorageError
from rightful.storage.journal import journal
from rightful.storage.commit import RowCommitter
from rightful.storage.journal.journal import Journal
from rightful.storage.writer import Writer
from tests.faults.power_cuts import body
from tests.faults.support import event, opened
folder, log, me, commits, rows, change = sys.argv[1:]
limits.JOURNAL_ROWS = int(rows)
limits.JOURNAL_COMMIT_BYTES = 6_000
recorder = opened(Path(folder))
acks = os.open(log, os.O_WRONLY | os.O_APPEND)
exec(change)
print("ready", flush=True)
sys.stdin.read()

def look(view):
    found[:] = [view.last().data.decode().split()[0]]
    return []

for n in range(int(commits)):
    name, found = f"{me}-{n}", []
    with contextlib.suppress(StorageError):  # then nothing is claimed
        head = recorder.decide(look)
        os.write(acks, f"{found[0]} {head}".encode())
    with contextlib.suppress(StorageError):
        os.write(acks, f"{name} {recorder.append([event(body(name))])}".encode())
"""
"""Looks at what stands there, and appends; each answer is written to the log of answers.

The journal holds few rows, so that rounds begin often; every seventh event is too long for it.
"""

_START = """
import json, subprocess, sys
for stage in json.loads(sys.argv[1]):
    running = [subprocess.Popen(each, stdin=-1, stdout=-1) for each in stage]
    for each in running:
        each.stdout.readline()
    for each in running:
        each.stdin.close()
    ends = [each.wait() for each in running]
    assert set(ends) <= {0, -9}, ends
"""


class Recording(NamedTuple):
    """Where a run was recorded: the store before it, and what was written since."""

    before: Path
    trace: Path
    store: Path
    answers: Path


def recorded(folder: Path, stages: list[list[str]], commits: int, failing: str = "", rows: int = 3) -> Recording:
    """Run processes on a store, one stage after the other, and record what they write to it.

    Args:
        folder: Where to work.
        stages: Of each process, what is to be changed in it before it begins.
        commits: How many appends each does.
        failing: Which syncs of each fail, as strace counts them.
        rows: How many rows the journal holds.
    """
    found = Recording(folder / "before", folder / "trace", folder / "s/store", folder / "answers")
    with opened(folder / "s", create=True) as recorder:
        for n in range(20):
            recorder.append([event(body(f"before-{n}"))])
    shutil.copytree(found.store, found.before)
    found.answers.touch()
    base = [sys.executable, "-c", WRITE, str(folder / "s"), str(found.answers)]
    commands = [
        [[*base, f"{at}.{me}", str(commits), str(rows), change] for me, change in enumerate(stage)]
        for at, stage in enumerate(stages)
    ]
    strace = ["strace", "-f", "-qq", "-y", "-xx", "-s", "1000000", "-e", f"trace={_CALLS}", "-e", "signal=none"]
    if failing:
        strace += ["-e", f"inject=fdatasync:error=EIO:when={failing}"]
    paths = [f"-P{found.store / name}" for name in FILES] + [f"-P{found.answers}", "-o", str(found.trace)]
    done = run(_START, json.dumps(commands), prefix=(*strace, *paths))
    if "ptrace" in done.stderr:
        pytest.skip("this machine lets nobody trace")
    assert done.returncode == 0, done.stderr
    return found


# -- what strace saw ---------------------------------------------------------------------------


class Call:
    """A write, a sync or an answer, from when it began. A write may be synced: durable when it is over."""

    def __init__(self, file: str, name: str, at: int, data: bytes) -> None:
        self.file = file
        self.is_sync = name in _SYNCS
        self.is_synced = False
        self.at = at
        self.data = data
        self.over = self.good = False


class Trace:
    """Reads what strace saw."""

    def __init__(self, run: Recording) -> None:
        self._run = run
        self._places: dict[str, int] = {}
        self._calls: dict[str, Call] = {}
        self._synced: dict[tuple[str, str], bool] = {}  # files that a thread opened, and whether its writes are synced

    def calls(self) -> Iterator[Call]:
        """Yield each call when it begins, and again when it is over."""
        for line in self._run.trace.read_text("ascii").splitlines():
            if " openat(" in line or "<... openat resumed" in line:
                self._opened(line)
                continue
            parts = _LINE.match(line)
            if parts is None:
                assert "data.mdb" not in line, line
                continue
            thread, resumed, name, fd, path, rest = parts.groups()
            if name == "mmap":
                assert "PROT_WRITE" not in line or "MAP_PRIVATE" in line, "it is written through the map"
            elif "lseek" in {name, resumed}:
                if not rest.endswith("<unfinished ...>"):
                    self._places[thread] = int(rest.rpartition("= ")[2])
            else:
                yield from self._call(thread, name, fd, path, rest)

    def _opened(self, line: str) -> None:
        thread = line.split(maxsplit=1)[0]
        if "O_WRONLY" in line or "O_RDWR" in line or "O_RDONLY" in line:
            self._calls.pop(thread, None)
            self._synced[thread, "?"] = "O_DSYNC" in line
        if found := re.search(r"= (\d+)<", line):
            self._synced[thread, found[1]] = self._synced[thread, "?"]

    def _call(self, thread: str, name: str | None, fd: str, path: str, rest: str) -> Iterator[Call]:
        if name:
            assert name not in {"ftruncate", "fallocate"}, name
            file = Path(bytes.fromhex(path.replace("\\x", "")).decode()).name
            call = self._calls[thread] = _call(file, name, rest, self._places.get(thread, 0))
            if file == "data.mdb" and not call.is_sync:
                call.is_synced = self._synced[thread, fd]
            yield call
        if not rest.endswith("<unfinished ...>") and thread in self._calls:
            begun = self._calls.pop(thread)
            result = re.search(r"= (-?\d+)", rest.rpartition(")")[2])
            begun.over, begun.good = True, result is not None and int(result[1]) >= 0
            if begun.good and result is not None and not begun.is_sync:
                begun.data = begun.data[: int(result[1])]
            yield begun


def _call(file: str, name: str, rest: str, place: int) -> Call:
    data = b"".join(bytes.fromhex(text.replace("\\x", "")) for text in re.findall(r'"((?:\\x[0-9a-f]{2})*)"', rest))
    if name.startswith("p"):
        place = int(re.findall(r", (\d+)", rest.replace(" <unfinished ...>", "").partition(") = ")[0])[-1])
    return Call(file, name, place, data)


# -- what may be on the disk -------------------------------------------------------------------


class Disk:
    """A file of which some is on the disk for sure, and some may be."""

    def __init__(self, before: bytes) -> None:
        self.sure = bytearray(before)
        self.pending: list[Call] = []
        self._syncs: dict[int, list[Call]] = {}

    def take(self, call: Call) -> None:
        """Take a write or a sync, when it begins and when it is over."""
        if not call.is_sync:
            if not call.over:
                self.pending.append(call)
            elif call.is_synced and call.good:
                self.pending.remove(call)
                _put(self.sure, call.at, call.data)
        elif not call.over:
            self._syncs[id(call)] = [write for write in self.pending if write.over]
        else:
            for write in self._syncs.pop(id(call)):
                if write in self.pending:
                    self.pending.remove(write)
                    if call.good:  # else the system forgets what it could not write
                        _put(self.sure, write.at, write.data)

    def forget(self) -> None:
        """Take it that what was written could not be, and somebody was told so."""
        self.pending = [write for write in self.pending if not write.over]

    def after_a_cut(self, way: str, chance: random.Random) -> bytes:
        """Return a file that a cut now may leave."""
        found = bytearray(self.sure)
        share = chance.choice((0.1, 0.5, 0.9))
        for write in self._kept(way, chance, share):
            _put(found, write.at, write.data)
        if way == "sectors":
            for write in self.pending:
                for start in range(0, len(write.data), SECTOR):
                    if chance.random() < share:
                        _put(found, write.at + start, write.data[start : start + SECTOR])
        if chance.random() < 0.5:  # the file may be longer already, before what is in it is there
            _put(found, max([len(found), *(write.at + len(write.data) for write in self.pending)]), b"")
        return bytes(found)

    def _kept(self, way: str, chance: random.Random, share: float) -> list[Call]:
        """Return which of the pending writes are there whole."""
        match way:
            case "all":
                return self.pending
            case "newest":
                return self.pending[-1:]
            case "all but the newest":
                return self.pending[:-1]
            case "writes":
                return [write for write in self.pending if chance.random() < share]
            case _:
                return []


def _put(file: bytearray, at: int, data: bytes) -> None:
    if len(file) < at:
        file.extend(bytes(at - len(file)))
    file[at : at + len(data)] = data


# -- what our store says of it -----------------------------------------------------------------


def what_is_wrong(folder: Path, answers: dict[str, int], names: Sequence[str]) -> str:
    """Open what a cut left, write more, and return what is wrong with it; nothing is empty.

    Args:
        folder: The store.
        answers: The position of each event that was acknowledged.
        names: What was being written and was not acknowledged, and is now written again, in this order.
    """
    with opened(folder) as recorder:
        there, wrong = _there(recorder)
        if wrong:
            return wrong
        lost = sorted(name for name, position in answers.items() if there.get(name) != position)
        if lost:
            return f"lost {lost}"
        more = [name for name in (*names, "after", "afterwards") if name not in there]
        for name in more:
            if recorder.append([event(body(name))]) != len(there) + 1:
                return "it cannot be written"
            there[name] = len(there) + 1
    with opened(folder) as recorder:
        again, wrong = _there(recorder)
        return wrong or ("" if again == there else f"after writing {more} there is {again} and not {there}")


def _there(recorder: LMDBRecorder) -> tuple[dict[str, int], str]:
    """Return the position of each event, and what is wrong with what is there."""
    there: dict[str, int] = {}
    tree = Frontier()
    for position, row in enumerate(recorder.rows(0, 100_000), 1):
        text = next(recorder.read(after=position - 1, limit=1)).event.data.decode()
        name = text.partition(" ")[0]
        tree.add(leaf_hash(row.envelope))
        if row.position != position or text != body(name) or name in there:
            return there, f"row {position} is not what was written"
        there[name] = position
    if recorder.tree_head() != (len(there), tree.root()):
        return there, "the tree does not fit its rows"
    return there, ""


def _asked(folder: Path, answers: dict[str, int], names: Sequence[str]) -> str:
    """As `what_is_wrong`, from a process of its own, which may die of it."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            wrong = what_is_wrong(folder, answers, names)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the image is damaged
            wrong = f"{type(error).__name__}: {error}"
        os.write(writing, wrong.encode()[:4_000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        wrong = pipe.read()
    status = os.waitpid(child, 0)[1]
    return wrong if not status else f"it died of {os.waitstatus_to_exitcode(status)}"


def tried(run: Recording, per_cut: int, seed: int) -> tuple[int, list[str]]:
    """Make images of every cut and ask each; return how many there were, and what was wrong."""
    disks = {name: Disk((run.before / name).read_bytes()) for name in FILES}
    answers: dict[str, int] = {}
    wrong, count = list[str](), 0
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as name:
        folder = Path(name) / "s"
        shutil.copytree(run.store.parent, folder)
        for step, call in enumerate(Trace(run).calls()):
            if call.file in disks:
                disks[call.file].take(call)
            else:
                text, said = call.data.decode().split()
                if text in disks and not call.over:
                    disks[text].forget()
                elif text not in disks:
                    answers[text] = int(said)
            for _ in range(per_cut):
                ways = [chance.choice(_WAYS) for _ in FILES]
                for file, way in zip(FILES, ways, strict=True):
                    (folder / "store" / file).write_bytes(disks[file].after_a_cut(way, chance))
                count += 1
                if said := _asked(folder, answers, _unanswered(disks["journal"], answers)):
                    wrong.append(f"step {step}, {ways}: {said}")
    return count, wrong


def _unanswered(journal: Disk, answers: dict[str, int]) -> list[str]:
    """Return which events are being written into the journal, in order."""
    written = b"".join(write.data for write in journal.pending)
    names = (each.decode() for each in re.findall(rb"(\d\.\d-\d+) [0-9a-f]{64}", written))
    return [name for name in dict.fromkeys(names) if name not in answers]


def cut(
    folder: Path, stages: list[list[str]], *, commits: int, failing: str = "", rows: int = 3, seed: int = 1
) -> list[str]:
    """Record a run, cut the power everywhere, and return what was wrong then."""
    recording = recorded(folder, stages, commits, failing, rows)
    script = "import sys; from tests.faults import power_cuts; power_cuts.main(*sys.argv[1:])"
    done = run(script, *recording, 1, seed)
    assert done.returncode == 0, done.stderr
    count, wrong = json.loads(done.stdout)
    assert count > 5, "hardly anything was written"
    return list(wrong)


def main(*arguments: str) -> None:
    """Print what was tried of a recorded run, as JSON."""
    *paths, per_cut, seed = arguments
    sys.stdout.write(json.dumps(tried(Recording(*map(Path, paths)), int(per_cut), int(seed))))
