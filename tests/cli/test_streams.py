"""What the program reads and writes by, and what ends it: closed streams, Ctrl-C, text of others."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Run

from rightful import cli

# -- closed streams ----------------------------------------------------------------------------

LINE = """{"type":"session.ended","producer":"p","key":"k","session":"t:1","at":"2026-08-01T10:00:00Z"}"""


def shell(script: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script in which `rightful` is this program."""
    text = f'rightful() {{ "{sys.executable}" -m rightful "$@"; }}\n{script}'
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(["sh", "-c", text], check=False, capture_output=True, text=True, env=env)


@pytest.mark.parametrize("words", ["ingest", "ingest -", "import auto -"])
def test_closed_stdin_is_an_error_for_a_command_that_reads_it(ledger: Path, words: str) -> None:
    done = shell(f"rightful {words} <&-")

    assert done.returncode == 2
    assert done.stderr == "rightful: stdin is closed; nothing was read. Name a file, or open stdin.\n"


def test_closed_stdin_does_not_matter_to_other_commands(ledger: Path, here: Path) -> None:
    (here / "empty.jsonl").touch()

    assert shell("rightful import auto empty.jsonl <&-").returncode == 0


def test_complaints_never_land_in_the_answer(ledger: Path, here: Path) -> None:
    (here / "events.jsonl").write_text(f"rubbish\n{LINE}\n")
    done = shell("rightful ingest --json events.jsonl 2>&-")

    assert done.returncode == 2
    assert json.loads(done.stdout)["counts"] == {"invalid": 1, "appended": 1}


@pytest.mark.sweep
@pytest.mark.parametrize("words", ["status", "status --json", "--version", "posteriors", "--help"])
def test_an_answer_that_goes_nowhere_is_none(ledger: Path, words: str) -> None:
    done = shell(f"rightful {words} >&-")

    assert done.returncode == 4
    assert done.stderr.startswith("rightful: the answer could not be written to stdout: it is closed; ")
    assert "Traceback" not in done.stderr


# -- Ctrl-C ------------------------------------------------------------------------------------

LOADING = """
import os, runpy, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

class Stderr:
    def __init__(self, stream):
        self._stream = stream

    def write(self, text):
        if text.startswith("rightful"):
            os.kill(os.getpid(), signal.SIGINT)
        return self._stream.write(text)

    def __getattr__(self, name):
        return getattr(self._stream, name)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupt())
sys.stderr = Stderr(sys.stderr)
sys.argv = ["rightful", "status"]
runpy.run_module("rightful", run_name="__main__")
"""
ENDING = """
import atexit, os, signal, sys
from rightful.cli import main

signal.signal(signal.SIGINT, signal.default_int_handler)
atexit.register(os.kill, os.getpid(), signal.SIGINT)
sys.argv = ["rightful", "status"]
sys.exit(main())
"""


def python(script: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, env=env)


@pytest.mark.sweep
@pytest.mark.parametrize(
    "module",
    [
        "rightful.cli.output.terminal",
        "argparse",
        "rightful.cli.support.parsing",
        "rightful.cli.commands.status",
        "rightful.ledger",
        "rich.table",
    ],
)
def test_ctrl_c_during_import_is_reported_and_a_second_one_is_ignored(ledger: Path, module: str) -> None:
    done = python(LOADING.format(module=module))

    assert done.returncode == cli.INTERRUPTED
    assert done.stderr.startswith("rightful: interrupted. Acknowledged events are written")
    assert len(done.stderr.splitlines()) == 1


def test_ctrl_c_before_the_command_line_is_loaded_is_said_too(ledger: Path) -> None:
    script = LOADING.format(module="rightful.cli").replace('text.startswith("rightful")', "False")
    done = python(script)

    assert (done.returncode, done.stderr) == (cli.INTERRUPTED, "rightful: interrupted; nothing was done.\n")


def test_ctrl_c_after_the_answer_leaves_it_an_answer(ledger: Path) -> None:
    done = python(ENDING)

    assert (done.returncode, done.stderr) == (0, "")
    assert "last recorded  never" in done.stdout


def test_ctrl_c_that_stops_an_exec_of_text_is_as_any_other(ledger: Path, here: Path) -> None:
    """`python -m` would end by the signal: CPython takes the exception for unhandled from there on."""
    inside = "exec('import os, signal\\nos.kill(os.getpid(), signal.SIGINT)\\nwhile True: pass')"
    script = LOADING.format(module="rich.table").replace("os.kill(os.getpid(), signal.SIGINT)", inside, 1)
    (here / "probe.py").write_text(script)
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(here), *sys.path])}
    done = subprocess.run([sys.executable, "-m", "probe"], check=False, capture_output=True, text=True, env=env)

    assert done.returncode == cli.INTERRUPTED
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("words", [["status"], None])
def test_caller_of_main_keeps_its_signal_handlers(
    ledger: Path, words: list[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["rightful", "status"])
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert cli.main(words) == 0
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_file_of_the_ledger_never_takes_the_place_of_a_closed_stream(ledger: Path, here: Path) -> None:
    """What is printed on descriptor 2, be it by the interpreter itself, would be written into it."""
    (here / "events.jsonl").write_text(f"{LINE}\n")
    script = """
import os, sys
import rightful.cli
assert rightful.cli.main(["ingest", "events.jsonl"]) == 4  # nobody got the answer; the event is written
import rightful
with rightful.open(".rightful") as ledger:
    assert ledger.log.head() == 1
    sys.exit(sum("rightful" in os.readlink(f"/proc/self/fd/{number}") for number in range(3)))
"""
    (here / "probe.py").write_text(script)
    done = shell(f'"{sys.executable}" probe.py <&- >&- 2>&-')

    assert done.returncode == 0


FORGED = "rightful: note: all 40 files imported"
FILE = f"x\n{FORGED}\n.json"


def _ledger_of_forgers(here: Path, run: Run) -> None:
    """No arm, session or grader has control characters; what a context or a source holds is free."""
    at = "2026-08-01T10:00:00Z"
    events = [
        {"type": "exposure.recorded", "session": "t:a", "producer": "p", "key": "1", "at": at,
         "arms": [{"arm": "a.md"}], "withheld": [{"arm": "a.md"}], "context": [f"code\n{FORGED}"]},
        {"type": "grade.recorded", "session": "t:a", "producer": "p", "key": "2", "at": "2026-08-01T11:00:00Z",
         "seq": 1, "reward": 0.5},
        {"type": "balance.opened", "producer": "p", "key": "4", "at": at, "sha256": "a" * 64,
         "source": f"bandit\n{FORGED}", "arms": {"a.md": {"alpha": 1.0, "beta": 40.0, "n": 90, "rewards": 0}}},
    ]  # fmt: skip
    (here / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    assert run("ingest", here / "events.jsonl").out == "3 appended.\n"


@pytest.mark.parametrize(
    "words",
    [
        ["import", "auto", FILE],
        ["import", "bandit", FILE],
        ["ingest", FILE],
        ["ingest", "bad.jsonl"],
        ["posteriors", "--contexts"],
        ["posteriors", "--policy", FILE],
        ["posteriors", "--balances", f"bandit\n{FORGED}"],
        ["posteriors", "--balances", f"z\n{FORGED}"],
        ["posteriors", "--contexts", "--arm-alias", f"a\n{FORGED}=b\n{FORGED}"],
        ["posteriors", "--without-session", f"z\n{FORGED}"],
        ["posteriors", "--as-of", f"z\n{FORGED}"],
        ["explain", "a.md"],
        ["explain", "t:a"],
        ["explain", "3"],
        ["explain", f"z\n{FORGED}"],
        ["explain", "1"],
        ["audit", "--without-grader", f"*\n{FORGED}/x"],
        ["audit", "gptme"],
        ["audit", "--recorded", FILE],
        ["policy", "aliases"],
        ["policy", "aliases", "--out", FILE],
        ["policy", "show", FILE],
        ["policy", "diff", "bound", f"policy\n{FORGED}.json"],
        ["policy", "show", f"policy\n{FORGED}.json"],
        ["audit", f"policy\n{FORGED}.json"],
        ["backfill", "plan", "--target", FILE],
        ["status"],
        ["status", "--ledger", f"z\n{FORGED}"],
        ["init", "a", f"b\n{FORGED}"],
        ["status", f"z\n{FORGED}"],
    ],
    ids=lambda words: " ".join(words).replace("\n", "|")[:40],
)
def test_what_others_wrote_makes_no_line_of_its_own(words: list[str], here: Path, run: Run) -> None:
    """A key of a file, a file's name, an arm, an argument: forged notes stay inside our sentences."""
    assert run("init").code == 0
    _ledger_of_forgers(here, run)
    (here / FILE).write_text(json.dumps({f"a\n{FORGED}": 1}))
    (here / "bad.jsonl").write_text(json.dumps({"type": f"no\n{FORGED}", f"k\n{FORGED}": 1}) + "\n")
    (here / f"policy\n{FORGED}.json").write_text(
        json.dumps({"credit": "split", "arm_aliases": {f"a\n{FORGED}": f"b\n{FORGED}"}})
    )

    done = run(*words)

    lines = [line.strip("\t ") for line in [*done.out.splitlines(), *done.err.splitlines()]]
    assert lines != []
    assert [line for line in lines if line.startswith(FORGED)] == []
