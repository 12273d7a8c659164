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

from rightful.recorders.recorder import LMDBRecorder

ROOT = Path(__file__).parents[2]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")


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
