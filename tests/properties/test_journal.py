"""A store whose journal begins anew all the time answers as a plain list does, whoever of three is asked."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from eventsourcing.dcb.api import DCBEvent, DCBQuery, DCBQueryItem
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.amounts import examples
from tests.contracts.support import Other
from tests.properties.serving import Model, ask, serve

from rightful import limits
from rightful.encoding.envelope import tags_of
from rightful.storage.port import LedgerEvent
from rightful.storage.recorder import LMDBRecorder
from rightful.storage.tables.row_codec import LedgerCodec, PlainCodec

WORDS = ["", "x", "xy", "ü", "x" * limits.TAG_KEY_BYTES, "x" * (limits.TAG_KEY_BYTES + 1)]
SESSIONS = [None, "s:1", "s:12", "s:" + "x" * limits.TAG_KEY_BYTES]
PACK = {"plain": PlainCodec().pack, "ledger": LedgerCodec().pack}

_words = st.sampled_from(WORDS)
_sizes = st.sampled_from([0, 1, 50, 700])


@st.composite
def plain_events(draw: st.DrawFn) -> DCBEvent:
    kind, tags = draw(_words), draw(st.lists(_words, max_size=6) | st.just([f"many:{n}" for n in range(40)]))
    data = b"d" * draw(_sizes)
    if draw(st.booleans()):
        return DCBEvent(type=kind, data=data, tags=tags)
    return LedgerEvent(type=kind, data=data, tags=tags, payload=b"p" * draw(_sizes))


@st.composite
def ledger_events(draw: st.DrawFn) -> DCBEvent:
    number, session, kind = draw(st.integers(0, 12)), draw(st.sampled_from(SESSIONS)), draw(st.sampled_from("abc"))
    record = {"id": str(number), "type": kind} | ({} if session is None else {"session": session})
    payload = draw(st.sampled_from([b"", b"salt and body", b"p" * 700]))
    return LedgerEvent(kind, msgspec.json.encode(record), tags_of(str(number), session), payload)


def questions(events: st.SearchStrategy[DCBEvent], tags: list[str], kinds: list[str]) -> st.SearchStrategy[Any]:
    item = st.builds(
        DCBQueryItem,
        types=st.lists(st.sampled_from(kinds), max_size=2),
        tags=st.lists(st.sampled_from(tags), max_size=2),
    )
    wanted = st.none() | st.builds(DCBQuery, items=st.lists(item, max_size=3))
    after, limit = st.integers(0, 20), st.integers(1, 20)
    append = st.tuples(st.just("append"), st.lists(events, min_size=1, max_size=5))
    deciding = st.lists(events, max_size=2)
    viewing = st.tuples(
        st.just("view"), st.sampled_from(tags), wanted.map(lambda each: each or DCBQuery()), after, deciding
    )
    return st.one_of(
        append,
        append,
        viewing,
        viewing,
        st.tuples(st.just("read"), wanted, after, st.none() | limit),
        st.tuples(st.just("rows"), after, limit),
        st.tuples(st.just("tags_like"), st.sampled_from([*(tag[:4] for tag in tags), "many:1"]), limit),
        st.tuples(st.just("tree_head")),
    )


LEDGER_TAGS = [tag for number in (1, 2, 12) for session in SESSIONS for tag in tags_of(str(number), session)]
QUESTIONS = {
    "plain": questions(plain_events(), WORDS, WORDS),
    "ledger": questions(ledger_events(), LEDGER_TAGS, list("abc")),
}


@pytest.fixture(scope="module")
def processes() -> Iterator[list[Other]]:
    """Give a process that keeps the store open, and one that opens it anew for each request."""
    running = [Other(serve, False), Other(serve, True)]
    yield running
    for other in running:
        other.tell(None)
        other.end()


@pytest.mark.parametrize("kind", ["plain", "ledger"])
@settings(max_examples=examples(60), deadline=None)
@given(data=st.data(), rows=st.integers(1, 7), size=st.sampled_from([4_096, 6_000, 65_536]))
def test_every_answer_is_that_of_a_plain_list(
    processes: list[Other], kind: str, data: st.DataObject, rows: int, size: int
) -> None:
    small = {"JOURNAL_ROWS": rows, "JOURNAL_COMMIT_BYTES": 1_500, "JOURNAL_BYTES": size, "PAGE_ROWS": 3}
    asked = data.draw(st.lists(st.tuples(st.integers(0, 2), QUESTIONS[kind]), min_size=6, max_size=30))
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        for limit, value in small.items():
            patch.setattr(limits, limit, value)
        folder, model = Path(name).resolve() / "s", Model()
        with LMDBRecorder(folder, kind=kind, create=True) as recorder:

            def answer(who: int, question: tuple[Any, ...]) -> Any:
                if not who:
                    return ask(recorder, *question)
                processes[who - 1].tell((folder, kind, small, *question))
                return processes[who - 1].hear()

            for who, question in asked:
                assert answer(who, question) == model.ask(PACK[kind], *question), (who, question)
            for who in range(3):
                for question in (("read", None, 0, None), ("rows", 0, 1_000), ("tree_head",)):
                    assert answer(who, question) == model.ask(PACK[kind], *question), (who, question)
