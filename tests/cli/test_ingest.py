from __future__ import annotations

import ast
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run
from tests.log.facts import call, exposure, grade

import rightful
from rightful import limits
from rightful.errors import StoreFullError
from rightful.identity import event_id
from rightful.log.log import Log

ENV = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
ENV |= {"PYTHONPATH": os.pathsep.join(sys.path)}
Write = Callable[..., Path]


@pytest.fixture
def write(here: Path) -> Write:
    def write(*lines: dict[str, Any] | str | bytes) -> Path:
        texts = (json.dumps(line) if isinstance(line, dict) else line for line in lines)
        data = b"".join((text.encode() if isinstance(text, str) else text) + b"\n" for text in texts)
        (here / "events.jsonl").write_bytes(data)
        return here / "events.jsonl"

    return write


def rows(ledger: Path) -> list[tuple[str, str]]:
    with rightful.open(ledger, readonly=True) as opened:
        return [(row.id, row.outcome) for row in opened.read()]


# -- answers -----------------------------------------------------------------------------------


def test_each_line_gets_its_receipt_in_order(run: Run, ledger: Path, write: Write) -> None:
    done = run("ingest", write(exposure("1"), grade("2"), exposure("1"), call("ls", key="3")), "--json")

    one, two, three = (event_id("hook", key) for key in "123")
    assert done.code == 0
    assert done.err == ""
    assert done.document == {
        "receipts": [
            {"id": one, "outcome": "appended", "position": 1, "first": 1},
            {"id": two, "outcome": "appended", "position": 2, "first": 2},
            {"id": one, "outcome": "duplicate", "position": 1, "first": 1},
            {"id": three, "outcome": "appended", "position": 3, "first": 3},
        ],
        "counts": {"appended": 3, "duplicate": 1},
    }


def test_people_get_counts(run: Run, ledger: Path, write: Write) -> None:
    file = write(exposure("1"), grade("2"))

    assert run("ingest", file).out == "2 appended.\n"
    assert run("ingest", file).out == "2 duplicate.\n"
    assert run("ingest", write()).out == "nothing.\n"


def test_ingesting_again_writes_nothing(run: Run, ledger: Path, write: Write) -> None:
    file = write(exposure("1"), grade("2"))
    run("ingest", file)
    before = rows(ledger)

    done = run("ingest", file, "--json")

    assert (done.code, done.document["counts"]) == (0, {"duplicate": 2})
    assert rows(ledger) == before


def test_bad_line_is_reported_with_its_number_and_others_are_stored(run: Run, ledger: Path, write: Write) -> None:
    bad = grade("2") | {"reward": 1.5}

    done = run("ingest", write(exposure("1"), "", bad, '{"torn', "[]", grade("3")), "--json")

    assert done.code == 2
    assert done.err.splitlines() == [
        "rightful: line 3: invalid: Expected `float` <= 1.0 - at `$.reward`",
        "rightful: line 4: invalid: Expected JSON: Unterminated string starting at, column 2 - at `$`",
        "rightful: line 5: invalid: Expected `object`, got `array` - at `$`",
    ]
    assert [receipt.get("line") for receipt in done.document["receipts"]] == [None, 3, 4, 5, None]
    assert done.document["receipts"][1] == {
        "id": None,
        "outcome": "invalid",
        "position": None,
        "first": None,
        "reason": "Expected `float` <= 1.0 - at `$.reward`",
        "line": 3,
    }
    assert done.document["counts"] == {"appended": 2, "invalid": 3}
    assert [outcome for _, outcome in rows(ledger)] == ["appended", "appended"]


def test_a_conflict_is_kept_reported_and_the_higher_exit_code(run: Run, ledger: Path, write: Write) -> None:
    done = run("ingest", write(grade("1"), "{}", grade("1") | {"reward": 0.1}), "--json")

    assert done.code == 3
    assert done.document["counts"] == {"appended": 1, "invalid": 1, "conflict": 1}
    assert done.document["receipts"][2] == {
        "id": event_id("hook", "1"),
        "outcome": "conflict",
        "position": 2,
        "first": 1,
        "reason": "Expected the content of revision 1 at position 1, or more of it",
        "line": 3,
    }


def test_a_stale_snapshot_is_no_fault(run: Run, ledger: Path, write: Write) -> None:
    done = run("ingest", write(call("ls -la"), call("ls")), "--json")

    assert (done.code, done.err) == (0, "")
    assert done.document["counts"] == {"appended": 1, "stale": 1}


# -- input -------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["ingest"], ["ingest", "-"]])
def test_stdin_is_read_where_no_file_is_named(
    run: Run, ledger: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    data = json.dumps(exposure("1")).encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))

    assert run(*words).out == "1 appended.\n"


def test_json_as_found_in_real_files_is_read(run: Run, ledger: Path, write: Write) -> None:
    wild = json.dumps(call({"x": "HERE"}, key="2"))

    done = run(
        "ingest",
        write(
            b"\xef\xbb\xbf" + json.dumps(call("ls", key="1")).encode(),
            wild.replace('"HERE"', "NaN"),
            wild.replace("HERE", "\\ud800").replace('"2"', '"3"'),
            wild.encode().replace(b"HERE", b"\xff").replace(b'"2"', b'"4"'),
        ),
    )

    assert (done.code, done.out) == (0, "4 appended.\n")
    with rightful.open(ledger) as opened:
        found = [row.event.arguments for row in opened.read()]  # type: ignore[union-attr]
    assert str(found[1]["x"]) == "nan"
    assert [found[2]["x"], found[3]["x"]] == ["\ud800", "\udcff"]


def test_a_key_that_occurs_twice_is_refused(run: Run, ledger: Path, write: Write) -> None:
    line = json.dumps(grade("1")).replace('"seq": 1', '"seq": 1, "seq": 2')

    done = run("ingest", write(line))

    assert done.code == 2
    assert "Expected each key once, got 'seq' twice - at `$`" in done.err


def test_a_line_too_long_is_invalid_and_the_next_one_is_stored(
    run: Run, ledger: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = grade("1")
    monkeypatch.setattr(limits, "EVENT_BYTES", len(json.dumps(good)))

    done = run("ingest", write(good | {"key": "22"}, good), "--json")

    assert done.code == 2
    assert (
        done.document["receipts"][0]["reason"] == f"Expected a line of at most {len(json.dumps(good))} bytes - at `$`"
    )
    assert done.document["receipts"][1]["outcome"] == "appended"


def test_long_input_is_written_a_thousand_lines_a_transaction(
    run: Run, ledger: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    append = Log.append

    def counted(self: Log, events: Any, **asked: Any) -> Any:
        batch = list(events)
        sizes.append(len(batch))
        return append(self, batch, **asked)

    monkeypatch.setattr(Log, "append", counted)
    file = write(*(grade(str(number), seq=number) for number in range(2 * limits.INGEST_EVENTS + 1)))

    done = run("ingest", file, "--json")

    assert sizes == [limits.INGEST_EVENTS, limits.INGEST_EVENTS, 1]
    assert [receipt["position"] for receipt in done.document["receipts"]] == list(
        range(1, 2 * limits.INGEST_EVENTS + 2)
    )


def test_a_file_that_cannot_be_read_is_wrong_usage(run: Run, ledger: Path, here: Path) -> None:
    done = run("ingest", "no\x1bsuch")

    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "rightful: no\\x1bsuch cannot be read: No such file or directory; nothing was written. Name another file.\n"
    )
    assert run("ingest", here).code == 2


def test_without_a_ledger_nothing_is_read_and_nothing_is_made(run: Run, here: Path, write: Write) -> None:
    file = write(grade("1"))

    assert run("ingest", file).code == 4
    assert run("--ledger", "nowhere", "ingest", file).code == 4
    assert [entry.name for entry in here.iterdir()] == ["events.jsonl"]


# -- failures ----------------------------------------------------------------------------------


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The disk is full at the second batch."""
    append, calls = Log.append, iter([False, True])

    def failing(self: Log, events: Any, **asked: Any) -> Any:
        if next(calls):
            raise StoreFullError("/there", "ENOSPC")
        return append(self, events, **asked)

    monkeypatch.setattr(Log, "append", failing)
    monkeypatch.setattr(limits, "INGEST_EVENTS", 2)
    yield
    monkeypatch.undo()


@pytest.mark.usefixtures("full")
def test_a_full_disk_is_4_and_what_was_acknowledged_before_is_still_said(run: Run, ledger: Path, write: Write) -> None:
    done = run("ingest", write("{}", grade("1"), grade("2")), "--json")

    assert done.code == 4
    assert done.document["counts"] == {"invalid": 1, "appended": 1}
    assert done.err.splitlines()[-1].startswith("rightful: No space left to write to /there (ENOSPC)")


def test_a_reader_that_goes_away_loses_its_answer_and_no_event(ledger: Path, write: Write) -> None:
    """As `rightful ingest … --json | head -0`: more than a pipe holds is answered to nobody."""
    file = write(*(grade(str(number), seq=number) for number in range(3_000)))
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as nobody:
        done = subprocess.run(
            [sys.executable, "-m", "rightful", "ingest", str(file), "--json"],
            stdout=nobody,
            stderr=subprocess.PIPE,
            check=False,
            env=ENV,
        )

    assert (done.returncode, done.stderr) == (141, b"")
    assert len(rows(ledger)) == 3_000


def test_closed_stderr_does_not_stop_the_command(ledger: Path, write: Write) -> None:
    """As `rightful ingest … 2>&1 | head -0`."""
    file = write(*(grade(str(number), seq=number) | {"bogus": 1} for number in range(3_000)), grade("last"))
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as nobody:
        done = subprocess.run(
            [sys.executable, "-m", "rightful", "ingest", str(file)], stdout=nobody, stderr=nobody, check=False, env=ENV
        )

    assert done.returncode == 141
    assert len(rows(ledger)) == 1


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize("how", [[], ["--json"]], ids=["words", "json"])
def test_full_disk_is_reported_even_if_stdout_is_closed(
    run: Run, ledger: Path, write: Write, monkeypatch: pytest.MonkeyPatch, how: list[str]
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("rightful.cli.commands.ingest.print", broken, raising=False)

    done = run("ingest", write("{}", grade("1"), grade("2")), *how)

    assert done.code == 4
    assert "No space left" in done.err


def test_ctrl_c_ends_it_with_a_sentence_and_keeps_what_was_acknowledged(ledger: Path) -> None:
    command = [sys.executable, "-m", "rightful", "ingest", "--json"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe, env=ENV) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(grade("1")).encode() + b"\n")
        acknowledged = b""
        while not acknowledged.endswith(b"}"):  # waits for the first receipt
            acknowledged += process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()

    assert process.returncode == 130
    assert json.loads(acknowledged + out)["counts"] == {"appended": 1}
    assert err.decode().startswith("rightful: interrupted. Acknowledged events are written")
    assert b"Traceback" not in err
    assert len(rows(ledger)) == 1


def test_it_loads_nothing_that_only_people_or_projections_need(ledger: Path, write: Write) -> None:
    program = (
        "import sys; from rightful.cli import main; code = main(sys.argv[1:]); "
        "print(code, sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    file = write(grade("1"), "{}", grade("1") | {"reward": 0.1})
    done = subprocess.run(
        [sys.executable, "-c", program, "ingest", str(file)], capture_output=True, text=True, check=True, env=ENV
    )

    code, _, loaded = done.stderr.splitlines()[-1].partition(" ")
    assert code == "3"
    assert {"numpy", "rich", "structlog"} & set(ast.literal_eval(loaded)) == set()
    assert "rightful.projections" not in loaded
