from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run
from tests.cli.test_posteriors import fill
from tests.log.facts import message

import rightful
from rightful import cli
from rightful.cli import main
from rightful.errors import StoreFullError, UsageError

# -- exit codes --------------------------------------------------------------------------------


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail(*_: Any) -> int:
        raise error

    monkeypatch.setattr("rightful.cli.commands.status.run", fail)


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (UsageError("two were asked for; name one"), 2, "two were asked for; name one"),
        (StoreFullError("/there", "ENOSPC"), 4, "No space left to write to /there (ENOSPC)"),
        (PermissionError(13, "Permission denied", "/there"), 4, "/there: Permission denied."),
        (KeyboardInterrupt(), 130, "interrupted. Acknowledged events are written"),
        (MemoryError(), 4, "out of memory. Acknowledged events are written"),
    ],
)
def test_an_error_is_a_sentence_on_stderr_and_an_exit_code(
    monkeypatch: pytest.MonkeyPatch, run: Run, error: BaseException, code: int, said: str
) -> None:
    failing(monkeypatch, error)

    done = run("status")

    assert done.code == code
    assert done.err.startswith(f"rightful: {said}")
    assert done.out == ""


@pytest.mark.parametrize(
    "words", [["nonsense"], [], ["init", "--nonsense"], ["--nonsense", "init"], ["ingest", "a", "b"]]
)
def test_wrong_usage_is_2_and_says_so_on_stderr(run: Run, words: list[str]) -> None:
    done = run(*words)

    assert done.code == 2
    assert "usage: rightful" in done.err
    assert done.out == ""


def test_an_argument_too_many_shows_the_commands_own_usage(run: Run) -> None:
    done = run("ingest", "a", "b")

    assert done.err.startswith("usage: rightful ingest ")
    assert done.err.endswith("rightful ingest: error: unrecognized arguments: b\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["transcrpt", "x"], "; did you mean transcript?"),
        (["transcript", "--fulll", "x"], "unrecognized arguments: --fulll; did you mean --full?"),
        (["handoff", "putt"], "; did you mean put?"),
        (["handoff", "put", "x", "--session", "a:b", "--kye=1"], "; did you mean --key?"),
        (["import", "codx", "x"], "; did you mean codex?"),
        (["--json", "status"], "unrecognized arguments: --json; write it after `rightful status`"),
    ],
)
def test_misspelled_word_gets_a_suggestion(run: Run, words: list[str], said: str) -> None:
    done = run(*words)

    assert (done.code, done.err.splitlines()[-1].endswith(said)) == (2, True)
    assert "did you mean" not in run("zzzzzz").err + run("status", "--qqqq").err


def test_there_is_no_guessing_of_shortened_options(run: Run, ledger: Path) -> None:
    assert run("status", "--js").code == 2


def test_without_a_ledger_a_command_says_how_to_get_one_and_makes_none(run: Run, here: Path) -> None:
    done = run("status")

    assert done.code == 4
    assert done.err == (
        f"rightful: No ledger at {here / '.rightful'}. Nothing was created. "
        "Run `rightful init` (in Python: `create=True`), or name a ledger with --ledger.\n"
    )
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("words", [["--ledger", "x", "status"], ["status", "--ledger", "x"], ["--ledger=x", "status"]])
def test_the_ledger_is_named_before_or_after_the_command(run: Run, here: Path, words: list[str]) -> None:
    assert run("init", "x").code == 0

    assert run(*words, "--json").document["path"] == "x"


def test_the_version_is_that_of_the_package(run: Run) -> None:
    done = run("--version")

    assert done.code == 0
    try:
        assert done.out == f"rightful {version('rightful')}\n"
    except PackageNotFoundError:
        assert done.out == "rightful, run from its source and not installed\n"


def test_help_lists_every_command_with_its_summary(run: Run) -> None:
    done = run("--help")

    assert done.code == 0
    assert [name for name in cli.COMMANDS if f"\n    {name} " not in done.out] == []


@pytest.mark.parametrize("command", ["init", "ingest", "status"])
def test_each_command_has_help_with_its_own_words(run: Run, command: str) -> None:
    done = run(command, "--help")

    assert done.code == 0
    assert f"usage: rightful {command}" in done.out
    assert "--json" in done.out


def test_calling_one_command_loads_no_other(here: Path) -> None:
    program = "from rightful.cli import main; import sys; main(['init', 'x']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )

    commands = {name for name in done.stderr.split() if name in cli.COMMANDS.values()}
    assert commands == {"rightful.cli.commands.init"}


def test_the_package_can_be_run_as_a_module(here: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rightful", "nonsense"],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )

    assert done.returncode == 2
    assert "invalid choice: 'nonsense'" in done.stderr


def test_a_narrow_locale_loses_no_answer(run: Run, here: Path) -> None:
    name = here / "größer"
    done = subprocess.run(
        [sys.executable, "-m", "rightful", "init", str(name)],
        check=True,
        capture_output=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONIOENCODING": "ascii"},
    )

    assert b"gr\\xf6\\xdfer.\n" in done.stdout


def test_main_takes_the_words_of_the_process_by_default(monkeypatch: pytest.MonkeyPatch, here: Path) -> None:
    monkeypatch.setattr(sys, "argv", ["rightful", "init", "x"])

    assert main() == 0
    assert (here / "x" / "store").is_dir()


# -- stdout ------------------------------------------------------------------------------------


def process(*words: str, stdout: Any, **env: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "rightful", *words],
        check=False,
        stdout=stdout,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | env,
    )


ANSWERS = [["posteriors"], ["audit"], ["status"], ["posteriors", "--json"], ["--help"], ["--version"]]


@pytest.mark.sweep
@pytest.mark.parametrize("words", ANSWERS, ids=" ".join)
def test_a_reader_that_went_away_is_141_and_no_complaint(ledger: Path, words: list[str]) -> None:
    fill(ledger)
    read, write = os.pipe()
    os.close(read)
    done = process(*words, stdout=write, PYTHONUNBUFFERED="")
    os.close(write)

    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_an_answer_that_was_read_in_part_is_141_also_without_a_buffer(ledger: Path, unbuffered: str) -> None:
    """Images set PYTHONUNBUFFERED, which loses the rest of a write that was cut short, and says nothing."""
    with rightful.open(ledger) as opened:
        opened.append([message("x" * 300_000)])
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": unbuffered}
    words = [sys.executable, "-m", "rightful", "transcript", "t:a", "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env) as reading:
        assert reading.stdout is not None
        assert reading.stderr is not None
        reading.stdout.read(1)
        reading.stdout.close()
        complaint = reading.stderr.read()

    assert (reading.returncode, complaint) == (141, b"")


@pytest.mark.sweep
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")  # noqa: PTH110 - one call
@pytest.mark.parametrize(
    ("words", "unbuffered"),
    [*((words, "") for words in ANSWERS), (["ingest", os.devnull], ""), (["posteriors"], "1"), (["--help"], "1")],
)
def test_a_full_disk_behind_stdout_is_a_sentence_and_4(ledger: Path, words: list[str], unbuffered: str) -> None:
    fill(ledger)
    with open("/dev/full", "wb") as full:  # noqa: PTH123 - a device
        done = process(*words, stdout=full, PYTHONUNBUFFERED=unbuffered)

    assert done.returncode == 4
    assert done.stderr == (
        b"rightful: the answer could not be written to stdout: No space left on device; recorded events are "
        b"kept. Free disk space or redirect the answer, and run the command again.\n"
    )


@pytest.mark.parametrize("command", ["posteriors", "audit"])
def test_a_narrow_encoding_gets_tables_in_ascii(ledger: Path, command: str) -> None:
    fill(ledger)

    done = process(command, stdout=subprocess.PIPE, PYTHONIOENCODING="ascii")

    assert done.returncode == 0
    lines = [line.replace(b"b\\u202e.md", b"") for line in done.stdout.splitlines()]  # that name has one of its own
    assert b"\\u" not in b"".join(lines)
    assert b"lessons/a.md" in b"".join(lines)
