"""The SDK's `Session` protocol on a ledger, called by hand."""

from __future__ import annotations

import asyncio
import enum
import math
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from agents import RunContextWrapper, SQLiteSession
from agents.memory import Session, SessionSettings
from agents.memory.session import _session_accepts_wrapper
from tests.integrations.openai_agents.providers import user
from tests.storage.turns import writer_of

import rightful
from rightful import limits
from rightful.errors import ForeignStoreError, InvalidEventError, NotJsonError, SessionClosedError, UsageError
from rightful.events import HistoryAppended
from rightful.integrations.openai_agents import LedgerSession
from rightful.ledger import Ledger


def added(session: Session, *items: Any) -> list[Any]:
    """What a store hands out after it took the items."""

    async def add() -> list[Any]:
        await session.add_items(list(items))
        return list(await session.get_items())

    return asyncio.run(add())


def test_it_is_a_session_that_takes_the_runs_wrapper(session: LedgerSession) -> None:
    assert isinstance(session, Session)
    assert _session_accepts_wrapper(session)


def test_items_come_back_in_the_order_of_their_batches(session: LedgerSession) -> None:
    added(session, user("a"), user("b"))

    assert added(session, user("c")) == [user("a"), user("b"), user("c")]
    assert [type(row.event).__name__ for row in asyncio.run(session.events())] == ["HistoryAppended"] * 2


def test_what_was_just_added_is_read_within_the_event_loop(
    session: LedgerSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        await session.get_items()
        await session.add_items([user("a")])
        monkeypatch.setattr(session._queue, "put", None)
        assert await session.get_items(1) == [user("a")]

    asyncio.run(play())


def test_an_empty_batch_writes_nothing_and_is_no_call_of_the_run(session: LedgerSession) -> None:
    assert added(session) == []
    assert session.ledger.log.head() == 0
    added(session, user("a"))

    event = next(session.ledger.read()).event
    assert isinstance(event, HistoryAppended)
    assert event.ordinal == 0


@pytest.mark.parametrize(
    ("settings", "limit", "texts"),
    [
        (None, None, "abc"), (None, 2, "bc"), (None, 0, ""), (None, 9, "abc"),
        ({"limit": 1}, None, "c"), ({"limit": 1}, 2, "bc"), ({"limit": None}, None, "abc"), ({"limit": 0}, None, ""),
        (SessionSettings(limit=2), None, "bc"),
    ],
)  # fmt: skip
def test_a_limit_shows_the_last_items(settings: Any, limit: int | None, texts: str, ledger: Ledger) -> None:
    async def play() -> None:
        session = LedgerSession("chat", ledger, session_settings=settings)
        own = SQLiteSession("chat", session_settings=settings)
        for store in (session, own):
            await store.add_items([user(text) for text in "abc"])
            assert await store.get_items(limit) == [user(text) for text in texts]
        own.close()

    asyncio.run(play())


def test_less_than_no_items_is_all(session: LedgerSession) -> None:
    """The SDK's stores differ here: SQLite then shows all, which its own suites demand, Redis and MongoDB nothing."""
    added(session, user("a"))

    assert asyncio.run(session.get_items(-1)) == [user("a")]


def test_settings_are_the_sdks_and_what_it_does_not_know_is_refused(ledger: Ledger) -> None:
    mine = SessionSettings(limit=3)

    assert LedgerSession("chat", ledger, session_settings=mine).session_settings is mine
    assert LedgerSession("chat", ledger).session_settings == SessionSettings()
    with pytest.raises(TypeError, match="limits"):
        LedgerSession("chat", ledger, session_settings={"limits": 3})


def test_pop_takes_the_newest_and_clear_all_and_the_log_keeps_everything(session: LedgerSession) -> None:
    async def play() -> None:
        assert await session.pop_item() is None
        await session.add_items([user("a"), user("b")])
        assert await session.pop_item() == user("b")
        assert await session.get_items() == [user("a")]
        await session.clear_session()
        assert await session.get_items() == []
        await session.add_items([user("c")])
        assert await session.get_items() == [user("c")]
        kinds = [type(row.event).__name__ for row in await session.events()]
        assert kinds == ["HistoryAppended", "HistoryPopped", "HistoryCleared", "HistoryAppended"]

    asyncio.run(play())


class _Colour(enum.IntEnum):
    RED = 1


TAKEN: list[Any] = [
    {"role": "user", "content": "ünï \U0001f600 \x00 \x1a \x7f"},
    {"content": "lone \ud800, reversed \udc00\ud800"},
    {"a": math.inf, "b": -math.inf},
    {"big": 10**400, "negative": -(10**40), "edge": 2**64},
    {"float": 0.1, "exact": 1e308, "minus": -0.0, "whole": 1.0},
    {7: "a", 2.5: "b", True: "c", None: "d"},
    {1: "first", "1": "second"},
    {"tuple": (1, (2, ())), "nested": [[[[{"deep": [None, True]}]]]]},
    {"$int": "5", "$float": "nan", "$$int": {"$float": 1}},
    {"enum": _Colour.RED},
    {"z": 1, "a": {"y": 2, "b": 3}},
    {},
    {"": ""},
    "a text", 5, None, [1],
]  # fmt: skip


@pytest.mark.parametrize("item", TAKEN, ids=repr)
def test_what_the_sdks_store_takes_comes_back_as_from_it(item: Any, session: LedgerSession) -> None:
    own = SQLiteSession("chat")

    assert repr(_sorted(added(session, item))) == repr(_sorted(added(own, item)))
    own.close()


def test_a_number_that_is_none_comes_back_as_one(session: LedgerSession) -> None:
    assert math.isnan(added(session, {"x": math.nan})[0]["x"])


def _sorted(value: Any) -> Any:
    """The order of an object's keys is not kept."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    "item",
    [{"x": {1, 2}}, {"x": b"bytes"}, {"x": object()}, {(1, 2): 3}, Path("x")],
    ids=["set", "bytes", "object", "tuple-key", "path"],
)
def test_what_is_no_json_is_refused_with_its_whole_batch(item: Any, session: LedgerSession) -> None:
    own = SQLiteSession("chat")

    with pytest.raises(TypeError):
        added(own, user("a"), item)
    with pytest.raises(TypeError, match=r"Item 1 of the batch is not a JSON value .* Nothing of the batch was written"):
        added(session, user("a"), item)
    assert issubclass(NotJsonError, UsageError)  # as the command line and older callers catch it
    assert session.ledger.log.head() == 0
    own.close()


def test_what_was_handed_out_and_taken_is_the_callers_own(session: LedgerSession) -> None:
    """A caller that changes its objects afterwards changes nothing here."""
    mine = user("a")
    handed = added(session, mine)[0]
    mine["content"] = handed["content"] = "changed"

    assert asyncio.run(session.get_items()) == [user("a")]


def test_a_batch_larger_than_an_event_is_one_append_all_the_same(session: LedgerSession) -> None:
    """Three pictures in one message; and what its run knows of is all of it, and the batch before it too."""

    async def play() -> None:
        wrapper = RunContextWrapper[Any](None)
        pictures: list[Any] = [{"picture": letter * 6_000_000} for letter in "abc"]
        await session.add_items([user("before")], wrapper=wrapper)
        await session.add_items(pictures, wrapper=wrapper)

        assert await session.get_items() == [user("before"), *pictures]
        assert session.ledger.log.head() == 3
        known = session._runs.of(wrapper).known
        assert known == {entry.id for entry in (await session.full_history()).entries}
        assert len(known) == 4

    asyncio.run(play())


def test_what_no_event_may_hold_is_refused_with_its_batch(session: LedgerSession) -> None:
    deep: Any = "x"
    for _ in range(70):
        deep = [deep]
    with pytest.raises(InvalidEventError, match="nested at most 64 levels"):
        added(session, user("a"), {"deep": deep})
    with pytest.raises(InvalidEventError, match="at most 16777216 bytes"):
        added(session, user("a"), user("x" * 17_000_000))

    assert session.ledger.log.head() == 0


@pytest.mark.parametrize("bad", ["", "unknown", "a\nb", "a\x7fb", "\ud800", "x" * 1_011, 7, None], ids=repr)
def test_an_id_that_can_name_no_session_is_refused(bad: Any, ledger: Ledger) -> None:
    with pytest.raises(UsageError, match="is not a valid session id"):
        LedgerSession(bad, ledger)


def test_refusal_of_a_long_id_gives_the_limit_and_only_its_beginning(
    ledger: Ledger,
) -> None:
    with pytest.raises(UsageError) as of_id:
        LedgerSession("x" * 1_011, ledger)
    with pytest.raises(UsageError) as of_key:
        LedgerSession("chat", ledger, run_key="k" * 513)

    shown = (
        f"'{'x' * 63}… is not a valid session id. Nothing was done. Pass a string of 1 to 1,010 bytes without control"
    )
    assert str(of_id.value).startswith(shown)
    assert str(of_key.value).startswith(
        f"'{'k' * 63}… is not a valid run key. Nothing was done. Pass a string of 1 to 512 characters without"
    )


@pytest.mark.parametrize("good", ["x" * 1_010, "a b/../c", "Ünï:x", "unknown2"], ids=repr)
def test_an_id_is_kept_unchanged(good: str, ledger: Ledger) -> None:
    session = LedgerSession(good, ledger)
    added(session, user("a"))

    assert session.session_id == good
    assert [row.event.session for row in ledger.read()] == [f"openai-agents:{good}"]  # type: ignore[union-attr]


@pytest.mark.parametrize("bad", ["", "x" * (limits.WORD_CHARS + 1), "\ud800", 7], ids=repr)
def test_what_can_be_no_run_key_is_refused_before_anything_is_done(bad: Any, ledger: Ledger) -> None:
    with pytest.raises(UsageError, match="is not a valid run key"):
        LedgerSession("chat", ledger, run_key=bad)


def test_a_run_key_may_be_as_long_as_a_word_and_say_anything(ledger: Ledger) -> None:
    key = ("a\n\x00'\"ü" * limits.WORD_CHARS)[: limits.WORD_CHARS]

    assert added(LedgerSession("chat", ledger, run_key=key), user("a")) == [user("a")]
    assert added(LedgerSession("chat", ledger, run_key=key), user("a")) == [user("a")]
    assert ledger.log.head() == 1


def test_a_path_is_made_and_closed_with_the_session(tmp_path: Path) -> None:
    async def play() -> None:
        async with LedgerSession("chat", tmp_path / "new" / "ledger") as session:
            await session.add_items([user("a")])
        with pytest.raises(rightful.RightfulError, match="closed"):
            session.ledger.log.head()
        session.close()
        again = LedgerSession("chat", str(tmp_path / "new" / "ledger"))
        assert await again.get_items() == [user("a")]
        await again.aclose()

    asyncio.run(play())


def test_an_open_ledger_stays_open_when_the_session_is_closed(ledger: Ledger) -> None:
    LedgerSession("chat", ledger).close()

    assert ledger.log.head() == 0


def test_a_closed_session_says_so_and_does_nothing(session: LedgerSession) -> None:
    session.close()

    async def each() -> None:
        for call in (
            session.get_items, lambda: session.add_items([]), session.pop_item, session.clear_session,
            session.full_history, session.events, session.fork,
        ):  # fmt: skip
            with pytest.raises(RuntimeError, match="session object of openai-agents:chat is closed") as caught:
                await call()
            assert isinstance(caught.value, SessionClosedError)
            assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)

    asyncio.run(each())
    assert session.ledger.log.head() == 0


@pytest.mark.parametrize("bad", [None, 7, b"ledger"], ids=repr)
def test_what_is_no_ledger_is_refused_at_once(bad: Any) -> None:
    with pytest.raises(UsageError, match="is not a ledger"):
        LedgerSession("chat", bad)


@pytest.mark.parametrize("bad", [None, 7, "claude-4"], ids=repr)
def test_what_is_no_model_that_compacts_is_refused_at_once(bad: Any, ledger: Ledger) -> None:
    with pytest.raises(UsageError, match="is not a model that compacts"):
        LedgerSession("chat", ledger, model=bad)


def test_a_file_is_no_ledger_and_stays_unchanged(tmp_path: Path) -> None:
    file = tmp_path / "conversations.db"
    file.write_bytes(b"SQLite format 3")

    with pytest.raises(ForeignStoreError, match="it is a file, not a folder"):
        LedgerSession("chat", file)

    assert file.read_bytes() == b"SQLite format 3"


@pytest.mark.parametrize("bad", ["abc", b"abc", {"role": "user", "content": "a"}], ids=repr)
def test_one_item_outside_a_list_is_refused_and_not_taken_apart(bad: Any, session: LedgerSession) -> None:
    with pytest.raises(UsageError, match="Expected a list of items"):
        asyncio.run(session.add_items(bad))

    assert session.ledger.log.head() == 0


def test_a_kind_of_text_names_what_its_text_says(ledger: Ledger) -> None:
    class Chat(str, enum.Enum):  # noqa: UP042 - its `format` is not what it says
        ONE = "one"

    session = LedgerSession(Chat.ONE, ledger, run_key=Text("job"))

    assert (session.name, session.session_id) == ("openai-agents:one", "one")
    assert type(session.session_id) is str
    assert added(session, user("a")) == [user("a")]
    assert [row.event.run for row in asyncio.run(session.events())] == ["job"]  # type: ignore[union-attr]


class Text(str):
    __slots__ = ()


MISSING = """
import sys
sys.modules["agents"] = None
try:
    import rightful.integrations.openai_agents
except ImportError as error:
    print(error)
"""


def test_without_the_sdk_it_is_said_how_to_install_it() -> None:
    done = subprocess.run([sys.executable, "-c", MISSING], check=True, capture_output=True, text=True, timeout=60)

    assert "pip install '/path/to/the/clone[openai-agents]'" in done.stdout


def test_calls_of_a_session_commit_in_its_own_thread(ledger: Ledger) -> None:
    """They need no writer thread: append, pop, clear and fork pass `inline` down to the recorder."""

    async def play() -> None:
        session = LedgerSession("chat", ledger)
        await session.add_items([user("a"), user("b")])
        await session.pop_item()
        await session.fork()
        await session.clear_session()

    asyncio.run(play())

    recorder: Any = ledger.log.recorder
    assert ledger.log.head() == 4
    assert writer_of(recorder)._thread is None
