"""What the store's fault tests share."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from eventsourcing.dcb.api import DCBEvent

from rightful import limits
from rightful.storage.environment import store_files
from rightful.storage.journal import journal_records as records_module
from rightful.storage.journal.journal_records import HEAD_BYTES, START, Record, RoundFormat
from rightful.storage.recorder import LMDBRecorder

ROOT = Path(__file__).parents[2]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")


FORM = RoundFormat(bytes(48), 1)
"""The form of records, of which the checks are not looked at here."""


def event(data: str = "data", *, tags: tuple[str, ...] = ()) -> DCBEvent:
    return DCBEvent(type="type", data=data.encode(), tags=list(tags))


def opened(folder: Path, *, create: bool = False, readonly: bool = False) -> LMDBRecorder:
    return LMDBRecorder(folder, kind="plain", create=create, readonly=readonly)


def filled(folder: Path, count: int = 3) -> Path:
    """Make a store with that many events, closed."""
    with opened(folder, create=True) as recorder:
        for n in range(count):
            recorder.append([event(f"event-{n + 1}", tags=(f"tag{n + 1}",))])
    return folder


def unmarked(folder: Path, count: int = 3) -> Path:
    """Make a store as `filled` does, whose last record is not marked durable, as where its process was killed."""
    filled(folder, count - 1)
    mark = journal(folder).read_bytes()[: records_module.ANCHORS_AT[0]]
    with opened(folder) as recorder:
        recorder.append([event(f"event-{count}", tags=(f"tag{count}",))])
    overwrite(folder, 0, mark)
    return folder


def tabled(folder: Path, count: int = 3) -> Path:
    """Make a store with that many events, closed; all stand in LMDB's tables, none in its journal."""
    with pytest.MonkeyPatch.context() as patch:
        into_tables(patch)
        return filled(folder, count)


def into_tables(patch: pytest.MonkeyPatch) -> None:
    """Have each commit of this process go into LMDB's tables, however small it is."""
    patch.setattr(limits, "JOURNAL_COMMIT_BYTES", 0)


def in_tables(recorder: LMDBRecorder) -> int:
    """Return how many rows stand in LMDB's tables."""
    env = recorder.tables().env
    return env.read(lambda txn: int(txn.stat(env.tables["rows"])["entries"]))


def journal(folder: Path) -> Path:
    return folder / "store" / store_files.JOURNAL


def records(folder: Path) -> list[tuple[int, Record]]:
    """Return the records of a store's journal, from its beginning on, each with the place where it begins."""
    data, at, found = journal(folder).read_bytes(), START, list[tuple[int, Record]]()
    while (record := FORM.record_of(data[at : at + HEAD_BYTES])) is not None:
        found.append((at, record))
        at += record.size
    return found


def overwrite(folder: Path, at: int, data: bytes) -> None:
    """Write bytes into a store's journal at a place, by no program of ours."""
    with journal(folder).open("r+b") as file:
        file.seek(at)
        file.write(data)


def flip(folder: Path, at: int) -> None:
    """Flip one bit of a byte of a store's journal."""
    overwrite(folder, at, bytes([journal(folder).read_bytes()[at] ^ 1 << at % 8]))


def run(script: str, *arguments: object, prefix: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own, with our modules in reach."""
    command = [*prefix, sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=reach())


def started(module: str, *words: str) -> subprocess.Popen[str]:
    """Start a module of ours as a process, and say nothing to it yet."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-m", module, *words]
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=ROOT, env=reach())


def at_once(module: str, calls: Sequence[Sequence[str]]) -> list[str]:
    """Run a process for each call; all go on when all are ready. Return what each says."""
    processes = [started(module, *call) for call in calls]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", process.communicate()[1]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    said = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes), said
    return [out.strip() for out, _ in said]


def reach() -> dict[str, str]:
    """Return an environment in which our modules are found."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}


@contextmanager
def small_disk(kilobytes: int) -> Iterator[Path]:
    """Mount a file system of that size; it is full soon."""
    with tempfile.TemporaryDirectory() as name:
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", name], check=False)
        if mounted.returncode:
            pytest.skip("this machine mounts nothing")
        try:
            yield Path(name)
        finally:
            subprocess.run(["umount", "-l", name], check=True)


def open_to_everybody(folder: Path) -> None:
    """Let other users enter a test's own folder: pytest makes it, and its parents, for its user only."""
    for path in [folder, *folder.parents]:
        if path == folder or path.name.startswith(("pytest-", "popen-")):
            path.chmod(0o755)
