from __future__ import annotations

import json
from typing import Any

import pytest
from tests.importers.claude_lines import MTIME, MTIME_US, A, B, call, in_log, line, model, of, read, result, told, user

from rightful.errors import InvalidEventError
from rightful.importers.claude_code.claude_transcript import ClaudeCode
from rightful.importers.engine.formats import End, Origin
from rightful.importers.sources.text_files import Found, Problem

SESSION = f"claude-code:{A}"
IMAGE = {"type": "image", "source": {"type": "base64", "data": "aGk="}}

STUB = "a stub without messages. The messages of a batch run are in its stream log, cc-session-*.log"


def test_a_prompt_that_is_a_plain_text_is_a_message() -> None:
    """A reader of gptme-contrib drops it."""
    assert told(read([user("u1", None, "Fix it")]), "message.recorded", "role", "content") == [("user", "Fix it")]


def test_a_prompt_that_is_one_text_block_says_the_same_as_a_plain_text() -> None:
    blocks = [{"type": "text", "text": "Fix it"}]

    assert read([user("u1", None, blocks)]) == read([user("u1", None, "Fix it")])


def test_images_stay_in_the_prompt_and_results_with_them_are_results() -> None:
    parts = [{"type": "text", "text": "see"}, IMAGE]
    answer = {"type": "tool_result", "tool_use_id": "t", "content": "ok", "is_error": True}

    said = read([user("u1", None, [answer, *parts])])

    assert told(said, "message.recorded", "content", "key") == [(parts, f'["{A}","u1",1]')]
    assert told(said, "tool_result.snapshotted", "call", "output", "is_error", "complete") == [("t", "ok", True, True)]


def test_the_lines_of_one_answer_are_a_thought_a_message_and_a_call() -> None:
    thinking = {"type": "thinking", "thinking": "Look.", "signature": "c2ln"}
    rows = [
        user("u1", None, "Fix it"),
        model("a2", "u1", thinking),
        model("a3", "a2", "Reading."),
        model("a4", "a3", call("t", "Read", file_path="/w/x")),
    ]

    said = read(rows)

    thought = {"message_id": "msg_1", "signature": "c2ln"}
    assert told(said, "thought.recorded", "content", "extra") == [("Look.", thought)]
    assert told(said, "message.recorded", "role", "content") == [("user", "Fix it"), ("assistant", "Reading.")]
    assert told(said, "tool_call.snapshotted", "call", "name", "arguments", "complete") == [
        ("t", "Read", {"file_path": "/w/x"}, True)
    ]
    assert [one["at"] for one in of(said, "thought.recorded")] == ["2026-08-01T10:00:02Z"]
    assert {one["session"] for one in of(said)} == {SESSION}


def test_an_answer_that_is_a_plain_text_is_a_message() -> None:
    row = model("a1", "u", "x")
    row["message"]["content"] = "Fixed."

    assert told(read([row]), "message.recorded", "role", "content") == [("assistant", "Fixed.")]


def test_several_blocks_of_one_line_are_distinguished_by_their_places() -> None:
    said = read([model("a1", "u", "one", "two")])

    assert told(said, "message.recorded", "content", "key") == [("one", f'["{A}","a1",0]'), ("two", f'["{A}","a1",1]')]


def test_arguments_that_are_the_text_of_an_object_are_that_object() -> None:
    as_text = {"type": "tool_use", "id": "t", "name": "Bash", "input": '{"command": "ls"}'}
    broken = {"type": "tool_use", "id": "t", "name": "Bash", "input": '{"comm'}

    said = read([model("a1", "u", as_text), model("a2", "a1", broken)])

    assert told(said, "tool_call.snapshotted", "arguments") == [{"command": "ls"}, '{"comm']


def test_calls_and_results_of_the_servers_own_tools_are_calls_and_results() -> None:
    asked = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"url": "https://example.org"}]}

    said = read([model("a1", "u", asked, found)])

    assert told(said, "tool_call.snapshotted", "call", "name") == [("s", "web_search")]
    assert told(said, "tool_result.snapshotted", "call", "output") == [("s", [{"url": "https://example.org"}])]


def test_unknown_block_is_kept_as_data_and_its_neighbours_are_read() -> None:
    unknown = {"type": "hologram", "beam": 1}

    said = read([model("a1", "u", "one", unknown, "two")])

    assert told(said, "data.recorded", "name", "data") == [("hologram", unknown)]
    assert told(said, "message.recorded", "content") == ["one", "two"]


@pytest.mark.parametrize(
    ("block", "what"),
    [
        (
            {"type": "tool_use", "name": "Bash", "input": {}},
            "Expected `str`, got `null` - at `$.message.content[1].id`",
        ),
        ({"type": "text", "text": 7}, "Expected `str`, got `int` - at `$.message.content[1].text`"),
        ("bare", "Expected an object with a `type` - at `$.message.content[1]`"),
    ],
)
def test_broken_block_is_a_problem_with_its_place_and_others_are_read(block: Any, what: str) -> None:
    row = model("a1", "u", "one", {"type": "text", "text": "x"}, "two")
    row["message"]["content"][1] = block

    said = read([user("u0", None, "go"), row])

    assert [one for one in said if isinstance(one, Problem)] == [Problem(2, what)]
    assert told(said, "message.recorded", "content") == ["go", "one", "two"]


@pytest.mark.parametrize(
    ("row", "place"),
    [
        (line("user", "u1", None), "$.message"),
        (line("user", "u1", None, {"role": "user", "content": 7}), "$.message.content"),
        (line("assistant", "a1", None, {"content": None}), "$.message.content"),
        (user("u1", None, "x") | {"sessionId": 7}, "$.sessionId"),
        (user("u1", None, "x") | {"sessionId": "unknown"}, "$.sessionId"),
    ],
)
def test_line_of_known_type_with_another_shape_is_refused_with_its_place(row: dict[str, Any], place: str) -> None:
    with pytest.raises(InvalidEventError) as error:
        read([row])

    assert error.value.place == place


def test_last_usage_of_an_answer_counts_and_equal_ones_are_not_repeated() -> None:
    """claude-code#87303: the sum over its lines is 1.8 times of it."""
    rows = [
        model("a1", "u", "one", usage={"input_tokens": 4, "output_tokens": 3, "service_tier": "standard"}),
        model("a2", "a1", "two", usage={"input_tokens": 4, "output_tokens": 3, "service_tier": "standard"}),
        model("a3", "a2", call("t"), usage={"input_tokens": 4, "output_tokens": 61}, stop="tool_use"),
        model("a4", "a3", "next", of="msg_2", usage={"output_tokens": 5}, stop="end_turn"),
    ]

    assert told(read(rows), "usage.recorded", "of", "counts", "extra") == [
        ("msg_1", {"input_tokens": 4, "output_tokens": 3}, {"model": "opus", "service_tier": "standard"}),
        ("msg_1", {"input_tokens": 4, "output_tokens": 61}, {"model": "opus", "stop_reason": "tool_use"}),
        ("msg_2", {"output_tokens": 5}, {"model": "opus", "stop_reason": "end_turn"}),
    ]


def test_what_the_api_failed_with_is_an_error_and_no_message() -> None:
    row = model("a1", "u", "API Error: 529 overloaded", isApiErrorMessage=True)
    row["message"] |= {"model": "<synthetic>", "usage": {"output_tokens": 0}}

    said = read([user("u0", None, "go"), row])

    assert told(said, "error.recorded", "message") == ["API Error: 529 overloaded"]
    assert told(said, "message.recorded", "content") == ["go"]
    assert of(said, "usage.recorded") == []
    assert [one.get("model") for one in of(said, "session.started")] == [None]


def test_what_is_marked_as_an_error_is_one_whatever_it_says() -> None:
    said = read([model("a1", "u", "Prompt is too long", isApiErrorMessage=True)])

    assert told(said, "error.recorded", "message") == ["Prompt is too long"]
    assert of(said, "message.recorded") == []


def test_a_stream_log_says_the_same_of_a_failed_api_as_the_transcript() -> None:
    row = model("a1", "u", "API Error: 529 overloaded", isApiErrorMessage=True)
    row["message"]["model"] = "<synthetic>"

    [ours] = of(read([row]), "error.recorded")
    [theirs] = of(read([in_log(row)], "/tmp/cc-session-1.log"), "error.recorded")

    assert {**theirs, "at": ours["at"], "at_basis": None} == {**ours, "at_basis": None}


def test_what_was_written_in_the_users_name_is_marked() -> None:
    rows = [
        user("u1", None, "caveat", isMeta=True),
        user("u2", "u1", "so far", isCompactSummary=True, isVisibleInTranscriptOnly=True),
        user("u3", "u2", "mine", isMeta=False),
    ]

    marks = [{"meta": True}, {"summary": True, "hidden": True, "meta": True}, None]
    assert told(read(rows), "message.recorded", "extra") == marks


def test_what_a_result_tells_beyond_its_text_is_data_of_its_own() -> None:
    """A stream log has the same result without it, so it cannot stand in the result's event."""
    patch = {"filePath": "/w/x", "structuredPatch": [{"lines": ["+a"]}], "userModified": False, "content": "done"}
    row = result("u2", "a1", "t", toolUseResult=patch)

    said = read([row])

    [data] = of(said, "data.recorded")
    assert (data["name"], data["data"]) == (
        "tool-use-result",
        {"call": "t", "result": {"filePath": "/w/x", "structuredPatch": [{"lines": ["+a"]}]}},
    )
    assert of(said, "tool_result.snapshotted") == of(read([row | {"toolUseResult": None}]), "tool_result.snapshotted")


@pytest.mark.parametrize(
    "told_again",
    [
        "Error: Exit code 1",
        {"stdout": "done", "stderr": "", "interrupted": False, "isImage": False},
        {"type": "text", "file": {"filePath": "/w", "content": "x", "numLines": 1, "startLine": 1, "totalLines": 1}},
        {"file": {"content": "done"}},
    ],
)
def test_what_only_repeats_a_result_is_left_out(told_again: object) -> None:
    assert of(read([result("u2", "a1", "t", toolUseResult=told_again)]), "data.recorded") == []


def test_which_lines_were_read_of_a_longer_file_is_reported() -> None:
    file = {"filePath": "/w", "content": "x", "numLines": 10, "startLine": 5, "totalLines": 90}

    [data] = of(read([result("u2", "a1", "t", toolUseResult={"type": "text", "file": file})]), "data.recorded")

    assert data["data"]["result"] == {"file": {"numLines": 10, "startLine": 5, "totalLines": 90}}


def test_lines_without_id_are_distinguished_by_content_and_occurrence() -> None:
    mode = {"type": "mode", "mode": "normal", "sessionId": A}
    title = {"type": "ai-title", "aiTitle": "Fix", "sessionId": A}

    said = read([user("u1", None, "x"), mode, title, mode])

    assert told(said, "data.recorded", "name", "data") == [
        ("mode", {"mode": "normal"}),
        ("ai-title", {"aiTitle": "Fix"}),
        ("mode", {"mode": "normal"}),
    ]
    assert len({one["key"] for one in of(said, "data.recorded")}) == 3
    assert read([user("u1", None, "x"), mode, title, mode]) == said


def test_line_of_an_unknown_type_is_data() -> None:
    said = read([line("progress", "p1", None, data={"type": "hook"}), line("brand-new", "n2", "p1", spark=1)])

    assert told(said, "data.recorded", "name", "data") == [
        ("progress", {"data": {"type": "hook"}}),
        ("brand-new", {"spark": 1}),
    ]


def test_lessons_that_a_hook_put_into_a_transcript_are_no_exposures_here() -> None:
    context = {
        "type": "hook_additional_context",
        "content": ["## Matched Lessons (auto-injected)\n### x\n*Source: /l*"],
    }

    said = read([line("attachment", "t1", None, attachment=context)])

    assert [(one["type"], one.get("name")) for one in of(said)][-1] == ("data.recorded", "attachment")
    assert of(said, "exposure.recorded") == []


def test_line_without_time_gets_that_of_the_line_before_or_else_after() -> None:
    title = {"type": "ai-title", "aiTitle": "Fix", "sessionId": A}

    said = of(read([title, user("u1", None, "x"), title]), "data.recorded")

    assert [(one["at"], one.get("at_basis")) for one in said] == [("2026-08-01T10:00:01Z", None)] * 2


def test_lines_before_the_first_time_wait_for_it_in_any_reading() -> None:
    title = {"type": "ai-title", "aiTitle": "Fix", "sessionId": A}
    snapshot = {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}, "isSnapshotUpdate": False}
    origin = Origin("/copy/full.jsonl", MTIME_US)
    first, more = ClaudeCode().reader(origin), ClaudeCode().reader(origin)

    waiting = [*first.events(Found(1, snapshot)), *first.events(Found(2, title))]
    [note, stub] = first.finish(End("0" * 64, is_whole=True))
    more.restore(json.loads(json.dumps(first.state())))
    said = list(more.events(Found(3, user("u1", None, "x"))))

    assert (waiting, stub) == ([], Problem(None, STUB, lost=False))
    assert note == Problem(None, "lines at the beginning wait for a line with a session and a time: 2", lost=False)
    assert of(said) == of(read([snapshot, title, user("u1", None, "x")], origin.path))
    assert {(one["session"], one["at"]) for one in of(said)} == {(f"claude-code:{A}", "2026-08-01T10:00:01Z")}
    assert told(said, "data.recorded", "name") == ["file-history-snapshot", "ai-title"]


def test_only_the_first_lines_of_a_file_wait() -> None:
    rows = [{"type": "ai-title", "aiTitle": str(at), "sessionId": A} for at in range(70)]

    said = read(rows)

    assert len(told(said, "data.recorded", "name")) == 70
    assert {(one["at"], one["at_basis"]) for one in of(said)} == {(MTIME, "file")}


def test_a_time_that_cannot_be_read_loses_no_line() -> None:
    said = read([user("u1", None, "one"), user("u2", "u1", "two", timestamp="yesterday")])

    what = "Expected a time, got 'yesterday' - at `$.timestamp`; the time of the previous line was used"
    assert [one for one in said if isinstance(one, Problem)] == [Problem(2, what, lost=False)]
    assert told(said, "message.recorded", "content", "at")[1] == ("two", "2026-08-01T10:00:01Z")


def test_the_start_is_said_at_once_and_again_when_the_model_is_known() -> None:
    said = read([user("u1", None, "x", gitBranch="main"), model("a2", "u1", "y"), model("a3", "a2", "z")])

    extra = {"version": "2.1", "git_branch": "main"}
    assert told(said, "session.started", "harness", "cwd", "model", "extra") == [
        ("claude-code", "/w", None, extra),
        ("claude-code", "/w", "opus", extra),
    ]
    assert len({one["key"] for one in of(said, "session.started")}) == 2


def test_a_stub_is_said_to_be_one() -> None:
    said = read(
        [
            {
                "type": "queue-operation",
                "operation": "enqueue",
                "sessionId": B,
                "content": "batch",
                "timestamp": "2026-08-01T10:00:00Z",
            }
        ]
    )

    assert told(said, "data.recorded", "name", "session") == [("queue-operation", f"claude-code:{B}")]
    [note] = [one for one in said if isinstance(one, Problem)]
    assert note.what == STUB
    assert not note.lost


def test_a_transcript_that_is_read_on_is_no_stub() -> None:
    origin = Origin(f"/p/{A}.jsonl", 1)
    first, more = ClaudeCode().reader(origin), ClaudeCode().reader(origin)
    list(first.events(Found(1, user("u1", None, "x"))))
    more.restore(first.state())
    list(more.events(Found(2, {"type": "mode", "mode": "x", "sessionId": A})))

    assert list(more.finish(End("0" * 64, is_whole=True))) == []


def test_the_state_holds_no_chain_of_an_inline_sidechain() -> None:
    reader = ClaudeCode().reader(Origin(f"/p/{A}.jsonl", 1))
    for row in (user("u1", None, "x"), user("u2", None, "y", isSidechain=True, agentId="a1b2")):
        list(reader.events(Found(1, row)))

    assert list(reader.state()["chains"]) == [A]


def test_content_of_any_characters_is_kept() -> None:
    text = "a\u2028b\x1b[31m\ud800"

    assert told(read([user("u1", None, text)]), "message.recorded", "content") == [text]


@pytest.mark.parametrize(
    ("value", "is_ours"),
    [
        ({"type": "user", "message": {"role": "user", "content": "x"}, "uuid": "x", "sessionId": "y"}, True),
        ({"type": "attachment", "isSidechain": False, "uuid": "x", "sessionId": "y"}, True),
        ({"type": "user", "message": {}, "uuid": "x", "sessionId": "y"}, False),
        ({"type": "user", "message": {"parts": [], "content": "x"}, "uuid": "x", "sessionId": "y"}, False),
        ({"type": "user", "message": {"content": "x"}, "session_id": "y"}, False),
        ({"type": "tool_call", "session_id": "y", "toolCallId": "z"}, False),
        ({"type": "heartbeat", "session_id": "y", "pid": 7}, False),
        ({"hook_event_name": "Stop", "session_id": "y", "transcript_path": "/x.jsonl"}, False),
        ({"type": "summary", "summary": "x", "leafUuid": "y"}, True),
        ({"type": "file-history-snapshot", "messageId": "x", "isSnapshotUpdate": False}, True),
        ({"type": "system", "subtype": "init", "session_id": "x", "tools": []}, True),
        ({"type": "system", "subtype": "init", "session_id": "x"}, False),
        ({"type": "system", "subtype": "init", "session_id": "x", "tools": [], "qwen_code_version": "0.21"}, False),
        ({"agentType": "x", "spawnDepth": 1}, True),
        ({"type": "session.started", "producer": "x", "session": "y", "sessionId": "z"}, False),
        ({"type": "response_item", "payload": {}, "timestamp": "x"}, False),
        ({"session_id": "x", "ts": 1.0, "lessons": []}, False),
        ({"role": "user", "content": "x", "timestamp": "y"}, False),
    ],
)
def test_a_line_is_recognised_by_its_shape(value: dict[str, Any], *, is_ours: bool) -> None:
    assert ClaudeCode().recognises(json.loads(json.dumps(value))) is is_ours
