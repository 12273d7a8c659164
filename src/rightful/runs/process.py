r"""Starting a command and waiting for it as a shell does: terminal, signals, exit code.

The command stays in our process group, so that it has the terminal as if we were not there: what the
terminal sends (Ctrl-C, Ctrl-\, Ctrl-Z, a hangup, a new size) reaches the command directly, and once.
We wait with all these signals blocked. One that somebody sent to us alone is passed on; one that the
kernel sent to the whole group is not, unless the command has left the group. Where the system does not
say who sent it (macOS), one is taken for the terminal's if we are in its foreground.

A command in the foreground that is stopped stops us too, so that the shell gets its prompt back; `fg` goes
on with both. Anywhere else nobody would know to wake us, so one that is stopped alone is waited for.

On Linux the command is sent SIGTERM when we are killed (`PR_SET_PDEATHSIG`, prctl(2)): nobody would
record its end any more. It does not reach what the command itself has started, nor a program with
set-user-ID. Elsewhere the command goes on.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

NOT_FOUND, NOT_EXECUTABLE = 127, 126
"""What a shell returns for a program that is not there, and for one that cannot be started."""

BY_SIGNAL = 128
"""What a shell adds to the number of the signal that ended a program."""

_PASSED_ON = (
    signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH,
    signal.SIGUSR1, signal.SIGUSR2,
)  # fmt: skip
_OF_TERMINAL = frozenset({signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGHUP, signal.SIGWINCH})
_WAITED = frozenset({*_PASSED_ON, signal.SIGCHLD})
_ENDS = frozenset({signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP})
_SI_KERNEL = 0x80
_PR_SET_PDEATHSIG = 1


class Ended(NamedTuple):
    """How a command ended.

    Attributes:
        code: What a shell would return for it.
        why: Why it could not be started; None if it was.
    """

    code: int
    why: str | None = None


@contextmanager
def held() -> Iterator[set[signal.Signals]]:
    """Hold signals back, those for the command and those that would end us; yield which were held before.

    Threads that are started meanwhile hold them back too. What comes while no command runs is dropped at
    the end: it must not end what is left to be recorded, and that takes seconds at most.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED)
    child_handler = signal.signal(signal.SIGCHLD, lambda *_: None)  # one that is ignored is never pending
    try:
        yield {signal.Signals(number) for number in before}
    finally:
        while pending := signal.sigpending() & _WAITED:
            signal.sigwait(pending)
        signal.signal(signal.SIGCHLD, child_handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ending() -> int | None:
    """Return the signal that somebody sent while all was held and that asks us to end; None if nobody did."""
    return min((int(number) for number in signal.sigpending() & _ENDS), default=None)


def released() -> None:
    """Let signals come again in a process that was just forked and is not the command."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _WAITED)


def run(command: Sequence[str], environment: Mapping[str, str], cwd: Path, mask: set[signal.Signals]) -> Ended:
    """Run a command with our streams and terminal until it ends; signals are `held`.

    Args:
        command: Its words.
        environment: Its environment.
        cwd: Its working folder.
        mask: The signals that it shall hold back: those that we did before.
    """
    try:
        child = _start(command, environment, cwd, mask)
    except OSError as error:
        missing = error.errno in {errno.ENOENT, errno.ENOTDIR}
        return Ended(NOT_FOUND if missing else NOT_EXECUTABLE, error.strerror or str(error))
    except ValueError as error:  # a NUL in a word
        return Ended(NOT_EXECUTABLE, str(error))
    return Ended(_wait(child))


def _start(command: Sequence[str], environment: Mapping[str, str], cwd: Path, mask: set[signal.Signals]) -> int:
    """Start the command and return its process id.

    Raises:
        OSError: It cannot be started.
    """
    prctl, parent = _prctl(), os.getpid()

    def prepare() -> None:
        if prctl is not None:
            prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
            if os.getppid() != parent:  # we were killed meanwhile
                os._exit(BY_SIGNAL + signal.SIGTERM)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    # One thread only by now: the ledger is closed, and nothing else was started.
    process = subprocess.Popen(  # noqa: S603 - what the caller asked for
        list(command),
        env=dict(environment),
        cwd=cwd,
        close_fds=False,
        preexec_fn=prepare,  # noqa: PLW1509 - see above
    )
    process.returncode = 0  # it is we who wait for it
    return process.pid


def _prctl() -> Callable[..., int] | None:
    """Return Linux's `prctl`; looked up before the fork, since loading anything after it may hang."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        found: Callable[..., int] = ctypes.CDLL(None, use_errno=True).prctl
    except (OSError, AttributeError):
        return None
    return found


def _wait(child: int) -> int:
    """Wait for the command, passing signals on; return its exit code as a shell has it."""
    while True:
        number, by_kernel = _next_signal()
        if number != signal.SIGCHLD:
            if not (by_kernel and _in_our_group(child)):
                _send(child, number)
            continue
        while (status := _changed(child)) is not None:
            if os.WIFSTOPPED(status):
                if _in_foreground(child):
                    os.kill(os.getpid(), signal.SIGSTOP)
                continue
            code = os.waitstatus_to_exitcode(status)
            return BY_SIGNAL - code if code < 0 else code


def _next_signal() -> tuple[int, bool]:
    """Return the next signal, and whether the kernel sent it, to the whole group."""
    if hasattr(signal, "sigwaitinfo"):
        told = signal.sigwaitinfo(_WAITED)
        return told.si_signo, told.si_code == _SI_KERNEL
    number = signal.sigwait(_WAITED)
    return number, number in _OF_TERMINAL and _in_foreground()


def _in_foreground(child: int | None = None) -> bool:
    """Say whether our group has the terminal, or that of a child which went to one of its own."""
    group = _group_in_foreground()
    return group is not None and (group == os.getpgrp() or (child is not None and group == _group(child)))


def _group_in_foreground() -> int | None:
    """Return the process group that has our terminal, also where no stream leads to it; None if there is none."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.tcgetpgrp(terminal)
    except OSError:
        return None
    finally:
        os.close(terminal)


def _in_our_group(child: int) -> bool:
    return _group(child) == os.getpgrp()


def _group(child: int) -> int | None:
    try:
        return os.getpgid(child)
    except ProcessLookupError:
        return None


def _send(child: int, number: int) -> None:
    """Pass a signal on. The child is not yet waited for, so the number is still its own."""
    try:
        os.kill(child, number)
    except OSError:  # it has ended, or became another user's
        return


def _changed(child: int) -> int | None:
    """Return the status of a child that ended or stopped; None if it did neither."""
    pid, status = os.waitpid(child, os.WNOHANG | os.WUNTRACED)
    return status if pid else None
