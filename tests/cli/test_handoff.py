from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.cli.conftest import Run

from rightful import ledger as app
from rightful import limits

A, B = "claude-code:a", "claude-code:b"


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """No session of the one who runs the tests."""
    for name in ("RIGHTFUL_SESSION", "RIGHTFUL_RUN_NONCE", "CLAUDE_CODE_SESSION_ID", "CC_SESSION_ID"):
        monkeypatch.delenv(name, raising=False)


def taken(*words: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "rightful", "handoff", "take", *words]
    return subprocess.run(command, capture_output=True, check=False)


@pytest.mark.parametrize("data", [b"two\nlines \xc3\xa9", b"", b"\x00\xff\n\x80", b"\xef\xbb\xbfmark\r\n"], ids=repr)
def test_a_file_is_taken_byte_for_byte(ledger: Path, run: Run, here: Path, data: bytes) -> None:
    (here / "meta").write_bytes(data)

    put = run("handoff", "put", "meta", here / "meta", "--session", A, *(() if data else ("--allow-empty",)))
    done = taken("meta", "--session", A)

    assert (put.code, put.out) == (0, f"meta of {A} waits to be taken (position 1).\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, data, b"")


def test_file_may_follow_the_options(ledger: Path, run: Run, here: Path) -> None:
    (here / "meta").write_bytes(b"x")

    assert run("handoff", "put", "meta", "--session", A, here / "meta").code == 0

    assert taken("meta", "--session", A).stdout == b"x"


def test_what_is_empty_is_refused_and_replaces_nothing(
    ledger: Path, run: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a command that failed did not print must not take the place of what waits."""
    (here / "meta").write_text("good")
    run("handoff", "put", "meta", here / "meta", "--session", A)
    (here / "meta").write_text("")

    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"")))
    piped = run("handoff", "put", "meta", "--session", A)
    named = run("handoff", "put", "meta", here / "meta", "--session", A)

    assert (piped.code, named.code) == (2, 2)
    assert "stdin is empty; nothing was put or replaced under meta" in piped.err
    assert f"{here / 'meta'} is empty" in named.err
    assert taken("meta", "--session", A).stdout == b"good"


def test_misspelled_handoff_name_gets_a_suggestion(ledger: Path, run: Run, here: Path) -> None:
    (here / "meta").write_text("good")
    for name in ("pr-meta", "pr-mete"):
        run("handoff", "put", name, here / "meta", "--session", A)
    assert taken("pr-mete", "--session", A).returncode == 0

    missed = run("handoff", "take", "pr-met", "--session", A)
    assert missed.code == 1
    assert "that session put nothing under this name, but 'pr-meta' waits. Nothing was handed over" in missed.err
    assert "waits" not in run("handoff", "take", "other", "--session", A).err


def test_stdin_is_put_where_no_file_is_named(ledger: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"piped")))

    assert run("handoff", "put", "meta", "--session", A, "--key", "k").code == 0
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"piped")))
    again = run("handoff", "put", "meta", "--session", A, "--key", "k", "--json")

    assert again.document["outcome"] == "duplicate"
    assert taken("meta", "--session", A).stdout == b"piped"


def test_what_python_put_is_printed_as_json(ledger: Path, run: Run) -> None:
    with app.open(ledger) as opened:
        opened.put_handoff("meta", {"pr": [7, None]}, session=A)

    assert taken("meta", "--session", A).stdout == b'{"pr":[7,null]}\n'


def test_a_take_answers_in_json(ledger: Path, run: Run, here: Path) -> None:
    (here / "meta").write_bytes(b"\xff")
    put = run("handoff", "put", "meta", here / "meta", "--session", A, "--json").document

    document = run("handoff", "take", "meta", "--session", A, "--key", "k", "--json").document

    assert put == {"id": document["id"], "outcome": "appended", "position": 1}
    assert document.pop("put_at").startswith("20")
    assert len(document.pop("taken_id")) == len(document.pop("id")) == 36
    assert document == {
        "name": "meta",
        "session": A,
        "form": "bytes",
        "payload": "/w==",
        "position": 1,
        "repeated": False,
    }
    assert run("handoff", "take", "meta", "--session", A, "--key", "k", "--json").document["repeated"] is True


def test_missing_handoff_exits_1(ledger: Path, run: Run) -> None:
    done = run("handoff", "take", "meta", "--session", A)

    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"rightful: Handoff 'meta' of {A}: that session put nothing under this name.")


def test_another_session_than_the_one_it_runs_in_is_a_conflict(
    ledger: Path, run: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "meta").write_text("x")
    monkeypatch.setenv("RIGHTFUL_SESSION", "run:mine")

    done = run("handoff", "put", "meta", here / "meta", "--session", A)

    assert (done.code, done.out) == (3, "")
    assert f"Handoff 'meta' of {A}: RIGHTFUL_SESSION states that this step runs in run:mine" in done.err


def test_there_is_no_default_session(ledger: Path, run: Run) -> None:
    assert run("handoff", "take", "meta").code == 2
    assert run("handoff", "take", "meta", "--session", "a").code == 2


def test_another_session_can_be_named_as_the_one_that_put_it(ledger: Path, run: Run, here: Path) -> None:
    (here / "meta").write_text("x")
    run("handoff", "put", "meta", here / "meta", "--session", A)

    assert run("handoff", "take", "meta", "--session", B).code == 1
    assert taken("meta", "--session", B, "--put-by", A).stdout == b"x"


def test_a_file_that_cannot_be_read_or_is_too_long_is_refused(ledger: Path, run: Run, here: Path) -> None:
    (here / "long").write_bytes(b"x" * (limits.EVENT_BYTES + 1))

    missing, long = (run("handoff", "put", "meta", here / name, "--session", A) for name in ("none", "long"))

    assert (missing.code, long.code) == (2, 2)
    assert missing.err.endswith("none cannot be read: No such file or directory; nothing was put. Name another file.\n")
    assert "long is longer than 16,777,216 bytes; nothing was put." in long.err


def test_a_list_shows_what_waits_and_who_took_what(ledger: Path, run: Run, here: Path) -> None:
    (here / "meta").write_text("x")
    for name in ("one", "two"):
        run("handoff", "put", name, here / "meta", "--session", A)
    run("handoff", "take", "one", "--session", B, "--put-by", A)

    shown, document = (
        run("handoff", "list", "--session", A).out,
        run("handoff", "list", "--session", A, "--json").document,
    )

    assert {one["form"] for one in document} == {"text"}
    assert [(one["name"], one["state"], one["taken_by"]) for one in document] == [
        ("one", "taken", B),
        ("two", "waits", None),
    ]
    assert f"taken by {B} at 20" in shown
    assert [line.split()[:2] for line in shown.splitlines() if "two" in line] == [["two", "waits"]]
    assert run("handoff", "list", "--session", B).out == f"{B} put nothing.\n"


def test_a_payload_cannot_steer_a_terminal(ledger: Path, run: Run, here: Path) -> None:
    (here / "meta").write_bytes(b"red \x1b[31m\nnext")
    run("handoff", "put", "meta", here / "meta", "--session", A)
    ours, theirs = pty.openpty()

    subprocess.run(
        [sys.executable, "-m", "rightful", "handoff", "take", "meta", "--session", A], stdout=theirs, check=True
    )
    os.close(theirs)

    assert os.read(ours, 1000) == b"red \\x1b[31m\r\nnext\r\n"


def test_names_cannot_steer_a_terminal(ledger: Path, run: Run, here: Path) -> None:
    (here / "meta").write_text("x")

    assert "\x1b" not in run("handoff", "put", "a\x1b[31m", here / "meta", "--session", A).out
    assert "\x1b" not in run("handoff", "take", "b\x1b[31m", "--session", A).err
    assert json.loads(run("handoff", "list", "--session", A, "--json").out)[0]["name"] == "a\x1b[31m"
    assert "\x1b" not in run("handoff", "list", "--session", A).out


def test_a_short_session_means_the_one_that_begins_so(ledger: Path, run: Run, here: Path) -> None:
    (here / "meta").write_text("x")
    sessions = ("claude-code:abcd-1", "claude-code:abcd-2", "codex:efgh-1")
    for session in sessions:
        assert run("handoff", "put", "meta", here / "meta", "--session", session).code == 0

    assert run("handoff", "put", "more", here / "meta", "--session", "efgh").out.startswith("more of codex:efgh-1 ")
    assert taken("meta", "--session", "abcd-1").stdout == b"x"
    several = run("handoff", "list", "--session", "abcd")
    assert several.code == 2
    assert "'abcd' is the beginning of 2 sessions: claude-code:abcd-1, claude-code:abcd-2" in several.err
    none = run("handoff", "put", "meta", here / "meta", "--session", "zzzz")
    assert none.code == 2
    assert "no session is named 'zzzz'" in none.err
