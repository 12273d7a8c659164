"""Several producers tell of one session: what both tell is shown once, in the order and with the words of one."""

from __future__ import annotations

from typing import Any

from tests.log.facts import fact
from tests.transcripts.folding import folded

HOOK, TOOL = "claude-code-hook", "claude-code"
LS = {"command": "ls"}


def say(key: str, text: str, producer: str = TOOL) -> dict[str, Any]:
    return fact("message.recorded", f"m{key}", role="assistant", content=text, producer=producer)


def call(key: str, producer: str, id_: str = "c", given: Any = LS, name: str = "Bash") -> dict[str, Any]:
    return fact("tool_call.snapshotted", f"c{key}", producer=producer, call=id_, name=name, arguments=given)


def result(key: str, producer: str, output: Any, id_: str = "c", **more: Any) -> dict[str, Any]:
    return fact("tool_result.snapshotted", f"r{key}", producer=producer, call=id_, output=output, **more)


def told(*events: dict[str, Any]) -> list[Any]:
    entries = folded(events).as_dict()["entries"]
    return [one["text"] if one["kind"] == "message" else (one["call"], one.get("output")) for one in entries]


def test_call_of_hook_and_transcript_is_one_with_the_tools_text_as_result() -> None:
    events = [
        call("1", HOOK),
        result("1", HOOK, {"stdout": "x"}),
        say("1", "hi"),
        call("1", TOOL),
        result("1", TOOL, "x"),
    ]

    assert told(*events) == ["hi", ("c", "x")]


def test_entry_is_among_the_messages_at_its_first_rows_position() -> None:
    hooked = [call("1", HOOK, "a"), call("2", HOOK, "b")]
    imported = [say("1", "one"), call("1", TOOL, "a"), say("2", "two"), call("2", TOOL, "b")]
    entries = folded([*hooked, *imported]).entries

    assert [one.kind for one in entries] == ["message", "tool_call", "message", "tool_call"]
    assert [one.position for one in entries] == [3, 1, 5, 2]
    assert [one.producer for one in entries] == [TOOL, HOOK, TOOL, HOOK]


def test_the_order_in_which_the_producers_come_changes_no_word() -> None:
    hooked = [call("1", HOOK), result("1", HOOK, {"stdout": "x"})]
    imported = [say("1", "hi"), call("1", TOOL), result("1", TOOL, "x"), say("2", "bye")]

    assert told(*hooked, *imported) == told(*imported, *hooked) == ["hi", ("c", "x"), "bye"]


def test_where_nobody_tells_messages_the_first_real_result_is_shown() -> None:
    waits = result("1", HOOK, "DEFERRED_NOT_EXECUTED: later", is_error=True)

    assert told(call("1", HOOK), result("1", HOOK, "x"), call("1", "b"), result("1", "b", "y")) == [("c", "x")]
    assert told(call("1", HOOK), waits, call("1", "b"), result("1", "b", "y")) == [("c", "y")]


def test_placeholder_of_the_message_producer_does_not_hide_a_real_result() -> None:
    waits = result("1", TOOL, "INTERRUPTED_BY_USER", is_error=True)

    assert told(say("1", "hi"), call("1", TOOL), waits, call("1", HOOK), result("1", HOOK, "x")) == ["hi", ("c", "x")]


def test_arguments_that_differ_are_one_call_all_the_same() -> None:
    """A hook may see what another hook made of the arguments."""
    events = [call("1", HOOK, given={"command": "ls -a"}), say("1", "hi"), call("1", TOOL), result("1", TOOL, "x")]
    [_, entry] = folded(events).entries

    assert (entry.arguments, entry.revisions) == (LS, 2)


def test_another_name_is_another_call() -> None:
    assert told(call("1", HOOK, name="Read"), call("1", TOOL)) == [("c", None), ("c", None)]


def test_reused_id_is_matched_with_the_other_producers_calls_one_by_one() -> None:
    def both(producer: str) -> list[dict[str, Any]]:
        first = [call("1", producer), result("1", producer, f"{producer} 1")]
        return [*first, call("2", producer), result("2", producer, f"{producer} 2")]

    assert told(say("0", "hi"), *both(HOOK), *both(TOOL)) == ["hi", ("c", f"{TOOL} 1"), ("c", f"{TOOL} 2")]


def test_a_result_that_another_producer_tells_answers_the_call() -> None:
    assert told(say("1", "hi"), call("1", TOOL), result("1", "client", "x")) == ["hi", ("c", "x")]
    assert told(result("1", "client", "x"), say("1", "hi"), call("1", TOOL)) == ["hi", ("c", "x")]


def test_three_producers_are_one_call() -> None:
    events = [call("1", "a"), call("1", "b"), call("1", "d"), result("1", "d", "x")]

    assert told(*events) == [("c", "x")]


def test_the_messages_of_two_producers_are_both_shown() -> None:
    assert told(say("1", "hi", "a"), say("1", "hi", "b")) == ["hi", "hi"]
