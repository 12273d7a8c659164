from __future__ import annotations

import json
from typing import Any

import pytest
from tests.importers.codex_lines import PARENT, TURN, answered, called, event, item, line, read, said
from tests.importers.reading_lines import data_of, id_of, notes, of, told

from rightful.errors import InvalidEventError

PATCH = "*** Begin Patch\n*** End Patch\n"
CALL, RESULT, MESSAGE, THOUGHT = (
    "tool_call.snapshotted",
    "tool_result.snapshotted",
    "message.recorded",
    "thought.recorded",
)


def test_a_custom_tool_is_a_call_like_any_other() -> None:
    """gptme-contrib misses apply_patch in 29 of 30 sessions (its issue 765)."""
    rows = [
        item("custom_tool_call", call_id="c", name="apply_patch", input=PATCH, status="completed"),
        item("custom_tool_call_output", call_id="c", output="ok"),
    ]

    assert told(read(*rows), CALL, "call", "name", "arguments", "complete") == [("c", "apply_patch", PATCH, True)]
    assert told(read(*rows), RESULT, "call", "output", "complete") == [("c", "ok", True)]


def test_arguments_that_are_the_text_of_an_object_are_the_object() -> None:
    assert told(read(called("c", cmd="ls")), CALL, "arguments") == [{"cmd": "ls"}]


@pytest.mark.parametrize("text", ["{not json", "[1]", "", "ls -la", '{"a":1,"a":2}'])
def test_arguments_that_are_no_object_stay_as_they_are(text: str) -> None:
    assert told(read(item("function_call", call_id="c", name="x", arguments=text)), CALL, "arguments") == [text]


def test_the_namespace_of_a_tool_is_kept() -> None:
    row = item("function_call", call_id="c", name="x", namespace="mcp__git", arguments="{}")

    assert told(read(row), CALL, "extra") == [{"namespace": "mcp__git"}]


@pytest.mark.parametrize(
    ("output", "kept", "is_error"),
    [
        ("Exit code: 0\nOutput:\nfine", None, None),
        ("Exit code: 2\nWall time: 1 s\nOutput:\nno", None, True),
        ("Chunk ID: 1\nProcess exited with code 127\nOutput:\nx", None, True),
        ("Output:\nExit code: 2", None, None),
        ("text that says Exit code: 2", None, None),
        ([{"type": "input_text", "text": "x"}], None, None),
        ('{"output":"no","metadata":{"exit_code":1,"duration_seconds":0.1}}', "no", True),
        ('{"output":"ok","metadata":{"exit_code":0}}', "ok", None),
        ('{"output":"of the tool itself"}', None, None),
        ('{"output":"torn', None, None),
        ({"content": "bad", "success": False}, "bad", True),
        ({"content": "good", "success": True}, "good", None),
    ],
)
def test_an_output_is_read_out_of_what_stands_around_it(
    output: object, kept: str | None, is_error: bool | None
) -> None:
    assert told(read(answered("c", output)), RESULT, "output", "is_error") == [(kept or output, is_error)]


def test_what_stood_beside_an_output_is_kept() -> None:
    output = '{"output":"no","metadata":{"exit_code":1,"duration_seconds":0.5}}'

    assert told(read(answered("c", output)), RESULT, "extra") == [{"exit_code": 1, "duration_seconds": 0.5}]


def test_the_shell_a_search_and_an_image_of_codex_itself_are_calls() -> None:
    action = {"type": "search", "query": "x"}
    rows = [
        item("local_shell_call", call_id="s", status="completed", action={"type": "exec", "command": ["ls"]}),
        item("web_search_call", status="completed", action=action),
        item("tool_search_call", call_id="t", execution="x", arguments={"query": "q"}),
        item("tool_search_output", call_id="t", status="completed", execution="x", tools=[1]),
        item("image_generation_call", id="ig", status="completed", revised_prompt="a cat", result="aGk="),
    ]

    events = read(*rows)

    names = [(name, arguments) for name, arguments in told(events, CALL, "name", "arguments")]
    assert names == [
        ("local_shell", {"type": "exec", "command": ["ls"]}),
        ("web_search", action),
        ("tool_search", {"query": "q"}),
        ("image_generation", {"revised_prompt": "a cat"}),
    ]
    assert told(events, RESULT, "call", "output") == [("t", [1]), ("ig", "aGk=")]


def test_call_without_id_is_identified_by_content_and_occurrence() -> None:
    one, other = ({"type": "open_page", "url": text} for text in "xy")

    events = read(*(item("web_search_call", action=action) for action in (one, other, one)))

    calls = told(events, CALL, "call")
    assert [call.startswith("web_search_call:") for call in calls] == [True] * 3
    assert len(set(calls)) == 3
    assert calls[0].removesuffix(":0") == calls[2].removesuffix(":1") != calls[1].removesuffix(":0")
    assert len({id_of(event) for event in of(events, CALL)}) == 3


def test_a_call_that_is_under_way_is_not_complete() -> None:
    row = item("custom_tool_call", call_id="c", name="x", input="y", status="in_progress")

    assert told(read(row), CALL, "complete") == [False]


def test_a_message_of_one_text_is_that_text_and_others_keep_their_parts() -> None:
    image = [{"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": "data:x"}]
    two = [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]
    rows = [said("hi", "user"), item("message", role="user", content=image), item("message", role="user", content=two)]

    assert told(read(*rows), MESSAGE, "role", "content") == [("user", "hi"), ("user", image), ("user", two)]


@pytest.mark.parametrize("text", ["<environment_context>x", "# AGENTS.md instructions for /w", "<turn_aborted>"])
def test_context_that_codex_says_as_the_user_is_marked(text: str) -> None:
    assert told(read(said(text, "user")), MESSAGE, "extra") == [{"meta": True}]
    assert told(read(said(text)), MESSAGE, "extra") == [None]


def test_the_phase_of_an_answer_is_kept() -> None:
    assert told(read(said("hm", phase="commentary")), MESSAGE, "extra") == [{"phase": "commentary"}]


def test_reasoning_is_a_thought_and_a_text_with_the_encrypted_part_first() -> None:
    summary = [{"type": "summary_text", "text": "one"}, {"type": "summary_text", "text": "two"}]
    more = [{"type": "reasoning_text", "text": "raw"}]
    row = item("reasoning", summary=summary, content=more, encrypted_content="eA==")

    assert told(read(row), THOUGHT, "content", "extra") == [
        ("one", {"encrypted_content": "eA=="}),
        ("two", None),
        ("raw", None),
    ]


def test_reasoning_that_is_only_encrypted_is_a_thought_without_words() -> None:
    rows = [item("reasoning", summary=[], encrypted_content=text) for text in ("eA==", "eQ==")]

    assert told(read(*rows), THOUGHT, "content", "extra") == [
        (None, {"encrypted_content": "eA=="}),
        (None, {"encrypted_content": "eQ=="}),
    ]
    assert id_of(of(read(rows[1]), THOUGHT)[0]) == id_of(of(read(*rows), THOUGHT)[1])


def test_reasoning_that_holds_nothing_is_nothing() -> None:
    assert of(read(item("reasoning", summary=[])), THOUGHT) == []


def test_agents_speak_to_each_other_in_two_forms_that_are_one_message() -> None:
    between: dict[str, Any] = {"author": "/root/a", "recipient": "/root"}
    rows = [
        line("inter_agent_communication", between | {"content": "done", "trigger_turn": True}),
        item("agent_message", **between, content=[{"type": "input_text", "text": "done"}]),
    ]

    events = {json.dumps(one, sort_keys=True) for one in of(read(*rows), MESSAGE)}

    assert [(one["role"], one["content"], one["extra"]) for one in map(json.loads, events)] == [
        ("agent", "done", between)
    ]


def test_what_codex_adds_one_day_is_kept_as_data() -> None:
    rows = [item("hologram", x=1), event("fireworks", x=2), line("world_state", {"x": 3}), item("compaction", y=4)]

    events = read(*rows)

    assert [(one["name"], one["data"]) for one in of(events, "data.recorded")] == [
        ("hologram", {"type": "hologram", "x": 1}),
        ("fireworks", {"type": "fireworks", "x": 2}),
        ("world_state", {"x": 3}),
        ("compaction", {"type": "compaction", "y": 4}),
    ]
    assert {one["turn"] for one in of(events)} == {TURN}
    assert {one["session"] for one in of(events)} == {f"codex:{PARENT}"}


@pytest.mark.parametrize(
    ("row", "place"),
    [
        (line("response_item", "x"), "$.payload"),
        (line("response_item", None), "$.payload"),
        (item("message", content=[]), "$.payload"),
        (item("function_call", name="x"), "$.payload"),
        (item("function_call_output", call_id=7), "$.payload.call_id"),
        (event("user_message"), "$.payload"),
        (event("token_count", info={"total_token_usage": 3}), "$.payload.info.total_token_usage"),
        (event("thread_rolled_back"), "$.payload"),
        (line("compacted", {"replacement_history": 5}), "$.payload.replacement_history"),
        (line("inter_agent_communication", {"author": "x"}), "$.payload"),
    ],
)
def test_a_line_of_the_wrong_shape_says_where(row: Any, place: str) -> None:
    with pytest.raises(InvalidEventError) as caught:
        read(row)

    assert caught.value.place == place


def test_what_a_command_printed_is_data_beside_its_result() -> None:
    """The result has what the model saw; this has the exit code, the time, and all of the output."""
    rows = [answered("c", "ok"), event("exec_command_end", call_id="c", exit_code=0, aggregated_output="ok")]

    events = read(*rows)

    assert told(events, RESULT, "output") == ["ok"]
    assert [one["exit_code"] for one in data_of(events, "exec_command_end")] == [0]
    assert notes(events) == []
