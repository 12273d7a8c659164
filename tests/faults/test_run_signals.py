"""Signals, with real terminals: each reaches the command once, and its end is the run's."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.running import Place

STUCK_S = 30
"""After how long a command that should say something will not; seconds. Nothing depends on it where all is well."""

COUNTS = """
import os, signal, sys
def got(number, frame):
    os.write(1, f"got {signal.Signals(number).name}\\n".encode())
    if number == signal.SIGUSR1:
        sys.exit(7)
for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGWINCH):
    signal.signal(number, got)
os.write(1, b"ready\\n")
while True:
    signal.pause()
"""
"""Says which signals it gets, in one write each since a signal may come within a print, and ends with SIGUSR1."""

SHELL = """
import os, signal, subprocess, sys
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
def lead():
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
job = subprocess.Popen(sys.argv[1:], preexec_fn=lead)
_, status = os.waitpid(job.pid, os.WUNTRACED)
os.tcsetpgrp(0, os.getpgrp())
print("stopped" if os.WIFSTOPPED(status) else "not stopped", flush=True)
os.tcsetpgrp(0, job.pid)
os.killpg(job.pid, signal.SIGCONT)
print("in the foreground", flush=True)
_, status = os.waitpid(job.pid, 0)
os.tcsetpgrp(0, os.getpgrp())
print("ended", os.waitstatus_to_exitcode(status), flush=True)
"""
"""Runs a job as a shell with job control does: it is stopped once, and then brought to the foreground."""


class Terminal:
    """A process on a terminal of its own, whose session it leads."""

    def __init__(self, place: Place, words: list[str]) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                os.chdir(place.project)
                os.execve(words[0], words, place.env())  # noqa: S606 - a session leader is no child of a shell
            finally:
                os._exit(99)
        self.seen = ""

    def until(self, text: str) -> None:
        """Read until a text was printed."""
        while text not in self.seen:
            assert self._read(), f"it ended without {text}: {self.seen}"

    def rest(self) -> str:
        """Read to the end; return all that was printed."""
        while self._read():
            pass
        os.close(self.fd)
        return self.seen

    def _read(self) -> bool:
        ready, _, _ = select.select([self.fd], [], [], STUCK_S)
        if not ready:
            self._kill()
            raise AssertionError(f"nothing came any more after: {self.seen}")
        try:
            chunk = os.read(self.fd, 4096).decode()
        except OSError:  # a terminal without a process
            return False
        self.seen += chunk
        return bool(chunk)

    def _kill(self) -> None:
        """End all that is in its session."""
        found = subprocess.run(["ps", "-o", "pid=", "-s", str(self.pid)], capture_output=True, check=False).stdout
        for pid in found.split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)

    def code(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def counting(place: Place) -> list[str]:
    return place.words("--quiet", "--", sys.executable, "-c", COUNTS)


@pytest.mark.parametrize(("key", "name"), [(b"\x03", "SIGINT"), (b"\x1c", "SIGQUIT")])
def test_a_key_of_the_terminal_reaches_the_command_once(place: Place, key: bytes, name: str) -> None:
    terminal = Terminal(place, counting(place))
    terminal.until("ready\r\n")

    os.write(terminal.fd, key)
    terminal.until(f"got {name}")
    os.kill(terminal.pid, signal.SIGUSR1)  # is dealt with after it, since its number is higher

    assert terminal.rest().count("got SIGUSR1") == 1
    assert terminal.seen.count(f"got {name}") == 1
    assert terminal.code() == 7
    assert [event.exit_code for event in place.events("session.ended")] == [7]


@pytest.mark.sweep
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGWINCH])
def test_a_signal_that_only_the_run_gets_is_passed_on_once(place: Place, number: signal.Signals) -> None:
    terminal = Terminal(place, counting(place))
    terminal.until("ready\r\n")

    os.kill(terminal.pid, number)
    terminal.until(f"got {number.name}")
    os.kill(terminal.pid, signal.SIGUSR1)

    assert terminal.rest().count(f"got {number.name}") == 1
    assert terminal.code() == 7


def test_a_signal_of_the_terminal_reaches_a_command_that_left_the_group(place: Place) -> None:
    script = f"import os; os.setpgid(0, 0)\n{COUNTS}"
    terminal = Terminal(place, place.words("--quiet", "--", sys.executable, "-c", script))
    terminal.until("ready\r\n")

    os.write(terminal.fd, b"\x03")
    terminal.until("got SIGINT")
    os.kill(terminal.pid, signal.SIGUSR1)

    terminal.rest()
    assert terminal.code() == 7


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV])
def test_a_command_that_a_signal_ended_gives_the_code_of_a_shell(place: Place, number: signal.Signals) -> None:
    done = place.run("--", "sh", "-c", f"kill -{int(number)} $$")

    assert done.code == 128 + number
    assert [event.exit_code for event in place.events("session.ended")] == [128 + number]


def test_the_command_gets_the_signals_that_we_held_back(place: Place) -> None:
    script = "import signal; print(sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])))"

    assert place.run("--", sys.executable, "-c", script).out == "[]\n"


def test_a_signal_that_the_caller_ignores_is_ignored_by_the_command(place: Place) -> None:
    script = "import signal; print(signal.getsignal(signal.SIGINT) == signal.SIG_IGN)"

    process = subprocess.Popen(
        place.words("--", sys.executable, "-c", script), env=place.env(), cwd=place.project, text=True,
        stdout=subprocess.PIPE, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),  # noqa: PLW1509 - as `nohup` does
    )  # fmt: skip

    assert process.communicate(timeout=60)[0] == "True\n"


def test_the_command_can_be_stopped_and_brought_back_as_a_job(place: Place) -> None:
    shell = [sys.executable, "-c", SHELL, *counting(place)]
    terminal = Terminal(place, shell)
    terminal.until("ready\r\n")

    os.write(terminal.fd, b"\x1a")
    terminal.until("in the foreground\r\n")  # a terminal lets others write between a line and its end
    os.write(terminal.fd, b"\x03")
    terminal.until("got SIGINT")
    job = int(subprocess.run(["pgrep", "-P", str(terminal.pid)], capture_output=True, check=True).stdout)
    os.kill(job, signal.SIGUSR1)

    assert "ended 7" in terminal.rest()
    assert "stopped" in terminal.seen
    assert "not stopped" not in terminal.seen
    assert terminal.code() == 0


@pytest.mark.parametrize("streams", ["", "</dev/null >/dev/null 2>&1"], ids=["terminal", "elsewhere"])
def test_a_command_that_stops_itself_stops_the_job(place: Place, streams: str) -> None:
    script = "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"
    words = place.words("--quiet", "--", sys.executable, "-c", script)
    job = ["sh", "-c", f'exec "$@" {streams}', "sh", *words]
    terminal = Terminal(place, [sys.executable, "-c", SHELL, *job])

    assert "ended 0" in terminal.rest()
    assert "not stopped" not in terminal.seen
    assert terminal.code() == 0


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="what a process waits for is read in /proc")
def test_stopped_command_without_terminal_is_waited_for_and_not_joined(place: Place) -> None:
    """Nobody would wake us: who stops and wakes the command knows of no other process."""
    process = place.start("--quiet", "--", "sh", "-c", "echo $$; read x; exit 5", stdin=subprocess.PIPE)
    child = int(process.stdout.readline())
    os.kill(child, signal.SIGSTOP)
    while "State:\tT" not in of_process(child):
        pass
    while "State:\tR" in (seen := of_process(process.pid)) or f"ShdPnd:\t{'0' * 16}" not in seen:
        pass

    os.kill(child, signal.SIGCONT)
    process.communicate("go on\n", timeout=60)

    assert process.returncode == 5


def of_process(pid: int) -> str:
    return Path(f"/proc/{pid}/status").read_text()
