from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run
from tests.hooking import CC, after_tool, before_tool, given, rows, spooled, surroundings

import rightful
from rightful import cli
from rightful.errors import UsageError
from rightful.integrations.spool.spool_files import Spool

pytestmark = pytest.mark.usefixtures("home")


def given_on_stdin(monkeypatch: pytest.MonkeyPatch, value: dict[str, Any] | bytes) -> None:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))


def test_a_session_is_recorded_call_by_call(run: Run, ledger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = [
        given("SessionStart", source="startup", model="m"), given("UserPromptSubmit", prompt="secret"), before_tool(),
        after_tool(), given("Stop"), given("SessionEnd", reason="other"),
    ]  # fmt: skip
    for value in calls:
        given_on_stdin(monkeypatch, value)
        assert run("hook", "run", "claude-code", "--ledger", ledger) == (0, "", "")

    found = rows(ledger)
    assert [type(row.event).__name__ for row in found] == [
        "SessionStarted", "ToolCallSnapshotted", "ToolResultSnapshotted", "SessionEnded",
    ]  # fmt: skip
    assert {getattr(row.event, "session", None) for row in found} == {f"claude-code:{CC}"}
    assert "secret" not in str(found)


def test_exposures_are_read_once_and_their_place_kept_until_session_end(
    run: Run, ledger: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = here / "temp" / "claude-lesson-match" / f"{CC}.json"
    state.parent.mkdir()
    state.write_text('{"injected": ["/lessons/git.md"], "last_pretool": 1785579331.25}')
    for event, places in (("UserPromptSubmit", 1), ("Stop", 1), ("SessionEnd", 0)):
        given_on_stdin(monkeypatch, given(event))
        assert run("hook", "run", "claude-code", "--ledger", ledger) == (0, "", "")
        assert len(list((ledger / "hook").iterdir())) == places

    shown, ended = rows(ledger)
    assert getattr(shown.event, "arms", None) == (rightful.ArmShown("/lessons/git.md"),)
    assert (shown.outcome, type(ended.event).__name__) == ("appended", "SessionEnded")


@pytest.mark.parametrize("words", [[], ["--verbose"], ["--json"]])
def test_a_call_without_ledger_finds_it_as_every_command_does(
    run: Run, ledger: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    given_on_stdin(monkeypatch, before_tool())

    done = run("hook", "run", "claude-code", *words)

    assert (done.code, done.out) == (0, "")
    assert ("appended" in done.err) == (words == ["--verbose"])
    assert len(rows(ledger)) == 1


def test_a_call_where_there_is_no_ledger_is_kept(run: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given_on_stdin(monkeypatch, before_tool())

    assert run("hook", "run", "claude-code") == (0, "", "")

    assert len(spooled(here / "home")) == 1
    assert run("init").code == 0
    (here / "nothing").write_text("")
    assert run("ingest", here / "nothing").code == 0
    assert len(rows(here / ".rightful")) == 1
    assert spooled(here) == []


def test_a_mistake_in_the_reading_of_lessons_costs_nothing_else(
    run: Run, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("rightful.integrations.claude_code.hook_lessons.new_exposures", broken)
    given_on_stdin(monkeypatch, before_tool())

    assert run("hook", "run", "claude-code", "--ledger", ledger) == (0, "", "")

    assert len(rows(ledger)) == 1
    [aside] = Spool(str(ledger), os.environ).aside()
    assert "ZeroDivisionError" in Path(aside).read_text()


@pytest.mark.parametrize("error", [ZeroDivisionError(), MemoryError(), KeyboardInterrupt(), SystemExit(2)])
@pytest.mark.parametrize(
    "place", ["rightful.integrations.claude_code.hook_events.events_of", "rightful.log.log.Log.append"]
)
def test_a_mistake_of_ours_anywhere_is_kept_and_made_good_by_the_next_call(
    run: Run, ledger: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, place: str
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise error

    given_on_stdin(monkeypatch, before_tool(1))
    with monkeypatch.context() as patched:
        patched.setattr(place, broken)
        assert run("hook", "run", "claude-code", "--ledger", ledger) == (0, "", "")
    assert rows(ledger) == []
    assert len(spooled(ledger)) == 1

    given_on_stdin(monkeypatch, before_tool(2))
    assert run("hook", "run", "claude-code", "--ledger", ledger) == (0, "", "")

    assert [getattr(row.event, "call", None) for row in rows(ledger)] == ["toolu_1", "toolu_2"]
    assert spooled(ledger) == []


def test_an_event_that_does_not_fit_its_type_is_set_aside(
    run: Run, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep: Any = 1
    for _ in range(100):
        deep = [deep]
    given_on_stdin(monkeypatch, before_tool(tool_input=deep))

    assert run("hook", "run", "claude-code", "--ledger", ledger) == (0, "", "")

    [aside] = Spool(str(ledger), os.environ).aside()
    assert "nested at most" in json.loads(Path(aside).read_text())["reason"]
    assert rows(ledger) == []


WORDS = [
    ["--ledger", "L", "hook", "run", "claude-code"],
    ["--ledger=L", "hook", "run", "claude-code"],
    ["hook", "--ledger", "L", "run", "claude-code"],
    ["hook", "run", "--ledger=L", "claude-code"],
    ["hook", "run", "claude-code", "--ledger", "L", "--frob"],
    ["--frob", "x", "hook", "--verbos", "run", "claude-code", "extra", "--ledger", "L", "--json", "--help"],
    ["hook", "run", "--ledger", "run", "--ledger", "L"],
    ["--ledger", "ingest", "--", "hook", "run", "claude-code", "--scope", "nobody", "--ledger", "L"],
]


@pytest.mark.parametrize("words", WORDS)
def test_a_call_in_whatever_words_takes_the_short_way(
    run: Run, ledger: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setattr(cli, "_run", None)
    given_on_stdin(monkeypatch, before_tool())

    assert run(*(word.replace("L", str(ledger)) for word in words)) == (0, "", "")

    assert len(rows(ledger)) == 1


@pytest.mark.parametrize("words", WORDS[::2])
def test_a_call_in_whatever_words_ends_though_its_stdin_stays_open(ledger: Path, words: list[str]) -> None:
    reading, writing = os.pipe()
    os.write(writing, json.dumps(before_tool()).encode())
    done = subprocess.run(
        [sys.executable, "-m", "rightful", *(word.replace("L", str(ledger)) for word in words)],
        stdin=reading, capture_output=True, check=False, timeout=30, env=surroundings(ledger.parent),
    )  # fmt: skip
    os.close(writing)
    os.close(reading)

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert len(rows(ledger)) == 1


@pytest.mark.parametrize("words", [["hook", "run", "codex"], ["hook", "run", "codex", "--ledger", "/l", "--frob"]])
def test_unknown_agent_is_neither_stopped_nor_recorded(
    run: Run, ledger: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    given_on_stdin(monkeypatch, before_tool())

    assert run(*words) == (0, "", "")

    assert rows(ledger) == []
    assert spooled(ledger.parent) == []


def test_other_commands_are_no_calls_whatever_words_they_have(run: Run, ledger: Path) -> None:
    assert run("ingest", "hook", "run").code == 2
    assert run("hook", "status", "claude-code", "run").code == 2
    assert run("hook", "status", "claude-code", "--ledger", "run").code == 1


def test_help_of_hook_run_is_printed_at_a_terminal_only(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal(io.BytesIO()))
    assert "the command that the hooks call" in run("hook", "run", "claude-code", "--help").out
    assert run("hook", "run", "claude-code", "--nonsense") == (0, "", "")


def test_main_takes_the_short_way_for_a_hooks_call(ledger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "_run", None)
    given_on_stdin(monkeypatch, before_tool())

    assert cli.main(["hook", "run", "claude-code", "--ledger", str(ledger)]) == 0

    assert len(rows(ledger)) == 1


def test_a_call_for_no_ledger_that_can_be_named_is_set_aside(
    run: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RIGHTFUL_LEDGER", "")
    given_on_stdin(monkeypatch, before_tool())

    assert run("hook", "run", "claude-code") == (0, "", "")

    [aside] = here.rglob("*.note.json")
    assert "RIGHTFUL_LEDGER is empty" in json.loads(aside.read_text())["reason"]


def test_hook_with_an_empty_ledger_option_sets_its_input_aside(
    run: Run, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_on_stdin(monkeypatch, before_tool())

    assert run("hook", "run", "claude-code", "--ledger", "") == (0, "", "")

    assert rows(ledger) == []
    [aside] = Spool(str(ledger), os.environ).aside()
    assert "--ledger is empty" in json.loads(Path(aside).read_text())["reason"]


def test_events_that_no_json_can_hold_are_kept_as_their_input(
    run: Run, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RecursionError

    given_on_stdin(monkeypatch, before_tool())
    with monkeypatch.context() as patched:
        patched.setattr("rightful.log.log.Log.append", broken)
        patched.setattr(Spool, "keep_events", broken)
        assert run("hook", "run", "claude-code", "--ledger", ledger) == (0, "", "")

    [kept] = spooled(ledger)
    assert kept.name.endswith(".input.json")


LOADED = """
import sys
from rightful.cli import main
assert main(["hook", "run", "claude-code", "--ledger", sys.argv[1]]) == 0
print(*sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("value", "written", "lesson"),
    [(before_tool(), 1, False), (before_tool(), 2, True), (given("Stop"), 0, False)],
    ids=["tool", "lesson", "stop"],
)
def test_call_loads_only_what_it_needs_and_the_store_only_to_write(
    ledger: Path, here: Path, value: dict[str, Any], written: int, *, lesson: bool
) -> None:
    if lesson:
        state = here / "temp" / "claude-lesson-match" / f"{CC}.json"
        state.parent.mkdir()
        state.write_text('{"injected": ["/lessons/git.md"], "last_pretool": 1785579331.25}')
    done = subprocess.run(
        [sys.executable, "-c", LOADED, str(ledger)], input=json.dumps(value), capture_output=True, text=True,
        env=surroundings(ledger.parent), check=True,
    )  # fmt: skip

    loaded = set(done.stderr.split())
    assert loaded & {"argparse", "email", "numpy", "rich", "structlog", "shlex", "tempfile", "zipfile"} == set()
    assert ("lmdb" in loaded) == bool(written)
    assert len(rows(ledger)) == written


@pytest.mark.parametrize("error", [MemoryError(), OSError("x"), ZeroDivisionError(), UsageError("too many")])
def test_a_drain_that_fails_is_a_note_and_no_reason_to_stop_the_command(
    run: Run, ledger: Path, here: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise error

    assert Spool(str(ledger), os.environ).keep_events([{"type": "x"}], 1) is not None
    (here / "nothing").write_text("")
    with monkeypatch.context() as patched:
        patched.setattr("rightful.integrations.spool.spool_drain.drain", broken)
        done = run("ingest", here / "nothing")

    assert (done.code, done.out.count("Traceback")) == (0, 0)
    assert "1 hook call still in the spool" in done.err
