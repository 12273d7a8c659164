"""Where an entry stands, what it says, and what is marked on it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET
from tests.log.facts import AT, fact, message
from tests.transcripts.folding import SESSION, folded, log_of, rows_of

from rightful import limits
from rightful.encoding.envelope import Envelope
from rightful.errors import UpgradeError
from rightful.log.rows import Stored
from rightful.projections.transcripts import fold


def texts(*events: dict[str, Any]) -> list[Any]:
    return [one.get("text") for one in folded(events).as_dict()["entries"]]


def said(key: str, content: Any, **fields: Any) -> dict[str, Any]:
    return message(content, key=key) | {"turn": None} | fields


def test_start_after_the_end_of_the_same_producer_opens_the_session_again() -> None:
    """A hook reports a resumed session with another start; a start of another producer proves nothing."""
    ended, start = fact("session.ended", "1", at="2026-08-01T10:00:00Z"), fact("session.started", "2", at=AT)
    ended_again = fact("session.ended", "3", at=AT)
    other = start | {"producer": "other"}

    assert folded([ended, start]).ended is None
    assert [folded(events).ended is None for events in ([ended, other], [ended, start, ended_again])] == [False, False]


def test_turns_stand_by_their_first_row_whatever_stands_between() -> None:
    events = [said("1", "a", turn="1"), said("2", "b", turn="2"), said("3", "c", turn="1"), said("4", "d", turn="2")]

    assert texts(*events) == ["a", "c", "b", "d"]


def test_what_has_no_turn_stands_by_its_own_position() -> None:
    events = [
        said("1", "a", turn="1"),
        said("2", "b"),
        said("3", "c", turn="1"),
        said("4", "d", turn="2"),
        said("5", "e"),
    ]

    assert texts(*events) == ["a", "c", "b", "d", "e"]


def test_within_a_turn_the_index_decides() -> None:
    events = [said("1", "c", turn="1", index=2), said("2", "a", turn="1", index=0), said("3", "b", turn="1", index=1)]

    assert texts(*events) == ["a", "b", "c"]


def test_what_has_no_index_stands_behind_what_came_before_it() -> None:
    events = [
        said("1", "a", turn="1", index=0),
        said("2", "b", turn="1", index=1),
        said("3", "then", turn="1"),
        said("4", "c", turn="1", index=2),
    ]

    assert texts(*events) == ["a", "b", "then", "c"]
    assert texts(said("0", "first", turn="1"), *events) == ["first", "a", "b", "then", "c"]


def test_an_entry_stands_where_it_was_first_told_and_says_what_it_says_now() -> None:
    events = [
        said("1", "a", turn="1", index=0),
        said("2", "b", turn="1", index=1),
        said("1", "a and c", turn="1", index=2),
    ]
    [first, second] = folded(events).entries

    assert (first.text, first.position, first.revisions) == ("a and c", 1, 2)
    assert second.text == "b"


def test_what_is_stale_is_never_shown_and_still_places_its_entry() -> None:
    events = [said("2", "b", turn="1", index=1), said("1", "ab", turn="1", index=2), said("1", "a", turn="1", index=0)]

    assert texts(*events) == ["ab", "b"]


def test_a_repeat_that_was_not_stored_twice_places_its_entry() -> None:
    """Agenta's importer says so by a `data.recorded`, since the ledger keeps no second row."""
    told = fact("message.recorded", "1", role="user", content="a", turn="1", index=3)
    [receipt] = log_of([]).append([told])
    repeat = fact("data.recorded", "2", name="repeated", data={"id": receipt.id}, turn="1", index=0)

    assert texts(told, said("3", "b", turn="1", index=1), repeat) == ["a", "b"]


def test_message_repeated_under_its_id_in_another_turn_is_shown_once_first() -> None:
    assert texts(said("1", "a", turn="1"), said("2", "b", turn="1"), said("1", "a", turn="2")) == ["a", "b"]


def test_equal_messages_of_one_producer_at_one_index_are_one() -> None:
    assert texts(said("1", "a", turn="1", index=0), said("2", "a", turn="1", index=0)) == ["a"]


@pytest.mark.parametrize(
    "other",
    [{"content": "b"}, {"index": 1}, {"turn": "2"}, {"producer": "other"}, {"role": "user"}, {"extra": {"a": 1}}],
)
def test_two_messages_are_two_where_anything_differs(other: dict[str, Any]) -> None:
    one = said("1", "a", turn="1", index=0)

    assert len(folded([one, one | {"key": "2"} | other]).entries) == 2


def test_without_a_turn_or_an_index_nothing_is_collapsed() -> None:
    assert texts(said("1", "a"), said("2", "a"), said("3", "a", turn="1"), said("4", "a", turn="1")) == ["a"] * 4
    assert texts(said("1", "a", index=0), said("2", "a", index=0)) == ["a"] * 2


def test_a_turn_ends_once_with_the_last_word_on_each_fact() -> None:
    ends = [
        fact("turn.ended", "1", turn="1", stop_reason="paused", event_count=2),
        fact("turn.ended", "2", turn="1", stop_reason="end_turn", dropped_count=1),
        fact("turn.ended", "3", turn="2"),
    ]
    [first, second] = folded(ends).entries

    assert (first.turn, first.stop_reason, first.event_count, first.dropped_count) == ("1", "end_turn", 2, 1)
    assert (second.turn, second.stop_reason) == ("2", UNSET)


def test_quarantined_row_marks_the_entry_it_contradicts_only() -> None:
    [entry] = folded([said("1", "yes"), said("1", "no")]).as_dict()["entries"]

    assert (entry["text"], entry["revisions"]) == ("yes", 1)
    assert [(one["position"], one["outcome"], one["said"]["content"]) for one in entry["conflicts"]] == [
        (2, "conflict", "no")
    ]


def test_a_withdrawal_of_the_contradiction_unmarks_the_entry() -> None:
    id_ = rows_of(log_of([said("1", "yes")]))[0].envelope.id
    withdrawn = fact("event.withdrawn", "w", id=id_, revision=2)
    [entry] = folded([said("1", "yes"), said("1", "no"), withdrawn]).entries

    assert (entry.text, entry.conflicts) == ("yes", UNSET)


def test_a_withdrawal_of_what_stood_first_lets_the_other_stand() -> None:
    id_ = rows_of(log_of([said("1", "yes")]))[0].envelope.id
    withdrawn = fact("event.withdrawn", "w", id=id_, revision=1)
    [entry] = folded([said("1", "yes"), said("1", "no"), withdrawn]).entries

    assert (entry.text, entry.conflicts) == ("no", UNSET)


def test_no_contradiction_is_shown_after_the_first_row_is_withdrawn() -> None:
    id_ = rows_of(log_of([said("1", "yes")]))[0].envelope.id
    withdrawn = fact("event.withdrawn", "w", id=id_, revision=1)
    [entry] = folded([said("1", "yes"), said("1", "no"), said("1", "maybe"), withdrawn]).as_dict()["entries"]

    assert "text" not in entry
    assert [one["said"]["content"] for one in entry["conflicts"]] == ["no", "maybe"]


def test_what_was_withdrawn_altogether_is_hidden_and_marked() -> None:
    id_ = rows_of(log_of([said("1", "yes")]))[0].envelope.id
    [entry] = folded([said("1", "yes"), fact("event.withdrawn", "w", id=id_, revision=1)]).entries

    assert (entry.text, entry.withdrawn, entry.hidden) == ("yes", True, True)


def test_what_was_withdrawn_does_not_hide_what_was_said_again() -> None:
    one, again = said("1", "yes", turn="1", index=0), said("2", "yes", turn="1", index=0)
    id_ = rows_of(log_of([one]))[0].envelope.id
    entries = folded([one, again, fact("event.withdrawn", "w", id=id_, revision=1)]).entries

    assert [(one.text, one.hidden) for one in entries] == [("yes", True), ("yes", UNSET)]


def test_contradiction_of_another_sessions_row_shows_no_content() -> None:
    [entry] = folded([said("1", "yes", session="t:b"), said("1", "no")]).as_dict()["entries"]

    assert "text" not in entry
    assert entry["conflicts"][0]["said"]["content"] == "no"


def test_what_was_erased_is_marked_at_its_place() -> None:
    log = log_of([said("1", "a"), said("2", "b"), fact("tool_call.snapshotted", "3", call="c", name="bash")])
    log.recorder.erase(1)  # type: ignore[attr-defined]
    log.recorder.erase(3)  # type: ignore[attr-defined]
    entries = fold(SESSION, rows_of(log)).as_dict()["entries"]

    assert [(one["kind"], one.get("text"), one.get("erased", False)) for one in entries] == [
        ("message", None, True),
        ("message", "b", False),
        ("tool_call", None, True),
    ]


def test_an_erased_result_leaves_its_call_and_says_that_it_was_there() -> None:
    log = log_of(
        [
            fact("tool_call.snapshotted", "1", call="c", name="bash"),
            fact("tool_result.snapshotted", "2", call="c", output="x"),
            fact("tool_result.snapshotted", "2", call="c", output="xy"),
        ]
    )
    log.recorder.erase(3)  # type: ignore[attr-defined]
    entries = fold(SESSION, rows_of(log), revisions=True).as_dict()["entries"]

    assert [(one.get("output"), one.get("result_erased"), one.get("unpaired")) for one in entries] == [
        (None, None, None),
        (None, True, True),
    ]
    assert [one["said"] for one in entries[1]["rows"]] == [{"call": "c", "output": "x", "is_error": False}, None]


def test_the_rows_of_an_entry_are_given_where_they_are_asked_for() -> None:
    events = [said("1", "a"), said("1", "ab"), said("1", "a!")]
    [entry] = folded(events, revisions=True).as_dict()["entries"]

    assert [(one["outcome"], one["said"]["content"]) for one in entry["rows"]] == [("appended", "a"), ("refined", "ab")]
    assert folded(events).entries[0].rows is UNSET


@pytest.mark.parametrize(
    ("content", "text", "parts"),
    [
        ("a", "a", None),
        ("", "", None),
        (None, "", None),
        ([{"type": "text", "text": "a"}, {"type": "input_text", "text": "b"}], "a\nb", True),
        ([{"type": "image", "url": "x"}, "c"], "c", True),
        ([{"type": "image", "url": "x"}], "", True),
        ({"text": "a", "cite": 1}, "a", True),
        (7, "", True),
    ],
)
def test_the_text_of_a_message_is_its_text_parts_and_its_parts_are_kept(content: Any, text: str, parts: Any) -> None:
    [entry] = folded([said("1", content)]).as_dict()["entries"]

    assert entry["text"] == text
    assert entry.get("content") == (content if parts else None)


def test_what_a_tool_hid_is_marked_and_what_else_it_says_is_kept() -> None:
    extra = {"hidden": True, "meta": True, "summary": True, "call_id": 1}
    [entry] = folded([said("1", "a", extra=extra)]).entries

    assert (entry.hidden, entry.meta, entry.summary, entry.extra) == (True, True, True, {"call_id": 1})


def test_content_beyond_json_is_kept_in_python_and_escaped_in_json() -> None:
    transcript = folded([said("1", "a\x00\ud800"), fact("data.recorded", "2", name="n", data=[float("inf"), 10**30])])

    assert transcript.entries[0].text == "a\x00\ud800"
    assert transcript.entries[1].data == [float("inf"), 10**30]
    [first, second] = transcript.as_dict()["entries"]
    assert (first["text"], first["escaped"]) == ("a\x1a0000\x1ad800", True)
    assert (second["data"], second["escaped"]) == ([{"$float": "inf"}, {"$int": str(10**30)}], True)


def test_each_kind_of_event_is_an_entry_of_its_kind() -> None:
    item = ["00000000-0000-0000-0000-000000000000", 0]
    events = [
        fact("thought.recorded", "1", content="hm"),
        fact("error.recorded", "2", message="no"),
        fact("data.recorded", "3", name="title", data={"a": 1}),
        fact("interaction.requested", "4", interaction="i", payload={"q": 1}) | {"kind": "user_input"},
        fact("interaction.answered", "5", interaction="i", payload="yes"),
        fact("history.compacted", "6", covers=[{"last": item}], mode="auto", items=["less"]),
        fact("history.popped", "7", items=[item]),
        fact("history.cleared", "8"),
        fact("exposure.recorded", "9", arms=[]),
        fact("data.recorded", "10", name="overwriting-store"),
    ]
    entries = folded(events).as_dict()["entries"]
    kept = ("kind", "text", "name", "data", "interaction", "asked", "payload", "covers", "mode", "items")

    assert [{name: one[name] for name in kept if name in one} for one in entries] == [
        {"kind": "thought", "text": "hm"},
        {"kind": "error", "text": "no"},
        {"kind": "data", "name": "title", "data": {"a": 1}},
        {"kind": "interaction_requested", "interaction": "i", "asked": "user_input", "payload": {"q": 1}},
        {"kind": "interaction_answered", "interaction": "i", "payload": "yes"},
        {"kind": "history_compacted", "covers": [{"last": item}], "mode": "auto", "items": ["less"]},
        {"kind": "history_popped", "covers": [item]},
        {"kind": "history_cleared"},
    ]


def test_a_compaction_hides_nothing_of_what_it_covers() -> None:
    item = ["00000000-0000-0000-0000-000000000000", 0]
    events = [
        said("1", "a"),
        fact("history.compacted", "2", covers=[{"last": item}]),
        fact("history.cleared", "3"),
        said("4", "b"),
    ]

    assert [one.kind for one in folded(events).entries] == [
        "message",
        "history_compacted",
        "history_cleared",
        "message",
    ]


def test_start_end_and_subagents_are_listed_next_to_the_entries() -> None:
    link = {"other": "t:sub", "as": "subagent", "evidence": "native-id"}
    events = [
        fact("session.started", "1", harness="codex", model="m", extra={"forked_from": "t:y"}),
        fact("session.started", "2", model="n", extra={"resumes": "t:z"}),
        fact("session.linked", "3", **link),
        fact("session.linked", "4", **(link | {"other": "t:gone"})),
        fact("session.linked", "5", **(link | {"other": "t:native", "as": "native"})),
        fact("session.unlinked", "6", other="t:gone"),
        fact("session.ended", "7", turns=3, exit_code=-9),
    ]
    document = folded(events).as_dict()

    assert document["started"] == {
        "at": AT,
        "harness": "codex",
        "model": "n",
        "extra": {"forked_from": "t:y", "resumes": "t:z"},
    }
    assert document["ended"] == {"at": AT, "turns": 3, "exit_code": -9}
    assert document["subagents"] == ["t:sub"]
    assert document["entries"] == []


def test_a_row_of_a_newer_type_stops_the_fold() -> None:
    [row] = rows_of(log_of([said("1", "a")]))
    fields = {name: getattr(row.envelope, name) for name in row.envelope.__struct_fields__}
    newer = Stored(1, Envelope(**(fields | {"type": "dream.recorded"})), row.payload)

    with pytest.raises(UpgradeError):
        fold(SESSION, [newer])


FOLD = """
import json
from tests.transcripts.folding import folded
from tests.transcripts.sequences import CASES, NAME, wires
print(json.dumps([folded(wires(case.records), NAME, revisions=True).as_dict() for case in CASES]))
"""


def test_two_processes_give_the_same_bytes() -> None:
    root = Path(__file__).parents[2]
    answers = {
        subprocess.run(
            [sys.executable, "-c", FOLD],
            cwd=root,
            env={"PYTHONPATH": f"{root}/src:{root}", "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }

    assert len(answers) == 1
    assert len(answers.pop()) > 1000


def test_repeated_message_is_shown_once_also_with_others_between() -> None:
    words = [said(str(at), text, turn="1", index=0) for at, text in enumerate(["x", "y", "x", "y"])]
    answers = [
        fact("interaction.answered", f"a{at}", interaction="g", payload={"approved": one})
        for at, one in enumerate([True, False, False, True])
    ]

    assert texts(*words) == ["x", "y"]
    assert [one.payload for one in folded(answers).entries] == [{"approved": True}, {"approved": False}]


@pytest.mark.parametrize("past", [0, 1])
def test_a_repeat_is_known_behind_so_many_other_answers_and_no_more(past: int) -> None:
    said_ = [f"{at} " for at in range(limits.TOLD_APART + past)]
    answers = [
        fact("interaction.answered", f"a{at}", interaction="g", payload={"said": one})
        for at, one in enumerate([*said_, said_[0]])
    ]

    assert len(folded(answers).entries) == len(said_) + past
