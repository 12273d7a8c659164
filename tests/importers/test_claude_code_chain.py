from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.importers.claude_lines import A, boundary, call, in_log, item, line, model, of, read, result, told, user
from tests.importers.conftest import Importer

from rightful.importers.claude_code.claude_transcript import ClaudeCode
from rightful.importers.engine.formats import Origin
from rightful.importers.sources.text_files import Found
from rightful.ledger import Ledger

Row = dict[str, Any]


def asked_twice(*more: Row) -> list[Row]:
    """Two turns; the second prompt, `u3`, follows `a2`."""
    return [
        user("u1", None, "go"),
        model("a2", "u1", "ready", stop="end_turn"),
        user("u3", "a2", "Fix it"),
        model("a4", "u3", "Fixed.", stop="end_turn"),
        *more,
    ]


def popped(rows: list[Row]) -> list[list[Any]]:
    return told(read(rows), "history.popped", "items")


def test_a_compaction_covers_all_up_to_the_line_that_it_names() -> None:
    late = user("u5", "a4", "too late")

    [event] = of(read([*asked_twice(late), boundary("b6", "a4")]), "history.compacted")

    assert event["covers"] == [{"first": None, "last": item("a4")}]
    assert (event["mode"], event["extra"]) == ("auto", {"trigger": "auto", "preTokens": 9, "boundary": "b6"})
    assert event["session"] == f"claude-code:{A}"


def test_compaction_that_names_a_line_without_item_covers_items_before_it() -> None:
    rows = [*asked_twice(line("system", "s5", "a4", subtype="turn_duration")), user("u6", "s5", "late")]

    assert told(read([*rows, boundary("b7", "s5")]), "history.compacted", "covers") == [
        [{"first": None, "last": item("a4")}]
    ]


def test_a_compaction_that_names_no_line_covers_all_that_was_read() -> None:
    block = model("a5", "a4", "one", "two")

    rows = [*asked_twice(block), boundary("b6")]

    assert told(read(rows), "history.compacted", "covers") == [[{"first": None, "last": item("a5", 1)}]]


def test_a_compaction_before_anything_was_said_covers_nothing() -> None:
    assert told(read([boundary("b1")]), "history.compacted", "covers") == [[]]


def test_the_summary_of_a_compaction_is_a_message_behind_it() -> None:
    summary = user("u7", "b6", "so far", isCompactSummary=True)

    said = of(read([*asked_twice(), boundary("b6", "a4"), summary]), "history.compacted", "message.recorded")

    assert [one["type"] for one in said[-2:]] == ["history.compacted", "message.recorded"]
    assert said[-1]["extra"] == {"summary": True}


def test_a_stream_log_tells_of_the_same_compaction_without_a_conflict() -> None:
    row = in_log(boundary("b6", "a4")) | {"compact_metadata": {"trigger": "auto", "pre_tokens": 9}}

    [ours] = of(read([*asked_twice(), boundary("b6", "a4")]), "history.compacted")
    [theirs] = of(read([in_log(asked_twice()[3]), row], "/tmp/cc-session-1.log"), "history.compacted")

    assert theirs["covers"] == [{"first": None, "last": item("a4")}]
    assert (theirs["key"] != ours["key"], theirs["extra"]["boundary"]) == (True, ours["extra"]["boundary"])


@pytest.mark.parametrize("first", [0, 1])
def test_compaction_is_shown_once_though_a_log_knows_less_of_its_cover(
    ledger: Ledger, imported: Importer, tmp_path: Path, first: int
) -> None:
    """The log of a session that was resumed begins with the compaction of what stands in the transcript alone."""
    files = {f"{A}.jsonl": [*asked_twice(), boundary("b6", "a4")], "cc-session-1.log": [in_log(boundary("b6", "a4"))]}
    for name in sorted(files, reverse=bool(first)):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in files[name]))
        imported("claude-code", tmp_path / name)

    assert [one.kind for one in ledger.transcript(f"claude-code:{A}").entries].count("history_compacted") == 1


def test_the_summary_in_a_log_never_conflicts_with_that_in_the_transcript(
    ledger: Ledger, imported: Importer, tmp_path: Path
) -> None:
    """A log says `isSynthetic` where the transcript says `isMeta` or `isVisibleInTranscriptOnly`."""
    summary = user("u7", "b6", "so far", isCompactSummary=True, isVisibleInTranscriptOnly=True)
    for name, row in ((f"{A}.jsonl", summary), ("cc-session-1.log", in_log(summary) | {"isSynthetic": True})):
        (tmp_path / name).write_text(json.dumps(row) + "\n")
        [report] = imported("claude-code", tmp_path / name)
        assert report.exit_code == 0

    [entry] = [one for one in ledger.transcript(f"claude-code:{A}").entries if one.kind == "message"]
    assert (entry.summary, entry.hidden, entry.meta) == (True, True, True)


def test_compaction_that_occurs_twice_never_covers_what_followed_it() -> None:
    rows = [*asked_twice(), boundary("b6", "a4"), user("u7", "b6", "so far"), boundary("b6", "a4")]

    assert told(read(rows), "history.compacted", "covers") == [[{"first": None, "last": item("a4")}]]


def test_user_who_goes_back_and_asks_again_removes_what_followed() -> None:
    said = of(read(asked_twice(user("u5", "a2", "Rather explain it"))), "history.popped", "message.recorded")

    assert [one["type"] for one in said[-2:]] == ["history.popped", "message.recorded"]
    assert said[-2]["items"] == [{"first": item("u3"), "last": item("a4")}]


def test_a_user_can_go_back_over_several_turns_and_again() -> None:
    rows = asked_twice(
        user("u5", "a4", "And test it"),
        model("a6", "u5", "Tested.", stop="end_turn"),
        user("u7", "a4", "And document it"),
        model("a8", "u7", "Documented.", stop="end_turn"),
        user("u9", "a2", "Start over"),
    )

    assert popped(rows) == [
        [{"first": item("u5"), "last": item("a6")}],
        [{"first": item("u3"), "last": item("a8")}],
    ]


def test_removed_items_are_not_removed_again() -> None:
    rows = asked_twice(
        user("u5", "a4", "And test it"),
        model("a6", "u5", "Tested.", stop="end_turn"),
        user("u7", "a2", "Start over"),
        model("a8", "u7", "Yes.", stop="end_turn"),
        user("u9", "a4", "within the old branch"),
    )

    assert popped(rows) == [[{"first": item("u3"), "last": item("a6")}]]


def test_a_copy_of_what_was_said_is_no_going_back() -> None:
    """claude-code#5034."""
    assert popped([*asked_twice(), *asked_twice()]) == []


def test_an_interruption_is_the_end_of_what_can_be_left_behind() -> None:
    rows = [
        *asked_twice()[:3],
        model("a4", "u3", call("t"), stop="tool_use"),
        user("u5", "a4", [{"type": "text", "text": "[Request interrupted by user for tool use]"}]),
        user("u6", "a2", "Rather explain it"),
    ]

    assert popped(rows) == [[{"first": item("u3"), "last": item("u5")}]]


def test_a_command_of_the_user_does_not_hide_that_they_went_back() -> None:
    local = user("u5", "a4", "<local-command-stdout>Set model</local-command-stdout>")

    assert popped(asked_twice(local, user("u6", "a2", "again"))) == [[{"first": item("u3"), "last": item("u5")}]]


def test_results_of_parallel_calls_are_no_going_back() -> None:
    rows = [
        user("u1", None, "go"),
        model("a2", "u1", call("t1")),
        model("a3", "a2", call("t2")),
        result("u4", "a2", "t1"),
        result("u5", "a3", "t2"),
        model("a6", "u4", "Both done.", stop="end_turn"),
        user("u7", "a6", "next"),
    ]

    assert popped(rows) == []


def test_attachments_and_marked_messages_that_branch_off_are_no_going_back() -> None:
    rows = asked_twice(
        line("attachment", "t5", "a2", attachment={"type": "hook"}),
        user("u6", "a2", "caveat", isMeta=True),
        line("progress", "p7", "a2", data={}),
        user("u8", "a4", "next"),
    )

    assert popped(rows) == []


@pytest.mark.parametrize(
    "working",
    [
        [],
        [model("a4", "u3", call("t"), stop="tool_use")],
        [model("a4", "u3", "Reading.", stop="tool_use")],
        [model("a4", "u3", "Reading."), model("a5", "a4", call("t"))],
        [model("a4", "u3", call("t")), result("u5", "a4", "t")],
    ],
)
def test_unfinished_work_may_be_another_processs_and_is_not_removed(working: list[Row]) -> None:
    rows = [*asked_twice()[:3], *working, user("u6", "a2", "from another process?")]

    assert popped(rows) == []


def test_after_a_doubt_nothing_is_removed_that_may_be_of_two_branches() -> None:
    """`u5` and `u6` may be two processes': a range from the one to the end would hold the other's."""
    rows = asked_twice(
        user("u5", "a4", "one"),
        user("u6", "a4", "other?"),
        model("a7", "u6", "to the other", stop="end_turn"),
        user("u8", "a2", "back to the second prompt"),
    )

    assert popped(rows) == []


def test_once_a_branch_left_behind_went_on_nothing_is_removed_any_more() -> None:
    rows = asked_twice(
        user("u5", "a2", "other"),
        model("a6", "u5", "to the other", stop="end_turn"),
        user("u7", "a4", "the first goes on"),
        model("a8", "u7", "yes", stop="end_turn"),
        user("u9", "a6", "on"),
        model("a10", "u9", "yes", stop="end_turn"),
        user("u11", "a6", "again"),
    )

    assert popped(rows) == [[{"first": item("u3"), "last": item("a4")}]]


def test_a_second_beginning_is_no_going_back() -> None:
    rows = [user("u1", None, "go"), model("a2", "u1", "yes", stop="end_turn"), user("u3", None, "go")]

    assert popped(rows) == []


def test_nobody_goes_back_beyond_a_compaction() -> None:
    rows = asked_twice(boundary("b5", "a4"), user("u6", "b5", "so far", isCompactSummary=True))

    assert popped([*rows, model("a7", "u6", "on", stop="end_turn"), user("u8", "a2", "back")]) == []


def test_a_subagents_prompts_take_nothing_back() -> None:
    rows = [row | {"isSidechain": True, "agentId": "x"} for row in asked_twice(user("u5", "a2", "again"))]

    assert popped(rows) == []
    assert told(read(rows, f"/p/{A}/subagents/agent-x.jsonl"), "history.popped", "items") == []


def test_the_state_of_a_chain_stays_small_and_holds_all_that_is_needed() -> None:
    reader = ClaudeCode().reader(Origin(f"/p/{A}.jsonl", 1))
    parent = None
    for at in range(1_000):
        for row in (user(f"u{at}", parent, "go"), model(f"a{at}", f"u{at}", "yes", stop="end_turn")):
            row["timestamp"] = "2026-08-01T10:00:00Z"
            list(reader.events(Found(1, row)))
        parent = f"a{at}"

    state = json.loads(json.dumps(reader.state()))
    again = ClaudeCode().reader(Origin(f"/p/{A}.jsonl", 1))
    again.restore(state)
    back = user("u1000", "a900", "back", timestamp="2026-08-01T10:00:00Z")
    [event, _] = of(again.events(Found(1, back)))

    assert len(json.dumps(state)) < 30_000
    assert event["items"] == [{"first": item("u901"), "last": item("a999")}]


def test_copy_of_a_compacted_or_rewound_history_removes_nothing() -> None:
    """claude-code#5034: the copied prompts stand in no list of prompts to go back to any more."""
    rows = asked_twice(user("u5", "a2", "Rather explain it"), model("a6", "u5", "So.", stop="end_turn"))
    rows = [*rows, boundary("b7", "a6"), user("u8", "b7", "so far", isCompactSummary=True)]

    assert popped([*rows, *rows]) == popped(rows)
