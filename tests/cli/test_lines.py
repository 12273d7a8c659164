from __future__ import annotations

import io
import os
import threading
import tracemalloc
from pathlib import Path
from typing import Any, cast

import pytest

from rightful import limits
from rightful.cli.support.input_lines import Line, batches


def lines_of(data: bytes) -> list[Line]:
    return [line for batch in batches(io.BytesIO(data)) for line in batch]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"\n\n", []),
        (b"a\nb\n", [Line(1, b"a"), Line(2, b"b")]),
        (b"a\nb", [Line(1, b"a"), Line(2, b"b")]),
        (b"a\r\n \t\r\n\nb\r\n", [Line(1, b"a"), Line(4, b"b")]),
        (b" a b \n", [Line(1, b"a b")]),
        (b"\xef\xbb\xbf{}\n", [Line(1, b"\xef\xbb\xbf{}")]),
        ("a\u2028b\x85c\n".encode(), [Line(1, "a\u2028b\x85c".encode())]),
    ],
)
def test_lines_are_numbered_blank_ones_included(data: bytes, lines: list[Line]) -> None:
    assert lines_of(data) == lines


def test_a_line_may_span_many_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rightful.cli.support.input_lines._CHUNK_BYTES", 3)

    assert lines_of(b"abcdefgh\nij\n\nk") == [Line(1, b"abcdefgh"), Line(2, b"ij"), Line(4, b"k")]


@pytest.mark.parametrize("chunk_bytes", [3, 1 << 18])
def test_a_line_is_as_long_as_the_limit_says_and_not_a_byte_longer(
    monkeypatch: pytest.MonkeyPatch, chunk_bytes: int
) -> None:
    """A longer one is passed over to its end without being held, and what follows is read."""
    assert limits.EVENT_BYTES == 16 * 1024 * 1024
    monkeypatch.setattr(limits, "EVENT_BYTES", 10)
    monkeypatch.setattr("rightful.cli.support.input_lines._CHUNK_BYTES", chunk_bytes)

    assert lines_of(b"0123456789\n0123456789x\nabc\n" + b"x" * 50) == [
        Line(1, b"0123456789"),
        Line(2, None),
        Line(3, b"abc"),
        Line(4, None),
    ]


def test_a_line_too_long_is_not_held_while_its_end_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless(io.RawIOBase):
        left = 2_000

        def readable(self) -> bool:
            return True

        def read(self, _: int = -1) -> bytes:
            self.left -= 1
            return b"x" * 10_000 if self.left else b""

    monkeypatch.setattr(limits, "EVENT_BYTES", 100_000)
    tracemalloc.start()
    try:
        assert [line for batch in batches(cast("Any", Endless())) for line in batch] == [Line(1, None)]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 1_000_000


def test_batch_has_at_most_the_limit_of_lines_and_another_begins() -> None:
    data = b"x\n" * (limits.INGEST_EVENTS + 1)

    assert [len(batch) for batch in batches(io.BytesIO(data))] == [limits.INGEST_EVENTS, 1]
    assert [len(batch) for batch in batches(io.BytesIO(data[2:]))] == [limits.INGEST_EVENTS]


def test_a_batch_ends_with_the_line_that_brings_it_to_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    assert limits.INGEST_BYTES == 16 * 1024 * 1024
    monkeypatch.setattr(limits, "INGEST_BYTES", 6)

    assert [len(batch) for batch in batches(io.BytesIO(b"abc\nabc\nabc\n"))] == [2, 1]
    assert [len(batch) for batch in batches(io.BytesIO(b"abc\nab\nabc\n"))] == [3]


def test_what_a_slow_producer_wrote_is_not_held_back_until_it_writes_more() -> None:
    reading, writing = os.pipe()
    seen: list[list[Line]] = []
    arrived = threading.Semaphore(0)

    def read() -> None:
        with os.fdopen(reading, "rb") as file:
            for batch in batches(file):
                seen.append(batch)
                arrived.release()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    os.write(writing, b"one\ntwo\nthr")
    assert arrived.acquire(timeout=10)
    first = list(seen)
    os.write(writing, b"ee\n")
    assert arrived.acquire(timeout=10)
    os.close(writing)
    reader.join(10)

    assert [line.text for batch in first for line in batch] == [b"one", b"two"]
    assert [line for batch in seen for line in batch] == [Line(1, b"one"), Line(2, b"two"), Line(3, b"three")]


def test_a_file_is_read_in_full_batches(tmp_path: Path) -> None:
    """A file is always ready: nothing is cut short."""
    (tmp_path / "lines").write_bytes(b"0123456789\n" * 60_000)
    with (tmp_path / "lines").open("rb") as file:
        sizes = [len(batch) for batch in batches(file)]

    assert sizes == [limits.INGEST_EVENTS] * 60


def test_an_object_that_only_reads_is_enough() -> None:
    class Reads:
        def __init__(self) -> None:
            self.left = [b"a\nb", b"c\n", b""]

        def read(self, _: int) -> bytes:
            return self.left.pop(0)

    assert [line.text for batch in batches(cast("Any", Reads())) for line in batch] == [b"a", b"bc"]
