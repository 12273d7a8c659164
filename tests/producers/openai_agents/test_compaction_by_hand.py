"""Compaction that a caller asks for: what it covers, two at once, and what the provider's answer becomes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from openai.types.responses import ResponseOutputMessage
from tests.producers.openai_agents.providers import (
    Provider,
    always,
    app,
    calls,
    compacted,
    kinds,
    never,
    run,
    says,
    shown,
    summary,
    user,
)

from rightful.app import Ledger
from rightful.errors import UsageError
from rightful.producers.openai_agents import LedgerSession
from rightful.producers.openai_agents.provider import compacts, replayed
from rightful.session_errors import CompactionRefusedError

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


def test_settings_that_are_given_later_as_a_dict_limit_what_is_compacted_too(ledger: Ledger) -> None:
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
def test_a_response_id_by_hand_covers_what_that_response_is_known_to_have_seen(
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

        with pytest.raises(CompactionRefusedError, match="not known what response resp-other has seen"):
            await session.run_compaction(other)
        with pytest.raises(ValueError, match="no response id was given"):
            await session.run_compaction({"compaction_mode": "previous_response_id", "force": True})
        assert provider.asked == []
        await session.run_compaction(asked)

        assert provider.asked == [{"model": "gpt-4.1", "previous_response_id": response_id}]
        assert shown(session) == left

    asyncio.run(play())


def test_of_two_compactions_at_once_one_is_written_and_the_other_leaves_no_trace(ledger: Ledger) -> None:
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


def test_the_mode_that_is_asked_for_wins_and_a_response_that_is_not_kept_is_never_compacted_from(
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
    with pytest.raises(UsageError, match="'claude' is no model that compacts"):
        LedgerSession("chat", ledger, model="claude")
    with pytest.raises(UsageError, match="'both' is no compaction mode"):
        LedgerSession("chat", ledger, compaction_mode="both")  # type: ignore[arg-type]

    session = LedgerSession("chat", ledger, should_trigger_compaction=always)
    with pytest.raises(UsageError, match="no compaction mode"):
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
    with pytest.raises(ValueError, match="input_image without any of image_url, file_id; nothing was written"):
        replayed([{**asked, "content": [{"type": "input_image"}]}])
