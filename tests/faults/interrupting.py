"""An exception at any line of our code, as a signal handler or a test's timeout raises it; and the process goes on."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from tests import amounts

import rightful

SOURCE = str(Path(rightful.__file__).parent)
STUCK_S = 60
STEP = int(os.environ.get("RIGHTFUL_LINE_STEP") or amounts.either(5, 20))
"""How many lines apart exceptions are raised; 1 is each line, and takes minutes. Each error and thread begins at 1."""


class Interruption:
    """Raises at the k-th line that is run of our code, once.

    Args:
        at: Which line, from 1 on.
        error: What is raised there.
        room: Only lines of files below this folder of the package count.
        here: Whether the lines of the thread that makes it count; else those of all threads begun afterwards.
        done: Lines that do not count, as file and number; those that count are added. None: every run of a line counts.
    """

    def __init__(
        self,
        at: int,
        error: type[BaseException],
        *,
        room: str = "",
        here: bool = True,
        done: set[tuple[str, int]] | None = None,
    ) -> None:
        self.at, self.error = at, error
        self._done = done
        self.seen = 0
        self.place: str | None = None
        self._here = threading.get_ident() if here else None
        self._room = str(Path(SOURCE) / room)
        self._armed = False

    def _call(self, frame: FrameType, event: str, arg: object) -> Any:
        return self._line if frame.f_code.co_filename.startswith(self._room) else None

    def _line(self, frame: FrameType, event: str, arg: object) -> Any:
        if event == "line" and self._armed and self.place is None and self._counts(frame):
            self.seen += 1
            if self.seen == self.at:
                self.place = f"{frame.f_code.co_filename.removeprefix(SOURCE)}:{frame.f_lineno} {frame.f_code.co_name}"
                raise self.error
        return self._line

    def _counts(self, frame: FrameType) -> bool:
        if self._done is None:
            return True
        line = (frame.f_code.co_filename, frame.f_lineno)
        is_new = line not in self._done
        self._done.add(line)
        return is_new

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Trace the threads that begin meanwhile, if they are meant."""
        if self._here is None:
            threading.settrace(self._call)
        try:
            yield
        finally:
            threading.settrace(None)

    def run(self, work: Callable[[], Any]) -> Any:
        """Return what the work returns, or the exception that it raises."""
        gc.disable()  # a finalizer runs anywhere, and Python only prints what is raised in one
        self._armed = True
        if self._here is not None:
            sys.settrace(self._call)
        try:
            return work()
        except BaseException as error:  # noqa: BLE001 - it is the outcome
            return error
        finally:
            sys.settrace(None)
            self._armed = False
            gc.enable()


@contextmanager
def never_stuck() -> Iterator[None]:
    """Fail where a lock stayed taken, and not wait for ever."""

    def stuck(number: int, frame: FrameType | None) -> None:
        raise AssertionError("it waits for ever")

    before = signal.signal(signal.SIGALRM, stuck)
    signal.alarm(STUCK_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def each_line(
    error: type[BaseException], *, room: str = "", here: bool = True, apart: int = 1
) -> Iterator[Interruption]:
    """Yield an interruption at each line in turn, or each `STEP`-th one, until one is not reached.

    Args:
        error: As `Interruption`.
        room: As `Interruption`.
        here: As `Interruption`.
        apart: How many times farther apart they are where not each line is tried; for work of thousands of lines.
    """
    at = 1
    while True:
        interruption = Interruption(at, error, room=room, here=here)
        with never_stuck():
            yield interruption
        if interruption.place is None:
            assert at > 1, f"no line of {room or 'the package'} was run: the sweep has tested nothing"
            return
        at += STEP * apart if STEP > 1 else 1


def each_new_line(error: type[BaseException], *, room: str, apart: int = 1) -> Iterator[Interruption]:
    """Yield an interruption at the first run of each line of the source, or of each `STEP`-th one, until none is new.

    For work that grows with each repeat: a sweep over all lines that are run would never end.

    Args:
        error: As `Interruption`.
        room: As `Interruption`.
        apart: How many times farther apart they are where not each line is tried.
    """
    done: set[tuple[str, int]] = set()
    while True:
        interruption = Interruption(STEP * apart if STEP > 1 else 1, error, room=room, done=done)
        with never_stuck():
            yield interruption
        if interruption.place is None:
            assert done, f"no line of {room} was run: the sweep has tested nothing"
            return
