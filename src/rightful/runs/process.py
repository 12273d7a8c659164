r"""Start a command and wait for it as a shell does, with the same terminal, signals and exit code.

The command stays in our process group and uses the terminal directly. A signal from the terminal (Ctrl-C,
Ctrl-\, Ctrl-Z, a hangup, a resize) reaches the command directly, and once. We wait with all these signals
blocked. A signal that was sent only to us is forwarded. A signal that the kernel sent to the whole group is
not forwarded, unless the command has left the group. On a system that does not report the sender (macOS), a
signal counts as the terminal's if we are in its foreground.

If a command in the foreground is stopped, we stop too, so that the shell shows its prompt; `fg` resumes
both. If a command in the background is stopped, we keep waiting, because no shell would resume us.

On Linux the command receives SIGTERM when we are killed (`PR_SET_PDEATHSIG`, prctl(2)), because its end
could not be recorded any more. Its own child processes and set-user-ID programs do not receive the signal.
On other systems the command keeps running.
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
"""The exit codes of a shell for a program that does not exist, and for one that cannot be started."""

BY_SIGNAL = 128
"""The number that a shell adds to the signal that ended a program."""

_PASSED_ON = (
    signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH,
    signal.SIGUSR1, signal.SIGUSR2,
)  # fmt: skip
_OF_TERMINAL = frozenset({signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGHUP, signal.SIGWINCH})
_WAITED = frozenset({*_PASSED_ON, signal.SIGCHLD})
_ENDS = frozenset({signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP})
_SI_KERNEL = 0x80
_PR_SET_PDEATHSIG = 1


class CommandEnd(NamedTuple):
    """How a command ended.

    Attributes:
        code: The exit code that a shell would return.
        why: The reason why it could not be started; None if it was.
    """

    code: int
    why: str | None = None


@contextmanager
def blocked_signals() -> Iterator[set[signal.Signals]]:
    """Block the signals that are forwarded or would end us, and yield the signals that were blocked before.

    Threads started in this context inherit the mask. Signals that arrive while no command runs are dropped at
    the end: they must not interrupt the recording that remains, which takes seconds at most.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED)
    child_handler = signal.signal(signal.SIGCHLD, lambda *_: None)  # an ignored signal is never pending
    try:
        yield {signal.Signals(number) for number in before}
    finally:
        while pending := signal.sigpending() & _WAITED:
            signal.sigwait(pending)
        signal.signal(signal.SIGCHLD, child_handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def pending_end_signal() -> int | None:
    """Return the lowest pending signal that requests termination; None if there is none."""
    return min((int(number) for number in signal.sigpending() & _ENDS), default=None)


def unblock_signals() -> None:
    """Unblock the signals in a forked process that is not the command."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _WAITED)


def run(command: Sequence[str], environment: Mapping[str, str], cwd: Path, mask: set[signal.Signals]) -> CommandEnd:
    """Run a command with our streams and terminal until it ends. Call it within `blocked_signals`.

    Args:
        command: The program and its arguments.
        environment: Its environment.
        cwd: Its working folder.
        mask: The signals to block in the command: those that were blocked in this process before.
    """
    try:
        child = _start(command, environment, cwd, mask)
    except OSError as error:
        missing = error.errno in {errno.ENOENT, errno.ENOTDIR}
        return CommandEnd(NOT_FOUND if missing else NOT_EXECUTABLE, error.strerror or str(error))
    except ValueError as error:  # a NUL in an argument
        return CommandEnd(NOT_EXECUTABLE, str(error))
    return CommandEnd(_wait(child))


def _start(command: Sequence[str], environment: Mapping[str, str], cwd: Path, mask: set[signal.Signals]) -> int:
    prctl, parent = _prctl(), os.getpid()

    def prepare() -> None:
        if prctl is not None:
            prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
            if os.getppid() != parent:  # we were killed meanwhile
                os._exit(BY_SIGNAL + signal.SIGTERM)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    # This process has only one thread here: the ledger is closed, and no other thread was started.
    process = subprocess.Popen(  # noqa: S603 - the caller's own command
        list(command),
        env=dict(environment),
        cwd=cwd,
        close_fds=False,
        preexec_fn=prepare,  # noqa: PLW1509 - see above
    )
    process.returncode = 0  # `_wait` reaps the process, not `Popen`
    return process.pid


def _prctl() -> Callable[..., int] | None:
    """Return Linux's `prctl`. Call it before the fork, since loading a library after it may hang."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        found: Callable[..., int] = ctypes.CDLL(None, use_errno=True).prctl
    except (OSError, AttributeError):
        return None
    return found


def _wait(child: int) -> int:
    """Wait for the command and forward signals to it. Return its exit code as a shell would."""
    while True:
        number, by_kernel = _next_signal()
        if number != signal.SIGCHLD:
            if not (by_kernel and _group(child) == os.getpgrp()):
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
    """Return the next signal, and whether the kernel sent it (which it does to the whole group)."""
    if hasattr(signal, "sigwaitinfo"):
        info = signal.sigwaitinfo(_WAITED)
        return info.si_signo, info.si_code == _SI_KERNEL
    number = signal.sigwait(_WAITED)
    return number, number in _OF_TERMINAL and _in_foreground()


def _in_foreground(child: int | None = None) -> bool:
    """Return whether our process group, or the child's own group, is in the terminal's foreground."""
    group = _group_in_foreground()
    return group is not None and (group == os.getpgrp() or (child is not None and group == _group(child)))


def _group_in_foreground() -> int | None:
    """Return the foreground process group of our terminal, even if no stream is connected to it; else None."""
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


def _group(child: int) -> int | None:
    try:
        return os.getpgid(child)
    except ProcessLookupError:
        return None


def _send(child: int, number: int) -> None:
    """Forward a signal. The child has not been reaped yet, so its process id cannot belong to another process."""
    try:
        os.kill(child, number)
    except OSError:  # it has ended, or changed its user
        return


def _changed(child: int) -> int | None:
    """Return the wait status of a child that ended or stopped; None if it did neither."""
    pid, status = os.waitpid(child, os.WNOHANG | os.WUNTRACED)
    return status if pid else None
