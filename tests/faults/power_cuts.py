"""What a power cut may leave of a store: files made of what `strace` saw processes write and sync.

A write is on the disk for sure once a sync that began after it has returned. Of what was written
since, any sector may be there or not, in any of the versions it had, whoever wrote it. So each cut
allows many files; some are made of each, opened with our own store in a process of its own, and
asked for all that had been acknowledged by then.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from tests.faults.support import event, opened, run

from rightful.tree import Frontier, leaf_hash

SECTOR: Final = 512
"""What a disk writes whole or not at all; bytes."""

_CALLS = "write,writev,pwrite64,pwritev,pwritev2,lseek,fsync,fdatasync,ftruncate,fallocate,mmap"
_SYNCS = frozenset({"fsync", "fdatasync"})
_LINE = re.compile(r"(\d+) +(?:<\.\.\. (\w+) resumed>|(\w+)\((?:NULL, \d+, [A-Z_|]+, [A-Z_|]+, )?(\d+)<([^>]*)>)(.*)")

_WAYS: Final = ("none", "all", "newest", "all but the newest", "writes", "sectors", "sectors")


def body(name: str) -> str:
    """Return an event's text, which follows from its name; every seventh is longer than a page."""
    digest = sha256(name.encode()).hexdigest()
    return f"{name} {digest * (100 if int(digest, 16) % 7 == 0 else 4)}"


# -- what processes do, under strace -----------------------------------------------------------

WRITE = """
import contextlib, os, sys
from pathlib import Path
from rightful.errors import StorageError
from rightful.recorders.environment import Environment
from rightful.recorders.writer import Writer
from tests.faults.power_cuts import body
from tests.faults.support import event, opened
folder, log, me, commits, change = sys.argv[1:]
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
"""Looks at what stands there, and appends; each answer is written to the log of answers."""

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
    """Where a run was recorded: the file before it, and what was written since."""

    before: Path
    trace: Path
    data: Path
    answers: Path


def recorded(folder: Path, stages: list[list[str]], commits: int, failing: str = "") -> Recording:
    """Run processes on a store, one stage after the other, and record what they write to it.

    Args:
        folder: Where to work.
        stages: Of each process, what is to be changed in it before it begins.
        commits: How many appends each does.
        failing: Which syncs of each fail, as strace counts them.
    """
    found = Recording(folder / "before.mdb", folder / "trace", folder / "s/store/data.mdb", folder / "answers")
    with opened(folder / "s", create=True) as recorder:
        for n in range(20):
            recorder.append([event(body(f"before-{n}"))])
    shutil.copy(found.data, found.before)
    found.answers.touch()
    base = [sys.executable, "-c", WRITE, str(folder / "s"), str(found.answers)]
    commands = [
        [[*base, f"{at}.{me}", str(commits), change] for me, change in enumerate(stage)]
        for at, stage in enumerate(stages)
    ]
    strace = ["strace", "-f", "-qq", "-y", "-xx", "-s", "1000000", "-e", f"trace={_CALLS}", "-e", "signal=none"]
    if failing:
        strace += ["-e", f"inject=fdatasync:error=EIO:when={failing}"]
    paths = ["-P", str(found.data), "-P", str(found.answers), "-o", str(found.trace)]
    done = run(_START, json.dumps(commands), prefix=(*strace, *paths))
    if "ptrace" in done.stderr:
        pytest.skip("this machine lets nobody trace")
    assert done.returncode == 0, done.stderr
    return found


# -- what strace saw ---------------------------------------------------------------------------


class Call:
    """A write, a sync or an answer, from when it began."""

    def __init__(self, name: str, at: int, data: bytes) -> None:
        self.is_sync = name in _SYNCS
        self.at = at
        self.data = data
        self.over = self.good = False


def calls(run: Recording) -> Iterator[tuple[Call, bool]]:
    """Yield each call with whether it is an answer, when it begins and again when it is over."""
    places: dict[str, int] = {}
    open_calls: dict[str, tuple[Call, bool]] = {}
    data = "".join(f"\\x{byte:02x}" for byte in os.fsencode(run.data))
    for line in run.trace.read_text("ascii").splitlines():
        parts = _LINE.match(line)
        if parts is None:
            assert "data.mdb" not in line, line
            continue
        thread, resumed, name, _, path, rest = parts.groups()
        if name == "mmap":
            assert "PROT_WRITE" not in line or "MAP_PRIVATE" in line or path != data, "it is written through the map"
            continue
        if "lseek" in {name, resumed}:
            if not rest.endswith("<unfinished ...>"):
                places[thread] = int(rest.rpartition("= ")[2])
            continue
        if not resumed:
            assert name not in {"ftruncate", "fallocate"}, line
            call = _call(name, rest, places.get(thread, 0))
            open_calls[thread] = call, path != data
            yield open_calls[thread]
        if not rest.endswith("<unfinished ...>") and thread in open_calls:
            begun, is_answer = open_calls.pop(thread)
            result = re.search(r"= (-?\d+)", rest.rpartition(")")[2])
            begun.over, begun.good = True, result is not None and int(result[1]) >= 0
            if begun.good and result is not None and not begun.is_sync:
                begun.data = begun.data[: int(result[1])]
            yield begun, is_answer


def _call(name: str, rest: str, place: int) -> Call:
    data = b"".join(bytes.fromhex(text.replace("\\x", "")) for text in re.findall(r'"((?:\\x[0-9a-f]{2})*)"', rest))
    if name.startswith("p"):
        place = int(re.findall(r", (\d+)", rest.replace(" <unfinished ...>", "").partition(") = ")[0])[-1])
    return Call(name, place, data)


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
        elif not call.over:
            self._syncs[id(call)] = [write for write in self.pending if write.over]
        else:
            for write in self._syncs.pop(id(call)):
                if write in self.pending:
                    self.pending.remove(write)
                    if call.good:  # else the system forgets what it could not write
                        _put(self.sure, write.at, write.data)

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


def what_is_wrong(folder: Path, answers: dict[str, int]) -> str:
    """Open what a cut left, and return what is wrong with it; nothing is empty."""
    with opened(folder) as recorder:
        rows = recorder.rows(0, 100_000)
        there = {}
        tree = Frontier()
        for position, row in enumerate(rows, 1):
            text = next(recorder.read(after=position - 1, limit=1)).event.data.decode()
            name = text.partition(" ")[0]
            tree.add(leaf_hash(row.envelope))
            if row.position != position or text != body(name) or name in there:
                return f"row {position} is not what was written"
            there[name] = position
        if recorder.tree_head() != (len(rows), tree.root()):
            return "the tree does not fit its rows"
        lost = sorted(name for name, position in answers.items() if there.get(name) != position)
        if lost:
            return f"lost {lost}"
        if recorder.append([event(body("after"))]) != len(rows) + 1 or len(recorder.rows(0, 100_000)) != len(rows) + 1:
            return "it cannot be written"
    return ""


def _asked(folder: Path, answers: dict[str, int]) -> str:
    """As `what_is_wrong`, from a process of its own, which may die of it."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            wrong = what_is_wrong(folder, answers)
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
    """Make files of every cut and ask each; return how many there were, and what was wrong."""
    disk, answers, wrong, count = Disk(run.before.read_bytes()), {}, [], 0
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as name:
        folder = Path(name) / "s"
        shutil.copytree(run.data.parents[1], folder)
        for step, (call, is_answer) in enumerate(calls(run)):
            if is_answer:
                text, position = call.data.decode().split()
                answers[text] = int(position)
            else:
                disk.take(call)
            for way in chance.sample(_WAYS, per_cut):
                (folder / "store/data.mdb").write_bytes(disk.after_a_cut(way, chance))
                count += 1
                if said := _asked(folder, answers):
                    wrong.append(f"step {step}, {way}: {said}")
    return count, wrong


def cut(folder: Path, stages: list[list[str]], *, commits: int, failing: str = "", seed: int = 1) -> list[str]:
    """Record a run, cut the power everywhere, and return what was wrong then."""
    recording = recorded(folder, stages, commits, failing)
    script = "import sys; from tests.faults import power_cuts; power_cuts.main(*sys.argv[1:])"
    done = run(script, *recording, 1, seed)
    assert done.returncode == 0, done.stderr
    count, wrong = json.loads(done.stdout)
    assert count > 10, "hardly anything was written"
    return list(wrong)


def main(*arguments: str) -> None:
    """Print what was tried of a recorded run, as JSON."""
    *paths, per_cut, seed = arguments
    sys.stdout.write(json.dumps(tried(Recording(*map(Path, paths)), int(per_cut), int(seed))))
