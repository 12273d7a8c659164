from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from tests.log.facts import exposure

import rightful
from rightful import content, limits
from rightful.encoding.envelope import SALT_BYTES
from rightful.errors import BusyError, DamagedRowError
from rightful.integrations.spool.spool_drain import DrainResult, drain
from rightful.integrations.spool.spool_files import Spool, at_us_of
from rightful.ledger import Ledger
from rightful.log.rows import Receipt

AT_US = 1_785_579_400_000_000


@pytest.fixture
def spool(ledger: Ledger, tmp_path: Path) -> Spool:
    return Spool(str(ledger.path), {"XDG_STATE_HOME": str(tmp_path / "state"), "TMPDIR": str(tmp_path / "temp")})


def drained(spool: Spool, ledger: Ledger, **more: Any) -> DrainResult:
    return drain(spool, ledger.log, timeout_s=1, **more)


def test_what_was_kept_is_drained_oldest_first_and_removed(ledger: Ledger, spool: Spool) -> None:
    spool.keep_events([exposure("late")], AT_US + 1)
    spool.keep_events([exposure("early"), exposure("next")], AT_US)

    assert drained(spool, ledger) == DrainResult(files=2)

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


def test_a_command_drains_so_many_and_says_what_is_left(ledger: Ledger, spool: Spool) -> None:
    for number in range(5):
        spool.keep_events([exposure(str(number))], AT_US + number)

    assert drained(spool, ledger, max_files=2) == DrainResult(files=2, left=3)
    assert drained(spool, ledger) == DrainResult(files=3)
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
def test_bad_file_is_set_aside_and_its_good_lines_are_appended(ledger: Ledger, spool: Spool, data: bytes) -> None:
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


def test_temporary_file_of_a_killed_call_is_removed_after_an_hour(ledger: Ledger, spool: Spool) -> None:
    spool.keep_events([exposure()], AT_US)
    folder = ledger.path / "spool"
    for name, age_s in ((".old.events.jsonl", 3_700), (".new.events.jsonl", 3_500)):
        (folder / name).write_bytes(b"half")
        os.utime(folder / name, (time.time() - age_s,) * 2)
    spool.keep_events([exposure("2")], AT_US)

    drained(spool, ledger)

    assert [path.name for path in folder.iterdir()] == [".new.events.jsonl"]


def test_a_file_of_another_name_has_no_time_and_is_drained_all_the_same(ledger: Ledger, spool: Spool) -> None:
    kept = spool.keep_events([exposure("1")], AT_US)
    assert kept is not None
    renamed = Path(kept).with_name("mine.events.jsonl")
    Path(kept).rename(renamed)

    assert (at_us_of(kept), at_us_of(str(renamed))) == (AT_US, 0)
    assert drained(spool, ledger) == DrainResult(files=1)


def test_a_link_in_the_spool_is_not_followed(ledger: Ledger, spool: Spool, tmp_path: Path) -> None:
    kept = spool.keep_events([exposure()], AT_US)
    assert kept is not None
    Path(kept).rename(tmp_path / "outside")
    Path(kept).symlink_to(tmp_path / "outside")

    drained(spool, ledger)

    assert ledger.log.head() == 0
    assert (tmp_path / "outside").exists()


def test_long_file_is_drained_in_parts_without_blocking_others(
    ledger: Ledger, spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "INGEST_EVENTS", 3)
    monkeypatch.setattr(limits, "BATCH_EVENTS", 3)
    spool.keep_events([exposure(f"long-{number}") for number in range(10)], AT_US)
    spool.keep_events([exposure("neighbour")], AT_US + 1)

    assert drained(spool, ledger, max_events=6) == DrainResult(left=2)
    assert ledger.log.head() == 6
    [long, neighbour] = spool.waiting()
    assert (at_us_of(long), at_us_of(neighbour)) == (AT_US, AT_US + 1)

    assert drained(spool, ledger) == DrainResult(files=2)
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

    assert drained(spool, ledger, max_events=2).aside == ()
    [aside] = drained(spool, ledger).aside

    assert Path(aside).name == Path(kept).name
    assert Path(aside).read_bytes() == data
    assert ledger.log.head() == 4


@pytest.mark.parametrize("name", ["x.7.events.jsonl", "x.999999.events.jsonl", "x.0.events.jsonl"])
def test_file_with_a_wrong_offset_is_read_from_the_start(ledger: Ledger, spool: Spool, name: str) -> None:
    kept = spool.keep_events([exposure()], AT_US)
    assert kept is not None
    Path(kept).rename(Path(kept).with_name(name))

    assert drained(spool, ledger) == DrainResult(files=1)
    assert ledger.log.head() == 1


@pytest.mark.parametrize("error", [ZeroDivisionError(), MemoryError(), DamagedRowError("l", 1, "x")])
def test_failing_file_does_not_block_other_files(
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
        assert (result, spool.waiting()) == (DrainResult(files=2, left=1), [kept[1]])


def test_a_line_that_is_too_long_to_be_read_is_set_aside_with_its_file(
    ledger: Ledger, spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool.keep_events([exposure("1"), exposure("2" * 500)], AT_US)
    spool.keep_input(b"x" * 500, "x", AT_US + 1, "n")
    spool.keep_events([exposure("3")], AT_US + 2)
    monkeypatch.setattr(limits, "SPOOL_LINE_BYTES", 400)

    result = drained(spool, ledger)

    assert (result.files, len(result.aside), ledger.log.head()) == (1, 2, 2)


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
