"""What stands in the journal is found by its tags, whether it is sought in the rows or in an index of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from eventsourcing.dcb.api import DCBEvent
from tests.storage.test_recorder import IDS, row

from rightful.encoding.merkle import HASH_BYTES
from rightful.storage.journal import journal_rows as module
from rightful.storage.journal.journal_rows import JournalTail, StoredRow
from rightful.storage.tables.row_codec import Codec, LedgerCodec, PlainCodec

WORDS = ["t:s", "t:s2", 't:say "hi" \\ now', "t:é你好🦊", "t:" + "x" * 700, "t:a/b<&>", "t:\u2028"]


def ledgers(n: int) -> DCBEvent:
    """One id comes again, every seventh row has no session."""
    return row(n % len(IDS), session=None if n % 7 == 6 else WORDS[n % len(WORDS)])


def plain(n: int) -> DCBEvent:
    tags = [WORDS[n % len(WORDS)], f"n:{n % 3}", f"n:{n % 3}", ""][: n % 5]
    return DCBEvent(type="a", data=WORDS[(n + 1) % len(WORDS)].encode(), tags=tags)


CASES = [(LedgerCodec(), ledgers), (PlainCodec(), plain)]
Make = Callable[[int], DCBEvent]


def kept(codec: Codec, events: list[DCBEvent]) -> list[StoredRow]:
    return [StoredRow(bytes(HASH_BYTES) + codec.pack(event), None) for event in events]


@pytest.mark.parametrize(("codec", "make"), CASES)
@pytest.mark.parametrize("known", [False, True])
def test_what_is_sought_in_the_rows_is_what_the_index_finds(
    codec: Codec, make: Make, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the rows were read from the journal or are of this process."""
    events = [make(n) for n in range(40)]
    rows = kept(codec, events)
    for asked in (1_000_000, 0):
        monkeypatch.setattr(module, "_UNINDEXED", asked)
        tail = JournalTail(100, codec)
        if known:
            tail.grow(rows, events)
        else:
            tail.rows += rows
        for tag in sorted({tag for event in events for tag in event.tags} | {"id:", "session:", "t", "n:", "a", "x"}):
            wanted = [101 + at for at, event in enumerate(events) if tag in event.tags]
            assert list(tail.tagged(tag)) == wanted, (tag, asked)


@pytest.mark.parametrize(("codec", "make"), CASES)
def test_repeated_query_gives_the_same_answer_while_rows_come_and_go(codec: Codec, make: Make) -> None:
    events = [make(n) for n in range(30)]
    rows, tail = kept(codec, events), JournalTail(0, codec)
    tag = events[8].tags[0]
    for count in (10, 20, 30):
        tail.rows += rows[len(tail.rows) : count]
        wanted = [1 + at for at, event in enumerate(events[:count]) if tag in event.tags]
        assert [list(tail.tagged(tag)) for _ in range(module._UNINDEXED)] == [wanted] * module._UNINDEXED
    tail.cut(9)

    assert list(tail.tagged(tag)) == [1 + at for at, event in enumerate(events[:9]) if tag in event.tags]


def test_a_process_that_asks_once_decodes_only_what_it_looks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hook appends once; reading the tags of all rows would take it a millisecond."""
    codec, decoded = LedgerCodec(), list[bytes]()
    tail = JournalTail(0, codec)
    tail.rows += kept(codec, [ledgers(n) for n in range(10)])
    words = LedgerCodec.words

    def counted(self: LedgerCodec, record: bytes) -> tuple[str, list[str]]:
        decoded.append(record)
        return words(self, record)

    monkeypatch.setattr(LedgerCodec, "words", counted)

    assert list(tail.tagged("id:00000000-0000-5000-8000-999999999999")) == []
    assert decoded == []
    assert list(tail.tagged(f"id:{IDS[3]}")) == [4]
    assert len(decoded) == 1
    for _ in range(module._UNINDEXED):
        assert list(tail.tagged(f"id:{IDS[3]}")) == [4]
    assert len(decoded) == module._UNINDEXED - 1 + 10, "more questions are worth an index"


def test_a_damaged_row_has_no_tags(monkeypatch: pytest.MonkeyPatch) -> None:
    for asked in (0, 9):
        monkeypatch.setattr(module, "_UNINDEXED", asked)
        codec = LedgerCodec()
        tail = JournalTail(0, codec)
        [good] = kept(codec, [ledgers(1)])
        assert good.value is not None
        tail.rows += [StoredRow(None, None), StoredRow(good.value[:-1], None), good]

        assert list(tail.tagged(f"id:{IDS[1]}")) == [3]
