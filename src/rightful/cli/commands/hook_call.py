"""One call of an agent's hook: read the agent's JSON, append its events, and never disturb the agent.

Nothing is printed, since Claude Code puts a hook's stdout in front of the model, and the exit code is
always 0. What cannot be written is kept in the spool: as events if they were made, else as the input.
The call ends in bounded time: it waits a second for other writers, less if a call before it waited in
vain, and an alarm ends all of it. A signal is noted, and ends only work whose loss can be kept; while
something is kept, nothing but a time limit ends it.

It loads as little as it can, and last what is largest: the store, only if there is anything to write.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

from rightful import limits

if TYPE_CHECKING:
    from types import FrameType

    from rightful.errors import InvalidEventError
    from rightful.integrations.claude_code.lesson_cursor import Cursor, ReadStates
    from rightful.integrations.spool.spool_files import Spool
    from rightful.log.log import Log
    from rightful.storage.recorder import LMDBRecorder

AGENT = "claude-code"
"""The agent whose hooks can be installed."""

_CHUNK = 1 << 16
_PAUSE_S = 0.05  # an agent that does not close our stdin is looked at so often
_ENDED_BY = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM)


class EndedError(BaseException):
    """The agent ended the call, or its time was over."""


def answer(ledger: str | None, *, verbose: bool, alone: bool) -> int:
    """Handle one call; return 0 in any case.

    Args:
        ledger: The ledger, as `--ledger` names it; None if it does not.
        verbose: Print the steps on stderr.
        alone: This process is the call's own: it may change its signals and streams, and it ends here.
    """
    at_us = time.time_ns() // 1_000
    try:
        signals = _Signals()
        if alone:
            signals.install()
            gc.disable()
            _be_silent(verbose=verbose)
        raw, cut_reason = _stdin_data(signals) if alone else (_input(), "")
        if raw.strip():
            _Recording(raw, at_us, signals, verbose=verbose).record(ledger, cut_reason)
    except BaseException:  # noqa: BLE001, S110 - nothing of ours may reach the agent, whatever it is
        pass
    finally:
        if alone:
            os._exit(0)  # all that matters is on disk; taking the interpreter apart would cost a tenth of the call
    return 0


class _Signals:
    """What would end the call. It is noted, and raised as an error only while they are armed, once.

    Attributes:
        alone: They were taken: the process is the call's own.
        ended: What ended the call; empty if nothing did.
    """

    def __init__(self) -> None:
        self.alone = False
        self.ended = ""
        self._armed = False

    def install(self) -> None:
        """Install the handlers, and start the alarm."""
        for number in _ENDED_BY:
            signal.signal(number, self._on_signal)
        signal.setitimer(signal.ITIMER_REAL, limits.HOOK_TOTAL_S)
        self.alone = True

    def arm(self) -> None:
        """Raise an error when a signal comes; at once if one has come."""
        self._armed = True
        if self.ended:
            self.disarm()
            raise EndedError(self.ended)

    def disarm(self) -> None:
        """Only note signals from now on."""
        self._armed = False

    def limit_time(self) -> None:
        """Limit the time for keeping the input."""
        if self.alone:
            signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
            signal.setitimer(signal.ITIMER_REAL, limits.HOOK_KEEP_S)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.ended = self.ended or signal.Signals(number).name
        if self._armed:
            self.disarm()
            raise EndedError(self.ended)


def _be_silent(*, verbose: bool) -> None:
    """Point stdout, and stderr unless it is verbose, at /dev/null, for libraries too."""
    nowhere = os.open(os.devnull, os.O_RDWR)  # takes the place of stdin if that was closed, and keeps it
    os.dup2(nowhere, 1)
    if not verbose or sys.stderr is None:
        os.dup2(nowhere, 2)


def _input() -> bytes:
    """Return stdin up to a limit; the rest is read and dropped."""
    data = bytearray()
    if sys.stdin is not None:
        stream: Any = sys.stdin.buffer
        while chunk := stream.read1(_CHUNK):
            data += chunk[: limits.HOOK_INPUT_BYTES + 1 - len(data)]
    return bytes(data)


def _stdin_data(signals: _Signals) -> tuple[bytes, str]:
    """Return the data on stdin, and why it may be cut short; empty if it is complete.

    It is read to its end, or to the end of a whole object where the agent leaves it open. Once a signal
    has come, what is there is read and no more is waited for.
    """
    import select

    data = bytearray()
    checked = 0
    until = time.monotonic() + limits.HOOK_STDIN_S
    try:
        fd = sys.stdin.fileno() if sys.stdin is not None else os.open(os.devnull, os.O_RDONLY)
        while (left := until - time.monotonic()) > 0:
            if select.select([fd], [], [], 0 if signals.ended else min(left, _PAUSE_S))[0]:
                if not (chunk := os.read(fd, _CHUNK)):
                    return bytes(data), ""
                data += chunk[: limits.HOOK_INPUT_BYTES + 1 - len(data)]
            elif signals.ended:
                return bytes(data), f"{signals.ended} came before the end of the input"
            elif checked < len(data):
                checked = len(data)
                if _is_whole(data):
                    return bytes(data), ""
    except (OSError, ValueError) as error:
        return bytes(data), f"stdin could not be read: {error}"
    return bytes(data), f"stdin stayed open for {limits.HOOK_STDIN_S:g} s"


def _is_whole(data: bytearray) -> bool:
    from rightful.errors import InvalidEventError
    from rightful.integrations.claude_code import hook_events

    if not data.rstrip().endswith(b"}"):
        return False
    try:
        hook_events.input_of(bytes(data))
    except InvalidEventError:
        return False
    return True


class _Recording:
    """One call on its way: its input, then its events, until they are in the ledger or in the spool."""

    def __init__(self, raw: bytes, at_us: int, signals: _Signals, *, verbose: bool) -> None:
        self._raw = raw
        self._at_us = at_us
        self._signals = signals
        self._verbose = verbose
        self._nonce = os.urandom(8).hex()
        self._events: list[dict[str, Any]] | None = None
        self._cursor: Cursor | None = None
        self._states: ReadStates = {}
        self._recorder: LMDBRecorder | None = None  # kept to the end: it would be closed with its last reference

    def record(self, ledger: str | None, cut_reason: str) -> None:
        """Append the events of the call, or keep them in the spool.

        Args:
            ledger: The ledger, as `--ledger` names it; None if it does not.
            cut_reason: Why the input may be cut short; empty if it is not.
        """
        from rightful.integrations.spool.spool_files import Spool

        try:
            path = ledger.removeprefix("lmdb://") if ledger else _ledger_found(ledger)
        except Exception as error:  # noqa: BLE001 - the ledger of the input is unknown
            aside = Spool(f"{_working_folder()}/.rightful", os.environ).set_aside(self._raw, str(error), self._at_us)
            self._report(f"{error} Set aside in {aside}")
            return
        spool = Spool(path, os.environ)
        try:
            try:
                self._signals.arm()
                self._append_events(path, spool, cut_reason)
            finally:
                self._signals.disarm()
        except BaseException as error:  # noqa: BLE001 - whatever it is, what was said must not be lost
            self._signals.limit_time()
            self._spool(spool, cut_reason or f"{type(error).__name__}: {error}")

    def _report(self, step: str) -> None:
        """Print a step on stderr if `--verbose` was given."""
        if self._verbose:
            from rightful.cli.output import terminal

            terminal.warn_stderr(step)

    def _spool(self, spool: Spool, why: str) -> None:
        if self._events == []:
            return
        kept = None
        try:
            kept = self._events and spool.keep_events(self._events, self._at_us)
        except (ValueError, RecursionError, MemoryError):
            self._events = None
        if self._events is None:
            kept = spool.keep_input(self._raw, why, self._at_us, self._nonce)
        elif kept and self._states and self._cursor:
            self._cursor.save(self._states)  # each exposure is kept once, however long the ledger is stuck
        self._report(f"{why}; kept in {kept}" if kept else f"{why}; no folder takes it, and it is lost")

    def _append_events(self, path: str, spool: Spool, cut_reason: str) -> None:
        from rightful.errors import InvalidEventError
        from rightful.integrations.claude_code import hook_events
        from rightful.integrations.claude_code.lesson_cursor import Cursor

        try:
            value = hook_events.input_of(self._raw)
            events = hook_events.events_of(value, self._at_us, self._nonce)
        except InvalidEventError as error:
            self._refuse(spool, error, cut_reason)
            return
        raw = value["session_id"]
        cursor = self._cursor = Cursor(path, raw)
        self._events = events
        if not hook_events.contradicts(value):  # else the session that saw the lessons is unknown
            exposures, self._states = self._exposures(value, raw, cursor, spool)
            self._events = events + exposures
        waiting = spool.waiting()
        if self._events or waiting:
            self._write_to_ledger(path, spool, waiting)
        if self._states:
            cursor.save(self._states)
        if value.get("hook_event_name") == "SessionEnd":
            cursor.forget()

    def _refuse(self, spool: Spool, error: InvalidEventError, cut_reason: str) -> None:
        """Set an input aside; inputs without a session, which may be many, share one note."""
        if error.place == "$.session_id":
            aside = spool.set_aside_once(str(error), self._raw, str(error), self._at_us)
        else:
            aside = spool.set_aside(self._raw, f"{cut_reason}: {error}" if cut_reason else str(error), self._at_us)
        self._report(f"{error}; set aside in {aside}")

    def _exposures(
        self, value: dict[str, Any], raw: str, cursor: Cursor, spool: Spool
    ) -> tuple[list[dict[str, Any]], ReadStates]:
        """Return the lesson hook's exposures. An error there only delays them until the next call."""
        from rightful.integrations.claude_code import hook_lessons

        try:
            folders = hook_lessons.LessonFolders.of(os.environ, value.get("cwd"), _working_folder())
            before = cursor.load()
            exposures, states = hook_lessons.new_exposures(raw, folders, before, self._at_us)
        except Exception as error:  # noqa: BLE001 - as the docstring says
            why = f"the lesson files could not be read: {error!r}"
            spool.set_aside_once(f"{raw}\n{why}", self._raw, why, self._at_us)
            return [], {}
        return exposures, states if states != before else {}

    def _write_to_ledger(self, path: str, spool: Spool, waiting: list[str]) -> None:
        from pathlib import Path

        from rightful.errors import BusyError
        from rightful.log.log import Log
        from rightful.storage.recorder import LMDBRecorder

        recorder = self._recorder = LMDBRecorder(Path(path))
        wait_s = spool.wait_s(self._at_us)
        try:
            log = Log(recorder, path=path)
            if waiting:
                self._drain(log, spool, wait_s)
            self._append_own(log, spool, wait_s)
        except BaseException as error:
            if isinstance(error, BusyError) and wait_s == limits.HOOK_WAIT_S:
                spool.note_timeout(self._at_us)
            if not self._signals.alone:  # closing would wait for a commit that may be what takes so long
                recorder.close()
            raise
        spool.note_success()
        recorder.close()

    def _drain(self, log: Log, spool: Spool, wait_s: float) -> None:
        from rightful.errors import StorageError
        from rightful.integrations.spool import spool_drain

        try:
            spool_drain.drain(
                spool, log, timeout_s=wait_s, max_files=limits.SPOOL_DRAIN_FILES, max_events=limits.SPOOL_DRAIN_EVENTS
            )
        except StorageError:
            raise
        except Exception as error:  # noqa: BLE001 - what waits must not keep back what comes
            self._report(f"the spool could not be drained: {error!r}")

    def _append_own(self, log: Log, spool: Spool, wait_s: float) -> None:
        from rightful import content
        from rightful.integrations.spool.spool_files import append

        if not self._events:
            return
        for event, receipt in zip(self._events, append(log, self._events, timeout_s=wait_s), strict=True):
            self._report(f"{event['type']}: {receipt.outcome}")
            if receipt.outcome != "invalid":
                continue
            why = f"{event['type']}: {receipt.reason}"
            if event["type"] == "exposure.recorded":  # it comes again with each change of its file
                about = f"{event['producer']}\n{event['key']}"
                spool.set_aside_once(about, content.to_json(event), why, self._at_us)
            else:
                spool.set_aside(self._raw, why, self._at_us)


def _ledger_found(option: str | None) -> str:
    """Return the ledger's folder, found as every command finds it, or where it should be."""
    from rightful import ledger as app
    from rightful.cli.support import ledger_choice
    from rightful.errors import LedgerNotFoundError

    try:
        return str(app.folder_of(ledger_choice.ledger_path(option)))
    except LedgerNotFoundError as error:
        return error.path


def _working_folder() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""
