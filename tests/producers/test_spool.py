from __future__ import annotations

import json
import os
import stat
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.hooking import CC, before_tool
from tests.ledger.facts import exposure

import rightful
from rightful import content, limits, times
from rightful.app import Ledger
from rightful.envelope import SALT_BYTES
from rightful.errors import BusyError, DamagedRowError
from rightful.ledger.recorded import Receipt
from rightful.producers.spool import Drained, Spool, append, at_us_of

AT_US = 1_785_579_400_000_000


@pytest.fixture
def spool(ledger: Ledger, tmp_path: Path) -> Spool:
    return Spool(str(ledger.path), {"XDG_STATE_HOME": str(tmp_path / "state"), "TMPDIR": str(tmp_path / "temp")})


def drained(spool: Spool, ledger: Ledger, **more: Any) -> Drained:
    return spool.drain(ledger.log, timeout_s=1, **more)


def test_what_was_kept_is_drained_oldest_first_and_removed(ledger: Ledger, spool: Spool) -> None:
    spool.keep_events([exposure("late")], AT_US + 1)
    spool.keep_events([exposure("early"), exposure("next")], AT_US)

    assert drained(spool, ledger) == Drained(files=2)

    assert [row.event.at.isoformat() for row in ledger.read()] == ["2026-08-01T10:15:00+00:00"] * 3  # type: ignore[union-attr]
    assert len({row.id for row in ledger.read()}) == 3
    assert spool.waiting() == []
    first = next(iter(ledger.read()))
    assert first.id == rightful.event_id("hook", "early")


def test_a_file_that_was_drained_but_not_removed_adds_nothing(ledger: Ledger, spool: Spool) -> None:
    kept = spool.keep_events([exposure("a")], AT_US)
    assert kept is not None
    data = Path(kept).read_bytes()
    drained(spool, ledger)
    Path(kept).write_bytes(data)

    drained(spool, ledger)

    assert ledger.log.head() == 1


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


def test_a_ledger_that_is_not_there_is_spooled_for_in_the_users_own_folder(tmp_path: Path) -> None:
    environment = {"XDG_STATE_HOME": str(tmp_path / "state"), "TMPDIR": str(tmp_path / "temp")}
    spool = Spool(str(tmp_path / "missing"), environment)

    kept = spool.keep_events([exposure()], AT_US)

    assert kept is not None
    assert Path(kept).is_relative_to(tmp_path / "state" / "rightful" / "spool")
    assert not (tmp_path / "missing").exists()
    assert Spool(str(tmp_path / "another"), environment).waiting() == []
    assert Spool(f"{tmp_path}/x/../missing", environment).waiting() == [kept]


def test_where_no_folder_can_be_written_the_next_one_is_and_else_it_is_said(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    (tmp_path / "temp").mkdir()
    environment = {"XDG_STATE_HOME": str(tmp_path / "state"), "TMPDIR": str(tmp_path / "temp")}

    kept = Spool(str(tmp_path / "missing"), environment).keep_events([exposure()], AT_US)
    assert kept is not None
    assert Path(kept).is_relative_to(tmp_path / "temp")

    environment["TMPDIR"] = str(tmp_path / "state")
    assert Spool(str(tmp_path / "missing"), environment).keep_events([exposure()], AT_US) is None


def test_a_folder_that_is_named_by_a_relative_path_is_no_place_to_keep_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    environment = {"TMPDIR": "temp"}

    assert Spool(str(tmp_path / "missing"), environment).keep_events([exposure()], AT_US) is None
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_may_be_a_strangers_is_neither_written_nor_drained(ledger: Ledger, tmp_path: Path) -> None:
    spool = Spool(str(ledger.path), {"XDG_STATE_HOME": str(tmp_path / "state"), "TMPDIR": str(tmp_path / "temp")})
    kept = spool.keep_events([exposure()], AT_US)
    assert kept is not None
    Path(kept).parent.chmod(0o777)

    assert spool.waiting() == []
    elsewhere = spool.keep_events([exposure()], AT_US)
    assert elsewhere is not None
    assert Path(elsewhere).is_relative_to(tmp_path / "state")


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


def test_a_command_drains_so_many_and_says_what_is_left(ledger: Ledger, spool: Spool) -> None:
    for number in range(5):
        spool.keep_events([exposure(str(number))], AT_US + number)

    assert drained(spool, ledger, most=2) == Drained(files=2, left=3)
    assert drained(spool, ledger) == Drained(files=3)
    assert limits.SPOOL_DRAIN_FILES < limits.INGEST_EVENTS
    assert ledger.log.head() == 5


def test_more_events_than_one_transaction_takes_are_drained_in_several(
    ledger: Ledger, spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "INGEST_EVENTS", 3)
    sizes: list[int] = []
    real = ledger.log.append

    def counted(events: list[Any], **more: Any) -> list[Receipt]:
        sizes.append(len(events))
        return real(events, **more)

    monkeypatch.setattr(ledger.log, "append", counted)
    for number in range(4):
        spool.keep_events([exposure(f"{number}-{part}") for part in range(2)], AT_US + number)

    drained(spool, ledger)

    assert sizes == [2, 2, 2, 2]
    assert ledger.log.head() == 8


def test_what_cannot_be_written_now_still_waits(ledger: Ledger, spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(*_: object, **__: object) -> None:
        raise BusyError("ledger", 1)

    kept = spool.keep_events([exposure()], AT_US)
    monkeypatch.setattr(ledger.log, "append", busy)
    with pytest.raises(BusyError):
        drained(spool, ledger)

    assert spool.waiting() == [kept]


@pytest.mark.parametrize(
    "data",
    [b"", b"torn", b'{"type":"nothing.known"}\n', b"\xff\xfe\n", b"[1]\n"],
    ids=["empty", "torn", "invalid", "binary", "no object"],
)
def test_a_file_that_can_never_be_written_is_set_aside_and_its_good_lines_are_taken(
    ledger: Ledger, spool: Spool, data: bytes
) -> None:
    kept = spool.keep_events([exposure("good")], AT_US)
    assert kept is not None
    Path(kept).write_bytes(Path(kept).read_bytes() + data if data else b"")
    spool.keep_events([exposure("neighbour")], AT_US + 1)

    result = drained(spool, ledger)

    if data:
        assert (result.files, len(result.aside), ledger.log.head()) == (1, 1, 2)
        assert spool.aside() == list(result.aside)
        assert Path(result.aside[0]).read_bytes().endswith(data)
    else:
        assert (result.files, ledger.log.head()) == (2, 1)
    assert spool.waiting() == []


def test_an_input_that_was_kept_becomes_the_events_of_its_time(ledger: Ledger, spool: Spool) -> None:
    raw = json.dumps(before_tool()).encode()
    spool.keep_input(raw, "ImportError: x", AT_US, "n1")

    assert drained(spool, ledger) == Drained(files=1)

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


def test_what_a_killed_call_left_half_written_goes_when_nobody_can_be_writing_it(ledger: Ledger, spool: Spool) -> None:
    spool.keep_events([exposure()], AT_US)
    folder = ledger.path / "spool"
    for name, age_s in ((".old.events.jsonl", 3_700), (".new.events.jsonl", 3_500)):
        (folder / name).write_bytes(b"half")
        os.utime(folder / name, (time.time() - age_s,) * 2)
    spool.keep_events([exposure("2")], AT_US)

    drained(spool, ledger)

    assert [path.name for path in folder.iterdir()] == [".new.events.jsonl"]


def test_who_comes_a_minute_after_a_wait_in_vain_waits_less(ledger: Ledger, spool: Spool) -> None:
    assert spool.wait_s(AT_US) == limits.HOOK_WAIT_S
    spool.keep_events([exposure("1")], AT_US)
    assert spool.wait_s(AT_US) == limits.HOOK_WAIT_S, "a call that is kept for another reason says nothing of waiting"
    spool.waited(AT_US)

    minute_us = 60_000_000
    assert [spool.wait_s(AT_US + after) for after in (-minute_us, -1, 0, minute_us - 1, minute_us)] == [
        limits.HOOK_WAIT_S, limits.HOOK_AGAIN_S, limits.HOOK_AGAIN_S, limits.HOOK_AGAIN_S, limits.HOOK_WAIT_S,
    ]  # fmt: skip


def test_who_could_write_ends_the_shorter_waits(ledger: Ledger, spool: Spool) -> None:
    spool.waited(AT_US)
    assert spool.wait_s(AT_US) == limits.HOOK_AGAIN_S
    spool.arrived()

    assert spool.wait_s(AT_US) == limits.HOOK_WAIT_S


def test_what_has_begun_is_waited_for_though_the_wait_for_others_is_over(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = threading.Event()
    real = ledger.log.recorder.decide

    def slow(decision: Any, *, timeout_s: float) -> int:
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


def test_a_file_of_another_name_has_no_time_and_is_drained_all_the_same(ledger: Ledger, spool: Spool) -> None:
    kept = spool.keep_events([exposure("1")], AT_US)
    assert kept is not None
    renamed = Path(kept).with_name("mine.events.jsonl")
    Path(kept).rename(renamed)

    assert (at_us_of(kept), at_us_of(str(renamed))) == (AT_US, 0)
    assert drained(spool, ledger) == Drained(files=1)


def test_a_link_in_the_spool_is_not_followed(ledger: Ledger, spool: Spool, tmp_path: Path) -> None:
    kept = spool.keep_events([exposure()], AT_US)
    assert kept is not None
    Path(kept).rename(tmp_path / "outside")
    Path(kept).symlink_to(tmp_path / "outside")

    drained(spool, ledger)

    assert ledger.log.head() == 0
    assert (tmp_path / "outside").exists()


def test_one_long_file_is_taken_in_parts_and_keeps_nobody_back(
    ledger: Ledger, spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "INGEST_EVENTS", 3)
    monkeypatch.setattr(limits, "BATCH_EVENTS", 3)
    spool.keep_events([exposure(f"long-{number}") for number in range(10)], AT_US)
    spool.keep_events([exposure("neighbour")], AT_US + 1)

    assert drained(spool, ledger, events=6) == Drained(left=2)
    assert ledger.log.head() == 6
    [long, neighbour] = spool.waiting()
    assert (at_us_of(long), at_us_of(neighbour)) == (AT_US, AT_US + 1)

    assert drained(spool, ledger) == Drained(files=2)
    assert [row.outcome for row in ledger.read()] == ["appended"] * 11
    assert spool.waiting() == []
    assert limits.SPOOL_DRAIN_EVENTS < limits.SPOOL_COMMAND_EVENTS <= limits.BATCH_EVENTS * 100_000


def test_a_bad_line_in_an_early_part_is_not_forgotten_in_the_last(
    ledger: Ledger, spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "INGEST_EVENTS", 2)
    kept = spool.keep_events([{"type": "nothing.known"}, *(exposure(str(number)) for number in range(4))], AT_US)
    assert kept is not None
    data = Path(kept).read_bytes()

    assert drained(spool, ledger, events=2).aside == ()
    [aside] = drained(spool, ledger).aside

    assert Path(aside).name == Path(kept).name
    assert Path(aside).read_bytes() == data
    assert ledger.log.head() == 4


@pytest.mark.parametrize("name", ["x.7.events.jsonl", "x.999999.events.jsonl", "x.0.events.jsonl"])
def test_a_name_that_claims_a_place_that_is_no_beginning_of_a_line_is_read_from_the_start(
    ledger: Ledger, spool: Spool, name: str
) -> None:
    kept = spool.keep_events([exposure()], AT_US)
    assert kept is not None
    Path(kept).rename(Path(kept).with_name(name))

    assert drained(spool, ledger) == Drained(files=1)
    assert ledger.log.head() == 1


@pytest.mark.parametrize("error", [ZeroDivisionError(), MemoryError(), DamagedRowError("l", 1, "x")])
def test_a_file_whose_events_make_the_ledger_fail_keeps_no_other_back(
    ledger: Ledger, spool: Spool, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    real = ledger.log.append

    def failing(events: list[Any], **more: Any) -> list[Receipt]:
        if any(event["key"] == "bad" for event in events):
            raise error
        return real(events, **more)

    monkeypatch.setattr(ledger.log, "append", failing)
    kept = [spool.keep_events([exposure(key)], AT_US + at) for at, key in enumerate(("a", "bad", "b"))]

    result = drained(spool, ledger)

    assert ledger.log.head() == 2
    if isinstance(error, ZeroDivisionError):
        assert (result.files, len(result.aside), spool.waiting()) == (2, 1, [])
    else:
        assert (result, spool.waiting()) == (Drained(files=2, left=1), [kept[1]])


def test_a_line_that_is_too_long_to_be_read_is_set_aside_with_its_file(
    ledger: Ledger, spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool.keep_events([exposure("1"), exposure("2" * 500)], AT_US)
    spool.keep_input(b"x" * 500, "x", AT_US + 1, "n")
    spool.keep_events([exposure("3")], AT_US + 2)
    monkeypatch.setattr(limits, "SPOOL_LINE_BYTES", 400)

    result = drained(spool, ledger)

    assert (result.files, len(result.aside), ledger.log.head()) == (1, 2, 2)


def test_what_is_no_file_in_the_spool_is_passed_over(ledger: Ledger, spool: Spool) -> None:
    kept = spool.keep_events([exposure()], AT_US)
    spool.set_aside(b"x", "rubbish", AT_US)
    for name in ("0-a.events.jsonl", "0-b.input.json", "full", "waited", "aside/0.note.json"):
        os.mkfifo(ledger.path / "spool" / name)

    assert spool.waiting() == [kept]
    assert len(spool.aside()) == 1
    spool.waited(AT_US)
    assert drained(spool, ledger, most=1) == Drained(files=1)


def test_each_folder_that_is_made_is_its_owners_alone(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path / "missing"), {"XDG_STATE_HOME": str(tmp_path / "a" / "state"), "TMPDIR": "x"})
    before = os.umask(0)
    try:
        kept = spool.keep_events([exposure()], AT_US)
    finally:
        os.umask(before)

    assert kept is not None
    made = [folder for folder in Path(kept).parents if folder.is_relative_to(tmp_path) and folder != tmp_path]
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in made] == [0o700] * 5


@pytest.mark.parametrize(("mode", "used"), [(0o777, False), (0o770, False), (0o1777, True), (0o755, True)])
def test_a_folder_in_whose_place_others_may_put_theirs_is_not_used(tmp_path: Path, mode: int, *, used: bool) -> None:
    spool = Spool(str(tmp_path / "missing"), {"XDG_STATE_HOME": str(tmp_path), "TMPDIR": "x"})
    kept = spool.keep_events([exposure()], AT_US)
    assert kept is not None
    Path(kept).parents[1].chmod(mode)

    assert spool.waiting() == ([kept] if used else [])
    assert (spool.keep_events([exposure()], AT_US) is not None) == used


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


RAW = [
    b"1" * 5_000, b"-" + b"7" * 4_001, b'"\\ud83d\x80"', b'"\\ud83d\\ud83d\xff\xfe"', b'"\xc3"', b'"\\udcc3\\udca9"',
    b'"\xf0\x9f\x92\x80"', b"[NaN, -Infinity, 1e999, -0.0, 1.10]", b"123456789012345678901234567890",
    b'{"\\ud83d\x80": {"$int": "1"}, "\\u0000": "\\u001a0041"}', '"\u2028"'.encode(),
]  # fmt: skip


@pytest.mark.parametrize("raw", RAW)
def test_what_comes_out_of_the_spool_is_what_would_have_been_appended(ledger: Ledger, spool: Spool, raw: bytes) -> None:
    event = exposure("a", extra={"x": content.parse_json(b'{"v":' + raw + b"}")})
    spool.keep_events([event], AT_US)
    drained(spool, ledger)
    ledger.append([event | {"key": "b"}])

    [[spooled, direct]] = ledger.log.scan()
    assert spooled.payload is not None
    assert direct.payload is not None
    assert spooled.payload[SALT_BYTES:] == direct.payload[SALT_BYTES:]
    assert [receipt.outcome for receipt in ledger.append([event])] == ["duplicate"]
