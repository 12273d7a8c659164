from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from tests.importers.claude_lines import A, B, call, in_log, line, model, of, read, result, told, user, written
from tests.importers.conftest import Importer

from rightful.errors import InvalidEventError
from rightful.events import MessageRecorded, SessionStarted
from rightful.importers.claude_code.claude_transcript import ClaudeCode
from rightful.importers.engine.formats import Origin
from rightful.importers.sources.text_files import Found, Problem
from rightful.ledger import Ledger

C = "5c5c5c5c-0000-4000-8000-000000000003"
LOG = "/tmp/cc-session-20260801-1015.log"
AGENT = f"/p/{A}/subagents/agent-a1b2.jsonl"


def conversation(session: str = A) -> list[dict[str, object]]:
    rows = [
        user("u1", None, "Fix it"),
        model("a2", "u1", call("t"), stop="tool_use", usage={"output_tokens": 9}),
        result("u3", "a2", "t", toolUseResult={"agentId": "x"}),
        model("a4", "u3", "Fixed.", of="msg_2", stop="end_turn", usage={"output_tokens": 5}),
    ]
    return [row | {"sessionId": session} for row in rows]


def test_what_a_resumed_file_copies_stays_its_ancestors(ledger: Ledger, imported: Importer, tmp_path: Path) -> None:
    own = user("u5", "a4", "Now document it", sessionId=B)
    ancestor = written(tmp_path / f"{A}.jsonl", conversation())
    resumed = written(tmp_path / f"{B}.jsonl", [*conversation(), own])

    [first] = imported("claude-code", ancestor)
    [second] = imported("claude-code", resumed)

    assert (first.duplicate, second.conflicts, second.problems) == (0, 0, [])
    assert second.duplicate == first.appended
    assert second.kinds == {"session.started": 1, "message.recorded": 1}
    started = [row.event for row in ledger.read(session=f"claude-code:{B}", types=["session.started"])]
    assert [event.extra for event in started if isinstance(event, SessionStarted)] == [
        {"version": "2.1", "resumes": f"claude-code:{A}"}
    ]


def test_the_order_of_an_ancestor_and_its_copy_makes_no_difference(
    ledger: Ledger, imported: Importer, tmp_path: Path
) -> None:
    own = user("u5", "a4", "Now document it", sessionId=B)
    resumed = written(tmp_path / f"{B}.jsonl", [*conversation(), own])
    ancestor = written(tmp_path / f"{A}.jsonl", conversation())

    [_, last] = imported("claude-code", resumed, ancestor)

    assert (last.appended, last.conflicts) == (0, 0)


def test_file_with_three_sessions_resumes_the_last_and_names_all() -> None:
    rows = [*conversation(), user("u5", "a4", "go on", sessionId=C), user("u6", "u5", "and on", sessionId=B)]

    said = read(rows, f"/p/{B}.jsonl")

    [started] = [one for one in of(said, "session.started") if one["session"] == f"claude-code:{B}"]
    ancestors = [f"claude-code:{A}", f"claude-code:{C}"]
    assert started["extra"] == {"version": "2.1", "resumes": f"claude-code:{C}", "ancestors": ancestors}


def test_fork_that_wrote_its_id_over_the_copy_has_its_own_history(
    ledger: Ledger, imported: Importer, tmp_path: Path
) -> None:
    parent, fork = (written(tmp_path / f"{session}.jsonl", conversation(session)) for session in (A, B))

    [first, second] = imported("claude-code", parent, fork)

    assert (second.appended, second.duplicate, second.conflicts) == (first.appended, 0, 0)


def test_history_that_occurs_twice_in_a_file_is_recorded_once(
    ledger: Ledger, imported: Importer, tmp_path: Path
) -> None:
    """claude-code#5034."""
    rows = [*conversation(), *conversation(), user("u5", "a4", "more")]

    [report] = imported("claude-code", written(tmp_path / f"{A}.jsonl", rows))

    assert (report.conflicts, report.problems) == (0, [])
    events = [row.event for row in ledger.read(types=["message.recorded"])]
    said = [event.content for event in events if isinstance(event, MessageRecorded)]
    assert said == ["Fix it", "Fixed.", "more"]
    assert [row.type for row in ledger.read(types=["history.popped"])] == []


@pytest.mark.parametrize("log_first", [True, False])
def test_a_stream_log_and_the_transcript_of_one_session_agree(
    ledger: Ledger, imported: Importer, tmp_path: Path, *, log_first: bool
) -> None:
    transcript = written(tmp_path / f"{A}.jsonl", conversation())
    log = written(tmp_path / "cc-session-1.log", [in_log(row) for row in conversation()])

    reports = imported("claude-code", *((log, transcript) if log_first else (transcript, log)))

    assert [report.conflicts for report in reports] == [0, 0]
    assert [report.problems for report in reports] == [[], []]
    types = ["message.recorded", "tool_call.snapshotted", "tool_result.snapshotted", "usage.recorded"]
    assert [row.type for row in ledger.read(types=types)] == [
        "message.recorded",
        "tool_call.snapshotted",
        "usage.recorded",
        "tool_result.snapshotted",
        "message.recorded",
        "usage.recorded",
    ]


@pytest.mark.parametrize("order", sorted(set(permutations("ttl"))))
def test_what_was_used_does_not_rest_on_what_is_imported_first(
    ledger: Ledger, imported: Importer, tmp_path: Path, order: Sequence[str]
) -> None:
    rows = [
        user("u1", None, "Fix it"),
        model("a2", "u1", "one", usage={"input_tokens": 4, "output_tokens": 3}),
        model("a3", "a2", "two", usage={"input_tokens": 4, "output_tokens": 9}),
        model("a4", "a3", call("t"), usage={"input_tokens": 4, "output_tokens": 61}, stop="tool_use"),
    ]
    whole = written(tmp_path / "cc-session-1.log", [in_log(row) for row in rows])
    grown = iter((rows[:3], rows))
    for one in order:  # as a watch may find them: the transcript in two parts, and the log between or around
        imported("claude-code", whole if one == "l" else written(tmp_path / f"{A}.jsonl", next(grown)))

    assert ledger.transcript(f"claude-code:{A}").usage.total == {"input_tokens": 4, "output_tokens": 61}


def test_a_stream_log_says_what_was_used_only_when_the_answer_stopped() -> None:
    """It is printed before the answer is counted."""
    rows = [
        in_log(model("a1", "u", "one", usage={"output_tokens": 1})),
        in_log(model("a2", "a1", call("t"), usage={"output_tokens": 61}, stop="tool_use")),
    ]

    assert told(read(rows, LOG), "usage.recorded", "counts") == [{"output_tokens": 61}]


def test_a_stream_log_says_how_its_session_began_and_ended() -> None:
    init = {
        "type": "system",
        "subtype": "init",
        "cwd": "/w",
        "session_id": A,
        "model": "opus",
        "tools": ["Bash"],
        "uuid": "i",
    }
    end = {"type": "result", "subtype": "error_max_turns", "is_error": True, "num_turns": 4, "session_id": A}
    end |= {"uuid": "r", "total_cost_usd": 0.1, "usage": {"output_tokens": 140, "service_tier": "standard"}}

    said = read([init, end], LOG)

    assert told(said, "session.started", "session", "cwd", "model") == [(f"claude-code:{A}", "/w", "opus")]
    [data] = told(said, "data.recorded", "data")
    assert data["tools"] == ["Bash"]
    assert told(said, "usage.recorded", "of", "counts", "cumulative") == [(None, {"output_tokens": 140}, True)]
    assert told(said, "error.recorded", "message") == ["error_max_turns"]
    ended = {"subtype": "error_max_turns", "is_error": True, "total_cost_usd": 0.1}
    assert told(said, "session.ended", "turns", "extra") == [(4, ended)]


def test_parts_of_answers_in_a_stream_log_are_counted_and_left_out() -> None:
    part = {"type": "stream_event", "event": {"type": "content_block_delta"}, "session_id": A, "uuid": "p"}

    said = read([part, part], LOG)

    assert said == [Problem(None, "2 partial answers were skipped: other lines have the complete answers", lost=False)]


def test_lines_of_a_stream_log_without_ids_are_distinguished() -> None:
    row = in_log(user("u1", None, "again"))
    del row["uuid"]

    keys = told(read([row, row], LOG), "message.recorded", "key")

    assert len(keys) == len(set(keys)) == 2


def test_a_subagent_is_a_session_below_its_parent_and_linked_to_it() -> None:
    row = user("u1", None, "Find it", isSidechain=True, agentId="a1b2")

    said = read([row], AGENT)

    [linked, *rest] = of(said)
    assert (linked["type"], linked["session"], linked["other"]) == (
        "session.linked",
        f"claude-code:{A}",
        f"claude-code:{A}/a1b2",
    )
    assert (linked["as"], linked["evidence"]) == ("subagent", "native-id")
    assert {one["session"] for one in rest} == {f"claude-code:{A}/a1b2"}
    assert [one["type"] for one in rest] == ["session.started", "message.recorded"]


def test_two_parents_may_have_a_subagent_of_the_same_id() -> None:
    """claude-code#44597."""
    rows = [user("u1", None, "x", isSidechain=True, agentId="a1b2", sessionId=session) for session in (A, B)]

    one, other = read(rows[:1], AGENT), read(rows[1:], f"/p/{B}/subagents/agent-a1b2.jsonl")

    assert told(one, "message.recorded", "session") == [f"claude-code:{A}/a1b2"]
    assert told(other, "message.recorded", "session") == [f"claude-code:{B}/a1b2"]


def test_a_subagent_says_the_same_inline_at_the_top_and_below_its_parent() -> None:
    row = user("u1", None, "x", isSidechain=True, agentId="a1b2")

    below = read([row], AGENT)

    assert read([row], "/p/agent-a1b2.jsonl") == below
    assert of(read([row], f"/p/{A}.jsonl"), "session.linked", "message.recorded", "session.started") == of(below)


def test_inline_sidechains_of_old_versions_are_split_where_they_begin() -> None:
    rows = [
        user("u1", None, "main"),
        user("u2", None, "first", isSidechain=True),
        user("u3", None, "second", isSidechain=True),
        model("a4", "u2", "of the first", isSidechain=True),
        model("a5", "u3", "of the second", isSidechain=True),
        model("a6", "a4", "more of the first", isSidechain=True),
    ]

    said = told(read(rows), "message.recorded", "session", "content")

    of_first, of_second = f"claude-code:{A}/u2", f"claude-code:{A}/u3"
    assert said == [
        (f"claude-code:{A}", "main"),
        (of_first, "first"),
        (of_second, "second"),
        (of_first, "of the first"),
        (of_second, "of the second"),
        (of_first, "more of the first"),
    ]


def test_subagent_lines_of_a_stream_log_belong_to_their_call() -> None:
    row = in_log(user("u1", None, "Find it")) | {"parent_tool_use_id": "toolu_01C"}

    said = read([row], LOG)

    assert told(said, "message.recorded", "session") == [f"claude-code:{A}/toolu_01C"]
    assert told(said, "session.linked", "other") == [f"claude-code:{A}/toolu_01C"]


def test_the_description_of_a_subagent_is_what_its_session_started_with() -> None:
    about = {"agentType": "Explore", "spawnDepth": 1, "toolUseId": "toolu_01C", "model": "haiku"}

    [started] = read([about], f"/p/{A}/subagents/agent-a1b2.meta.json")

    assert (started["type"], started["session"], started["model"]) == (
        "session.started",
        f"claude-code:{A}/a1b2",
        "haiku",
    )
    assert started["extra"] == {"agentType": "Explore", "spawnDepth": 1, "toolUseId": "toolu_01C"}
    assert started["at_basis"] == "file"


def test_a_description_that_does_not_say_whose_it_is_is_refused() -> None:
    with pytest.raises(InvalidEventError, match="does not name a session"):
        read([{"agentType": "Explore", "spawnDepth": 1}], "/p/agent-a1b2.meta.json")


def test_a_line_that_says_no_session_is_its_files() -> None:
    summary = {"type": "summary", "summary": "Fix", "leafUuid": "a4"}

    said = read([summary, *conversation()], f"/p/{B}.jsonl")

    assert told(said, "data.recorded", "name", "session")[0] == ("summary", f"claude-code:{B}")


def test_line_without_session_in_a_file_without_session_is_refused() -> None:
    row = {name: value for name, value in user("u1", None, "x").items() if name != "sessionId"}
    with pytest.raises(InvalidEventError, match="neither this line nor the file's name has one"):
        read([row], "-")


def test_a_first_line_without_a_session_is_of_the_session_of_the_next_one() -> None:
    said = read([{"type": "summary", "summary": "Fix", "leafUuid": "a4"}, *conversation()], "-")

    assert {one["session"] for one in of(said)} == {f"claude-code:{A}"}
    assert told(said, "data.recorded", "name")[0] == "summary"


def test_a_copy_under_another_name_is_of_the_session_that_its_lines_say() -> None:
    said = read([*conversation(), {"type": "summary", "leafUuid": "a4"}], "/backup/yesterday.jsonl")

    assert {one["session"] for one in of(said)} == {f"claude-code:{A}"}


def test_two_processes_that_append_to_one_file_lose_nothing() -> None:
    """claude-code#37739: two branches grow side by side."""
    rows = [
        user("u1", None, "go"),
        model("a2", "u1", "ready", stop="end_turn"),
        user("u3", "a2", "from one"),
        user("u4", "a2", "from the other"),
        model("a5", "u3", "to one", stop="end_turn"),
        model("a6", "u4", "to the other", stop="end_turn"),
        user("u7", "a5", "more from one"),
    ]

    said = read(rows)

    assert len(told(said, "message.recorded", "content")) == 7
    assert of(said, "history.popped") == []


def test_reading_on_behind_any_line_says_what_reading_at_once_says(tmp_path: Path) -> None:
    samples = Path(__file__).parents[1] / "samples"
    files = [*samples.glob("claude/**/*.json*"), *samples.glob("tmp/cc-session-2*.log")]
    assert len(files) == 6
    for path in files:
        found = [Found(at, json.loads(row)) for at, row in enumerate(path.read_bytes().splitlines(), 1)]
        origin = Origin(str(path), 1)
        whole = ClaudeCode().reader(origin)
        expected = [event for one in found for event in whole.events(one)]
        state = ClaudeCode().reader(origin).state()
        said: list[Any] = []
        for one in found:
            reader = ClaudeCode().reader(origin)
            reader.restore(json.loads(json.dumps(state)))
            said += reader.events(one)
            state = reader.state()
        assert said == expected


def test_a_line_that_stands_outside_of_any_conversation_is_kept() -> None:
    error = line("system", "s1", None, subtype="api_error", error={"message": "overloaded"}, retryAttempt=2)
    spent = line("system", "s2", "s1", subtype="turn_duration", durationMs=9)

    said = read([error, spent])

    assert told(said, "error.recorded", "message", "extra") == [
        ("overloaded", {"error": {"message": "overloaded"}, "retryAttempt": 2})
    ]
    assert told(said, "data.recorded", "name", "data") == [
        ("system.turn_duration", {"subtype": "turn_duration", "durationMs": 9})
    ]
