"""Agenta's session records: ids, types, times, repeats and poison, one answer for each record."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from tests.importers.agenta_records import AT, TOOL_CALL, Taker, body, only, outcomes, rows, said
from tests.importers.conftest import MTIME_S

from rightful.errors import IncompleteTranscriptError
from rightful.identity import composite_key, event_id
from rightful.importers.agenta.agenta_records import RECORDS, legacy_record_id, record_id
from rightful.ledger import Ledger
from rightful.projections.facts.completeness import Completeness, completeness_of


def test_the_ids_of_the_runner_are_derived_as_it_does() -> None:
    """Golden values, computed by the runner's own code."""
    assert str(RECORDS) == "a230b2a3-94c0-52bc-89bf-5e8a71b6056d"
    assert record_id("sess-1", "call_1", "tool_call", "turn-1") == "4bd84e98-501f-55ae-8a3a-3b242e5072e5"
    assert record_id("sess-1", "call_1", "tool_result", "turn-1") == "bb111444-2f02-56a1-bd77-edb3c7f274fb"
    response = record_id("sess-1", "approval-1", "interaction_response", "turn-1")
    assert response == "ebd4e553-e4f6-5489-9ef7-00488ccaa201"
    assert record_id("sess-1", "call_1", "tool_call", None) == "8a7239ae-ba5f-5b2c-b05f-d1625f07c928"


def test_the_record_id_is_the_events_id(take: Taker, ledger: Ledger) -> None:
    given = record_id("sess-1", "call_1", "tool_call", "turn-1")

    report = take(body("tool_call", TOOL_CALL, record_id=given.upper()))

    assert (said(report), [row.id for row in ledger.read()]) == ([], [given])


@pytest.mark.parametrize(
    "given",
    [record_id("sess-1", "call_1", "tool_call", None), legacy_record_id("sess-1", "call_1", "tool_call")],
    ids=["without turn", "legacy"],
)
def test_an_id_that_an_older_runner_derived_is_no_surprise(take: Taker, given: str) -> None:
    assert said(take(body("tool_call", TOOL_CALL, record_id=given))) == []


def test_an_id_that_no_runner_derives_is_kept_and_noted(take: Taker, ledger: Ledger) -> None:
    given = record_id("sess-1", "other", "tool_call", "turn-1")

    report = take(body("tool_call", TOOL_CALL, record_id=given))

    what = f"note: `record_id` {given!r} is not what Agenta derives for this tool_call; it was kept as the id"
    assert (said(report), outcomes(report), only(ledger).id) == ([what], ["appended"], given)


def test_retry_without_id_is_a_duplicate_unless_content_or_place_differ(take: Taker) -> None:
    hello = body("message", {"text": "hello"})

    report = take(
        hello,
        hello | {"timestamp": "2026-08-01T10:00:09Z"},
        body("message", {"text": "hello!"}),
        hello | {"record_index": 1},
        hello | {"turn_id": "turn-2"},
        hello | {"session_id": "sess-2"},
        hello | {"record_type": "thought"},
    )

    assert outcomes(report) == ["appended", "duplicate", *["appended"] * 5]


def test_the_derived_id_can_be_computed_again(take: Taker, ledger: Ledger) -> None:
    """SHA-256 of the canonical JSON of the event's own fields, in the key that the documentation names."""
    take(body("message", {"text": "hello"}))

    fields = '{"content":"hello","role":"assistant","type":"message.recorded"}'
    digest = hashlib.sha256(fields.encode()).hexdigest()
    assert only(ledger).id == event_id("agenta", composite_key("sess-1", "turn-1", 0, "message", digest))


@pytest.mark.parametrize("lacks", ["turn_id", "record_index"])
def test_nothing_is_collapsed_without_turn_or_index_and_one_note_says_so(take: Taker, lacks: str) -> None:
    loose = body("message", {"text": "hello"}) | {lacks: None}

    first, again = take(loose, loose), take(loose, loose, loose)

    assert outcomes(first) == ["appended", "appended"]
    note = "note: records without an id, a turn or an index cannot be distinguished from retries; all were stored"
    assert said(first) == [note]
    assert outcomes(again) == ["duplicate", "duplicate", "appended"]


def test_who_speaks_is_recognised_by_the_source(take: Taker, ledger: Ledger) -> None:
    take(
        body("message", {"text": "1"}, record_source="user"),
        body("message", {"text": "2"}, record_source="runner"),
        body("message", {"text": "3"}, record_source=None),
    )

    events: list[Any] = [row.event for row in ledger.read()]
    assert [(one.role, one.extra) for one in events] == [
        ("user", None),
        ("assistant", {"source": "runner"}),
        ("assistant", None),
    ]


def test_a_transient_record_is_skipped_with_a_note(take: Taker, ledger: Ledger) -> None:
    report = take(body("data", {"name": "progress", "data": 1, "transient": True}))

    assert said(report) == ["note: a transient `data` record was skipped; Agenta does not store it either"]
    assert list(ledger.read()) == []


def test_what_the_store_cut_is_marked_and_noted(take: Taker, ledger: Ledger) -> None:
    cut = body("tool_call", {"id": "c", "_truncated": True, "_original_bytes": 70_000})

    report = take(cut)

    assert only(ledger).extra == {"truncated": {"truncated": True, "original_bytes": 70_000}}
    assert said(report) == ["note: the store truncated this record; the rest is lost"]


def test_a_record_without_a_logical_id_is_kept_and_pairs_with_nothing(take: Taker, ledger: Ledger) -> None:
    report = take(body("tool_result", {"output": "x"}))

    event = only(ledger)
    assert (event.call, event.output) == (event.id, "x")
    assert said(report) == ["note: this tool_result has no id, so it cannot be paired"]


def test_a_done_without_a_turn_ends_nothing(take: Taker, ledger: Ledger) -> None:
    take(body("done", turn_id=None))

    assert (only(ledger).name, only(ledger).turn) == ("done", None)


def test_span_of_a_turn_is_at_its_end_and_in_nothing_else(take: Taker, ledger: Ledger) -> None:
    """A repeat of a call under another span is the same call."""
    call = body(
        "tool_call", TOOL_CALL, record_id=record_id("sess-1", "call_1", "tool_call", "turn-1"), span_id="a" * 16
    )

    report = take(call, call | {"span_id": "b" * 16}, body("done", record_index=1, span_id="a" * 16))

    events: list[Any] = [row.event for row in ledger.read()]
    assert outcomes(report) == ["appended", "duplicate", "appended"]
    assert [one.extra for one in events] == [None, {"span_id": "a" * 16}]


def test_the_type_of_the_event_stands_in_for_one_that_the_record_lacks(take: Taker, ledger: Ledger) -> None:
    take(body("message", {"text": "hi"}) | {"record_type": None})

    assert only(ledger).content == "hi"


def test_record_without_time_gets_that_of_the_record_before_or_the_file(
    take: Taker, ledger: Ledger, tmp_path: Path
) -> None:
    untimed = body("message", {"text": "1"}) | {"timestamp": None}

    take(untimed, body("thought"), untimed | {"record_index": 2}, path=tmp_path / "r.jsonl")

    found: list[Any] = [row.event for row in ledger.read()]
    assert [(one.at.timestamp(), one.at_basis) for one in found] == [
        (MTIME_S, "file"),
        (1_785_578_400.12, None),
        (1_785_578_400.12, None),
    ]


def test_a_pipe_has_no_time_for_a_record_that_has_none(take: Taker) -> None:
    report = take(body("thought") | {"timestamp": None}, body("thought", record_index=1))

    assert outcomes(report) == ["invalid", "appended"]
    assert said(report) == ["Expected a time; line 1 has none, and stdin has none - at `$.timestamp`"]


@pytest.mark.parametrize(("time", "seconds"), [(1_785_578_400, 1_785_578_400), (1_785_578_400_120, 1_785_578_400.12)])
def test_a_time_may_be_a_number_of_seconds_or_of_milliseconds(
    take: Taker, ledger: Ledger, time: int, seconds: float
) -> None:
    take(body("thought", timestamp=time))

    assert only(ledger).at.timestamp() == seconds


BAD: list[tuple[Any, str]] = [
    ("{torn", "Expected JSON: Expecting property name enclosed in double quotes, column 2"),
    ([1], "Expected `object`, got `array`"),
    ({"record_type": "message"}, "Object missing required field `session_id` - at `$`"),
    (body("message", session_id="unknown"), "Expected a session id, got 'unknown', which names no session"),
    (body("message", record_index=-1), "Expected `int` >= 0 - at `$.record_index`"),
    (body("message", record_index=True), "Expected `int | null`, got `bool` - at `$.record_index`"),
    (body("message", record_id="x"), "Expected `uuid`, got 'x' - at `$.record_id`"),
    (body("message", timestamp="soon"), "Expected a time, got 'soon' - at `$.timestamp`"),
    (body("message", timestamp=-5), "Expected a time from 1970 to 2200, got -5.0 - at `$.timestamp`"),
    (body("message") | {"attributes": []}, "Expected `object | null`, got `array` - at `$.attributes`"),
    (body("tool_call", {"id": 7}), "Expected `str | null`, got `int` - at `$.attributes.id`"),
    (body("tool_result", {"isError": "no"}), "Expected `bool | null`, got `str` - at `$.attributes.isError`"),
    (body("message", turn_id="t" * 257), "Expected `str` of length <= 256 - at `$.turn`"),
]  # fmt: skip


@pytest.mark.parametrize(("bad", "why"), BAD, ids=[str(at) for at in range(len(BAD))])
def test_bad_record_is_answered_with_its_place_and_others_are_imported(
    take: Taker, ledger: Ledger, bad: Any, why: str
) -> None:
    report = take(body("message", {"text": "1"}), bad, body("message", {"text": "2"}, record_index=1))

    document = report.as_dict()
    assert outcomes(report) == ["appended", "invalid", "appended"]
    assert document["receipts"][1]["line"] == 2
    assert document["receipts"][1]["reason"].startswith(why)
    assert (report.exit_code, document["counts"]) == (2, {"appended": 2, "invalid": 1})
    assert len(list(ledger.read())) == 2


POISON = {
    "NUL": ('"a\\u0000b"', "a\x00b"),
    "a lone surrogate": ('"\\ud800"', "\ud800"),
    "infinity": ("Infinity", float("inf")),
    "an integer without end": ("1" * 5_000, "1" * 5_000),
}


@pytest.mark.parametrize("poison", POISON)
def test_content_is_kept_whatever_it_holds(take: Taker, ledger: Ledger, poison: str) -> None:
    text, value = POISON[poison]
    line = json.dumps(body("tool_result", {"id": "c", "output": "@"})).replace('"@"', text)

    assert outcomes(take(line, line)) == ["appended", "duplicate"]
    assert only(ledger).output == value


def test_what_is_nested_too_deep_is_refused_alone(take: Taker) -> None:
    deep = json.dumps(body("tool_result", {"id": "c", "output": "@"})).replace('"@"', "[" * 100 + "]" * 100)
    bottomless = deep.replace("[" * 100, "[" * 200_000).replace("]" * 100, "]" * 200_000)

    report = take(deep, bottomless, body("message"))

    assert outcomes(report) == ["invalid", "invalid", "appended"]


def test_an_answer_of_the_query_endpoint_is_read_record_by_record(take: Taker, ledger: Ledger) -> None:
    stored = {"created_at": AT, "project_id": "p"}
    good = body("message", {"text": "1"}) | stored
    bad = body("message", record_index="x") | stored

    report = take({"count": 4, "records": [good, bad, 5, body("done", record_index=1) | stored]})

    document = report.as_dict()
    assert outcomes(report) == ["appended", "invalid", "invalid", "appended"]
    assert document["receipts"][1]["reason"] == "Expected `int | null`, got `str` - at `$.records[1].record_index`"
    assert document["receipts"][2]["reason"] == "Expected `object` - at `$.records[2]`"


def test_the_id_that_the_store_drew_for_a_delivery_names_no_fact(take: Taker, ledger: Ledger) -> None:
    """A retry without an id got two of them; the same record from a body has none."""
    drawn = ["0bd1a1a0-3c7f-4b51-9a64-1f4b6a9f0a01", "0bd1a1a0-3c7f-4b51-9a64-1f4b6a9f0a02"]
    row = body("message", {"text": "hello"}) | {"created_at": AT, "project_id": "p"}

    report = take(body("message", {"text": "hello"}), *(row | {"record_id": one} for one in drawn))

    assert outcomes(report) == ["appended", "duplicate", "duplicate"]


def test_drawn_id_is_in_the_body_only_if_nothing_else_names_the_record(take: Taker, ledger: Ledger) -> None:
    drawn = "0bd1a1a0-3c7f-4b51-9a64-1f4b6a9f0a01"
    other = drawn.replace("01", "02")
    loose = body("message", {"text": "hello"}) | {"created_at": AT, "record_id": other, "turn_id": None}

    take(body("message", {"text": "hello"}, record_id=drawn), loose)

    assert [row.id for row in ledger.read() if row.type == "message.recorded"] == [drawn, other]


def test_gap_in_the_stores_rows_proves_nothing_and_one_in_bodies_does(take: Taker, ledger: Ledger) -> None:
    """The store keeps the first index of a call that it repaired; that of the repair is nowhere."""
    bodies_ = [body("thought", {"text": "1"}), body("done", record_index=2)]

    take(*bodies_)
    alone = completeness_of(rows(ledger))
    take(*(one | {"created_at": AT, "project_id": "p"} for one in bodies_))

    assert alone.state == "incomplete"
    assert completeness_of(rows(ledger)).state == "unknown"


def test_a_repeat_under_an_index_of_its_own_is_one_fact_and_no_hole(take: Taker, ledger: Ledger) -> None:
    """Sequence 2.7: an answer that is sent again takes the next index."""
    answer = {"id": "gate", "kind": "user_approval", "payload": {"approved": True}}
    given = record_id("sess-1", "gate", "interaction_response", "turn-1")
    sent = [body("interaction_response", answer, record_id=given, record_index=at) for at in (0, 1)]

    first = take(*sent, body("done", record_index=2))
    again = take(*sent, body("done", record_index=2))

    assert (outcomes(first), outcomes(again)) == (["appended", "duplicate", "appended"], ["duplicate"] * 3)
    assert completeness_of(rows(ledger)) == Completeness("complete")
    [mark] = [row for row in ledger.read() if row.type == "data.recorded"]
    said_: Any = mark.event
    assert (said_.turn, said_.index, said_.name) == ("turn-1", 1, "repeated")


def test_a_stale_state_that_comes_again_is_no_new_event(take: Taker, ledger: Ledger) -> None:
    given = record_id("sess-1", "call_1", "tool_call", "turn-1")
    sent = [body("tool_call", TOOL_CALL | {"input": one}, record_id=given) for one in ({"command": "ls"}, {})]

    first, again = take(*sent), take(*sent)

    assert (outcomes(first), first.appended) == (["appended", "stale"], 2)
    assert (outcomes(again), again.appended, len(rows(ledger))) == (["duplicate", "stale"], 0, 2)


def test_a_row_of_a_call_keeps_its_id_even_if_it_was_drawn(take: Taker, ledger: Ledger) -> None:
    """Other runners may send ids of their own for what Agenta's derives."""
    drawn = "0bd1a1a0-3c7f-4b51-9a64-1f4b6a9f0a01"

    take(body("tool_call", TOOL_CALL, record_id=drawn) | {"created_at": AT})

    assert drawn in [row.id for row in ledger.read()]


def test_a_row_of_the_store_leaves_no_mark_at_the_index_of_its_first_state(take: Taker, ledger: Ledger) -> None:
    """A legacy id that came again in another turn: the store moved its row's turn, and kept the index of the first."""
    given = legacy_record_id("sess-1", "call_1", "tool_call")
    first = body("tool_call", TOOL_CALL, record_id=given, record_index=5)
    moved = first | {"turn_id": "turn-2"}

    take(first, moved | {"record_index": 1})
    report = take(moved | {"created_at": AT, "project_id": "p"})

    assert outcomes(report) == ["duplicate"]
    found: list[Any] = [row.event for row in ledger.read() if row.type == "data.recorded"]
    assert [one.name for one in found] == ["overwriting-store"]


def test_records_of_a_store_that_overwrites_are_never_known_to_be_whole(ledger: Ledger, take: Taker) -> None:
    """Not even where no index is missing: what an upsert replaced is not among them, and the order is its own."""
    take(body("message", {"text": "hi"}, created_at=AT), body("done", record_index=1, created_at=AT))

    said = ledger.transcript("agenta:sess-1").as_dict()

    assert (said["completeness"], said["snapshots"], said["order"]) == ("unknown", "unknown", "last-write")
    with pytest.raises(IncompleteTranscriptError, match="earlier snapshots are unknown"):
        ledger.transcript("agenta:sess-1", require_complete=True)


def test_deliveries_themselves_have_all_snapshots(ledger: Ledger, take: Taker) -> None:
    take(body("message", {"text": "hi"}), body("done", record_index=1))

    said = ledger.transcript("agenta:sess-1", require_complete=True).as_dict()

    assert said["completeness"] == "complete"
    assert "snapshots" not in said
