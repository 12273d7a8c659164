from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.hooking import CC, before_tool
from tests.log.facts import exposure

from rightful import limits, times
from rightful.integrations.spool.spool_drain import DrainResult, drain
from rightful.integrations.spool.spool_files import Spool, append
from rightful.ledger import Ledger

AT_US = 1_785_579_400_000_000


@pytest.fixture
def spool(ledger: Ledger, tmp_path: Path) -> Spool:
    return Spool(str(ledger.path), {"XDG_STATE_HOME": str(tmp_path / "state"), "TMPDIR": str(tmp_path / "temp")})


def drained(spool: Spool, ledger: Ledger, **more: Any) -> DrainResult:
    return drain(spool, ledger.log, timeout_s=1, **more)


def test_files_are_their_owners_alone_whatever_the_umask(ledger: Ledger, spool: Spool) -> None:
    before = os.umask(0)
    try:
        kept = spool.keep_events([exposure()], AT_US)
    finally:
        os.umask(before)

    assert kept is not None
    assert Path(kept).parent == ledger.path / "spool"
    assert (stat.S_IMODE(Path(kept).stat().st_mode), stat.S_IMODE(Path(kept).parent.stat().st_mode)) == (0o600, 0o700)


def test_content_of_any_kind_comes_back_as_it_was(ledger: Ledger, spool: Spool) -> None:
    extra = {"text": "\udce9\x00 ü\n", "number": float("inf"), "big": 2**80}
    spool.keep_events([exposure(extra=extra)], AT_US)

    drained(spool, ledger)

    assert [receipt.outcome for receipt in ledger.append([exposure(extra=extra)])] == ["duplicate"]


def test_the_spool_keeps_so_many_files_and_no_more(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SPOOL_FILES", 2)
    nowhere = str(tmp_path / "file")
    Path(nowhere).touch()
    spool = Spool(str(ledger.path), {"XDG_STATE_HOME": nowhere, "TMPDIR": nowhere})

    kept = [spool.keep_events([exposure(str(number))], AT_US + number) for number in range(3)]

    assert [one is not None for one in kept] == [True, True, False]
    assert spool.waiting() == kept[:2]
    assert spool.full() == [str(ledger.path / "spool" / "full")]


def test_the_spool_keeps_so_many_bytes_and_no_more(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = str(tmp_path / "file")
    Path(nowhere).touch()
    spool = Spool(str(ledger.path), {"XDG_STATE_HOME": nowhere, "TMPDIR": nowhere})
    first = spool.keep_events([exposure("1")], AT_US)
    assert first is not None
    size = Path(first).stat().st_size

    monkeypatch.setattr(limits, "SPOOL_BYTES", 2 * size - 1)
    assert spool.keep_events([exposure("2")], AT_US) is None
    monkeypatch.setattr(limits, "SPOOL_BYTES", 2 * size)
    assert spool.full() != []
    Path(spool.full()[0]).unlink()
    assert spool.keep_events([exposure("2")], AT_US) is not None


def test_an_input_that_was_kept_becomes_the_events_of_its_time(ledger: Ledger, spool: Spool) -> None:
    raw = json.dumps(before_tool()).encode()
    spool.keep_input(raw, "ImportError: x", AT_US, "n1")

    assert drained(spool, ledger) == DrainResult(files=1)

    [row] = ledger.read()
    assert getattr(row.event, "session", None) == f"claude-code:{CC}"
    assert getattr(row.event, "at", None) == times.at_of(AT_US)


def test_an_input_of_which_nothing_can_be_made_is_set_aside_whole(ledger: Ledger, spool: Spool) -> None:
    raw = b"\xff rubbish"
    spool.keep_input(raw, "ImportError: x", AT_US, "n1")

    result = drained(spool, ledger)

    [aside] = result.aside
    assert json.loads(Path(aside).read_bytes())["input"].encode("utf-8", "surrogateescape") == raw
    assert ledger.log.head() == 0


def test_the_first_inputs_that_are_set_aside_are_kept_and_no_more(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ASIDE_FILES", 2)
    nowhere = str(tmp_path / "file")
    Path(nowhere).touch()
    spool = Spool(str(ledger.path), {"XDG_STATE_HOME": nowhere, "TMPDIR": nowhere})

    kept = [spool.set_aside(b"x", "names nobody", AT_US + number) for number in range(3)]

    assert [one is not None for one in kept] == [True, True, False]
    more = ledger.path / "spool" / "aside" / "more.note.json"
    assert spool.aside() == [*kept[:2], str(more)]
    assert "not kept" in json.loads(more.read_bytes())["reason"]
    assert (spool.full(), spool.waiting()) == ([], [])


def test_of_an_input_that_is_set_aside_so_much_is_kept(ledger: Ledger, spool: Spool) -> None:
    kept = spool.set_aside(b"x" * (limits.ASIDE_BYTES + 1), "rubbish", AT_US)

    assert kept is not None
    note = json.loads(Path(kept).read_bytes())
    assert (note["input"], note["bytes"]) == ("x" * limits.ASIDE_BYTES, limits.ASIDE_BYTES + 1)
    assert (note["reason"], note["at_us"]) == ("rubbish", AT_US)


def test_call_within_a_minute_of_a_timeout_waits_less(ledger: Ledger, spool: Spool) -> None:
    assert spool.wait_s(AT_US) == limits.HOOK_WAIT_S
    spool.keep_events([exposure("1")], AT_US)
    assert spool.wait_s(AT_US) == limits.HOOK_WAIT_S, "a call that is kept for another reason says nothing of waiting"
    spool.note_timeout(AT_US)

    minute_us = 60_000_000
    assert [spool.wait_s(AT_US + after) for after in (-minute_us, -1, 0, minute_us - 1, minute_us)] == [
        limits.HOOK_WAIT_S, limits.HOOK_AGAIN_S, limits.HOOK_AGAIN_S, limits.HOOK_AGAIN_S, limits.HOOK_WAIT_S,
    ]  # fmt: skip


def test_successful_write_restores_the_full_wait(ledger: Ledger, spool: Spool) -> None:
    spool.note_timeout(AT_US)
    assert spool.wait_s(AT_US) == limits.HOOK_AGAIN_S
    spool.note_success()

    assert spool.wait_s(AT_US) == limits.HOOK_WAIT_S


def test_started_append_is_finished_after_the_timeout(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = threading.Event()
    real = ledger.log.recorder.decide

    def slow(decision: Any, *, timeout_s: float, inline: bool = False) -> int:
        def late(view: Any) -> Any:
            if not begun.is_set():
                begun.set()
                threading.Event().wait(0.5)  # a commit on a slow disk
            return decision(view)

        return real(late, timeout_s=timeout_s)

    monkeypatch.setattr(ledger.log.recorder, "decide", slow)

    receipts = append(ledger.log, [exposure("a")], timeout_s=0.1)

    assert begun.is_set()
    assert [receipt.outcome for receipt in receipts] == ["duplicate"]
    assert ledger.log.head() == 1


def test_special_files_in_the_spool_are_skipped(ledger: Ledger, spool: Spool) -> None:
    kept = spool.keep_events([exposure()], AT_US)
    spool.set_aside(b"x", "rubbish", AT_US)
    for name in ("0-a.events.jsonl", "0-b.input.json", "full", "waited", "aside/0.note.json"):
        os.mkfifo(ledger.path / "spool" / name)

    assert spool.waiting() == [kept]
    assert len(spool.aside()) == 1
    spool.note_timeout(AT_US)
    assert drained(spool, ledger, max_files=1) == DrainResult(files=1)


def test_all_that_is_about_the_same_is_one_note_with_a_count(ledger: Ledger, spool: Spool) -> None:
    for number in range(3):
        spool.set_aside_once("nobody", b"first" if not number else b"later", "names nobody", AT_US + number)
    spool.set_aside_once("another", b"x", "y", AT_US)

    notes = sorted(
        (json.loads(Path(file).read_bytes()) for file in spool.aside()), key=lambda note: str(note["reason"])
    )
    assert [(note["reason"], note["input"], note["at_us"]) for note in notes] == [
        ("names nobody (3 times)", "first", AT_US), ("y", "x", AT_US),
    ]  # fmt: skip
