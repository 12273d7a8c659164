"""Compaction that a caller asks for: what it covers, two at once, and what the provider's answer becomes."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from agents import Runner
from agents.extensions.memory import EncryptedSession
from openai.types.responses import ResponseOutputMessage
from tests.integrations.openai_agents.providers import (
    Provider,
    always,
    app,
    calls,
    compacted,
    deferred,
    kinds,
    never,
    run,
    says,
    shown,
    summary,
    user,
)

from rightful import times
from rightful.errors import CompactionRefusedError, InvalidEventError, UsageError
from rightful.events import EventWithdrawn
from rightful.integrations.openai_agents import LedgerSession
from rightful.integrations.openai_agents.compaction.provider import compacts, replayed
from rightful.ledger import Ledger

CALL: Any = {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}", "_agents_tool_title": "F"}


def test_by_hand_all_that_is_shown_is_sent_and_covered_but_open_calls(ledger: Ledger) -> None:
    async def play() -> None:
        provider = Provider()
        session = LedgerSession("chat", ledger, client=provider)
        answer: Any = {**CALL, "call_id": "0"}
        output: Any = {"type": "function_call_output", "call_id": "0", "output": "1"}
        await session.add_items([user("a"), answer, output, CALL])
        await session.run_compaction()
        assert provider.asked == []  # not due
        await session.run_compaction({"response_id": "resp-1", "force": True})

        sent = {key: value for key, value in answer.items() if key != "_agents_tool_title"}
        assert provider.asked == [{"model": "gpt-4.1", "input": [user("a"), sent, output]}]
        assert shown(session) == ["cmp-1", "function_call 1"]
        [event] = compacted(session)
        assert (event.mode, event.response_id) == ("input", None)

    asyncio.run(play())


def test_settings_passed_later_as_a_dict_limit_the_compaction_too(ledger: Ledger) -> None:
    async def play() -> None:
        session = LedgerSession("chat", ledger, client=Provider())
        await session.add_items([user("a"), user("b")])
        later: Any = {"limit": 1}
        session.session_settings = later
        assert await session.get_items() == [user("b")]
        await session.run_compaction({"force": True})
        session.session_settings = None

        assert shown(session) == ["a", "cmp-1"]

    asyncio.run(play())


@pytest.mark.parametrize(
    ("response_id", "left"),
    [
        ("resp-two", ["cmp-1", "third", "three"]),
        ("resp-a", ["cmp-1", "function_call call-a", "function_call_output call-a", "two", "third", "three"]),
    ],
)
def test_response_id_by_hand_covers_what_that_response_is_known_to_see(
    ledger: Ledger, response_id: str, left: list[str]
) -> None:
    """The output of its own call came later, so neither is."""

    async def play() -> None:
        provider = Provider()
        session = LedgerSession("chat", ledger, client=provider, should_trigger_compaction=never)
        await run(app(says("one")), "first", session)
        await run(app(calls("a"), says("two")), "second", session)
        await run(app(says("three")), "third", session)
        asked: Any = {"response_id": response_id, "compaction_mode": "previous_response_id", "force": True}
        other: Any = {**asked, "response_id": "resp-other"}

        with pytest.raises(CompactionRefusedError, match="the items that response resp-other used are not known"):
            await session.run_compaction(other)
        with pytest.raises(ValueError, match="no response id was given"):
            await session.run_compaction({"compaction_mode": "previous_response_id", "force": True})
        assert provider.asked == []
        await session.run_compaction(asked)

        assert provider.asked == [{"model": "gpt-4.1", "previous_response_id": response_id}]
        assert shown(session) == left

    asyncio.run(play())


def test_one_of_two_concurrent_compactions_is_written(ledger: Ledger) -> None:
    async def play() -> None:
        slow, quick = Provider(closed=True), Provider(output=[summary(9)])
        one, two = (LedgerSession("chat", ledger, client=client) for client in (slow, quick))
        await one.add_items([user("a"), user("b")])
        waiting = asyncio.create_task(one.run_compaction({"force": True}))
        await slow.begun.wait()
        await two.run_compaction({"force": True})
        await two.add_items([user("c")])
        slow.gate.set()
        await waiting

        assert shown(one) == ["cmp-9", "c"]
        assert len(compacted(one)) == 1

    asyncio.run(play())


def test_an_empty_history_is_not_sent_and_an_empty_answer_not_written(ledger: Ledger) -> None:
    async def play() -> None:
        provider = Provider(output=[])
        session = LedgerSession("chat", ledger, client=provider)
        await session.run_compaction({"force": True})
        assert provider.asked == []
        await session.add_items([user("a")])
        await session.run_compaction({"force": True})
        assert len(provider.asked) == 1
        assert shown(session) == ["a"]

    asyncio.run(play())


def test_requested_mode_wins_and_an_unstored_response_is_not_used(
    ledger: Ledger,
) -> None:
    async def play() -> None:
        provider = Provider()
        session = LedgerSession("chat", ledger, client=provider, should_trigger_compaction=never)
        result = await run(app(says("one")), "go", session)
        wrapper = result.context_wrapper
        await session.run_compaction({"response_id": "resp-one", "store": False}, wrapper=wrapper)
        await session.run_compaction({"response_id": "resp-one", "force": True}, wrapper=wrapper)
        assert kinds(provider.asked[0]["input"]) == ["go", "one"]

        later = LedgerSession("later", ledger, client=provider, should_trigger_compaction=never)
        wrapper = (await run(app(says("one")), "go", later)).context_wrapper
        waiting: Any = wrapper
        waiting._session_compaction_completed = False  # as the SDK asks when it settles a resumed write
        await later.run_compaction({"response_id": "resp-of-another-run", "force": True}, wrapper=wrapper)
        assert kinds(provider.asked[1]["input"]) == ["go", "one"]
        assert waiting._session_compaction_completed is True

        other = LedgerSession("other", ledger, client=provider, compaction_mode="input", model="ft:gpt-5:x")
        result = await run(app(says("one")), "go", other)
        await other.run_compaction({"response_id": "resp-one", "force": True}, wrapper=result.context_wrapper)
        assert provider.asked[2]["model"] == "ft:gpt-5:x"
        assert "input" in provider.asked[2]

    asyncio.run(play())


def test_a_model_that_does_not_compact_and_a_mode_that_is_none_are_refused(ledger: Ledger) -> None:
    named = ["gpt-4.1", "o3", "ft:gpt-4.1:org::1", "openrouter/openai/gpt-5", " o1-mini "]
    assert all(compacts(name) for name in named)
    assert not any(compacts(name) for name in ["claude", "", "opus", "ft:", "openai/", "ogpt-4"])
    with pytest.raises(UsageError, match="'claude' is not a model that compacts"):
        LedgerSession("chat", ledger, model="claude")
    with pytest.raises(UsageError, match="'both' is not a compaction mode"):
        LedgerSession("chat", ledger, compaction_mode="both")  # type: ignore[arg-type]

    session = LedgerSession("chat", ledger, should_trigger_compaction=always)
    with pytest.raises(UsageError, match="not a compaction mode"):
        asyncio.run(session.run_compaction({"compaction_mode": "both"}))  # type: ignore[arg-type]


def test_what_the_provider_answers_can_be_sent_to_a_model_again() -> None:
    message: Any = ResponseOutputMessage.model_validate(
        {"id": "m", "type": "message", "role": "assistant", "status": "completed", "content": []}
    )
    picture = {"type": "input_image", "image_url": "", "file_id": "f", "detail": "low", "x": None}
    file = {"type": "input_file", "file_data": None, "file_url": "u", "file_id": "f", "filename": "n", "detail": ""}
    text = {"type": "input_text", "text": "t"}
    asked = {"type": "message", "role": "user", "content": [text, picture, file, "plain"]}

    got = replayed([asked, message, summary(1)])

    assert got[0]["content"] == [
        text,
        {"type": "input_image", "file_id": "f", "detail": "low"},
        {"type": "input_file", "file_url": "u", "filename": "n"},
        "plain",
    ]
    assert got[1] == {"type": "message", "role": "assistant", "status": "completed", "content": []}
    assert got[2] == summary(1)
    thought = {"type": "reasoning", "id": "r", "summary": []}
    assert replayed([thought, message])[1]["id"] == "m"
    with pytest.raises(ValueError, match="input_image without any of image_url, file_id"):
        replayed([{**asked, "content": [{"type": "input_image"}]}])


@pytest.mark.parametrize(
    "output", [5, "text", {"type": "compaction"}, [5], [None], [["a"]], [{}], [{"content": "x"}], [object()]]
)
def test_an_answer_that_holds_no_items_is_refused_and_the_history_stays(ledger: Ledger, output: Any) -> None:
    session = LedgerSession("chat", ledger, client=Provider(output=output))
    asyncio.run(session.add_items([user("a")]))
    with pytest.raises(ValueError, match=r"where an item was expected. The history was not changed"):
        asyncio.run(session.run_compaction({"force": True}))
    assert shown(session) == ["a"]


@pytest.mark.parametrize("item", [{"type": "compaction", "x": b"1"}, {"type": "compaction", "x": "x" * 17_000_000}])
def test_an_answer_that_no_event_can_hold_is_told_and_owed(ledger: Ledger, item: Any) -> None:
    session = LedgerSession("chat", ledger, client=Provider(output=[item]))
    asyncio.run(session.add_items([user("a")]))
    with pytest.raises(InvalidEventError):
        asyncio.run(session.run_compaction({"force": True}))
    assert shown(session) == ["a"]
    assert [event.reason for event in deferred(session)] == ["the provider's compaction failed: InvalidEventError"]


def test_summary_of_more_than_a_response_saw_is_not_covered_by_it(ledger: Ledger) -> None:
    """By now it stands where the response saw one item, and it stands for another one too, which came later."""

    async def play() -> None:
        session = LedgerSession("chat", ledger, client=Provider(), should_trigger_compaction=never)
        await run(app(says("one")), "first", session)
        await run(app(says("two")), "second", session)
        await session.add_items([user("late")])
        view = ledger.history(session.name)
        ledger.compact(view.token, [summary(9)], [view.ids[1], view.ids[4]])
        assert shown(session) == ["first", "cmp-9", "second", "two"]
        asked: Any = {"response_id": "resp-two", "compaction_mode": "previous_response_id", "force": True}
        await session.run_compaction(asked)
        assert shown(session) == ["cmp-1", "cmp-9"]

    asyncio.run(play())


def withdrawn(session: LedgerSession, of: str) -> EventWithdrawn:
    at = times.at_of(1)
    return EventWithdrawn(producer="person", key="w", at=at, session=session.name, id=of, revision=1)


@pytest.mark.parametrize("taken", ["popped", "cleared with its summary", "withdrawn"])
def test_response_that_saw_removed_items_is_not_compacted_from(ledger: Ledger, taken: str) -> None:
    """Its summary would tell of that again."""

    async def play() -> None:
        provider = Provider()
        session = LedgerSession("chat", ledger, client=provider, should_trigger_compaction=never)
        await run(app(says("one")), "first", session)
        await run(app(says("two")), "second", session)
        view = ledger.history(session.name)
        if taken == "popped":
            await session.pop_item()
        elif taken == "withdrawn":
            ledger.append([withdrawn(session, view.ids[0][0])])
        else:
            ledger.compact(view.token, [summary(9)], view.ids[:1])
            await session.clear_session()
            await session.add_items([user("first")])
        left = shown(session)
        asked: Any = {"response_id": "resp-two", "compaction_mode": "previous_response_id", "force": True}
        with pytest.raises(CompactionRefusedError, match="popped, cleared or corrected after response resp-two"):
            await session.run_compaction(asked)
        assert provider.asked == []
        assert shown(session) == left

    asyncio.run(play())


@pytest.mark.parametrize(
    ("kind", "output"),
    [("tool_search_call", "tool_search_output"), ("program", "program_output"), ("shell_call", "shell_call_output")],
)
def test_every_kind_of_call_gives_way_with_its_output(ledger: Ledger, kind: str, output: str) -> None:
    """What is proven whole is whole for the ledger too; else a provider would be asked for nothing, again and again."""

    async def play() -> None:
        provider = Provider()
        session = LedgerSession("chat", ledger, client=provider)
        call: Any = {"type": kind, "call_id": "c"}
        answered: Any = {"type": output, "call_id": "c"}
        await session.add_items([user("a"), call])
        await session.run_compaction({"force": True})
        assert shown(session) == ["cmp-1", f"{kind} c"]
        await session.add_items([answered])
        await session.run_compaction({"force": True})
        assert shown(session) == ["cmp-2"]

    asyncio.run(play())


def test_encrypted_items_are_not_sent_to_a_provider(ledger: Ledger) -> None:
    async def play() -> None:
        provider = Provider()
        session = LedgerSession("chat", ledger, client=provider, should_trigger_compaction=always)
        inner: Any = session  # it asks for the class that the SDK asks others not to derive from
        encrypted: Any = EncryptedSession("chat", inner, "k" * 32)
        await Runner.run(app(calls("a"), says("done")), "go", session=encrypted)
        with pytest.raises(UsageError, match="its items are encrypted"):
            await encrypted.run_compaction({"force": True})
        assert [provider.asked, compacted(session), deferred(session)] == [[], [], []]
        assert len(await encrypted.get_items()) == 4

    asyncio.run(play())


def test_awaitable_hook_is_refused_and_not_treated_as_true(ledger: Ledger) -> None:
    async def later(_: dict[str, Any]) -> bool:
        return False

    for wrong in (later, True, "yes"):
        hook: Any = wrong
        with pytest.raises(UsageError, match="is not a synchronous function"):
            LedgerSession("chat", ledger, should_trigger_compaction=hook)

    provider = Provider()
    hidden: Any = lambda context: later(context)  # noqa: E731, PLW0108 - nobody can tell before it is called
    session = LedgerSession("chat", ledger, client=provider, should_trigger_compaction=hidden)
    with pytest.raises(UsageError, match="returned an awaitable"):
        asyncio.run(run(app(says("one")), "go", session))
    assert provider.asked == []
    assert shown(session) == ["go", "one"]


@pytest.mark.parametrize(("limit", "left"), [(2, ["a", "cmp-1"]), (-1, ["cmp-1"]), (None, ["cmp-1"])])
def test_a_limit_counts_for_a_compaction_as_it_does_for_a_read(
    ledger: Ledger, limit: int | None, left: list[str]
) -> None:
    """Settings that were put there later may be a dict, and less than no item is all of them."""

    async def play() -> None:
        session = LedgerSession("chat", ledger, client=Provider())
        session.session_settings = {"limit": limit}  # type: ignore[assignment]
        await session.add_items([user("a"), user("b"), user("c")])
        await session.run_compaction({"force": True})
        assert shown(session) == left

    asyncio.run(play())


def test_a_usage_that_is_no_number_does_not_cost_the_compaction(ledger: Ledger) -> None:
    async def compact(**_: Any) -> Any:
        return SimpleNamespace(
            output=[summary(1)], usage=SimpleNamespace(input_tokens="5", output_tokens=2, total_tokens=[])
        )

    client = SimpleNamespace(responses=SimpleNamespace(compact=compact))
    session = LedgerSession("chat", ledger, client=client, should_trigger_compaction=always)
    result = asyncio.run(run(app(says("one")), "go", session))
    assert shown(session) == ["cmp-1"]
    assert result.context_wrapper.usage.output_tokens == 3


def test_what_an_answer_that_holds_no_items_used_is_paid_for_and_counted(ledger: Ledger) -> None:
    async def play() -> None:
        session = LedgerSession("chat", ledger, client=Provider(), should_trigger_compaction=never)
        result = await run(app(says("one")), "go", session)
        used = result.context_wrapper.usage.total_tokens
        broken = LedgerSession("chat", ledger, client=Provider(output=[None]))
        with pytest.raises(ValueError, match="where an item was expected"):
            await broken.run_compaction({"force": True}, wrapper=result.context_wrapper)
        assert result.context_wrapper.usage.total_tokens == used + 9

    asyncio.run(play())
