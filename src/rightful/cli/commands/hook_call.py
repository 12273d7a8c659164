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
from typing import TYPE_CHECKING, Any, NamedTuple

from rightful import limits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

    from rightful.errors import InvalidEventError
    from rightful.integrations.claude_code.lesson_cursor import Cursor, Taken
    from rightful.integrations.spool.spool_files import Spool
    from rightful.log.log import Log
    from rightful.storage.recorder import LMDBRecorder

AGENT = "claude-code"
"""The agent whose hooks can be installed."""

_CHUNK = 1 << 16
_PAUSE_S = 0.05  # an agent that does not close our stdin is looked at so often
_ENDED_BY = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM)


class Call(NamedTuple):
    """The parsed arguments of a call.

    Attributes:
        ledger: The ledger, as `--ledger` names it; None if it does not.
        verbose: Print the steps on stderr.
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
    """Handle one call; return 0 in any case.

    Args:
        call: The parsed arguments.
        alone: This process is the call's own: it may change its signals and streams, and it ends here.
    """
    at_us = time.time_ns() // 1_000
    try:
        signals = _Signals()
        if alone:
            signals.install()
            gc.disable()
            _be_silent(verbose=call.verbose)
        raw, cut = _stdin_data(signals) if alone else (b"".join(_input()), "")
        if raw.strip():
            _Recording(call, raw, at_us, _StderrLog(verbose=call.verbose), signals).record(cut)
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

    def bound(self) -> None:
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


class _StderrLog:
    """Prints the steps on stderr if `--verbose` was given."""

    def __init__(self, *, verbose: bool) -> None:
        self._verbose = verbose

    def write(self, what: str) -> None:
        if self._verbose:
            from rightful.cli.output import terminal

            terminal.warn_stderr(what)


def _be_silent(*, verbose: bool) -> None:
    """Point stdout, and stderr unless it is verbose, at /dev/null, for libraries too."""
    nowhere = os.open(os.devnull, os.O_RDWR)  # takes the place of stdin if that was closed, and keeps it
    os.dup2(nowhere, 1)
    if not verbose or sys.stderr is None:
        os.dup2(nowhere, 2)


def _input() -> Iterator[bytes]:
    """Yield stdin up to a limit; the rest is read and dropped."""
    if sys.stdin is None:
        return
    stream: Any = sys.stdin.buffer
    room = limits.HOOK_INPUT_BYTES + 1
    while chunk := stream.read1(_CHUNK):
        if room > 0:
            yield chunk[:room]
        room -= len(chunk)


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
    from rightful.integrations.claude_code import hook_events as claude_hook

    if not data.rstrip().endswith(b"}"):
        return False
    try:
        claude_hook.input_of(bytes(data))
    except InvalidEventError:
        return False
    return True


class _Recording:
    """One call on its way: its input, then its events, until they are in the ledger or in the spool."""

    def __init__(self, call: Call, raw: bytes, at_us: int, stderr: _StderrLog, signals: _Signals) -> None:
        self._call = call
        self._raw = raw
        self._at_us = at_us
        self._stderr = stderr
        self._signals = signals
        self._nonce = os.urandom(8).hex()
        self._events: list[dict[str, Any]] | None = None
        self._cursor: Cursor | None = None
        self._taken: Taken = {}
        self._recorder: LMDBRecorder | None = None  # kept to the end: it would be closed with its last reference

    def record(self, cut: str) -> None:
        """Append the events of the call, or keep them in the spool.

        Args:
            cut: Why the input may be cut short; empty if it is not.
        """
        from rightful.integrations.spool.spool_files import Spool

        try:
            path = _ledger(self._call)
        except Exception as error:  # noqa: BLE001 - the ledger of the input is unknown
            aside = Spool(f"{_working_folder()}/.rightful", os.environ).set_aside(self._raw, str(error), self._at_us)
            self._stderr.write(f"{error} Set aside in {aside}")
            return
        spool = Spool(path, os.environ)
        try:
            try:
                self._signals.arm()
                self._append_events(path, spool, cut)
            finally:
                self._signals.disarm()
        except BaseException as error:  # noqa: BLE001 - whatever it is, what was said must not be lost
            self._signals.bound()
            self._keep(spool, cut or f"{type(error).__name__}: {error}")

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
        elif kept and self._taken and self._cursor:
            self._cursor.save(self._taken)  # each exposure is kept once, however long the ledger is stuck
        self._stderr.write(f"{why}; kept in {kept}" if kept else f"{why}; no folder takes it, and it is lost")

    def _append_events(self, path: str, spool: Spool, cut: str) -> None:
        from rightful.errors import InvalidEventError
        from rightful.integrations.claude_code import hook_events as claude_hook
        from rightful.integrations.claude_code.lesson_cursor import Cursor

        try:
            value = self._parsed()
            raw = claude_hook.session_id_of(value)
            events = claude_hook.events_of(value, self._at_us, self._nonce)
        except InvalidEventError as error:
            self._refuse(spool, error, cut)
            return
        cursor = self._cursor = Cursor(path, raw)
        self._events = events
        if not claude_hook.contradicts(value):  # else the session that saw the lessons is unknown
            exposures, self._taken = self._exposures(value, raw, cursor, spool)
            self._events = events + exposures
        if self._events or spool.waiting():
            self._append(path, spool)
        if self._taken:
            cursor.save(self._taken)
        if value.get("hook_event_name") == "SessionEnd":
            cursor.forget()

    def _refuse(self, spool: Spool, error: InvalidEventError, cut: str) -> None:
        """Set an input aside; inputs without a session, which may be many, share one note."""
        if error.place == "$.session_id":
            aside = spool.set_aside_once(str(error), self._raw, str(error), self._at_us)
        else:
            aside = spool.set_aside(self._raw, f"{cut}: {error}" if cut else str(error), self._at_us)
        self._stderr.write(f"{error}; set aside in {aside}")

    def _parsed(self) -> dict[str, Any]:
        from rightful.errors import InvalidEventError
        from rightful.integrations.claude_code import hook_events as claude_hook

        if len(self._raw) > limits.HOOK_INPUT_BYTES:
            raise InvalidEventError(f"Expected input of at most {limits.HOOK_INPUT_BYTES} bytes")
        return claude_hook.input_of(self._raw)

    def _exposures(
        self, value: dict[str, Any], raw: str, cursor: Cursor, spool: Spool
    ) -> tuple[list[dict[str, Any]], Taken]:
        """Return the lesson hook's exposures. An error there only delays them until the next call."""
        from rightful.integrations.claude_code import hook_lessons as claude_hook_lessons

        try:
            places = claude_hook_lessons.Places.of(os.environ, value.get("cwd"), _working_folder())
            before = cursor.load()
            exposures, taken = claude_hook_lessons.fresh(raw, places, before, self._at_us)
        except Exception as error:  # noqa: BLE001 - as the docstring says
            why = f"the lesson files could not be read: {error!r}"
            spool.set_aside_once(f"{raw}\n{why}", self._raw, why, self._at_us)
            return [], {}
        return exposures, taken if taken != before else {}

    def _append(self, path: str, spool: Spool) -> None:
        from pathlib import Path

        from rightful.errors import BusyError
        from rightful.log.log import Log
        from rightful.storage.recorder import LMDBRecorder

        recorder = self._recorder = LMDBRecorder(Path(path))
        wait_s = spool.wait_s(self._at_us)
        try:
            log = Log(recorder, path=path)
            self._drain(log, spool, wait_s)
            self._write(log, spool, wait_s)
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

        try:
            spool.drain(log, timeout_s=wait_s, most=limits.SPOOL_DRAIN_FILES, events=limits.SPOOL_DRAIN_EVENTS)
        except StorageError:
            raise
        except Exception as error:  # noqa: BLE001 - what waits must not keep back what comes
            self._stderr.write(f"the spool could not be drained: {error!r}")

    def _write(self, log: Log, spool: Spool, wait_s: float) -> None:
        from rightful import content
        from rightful.integrations.spool.spool_files import append

        if not self._events:
            return
        for event, receipt in zip(self._events, append(log, self._events, timeout_s=wait_s), strict=True):
            self._stderr.write(f"{event['type']}: {receipt.outcome}")
            if receipt.outcome != "invalid":
                continue
            why = f"{event['type']}: {receipt.reason}"
            if event["type"] == "exposure.recorded":  # it comes again with each change of its file
                about = f"{event['producer']}\n{event['key']}"
                spool.set_aside_once(about, content.to_json(event), why, self._at_us)
            else:
                spool.set_aside(self._raw, why, self._at_us)


def _ledger(call: Call) -> str:
    """Return the ledger's folder, or where it should be."""
    if call.ledger:
        return call.ledger.removeprefix("lmdb://")
    from rightful import ledger as app
    from rightful.cli.output import terminal
    from rightful.errors import LedgerNotFoundError

    try:
        return str(app.folder_of(terminal.ledger_path(call.ledger)))
    except LedgerNotFoundError as error:
        return error.path


def _working_folder() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""
