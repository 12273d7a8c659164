"""The way of one process at a time to write: at once where it is free, but not for ever."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path

from tests.contracts.support import PATIENCE_S

from rightful import limits
from rightful.recorders.locks import Turnstile


def held(folder: Path, name: str) -> int:
    """Hold a lock file as another process would."""
    fd = os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return fd


def taking(turns: Turnstile, times: int = 1) -> threading.Event:
    """Take the turn and pass it on, so often, in a thread of its own; return what is set when it did."""
    done = threading.Event()

    def take() -> None:
        for _ in range(times):
            turns.enter()
            turns.leave()
        done.set()

    threading.Thread(target=take, daemon=True).start()
    return done


def waits(fd: int) -> bool:
    """Tell whether somebody waits in the queue for the file that a descriptor locks; until one does, or it is late."""
    inode = f":{os.fstat(fd).st_ino} "
    for _ in range(int(PATIENCE_S * 1_000)):
        table = Path("/proc/locks").read_text(encoding="ascii")
        if any("->" in line and inode in line for line in table.splitlines()):
            return True
        threading.Event().wait(0.001)
    return False


def test_a_free_turn_is_taken_without_queueing_so_often_and_no_more(tmp_path: Path) -> None:
    """Another process stands in the queue all the time: it is passed 16 times, and then let by."""
    queue = held(tmp_path, "queue.lock")
    turns = Turnstile(tmp_path)
    assert taking(turns, limits.TURNS_AT_ONCE).wait(PATIENCE_S)

    one_more = taking(turns)
    assert waits(queue)
    assert not one_more.is_set()
    os.close(queue)
    assert one_more.wait(PATIENCE_S)

    queue = held(tmp_path, "queue.lock")
    assert taking(turns).wait(PATIENCE_S), "who queued may go on at once again"
    os.close(queue)
    turns.close()


def test_a_turn_that_another_has_is_waited_for_in_the_queue(tmp_path: Path) -> None:
    writer, turns = held(tmp_path, "writer.lock"), Turnstile(tmp_path)

    mine = taking(turns)
    assert waits(writer)
    assert not mine.is_set()
    assert not is_free(tmp_path / "queue.lock")
    os.close(writer)
    assert mine.wait(PATIENCE_S)
    assert is_free(tmp_path / "queue.lock")
    turns.close()


def is_free(path: Path) -> bool:
    fd = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    else:
        return True
    finally:
        os.close(fd)
