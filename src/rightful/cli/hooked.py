"""One call of an agent's hook: read what the agent says, append it, and never disturb the agent.

Nothing is printed, since Claude Code puts a hook's stdout in front of the model, and the exit code is
always 0. What cannot be written is kept in the spool: as events if they were made, else as the input.
The call ends in bounded time: it waits a second for other writers, less if a call before it waited in
vain, and an alarm ends all of it.

It loads as little as it can, and last what is largest: the store, only if there is anything to write.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from rightful import limits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

    from rightful.ledger.log import Log
    from rightful.producers.claude_hook_cursor import Cursor
    from rightful.producers.claude_hook_lessons import Taken
    from rightful.producers.spool import Spool
    from rightful.recorders.recorder import LMDBRecorder

AGENT = "claude-code"
"""The agent whose hooks can be installed."""

_CHUNK = 1 << 16
_STDIN_S = 1.0  # an agent that does not close our stdin has said all by then
_ENDED_BY = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM)


class Call(NamedTuple):
    """What the words of a call say.

    Attributes:
        ledger: The ledger, as `--ledger` names it; None if it does not.
        verbose: Say on stderr what happens.
    """

    ledger: str | None = None
    verbose: bool = False


class EndedError(BaseException):
    """The agent ended the call, or its time was over."""


def call_of(words: Sequence[str]) -> Call | None:
    """Return the call that the words after `hook run` make; None if they are not the ones that `install` writes."""
    rest = iter(words)
    if next(rest, None) != AGENT:
        return None
    call = Call()
    for word in rest:
        if word == "--ledger":
            call = call._replace(ledger=next(rest, ""))
        elif word == "--verbose":
            call = call._replace(verbose=True)
        else:
            return None
    return call


def answer(call: Call, *, alone: bool) -> int:
    """Take one call; return 0 whatever happens.

    Args:
        call: What is asked.
        alone: This process is the call's own: it may change its signals and streams, and it ends here.
    """
    at_us = time.time_ns() // 1_000
    taking = None
    try:
        if alone:
            gc.disable()
            _be_silent(verbose=call.verbose)
            _take_signals()
        raw = b"".join(_input(alone=alone))
        if raw.strip():
            taking = _Taking(call, raw, at_us, _Told(verbose=call.verbose), alone=alone)
            taking.take()
    except BaseException:  # noqa: BLE001, S110 - nothing of ours may reach the agent, whatever it is
        pass
    finally:
        if alone:
            os._exit(0)  # all that matters is on disk; taking the interpreter apart would cost a tenth of the call
    return 0


class _Told:
    """Says on stderr what happens, to who asked for it."""

    def __init__(self, *, verbose: bool) -> None:
        self._verbose = verbose

    def tell(self, what: str) -> None:
        if self._verbose:
            from rightful.cli import common

            common.complain(what)


def _be_silent(*, verbose: bool) -> None:
    """Let stdout, and stderr unless somebody wants to see it, lead nowhere, whoever writes there."""
    nowhere = os.open(os.devnull, os.O_RDWR)  # takes the place of stdin if that was closed, and keeps it
    os.dup2(nowhere, 1)
    if not verbose or sys.stderr is None:
        os.dup2(nowhere, 2)


def _take_signals() -> None:
    for number in _ENDED_BY:
        signal.signal(number, _end)
    signal.signal(signal.SIGALRM, _end_reading)
    signal.setitimer(signal.ITIMER_REAL, _STDIN_S)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    """End the work, once: what comes after it keeps what would be lost, and is not ended."""
    del frame
    for each in _ENDED_BY:
        signal.signal(each, signal.SIG_IGN)
    raise EndedError(signal.Signals(number).name)


def _end_reading(number: int, frame: FrameType | None) -> NoReturn:
    del number, frame
    raise EndedError("stdin stays open")


def _input(*, alone: bool) -> Iterator[bytes]:
    """Yield what stands on stdin, up to a limit; what lies beyond it is read and dropped."""
    if sys.stdin is None:
        return
    stream: Any = sys.stdin.buffer
    room = limits.HOOK_INPUT_BYTES + 1
    try:
        while chunk := stream.read1(_CHUNK):
            if room > 0:
                yield chunk[:room]
            room -= len(chunk)
    except (EndedError, OSError, ValueError):
        pass  # what was read is taken; it may be all there is
    if alone:
        signal.signal(signal.SIGALRM, _end)
        signal.setitimer(signal.ITIMER_REAL, limits.HOOK_TOTAL_S)


class _Taking:
    """One call on its way: its input, then its events, until they are in the ledger or in the spool."""

    def __init__(self, call: Call, raw: bytes, at_us: int, told: _Told, *, alone: bool) -> None:
        self._call = call
        self._raw = raw
        self._at_us = at_us
        self._told = told
        self._alone = alone
        self._nonce = os.urandom(8).hex()
        self._events: list[dict[str, Any]] | None = None
        self._recorder: LMDBRecorder | None = None  # held to the end: it closes itself when it is let go

    def take(self) -> None:
        """Append what the call says, or keep it."""
        from rightful.producers.spool import Spool

        try:
            path = _ledger(self._call)
        except Exception as error:  # noqa: BLE001 - nobody knows for which ledger it should wait
            aside = Spool(f"{_working_folder()}/.rightful", os.environ).set_aside(self._raw, str(error), self._at_us)
            self._told.tell(f"{error} Set aside in {aside}")
            return
        spool = Spool(path, os.environ)
        try:
            self._take(path, spool)
        except BaseException as error:  # noqa: BLE001 - whatever it is, what was said must not be lost
            self._keep(spool, f"{type(error).__name__}: {error}")

    def _keep(self, spool: Spool, why: str) -> None:
        if self._events == []:
            return
        kept = None
        try:
            kept = self._events and spool.keep_events(self._events, self._at_us)
        except (ValueError, RecursionError, MemoryError):
            self._events = None
        if self._events is None:
            kept = spool.keep_input(self._raw, why, self._at_us, self._nonce)
        self._told.tell(f"{why}; kept in {kept}" if kept else f"{why}; no folder takes it, and it is lost")

    def _take(self, path: str, spool: Spool) -> None:
        from rightful.errors import InvalidEventError
        from rightful.producers import claude_hook
        from rightful.producers.claude_hook_cursor import Cursor

        try:
            value = self._parsed()
            raw = claude_hook.session_id_of(value)
            events = claude_hook.events_of(value, self._at_us, self._nonce)
        except InvalidEventError as error:
            self._told.tell(f"{error}; set aside in {spool.set_aside(self._raw, str(error), self._at_us)}")
            return
        cursor = Cursor(path, raw)
        self._events = events
        self._events, taken = self._with_exposures(events, value, raw, cursor, spool)
        if not self._events and not spool.waiting():
            return
        self._append(path, spool)
        if taken:
            cursor.save(taken)
        if value.get("hook_event_name") == "SessionEnd":
            cursor.forget()

    def _parsed(self) -> dict[str, Any]:
        from rightful.errors import InvalidEventError
        from rightful.producers import claude_hook

        if len(self._raw) > limits.HOOK_INPUT_BYTES:
            raise InvalidEventError(f"Expected input of at most {limits.HOOK_INPUT_BYTES} bytes")
        return claude_hook.input_of(self._raw)

    def _with_exposures(
        self, events: list[dict[str, Any]], value: dict[str, Any], raw: str, cursor: Cursor, spool: Spool
    ) -> tuple[list[dict[str, Any]], Taken]:
        """Add what the lesson hook left; a mistake there costs the exposures until the next call, and nothing else."""
        from rightful.producers import claude_hook_lessons

        try:
            places = claude_hook_lessons.Places.of(os.environ, value.get("cwd"), _working_folder())
            before = cursor.load()
            shown, taken = claude_hook_lessons.fresh(raw, places, before, self._at_us)
        except Exception as error:  # noqa: BLE001 - as the docstring says
            spool.set_aside(self._raw, f"the lesson files could not be read: {error!r}", self._at_us)
            return events, {}
        return events + shown, taken if taken != before else {}

    def _append(self, path: str, spool: Spool) -> None:
        from pathlib import Path

        from rightful.ledger.log import Log
        from rightful.recorders.recorder import LMDBRecorder

        recorder = self._recorder = LMDBRecorder(Path(path))
        try:
            log = Log(recorder, path=path)
            wait_s = spool.wait_s(self._at_us)
            spool.drain(log, timeout_s=wait_s, most=limits.SPOOL_DRAIN_FILES)
            self._write(log, spool, wait_s)
        except BaseException:
            if not self._alone:  # closing would wait for a commit that may be what takes so long
                recorder.close()
            raise
        recorder.close()

    def _write(self, log: Log, spool: Spool, wait_s: float) -> None:
        if not self._events:
            return
        for event, receipt in zip(self._events, log.append(self._events, timeout_s=wait_s), strict=True):
            self._told.tell(f"{event['type']}: {receipt.outcome}")
            if receipt.outcome == "invalid":
                spool.set_aside(self._raw, f"{event['type']}: {receipt.reason}", self._at_us)


def _ledger(call: Call) -> str:
    """Return the ledger's folder, or where it should be."""
    if call.ledger:
        return call.ledger.removeprefix("lmdb://")
    from rightful import app
    from rightful.cli import common
    from rightful.errors import LedgerNotFoundError

    try:
        return str(app.folder_of(common.located(call.ledger)))
    except LedgerNotFoundError as error:
        return error.path


def _working_folder() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""
