from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.importers import reading_lines
from tests.importers.conftest import Importer
from tests.importers.growing import import_once, put
from tests.importers.reading_lines import MTIME, SAMPLES, Row, data_of, id_of, notes, of, told, written

from rightful.errors import InvalidEventError
from rightful.importers.engine.formats import Origin
from rightful.importers.grok.grok_stream import Grok
from rightful.ledger import Ledger

PATH = "/state/sessions/grok-trajectories/41c2.jsonl"
MESSAGE, THOUGHT, CALL, RESULT, USAGE = (
    "message.recorded",
    "thought.recorded",
    "tool_call.snapshotted",
    "tool_result.snapshotted",
    "usage.recorded",
)
NOBODYS = (
    "a stream of Grok has no session id and no time, and this one is not in a folder `grok-trajectories`: "
    "nothing was imported from it. Move it there as <session id>.jsonl and import that file"
)


def line(kind: str, /, **fields: Any) -> Row:
    return {"type": kind} | fields


def text(piece: str) -> Row:
    return line("text", data=piece)


def call(name: str = "bash", of_: str = "g1", **fields: Any) -> Row:
    return line("tool_call", toolCallId=of_, toolName=name, **fields)


def update(status: str, of_: str = "g1", **fields: Any) -> Row:
    return line("tool_call_update", toolCallId=of_, status=status, **fields)


END = line(
    "end", stopReason="end_turn", sessionId="019f", modelUsage={"grok-x": {"inputTokens": 10, "outputTokens": 2}}
)


def read(*rows: Row) -> list[Any]:
    """What is read of lines, but for the session's start."""
    return reading_lines.read(Grok(), PATH, rows)[1:]


def test_a_session_is_named_by_its_file_and_timed_by_it() -> None:
    [begun, message] = of(reading_lines.read(Grok(), PATH, [text("hi")]))

    assert (begun["type"], begun["session"], begun["harness"]) == ("session.started", "grok:41c2", "grok")
    assert (message["at"], message["at_basis"]) == (MTIME, "file")


@pytest.mark.parametrize("path", ["/tmp/grok-build-20260801.log", "-", "41c2.jsonl", "/grok-trajectories/x/41c2.jsonl"])
def test_a_stream_elsewhere_is_refused_with_what_to_do(path: str) -> None:
    with pytest.raises(InvalidEventError) as caught:
        Grok().reader(Origin(path, 1))

    assert caught.value.what == NOBODYS


def test_a_stream_elsewhere_in_a_folder_is_skipped(imported: Importer, ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "logs" / "41c2.jsonl"
    path.parent.mkdir()
    path.write_bytes(written([text("hi"), END]))

    [[found], [again], [named]] = (imported("grok", one) for one in (path.parent, path.parent, path))

    assert [one.what for one in found.problems] == [f"skipped: {NOBODYS}"] == [one.what for one in again.problems]
    assert [one.what for one in named.problems] == [NOBODYS]
    assert (found.exit_code, found.passed, named.exit_code, ledger.log.head()) == (0, 1, 2, 0)


@pytest.mark.parametrize("name", ["unknown", " "])
def test_a_file_that_names_no_session_is_refused(name: str) -> None:
    with pytest.raises(InvalidEventError, match="names no session"):
        Grok().reader(Origin(f"/grok-trajectories/{name}.jsonl", 1))


@pytest.mark.parametrize("field", ["data", "content", "text"])
def test_the_text_of_a_line_stands_in_the_field_of_its_version(field: str) -> None:
    assert told(read(line("text", **{field: "hi"})), MESSAGE, "role", "content") == [("assistant", "hi")]


def test_a_text_may_stand_in_a_part() -> None:
    assert told(read(line("thought", content={"type": "text", "text": "hm"})), THOUGHT, "content") == ["hm"]


def test_consecutive_pieces_are_one_message_that_grows() -> None:
    events = read(*map(text, ("He", "llo", ",", " world", "!")), END)

    assert told(events, MESSAGE, "content") == ["He", "Hello", "Hello, world", "Hello, world!"]
    assert len({id_of(one) for one in of(events, MESSAGE)}) == 1


def test_a_long_message_is_recorded_in_few_states() -> None:
    events = read(*map(text, ["word "] * 3_000), END)

    states = [len(content) for content in told(events, MESSAGE, "content")]
    assert states[-1] == 15_000
    assert len(states) < 50
    assert sum(states) < 6 * 15_000


def test_what_waits_of_a_message_that_is_not_closed_is_said() -> None:
    events = read(*map(text, ["word "] * 100))

    what = "the file ends within a text: its last 30 characters wait for the next lines"
    assert notes(events) == [f"{what}. If none come, import the file again to store them"]
    assert told(events, MESSAGE, "content")[-1] == "word " * 94


@pytest.mark.parametrize("torn", [b"", b'{"type":"te'])
def test_next_import_stores_the_rest_of_a_message_that_did_not_grow(
    ledger: Ledger, tmp_path: Path, torn: bytes
) -> None:
    """A stream that crashed within a message has no more lines."""
    path = tmp_path / "grok-trajectories" / "41c2.jsonl"
    lengths = []
    for rows in (100, 100, 100, 101):
        put(path, written(map(text, ["word "] * rows)) + torn)
        report = import_once(ledger, Grok(), path)
        [entry] = [entry for entry in ledger.transcript("grok:41c2").entries if entry.kind == "message"]
        lengths.append((len(str(entry.text)), "import the file again" in str(report.problems)))

    assert lengths == [(470, True), (500, False), (500, False), (500, True)]


def test_other_text_a_call_or_the_end_close_a_message() -> None:
    rows = [
        text("a"),
        line("usage", inputTokens=1),
        text("b"),
        line("thought", data="c"),
        text("d"),
        call(),
        text("e"),
        END,
    ]

    finals = {id_of(one): one["content"] for one in of(read(*rows), MESSAGE)}

    assert list(finals.values()) == ["ab", "d", "e"]


def test_the_same_words_twice_are_two_messages() -> None:
    events = read(text("ok"), call(), text("ok"), END)

    assert told(events, MESSAGE, "content") == ["ok", "ok"]
    assert len({id_of(one) for one in of(events, MESSAGE)}) == 2


def test_a_call_and_its_result() -> None:
    events = read(
        call(rawInput={"command": "ls"}, kind="execute"), update("in_progress"), update("completed", rawOutput="x")
    )

    assert told(events, CALL, "call", "name", "arguments", "complete", "extra") == [
        ("g1", "bash", {"command": "ls"}, True, {"kind": "execute"})
    ]
    assert told(events, RESULT, "call", "output", "complete", "is_error") == [("g1", "x", True, False)]


@pytest.mark.parametrize("pending", [{}, {"rawInput": None}, {"rawInput": {}}])
def test_input_that_comes_late_refines_the_call(pending: Row) -> None:
    rows = [call(status="pending", kind="execute", **pending), update("in_progress", rawInput={"command": "ls"})]

    events = read(*rows, update("completed", rawInput={"command": "ls"}, rawOutput="x"))

    first, second = of(events, CALL)
    assert (first["complete"], second["complete"], second["arguments"]) == (False, True, {"command": "ls"})
    assert (second["name"], second["extra"], id_of(second)) == ("bash", first["extra"], id_of(first))


def test_output_that_grows_is_one_result_and_output_that_changes_another() -> None:
    grows = [call(rawInput={"a": 1}), update("in_progress", rawOutput="x"), update("completed", rawOutput="xy")]
    changes = [call(rawInput={"a": 1}), update("in_progress", rawOutput="x"), update("completed", rawOutput="y")]

    for rows, count in ((grows, 1), (changes, 2)):
        results = of(read(*rows), RESULT)
        assert [one["complete"] for one in results] == [False, True]
        assert len({id_of(one) for one in results}) == count


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_a_call_that_failed_is_an_error(status: str) -> None:
    events = read(call(rawInput={"a": 1}), update(status, error="denied"))

    assert told(events, RESULT, "output", "is_error", "complete") == [("denied", True, True)]


def test_a_call_without_output_is_settled() -> None:
    assert told(read(call(rawInput={"a": 1}), update("completed")), RESULT, "output", "complete") == [(None, True)]


def test_a_result_of_a_call_that_was_not_told_is_kept() -> None:
    events = read(update("completed", rawOutput="x"))

    assert (told(events, RESULT, "call", "output"), of(events, CALL)) == ([("g1", "x")], [])


def test_a_call_id_that_comes_again_is_another_call() -> None:
    once = [call(rawInput={"a": 1}), update("completed", rawOutput="x")]

    events = read(*once, *once)

    assert len({id_of(one) for one in of(events, CALL)}) == len({id_of(one) for one in of(events, RESULT)}) == 2


def test_nothing_is_remembered_of_a_call_that_is_settled() -> None:
    reader = Grok().reader(Origin(PATH, 1))
    reading_lines.read_by(reader, [call(rawInput={"a": 1}), update("completed", rawOutput="x")])

    assert reader.state()["calls"] == {}


def test_a_call_that_is_told_again_with_other_input_is_another_call() -> None:
    events = read(call(rawInput={"a": 1}), call(rawInput={"a": 2}))

    assert len({id_of(one) for one in of(events, CALL)}) == 2


def test_the_end_says_why_and_what_was_used_and_by_which_model() -> None:
    row = END | {"num_turns": 3, "usage": {"inputTokens": 11}, "total_cost_usd": 0.5}

    events = read(text("hi"), row)

    ended = told(events, "session.ended", "turns", "extra")
    assert ended == [(3, {"stopReason": "end_turn", "sessionId": "019f", "num_turns": 3, "total_cost_usd": 0.5})]
    assert told(events, USAGE, "counts", "cumulative") == [({"inputTokens": 10, "outputTokens": 2}, True)]
    assert told(events, "session.started", "model") == ["grok-x"]


def test_the_usage_of_several_models_is_their_sum_and_names_no_model() -> None:
    events = read(line("end", modelUsage={"a": {"inputTokens": 1}, "b": {"inputTokens": 2, "x": 1}}))

    assert told(events, USAGE, "counts", "extra") == [
        (
            {"inputTokens": 3, "x": 1},
            {"modelUsage": {"a": {"inputTokens": 1}, "b": {"inputTokens": 2, "x": 1}}, "stretch": "0"},
        )
    ]
    assert of(events, "session.started") == []


def test_an_end_without_models_counts_what_it_says_itself() -> None:
    events = read(line("end", stopReason="cancelled", usage={"input_tokens": 4}))

    assert told(events, USAGE, "counts") == [{"input_tokens": 4}]


def test_a_usage_line_counts_itself() -> None:
    rows = [line("usage", usage={"inputTokens": 1}), line("usage", outputTokens=2)]

    assert told(read(*rows), USAGE, "counts", "of", "cumulative") == [
        ({"inputTokens": 1}, "line:0", None),
        ({"outputTokens": 2}, "line:1", None),
    ]


def test_an_error_is_an_error() -> None:
    assert told(read(line("error", message="no key", code=7)), "error.recorded", "message", "extra") == [
        ("no key", {"code": 7})
    ]


def test_what_grok_adds_one_day_is_kept_as_data() -> None:
    rows = [line("available_commands", commands=["x"]), line("plan", steps=[]), line("text", weight=3)]

    events = read(*rows)

    assert [one["name"] for one in of(events, "data.recorded")] == ["available_commands", "plan", "text"]
    assert data_of(events, "plan") == [{"type": "plan", "steps": []}]


@pytest.mark.parametrize(
    ("row", "place"),
    [({"a": 1}, "$.type"), ({"type": 7}, "$.type"), (line("tool_call", toolName="x"), "$.toolCallId")],
)
def test_a_line_of_the_wrong_shape_says_where(row: Row, place: str) -> None:
    with pytest.raises(InvalidEventError) as caught:
        read(row)

    assert caught.value.place == place


@pytest.mark.parametrize(
    ("row", "is_grok"),
    [
        (line("available_commands", commands=[]), True),
        (text("hi"), True),
        (line("thought", content="hm"), True),
        (call(), True),
        (update("completed"), True),
        (END, True),
        (line("available_commands"), False),
        (line("text", weight=3), False),
        (line("text", text="hi", session_id="x"), False),
        (line("text", content="hi", role="user"), False),
        (line("tool_call", call_id="x"), False),
        (line("end"), False),
        ({"data": "hi"}, False),
    ],
)
def test_a_line_is_recognised_by_its_type_and_what_that_has(row: Row, is_grok: bool) -> None:
    assert Grok().recognises(row) is is_grok


def test_the_sample_tells_its_conversation(imported: Importer, ledger: Ledger) -> None:
    [report] = imported("grok", SAMPLES / "grok" / "grok-trajectories" / "41c2.jsonl")

    assert (report.appended, report.problems) == (9, [])
    events: list[Any] = [one.event for one in ledger.read()]
    assert {one.session for one in events} == {"grok:41c2"}
    assert [type(one).__name__ for one in events] == [
        "SessionStarted",
        "DataRecorded",
        "ThoughtRecorded",
        "ToolCallSnapshotted",
        "ToolResultSnapshotted",
        "MessageRecorded",
        "SessionEnded",
        "UsageRecorded",
        "SessionStarted",
    ]
    assert (events[2].content, events[3].arguments, events[4].output, events[5].content) == (
        "look",
        {"command": "ls"},
        "my file.txt",
        "Done.",
    )


def test_the_reader_goes_on_where_it_stopped_behind_any_line() -> None:
    rows = [
        text("He"),
        text("llo"),
        call(kind="x"),
        update("pending", rawInput={"a": 1}),
        update("in_progress", rawOutput="o"),
    ]
    rows += [text("mean"), text("while"), update("completed", rawOutput="ok"), line("thought", data="hm"), END]
    whole = reading_lines.read(Grok(), PATH, rows)

    for cut in range(1, len(rows)):
        first, second = (Grok().reader(Origin(PATH, reading_lines.MTIME_US)) for _ in "12")
        begun = of(reading_lines.read_by(first, rows[:cut]))
        second.restore(json.loads(json.dumps(first.state())))
        assert begun + reading_lines.read_by(second, rows[cut:], cut + 1) == whole
