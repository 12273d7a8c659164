from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.importers import reading_lines
from tests.importers.codex_lines import (
    LATER,
    NAME,
    PARENT,
    TURN,
    V4,
    answered,
    began,
    called,
    ended,
    event,
    item,
    line,
    meta,
    read,
    said,
)
from tests.importers.conftest import Importer
from tests.importers.reading_lines import MTIME, SAMPLES, data_of, id_of, notes, of, told, written

from rightful.errors import InvalidEventError
from rightful.importers.codex.rollout import Codex
from rightful.importers.engine.formats import Origin
from rightful.ledger import Ledger

MESSAGE, USAGE = "message.recorded", "usage.recorded"
FOLDER = SAMPLES / "codex" / "sessions" / "2026" / "08" / "01"
TOTAL, LAST = {"input_tokens": 1000, "total_tokens": 1040}, {"input_tokens": 100, "total_tokens": 110}


def context(turn: str | None = TURN, model: str = "gpt-5", **fields: Any) -> reading_lines.Row:
    return line("turn_context", ({} if turn is None else {"turn_id": turn}) | {"model": model, "cwd": "/w"} | fields)


def test_session_begins_with_its_first_line_and_its_model_follows() -> None:
    events = read(meta(), began(), context(), context(model="gpt-6"), whole=True)

    facts = {"originator": "codex-tui", "cli_version": "0.99.0", "source": "cli"}
    assert told(events, "session.started", "session", "harness", "cwd", "model", "extra") == [
        (f"codex:{PARENT}", "codex", "/w", None, facts),
        (f"codex:{PARENT}", "codex", "/w", "gpt-5", facts),
    ]
    assert told(events, "session.started", "at")[0] == "2026-08-01T10:15:00Z"
    assert [one["model"] for one in data_of(events, "turn_context")] == ["gpt-5", "gpt-6"]


@pytest.mark.parametrize("originator", ["codex_exec", "codex-tui", "codex_cli_rs", "codex_vscode", "new one"])
def test_every_program_of_codex_is_codex(originator: str) -> None:
    """gptme-contrib takes two of them for gptme (its issue 1600)."""
    row = meta(originator=originator)

    assert Codex().recognises(row)
    assert told(read(row, whole=True), "session.started", "extra")[0]["originator"] == originator


@pytest.mark.parametrize("time", ["yesterday", "", None])
def test_a_session_that_says_no_time_began_with_its_line(time: str | None) -> None:
    assert told(read(meta(timestamp=time, second=7), whole=True), "session.started", "at") == ["2026-08-01T10:00:07Z"]


def test_what_the_first_line_says_beside_is_data() -> None:
    [kept] = data_of(read(meta(base_instructions={"text": "x"}), whole=True), "session_meta")

    assert kept["base_instructions"] == {"text": "x"}


@pytest.mark.parametrize("item_first", [True, False])
def test_a_message_that_occurs_twice_is_recorded_once(item_first: bool) -> None:
    forms = [said("hi"), event("agent_message", message="hi")]

    events = read(*(forms if item_first else reversed(forms)))

    assert told(events, MESSAGE, "content") == ["hi"]


@pytest.mark.parametrize("item_first", [True, False])
def test_both_forms_of_a_message_have_one_id(item_first: bool) -> None:
    forms = [said("hi", "user"), event("user_message", message="hi", images=[])]
    alone = [id_of(one) for form in forms for one in of(read(form), MESSAGE)]

    events = read(*(forms if item_first else reversed(forms)))

    assert alone == [id_of(of(events, MESSAGE)[0])] * 2


def test_what_the_item_says_beyond_the_event_message_refines_it() -> None:
    events = read(event("agent_message", message="hi"), said("hi", phase="final_answer"))

    assert told(events, MESSAGE, "extra") == [None, {"phase": "final_answer"}]
    assert len({id_of(one) for one in of(events, MESSAGE)}) == 1


def test_an_item_with_parts_that_its_message_had_not_says_more_of_the_same() -> None:
    """Parts of a type that this version does not know are kept beside the text, and conflict with nothing."""
    parts = [{"type": "output_text", "text": "hi"}, {"type": "citation", "of": 3}]
    events = read(event("agent_message", message="hi"), item("message", role="assistant", content=parts))

    first, second = of(events, MESSAGE)
    assert (id_of(first), second["content"], second["extra"]) == (id_of(second), "hi", {"parts": parts})


@pytest.mark.parametrize("kind", ["agent_message", "user_message"])
def test_a_message_that_stands_alone_as_event_message_is_kept(kind: str) -> None:
    """Old and failed turns have no other form."""
    role = "user" if kind == "user_message" else "assistant"

    assert told(read(event(kind, message="hi")), MESSAGE, "role", "content") == [(role, "hi")]


def test_a_message_that_is_said_twice_in_a_turn_is_recorded_twice() -> None:
    pair = [said("ok"), event("agent_message", message="ok")]

    events = read(*pair, *pair)

    assert told(events, MESSAGE, "content") == ["ok", "ok"]
    assert len({id_of(one) for one in of(events, MESSAGE)}) == 2


def test_reasoning_in_both_forms_is_recorded_once_with_its_encrypted_part() -> None:
    summary = [{"type": "summary_text", "text": text} for text in ("one", "two")]
    shown = [event("agent_reasoning", text=text) for text in ("one", "two")]

    events = read(*shown, item("reasoning", summary=summary, encrypted_content="eA=="))

    thoughts = of(events, "thought.recorded")
    assert [one["content"] for one in thoughts] == ["one", "two", "one"]
    assert (id_of(thoughts[0]), thoughts[2]["extra"]) == (id_of(thoughts[2]), {"encrypted_content": "eA=="})


def test_final_message_of_a_failed_turn_is_kept_and_others_not_repeated() -> None:
    alone = read(ended(last_agent_message="so far"))
    beside = read(said("so far"), ended(last_agent_message="so far"))

    assert told(alone, MESSAGE, "content") == told(beside, MESSAGE, "content") == ["so far"]
    assert id_of(of(alone, MESSAGE)[0]) == id_of(of(beside, MESSAGE)[0])


def test_usage_is_the_sum_since_the_start_and_what_the_last_response_took() -> None:
    info = {"total_token_usage": TOTAL, "last_token_usage": LAST, "model_context_window": 272_000}
    row = event("token_count", info=info, rate_limits={"primary": {"used_percent": 3}})

    events = read(row, row)

    total, last, *again = of(events, USAGE)
    assert (total["counts"], total["cumulative"], total["extra"]) == (TOTAL, True, {"model_context_window": 272_000})
    assert (last["counts"], last["of"][:9], "cumulative" in last) == (LAST, "response:", False)
    assert [id_of(one) for one in again] == [id_of(total), id_of(last)]
    assert data_of(events, "rate_limits")[0] == {"primary": {"used_percent": 3}}


def test_a_count_without_numbers_is_no_usage() -> None:
    assert of(read(event("token_count", info=None, rate_limits=None))) == []


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (ended(), "task_complete"),
        (event("turn_aborted", turn_id=TURN, reason="interrupted"), "interrupted"),
        (event("turn_aborted", reason="replaced"), "replaced"),
    ],
)
def test_a_turn_ends_with_the_reason_that_it_says(row: reading_lines.Row, reason: str) -> None:
    events = read(row, said("after"), began(LATER), said("next"))

    assert told(events, "turn.ended", "turn", "stop_reason") == [(TURN, reason)]
    assert told(events, MESSAGE, "content", "turn") == [("after", None), ("next", LATER)]


def test_an_end_without_any_turn_is_data() -> None:
    events = read(meta(), event("task_complete"), whole=True)

    assert of(events, "turn.ended") == []
    assert len(data_of(events, "task_complete")) == 1


@pytest.mark.parametrize("kind", ["error", "stream_error"])
def test_what_went_wrong_is_an_error(kind: str) -> None:
    events = read(event(kind, message="overloaded", codex_error_info="x"))

    assert told(events, "error.recorded", "message", "extra") == [("overloaded", {"codex_error_info": "x"})]


def test_an_approval_that_is_asked_for_is_an_interaction() -> None:
    events = read(event("exec_approval_request", call_id="c", command=["rm"]))

    assert told(events, "interaction.requested", "interaction", "kind", "payload") == [
        ("c", "exec_approval_request", {"call_id": "c", "command": ["rm"]})
    ]


def test_the_same_call_id_in_another_turn_is_another_call() -> None:
    """Weak providers count their calls from 0 in each turn."""
    events = read(called("call_0", cmd="a"), ended(), began(LATER), called("call_0", cmd="a"))

    assert len({id_of(one) for one in of(events, "tool_call.snapshotted")}) == 2


def test_a_call_that_is_written_twice_in_a_turn_is_one() -> None:
    events = read(called("c", cmd="a"), called("c", cmd="a"), called("c", cmd="b"))

    assert [id_of(one) for one in of(events, "tool_call.snapshotted")][0:2] == [
        id_of(of(events, "tool_call.snapshotted")[0])
    ] * 2
    assert len({id_of(one) for one in of(events, "tool_call.snapshotted")}) == 2


def test_turns_without_ids_are_distinguished_by_what_a_person_asked() -> None:
    pair = [said("go on", "user"), event("user_message", message="go on"), said("ok")]

    events = read(meta(), *pair, *pair, whole=True)

    assert told(events, MESSAGE, "content", "turn") == [(text, None) for text in ("go on", "ok", "go on", "ok")]
    assert len({id_of(one) for one in of(events, MESSAGE)}) == 4


def test_no_id_rests_on_a_time_or_a_number_of_a_line() -> None:
    rows = [said("hi"), called("c", cmd="a"), answered("c", "x"), event("token_count", info=None, rate_limits={"a": 1})]
    moved = [row | {"timestamp": "2026-09-01T00:00:00.000Z", "ordinal": 7} for row in rows]

    assert [id_of(one) for one in of(read(*rows))] == [id_of(one) for one in of(read(*moved))]


def test_spawned_agent_is_linked_by_its_own_file_and_by_its_parents() -> None:
    child = V4[0]
    source = {"subagent": {"thread_spawn": {"parent_thread_id": PARENT, "depth": 1}}}
    of_child = read(meta(child, source=source), whole=True)
    of_parent = read(event("collab_agent_spawn_end", sender_thread_id=PARENT, new_thread_id=child))

    links = [of(events, "session.linked") for events in (of_child, of_parent)]

    assert [len(one) for one in links] == [1, 1]
    assert [{name: one[0][name] for name in ("session", "other", "as", "evidence", "key")} for one in links] == [
        {
            "session": f"codex:{PARENT}",
            "other": f"codex:{child}",
            "as": "subagent",
            "evidence": "native-id",
            "key": json.dumps([PARENT, "session.linked", child], separators=(",", ":")),
        }
    ] * 2


@pytest.mark.parametrize("source", ["cli", {"subagent": "review"}, {"subagent": {"thread_spawn": {}}}, None])
def test_a_source_that_names_no_parent_links_nothing(source: object) -> None:
    assert of(read(meta(source=source), whole=True), "session.linked") == []


@pytest.mark.parametrize("thread", ["unknown", "", " "])
def test_an_id_that_names_no_session_is_refused(thread: str) -> None:
    with pytest.raises(InvalidEventError, match="names no session"):
        read(meta(thread), whole=True)


def test_lines_before_any_first_line_are_nobodys() -> None:
    with pytest.raises(InvalidEventError, match="its session is unknown"):
        read(said("hi"), name="copy.jsonl", whole=True)


def test_a_file_whose_first_line_is_torn_is_its_names() -> None:
    events = read(said("hi"), began(), said("ho"), whole=True)

    assert {one["session"] for one in of(events)} == {f"codex:{PARENT}"}


def test_a_line_without_a_time_takes_the_last_one_and_before_any_the_files() -> None:
    row = said("hi")
    del row["timestamp"]
    first = {"timestamp": None} | {name: meta()[name] for name in ("type",)} | {"payload": {"id": PARENT}}

    events = read(first, row, began(second=5), row, whole=True)

    assert [(one["at"], one.get("at_basis")) for one in of(events, MESSAGE)] == [
        (MTIME, "file"),
        ("2026-08-01T10:00:05Z", None),
    ]


def test_a_pipe_is_read_like_a_file(ledger: Ledger, imported: Importer) -> None:
    [report] = imported("codex", "-", stdin=written([meta(), began(), said("hi")]))

    assert (report.appended, report.problems) == (4, [])
    assert {row.event.session for row in ledger.read()} == {f"codex:{PARENT}"}  # type: ignore[union-attr]


def test_lines_that_are_no_objects_stop_nothing(ledger: Ledger, imported: Importer, tmp_path: Path) -> None:
    """A reader of gptme-contrib crashes on them."""
    path = tmp_path / NAME
    path.write_bytes(
        written([meta(), 7, ["x"], None, "text", began(), said("hi")]) + b"{torn\n" + written([said("ho")])
    )

    [report] = imported("codex", path)

    assert [one.line for one in report.problems] == [2, 3, 4, 5, 8]
    assert [one.event.content for one in ledger.read() if one.type == MESSAGE] == ["hi", "ho"]  # type: ignore[union-attr]


def test_a_broken_line_is_a_problem_and_its_neighbours_are_read(
    ledger: Ledger, imported: Importer, tmp_path: Path
) -> None:
    path = tmp_path / NAME
    path.write_bytes(written([meta(), began(), said("hi"), item("message", content=[]), said("ho")]))

    [report] = imported("codex", path)

    assert [(one.line, one.what) for one in report.problems] == [
        (4, "Object missing required field `role` - at `$.payload`")
    ]
    assert [one.event.content for one in ledger.read() if one.type == MESSAGE] == ["hi", "ho"]  # type: ignore[union-attr]


def test_the_same_words_in_two_threads_are_two_facts() -> None:
    one, other = (read(meta(thread), said("hi", "user"), whole=True) for thread in V4)

    assert id_of(of(one, MESSAGE)[0]) != id_of(of(other, MESSAGE)[0])


def test_an_object_without_a_time_and_what_it_says_is_no_line_of_codex() -> None:
    row = meta()

    assert [Codex().recognises({one: row[one] for one in row if one != name}) for name in row] == [False] * 3
    assert not Codex().recognises(row | {"type": "session.start"})


def test_the_sample_gives_its_conversation(imported: Importer, ledger: Ledger) -> None:
    [report] = imported("codex", FOLDER / NAME.replace(PARENT, "019fbcd1-e4a0-7bdc-9da7-2ed83980ed9b"))

    assert (report.appended, report.problems) == (19, [])
    items: list[Any] = [one.event for one in ledger.read()]
    calls = [(one.call, one.name) for one in items if hasattr(one, "arguments")]
    outputs = [(one.call, one.output) for one in items if hasattr(one, "output")]
    assert calls == [("call_A1", "exec_command"), ("call_A2", "apply_patch")]
    assert outputs == [("call_A1", "Exit code: 0\nOutput:\nmy file.txt\n"), ("call_A2", "Success")]
    spoken = [(one.role, one.content[-16:]) for one in items if hasattr(one, "role")]
    assert spoken == [("user", "Fix the path bug"), ("assistant", "Fixed.")]


def test_a_compressed_rollout_is_skipped_and_how_to_read_it_is_said(imported: Importer, tmp_path: Path) -> None:
    path = tmp_path / "ws" / f"{NAME}.zst"
    path.parent.mkdir()
    path.write_bytes(b"\x28\xb5\x2f\xfd\x04\x00")

    [found], [named] = imported("codex", path.parent), imported("codex", path)

    what = "compressed with zstd: decompress it (`zstd -d`) and import the result"
    assert [one.what for one in found.problems] == [f"skipped: {what}"]
    assert [one.what for one in named.problems] == [f"could not be read: {what}"]
    assert (found.exit_code, named.exit_code) == (0, 2)


def test_the_reader_goes_on_where_it_stopped_behind_any_line() -> None:
    rows = [meta(), began(), context(), said("a", "user"), event("user_message", message="a"), said("b"), ended()]
    rows += [began(LATER), event("agent_message", message="b"), said("b"), event("thread_rolled_back", num_turns=1)]
    rows += [said("timeless") | {"timestamp": None}]
    whole = read(*rows, whole=True)

    for cut in range(1, len(rows)):
        first = Codex().reader(Origin(f"/s/{NAME}", reading_lines.MTIME_US))
        begun = reading_lines.read_by(first, rows[:cut])
        second = Codex().reader(Origin(f"/s/{NAME}", reading_lines.MTIME_US))
        second.restore(json.loads(json.dumps(first.state())))
        assert begun + reading_lines.read_by(second, rows[cut:], cut + 1) == whole
    assert notes(whole) == []
