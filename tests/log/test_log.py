from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from eventsourcing.dcb.api import DCBQuery, DCBQueryItem
from tests.log.conftest import START_US
from tests.log.facts import call, exposure, grade
from tests.log.memory import MemoryRecorder, MemoryView

from rightful import limits
from rightful.encoding import envelope
from rightful.errors import BusyError, ConditionFailedError, OutcomeUnknownError, UsageError
from rightful.events import ExposureRecorded
from rightful.field_types import ArmShown
from rightful.identity import event_id
from rightful.log.log import Log, now_us
from rightful.log.rows import Receipt, Stored
from rightful.storage.port import Decision
from rightful.times import at_of, us_of

OF_A = DCBQuery(items=[DCBQueryItem(types=["grade.recorded"], tags=["session:t:a"])])


def outcomes(receipts: list[Receipt]) -> list[str]:
    return [receipt.outcome for receipt in receipts]


# -- receipts ----------------------------------------------------------------------------------


def test_a_batch_is_one_transaction_with_a_receipt_for_each_in_order(log: Log, recorder: MemoryRecorder) -> None:
    receipts = log.append([exposure("a"), grade("b"), exposure("a")])

    assert receipts == [
        Receipt(event_id("hook", "a"), "appended", 1, 1),
        Receipt(event_id("hook", "b"), "appended", 2, 2),
        Receipt(event_id("hook", "a"), "duplicate", 1, 1),
    ]
    assert recorder.commits == 1


def test_one_bad_event_gets_its_place_and_touches_no_neighbour(log: Log) -> None:
    bad = grade("b", reward=1.5)

    receipts = log.append([grade("a"), bad, grade("c", reward="x"), grade("d")])

    assert outcomes(receipts) == ["appended", "invalid", "invalid", "appended"]
    assert receipts[1] == Receipt(None, "invalid", None, None, "Expected `float` <= 1.0 - at `$.reward`")
    assert [receipt.position for receipt in receipts] == [1, None, None, 2]
    assert log.append([bad])[0].outcome == "invalid"


@pytest.mark.parametrize("nonsense", [None, 5, "[]", b"{}", [], {}, {"type": "no.such"}, {5: 5}, {"\ud800": 1}])
def test_what_is_no_event_at_all_is_invalid_and_nothing_is_raised(log: Log, nonsense: Any) -> None:
    assert outcomes(log.append([nonsense, grade()])) == ["invalid", "appended"]


@pytest.mark.parametrize(
    ("fields", "place"),
    [({"turn": "\ud800"}, "$.turn"), ({"session": "t:\ud800"}, "$.session"), ({"rubric": "\ud800"}, "$.rubric")],
)
def test_a_name_with_half_a_character_is_invalid_at_its_place(log: Log, fields: dict[str, Any], place: str) -> None:
    [bad, good] = log.append([grade("a", **fields), grade("b")])

    assert (bad.outcome, good.outcome) == ("invalid", "appended")
    assert (bad.reason or "").endswith(f"- at `{place}`")


def test_structs_and_wire_objects_are_the_same_fact(log: Log) -> None:
    struct = ExposureRecorded(
        producer="hook",
        key="k",
        session="t:a",
        at=at_of(START_US),
        arms=(ArmShown("lessons/git.md"),),
    )

    assert outcomes(log.append([struct, exposure("k")])) == ["appended", "duplicate"]


def test_structs_are_checked_too_down_to_the_structs_inside(log: Log) -> None:
    def shown(arms: Any) -> ExposureRecorded:
        return ExposureRecorded(producer="hook", key="k", session="t:a", at=at_of(START_US), arms=arms)

    wrong: list[Any] = [shown((ArmShown("a", 5.0),)), exposure(arms=[ArmShown("a", 5.0)]), shown({ArmShown("a")})]

    assert [receipt.reason for receipt in log.append(wrong)] == [
        "Expected `float` <= 1.0 - at `$.arms[0].p_inject`",
        "Expected `float` <= 1.0 - at `$.arms[0].p_inject`",
        "Expected `array` or `object`, got `set` - at `$.arms`",
    ]


def test_nothing_is_nothing(log: Log, recorder: MemoryRecorder) -> None:
    assert log.append([]) == []
    assert log.append([{}])[0].outcome == "invalid"
    assert (recorder.commits, log.head()) == (0, 0)


def test_a_generator_is_taken_once(log: Log) -> None:
    assert outcomes(log.append(grade(key) for key in "ab")) == ["appended", "appended"]


def test_an_append_holds_as_many_events_as_the_limit_says_and_not_one_more(log: Log) -> None:
    bad: list[dict[str, Any]] = [{}] * limits.BATCH_EVENTS

    assert len(log.append(bad)) == limits.BATCH_EVENTS
    with pytest.raises(UsageError, match="One append takes at most 100000"):
        log.append([*bad, grade()])
    assert log.head() == 0


# -- what is stored ----------------------------------------------------------------------------


def test_a_row_is_an_envelope_and_a_payload_kept_apart(log: Log, recorder: MemoryRecorder) -> None:
    log.append([call("ls", index=3, at_basis="file", alias=True)])

    [event] = recorder.events
    row = envelope.decode(event.data)
    assert event.type == "tool_call.snapshotted"
    assert event.tags == [f"id:{row.id}", "session:t:a"]
    assert event.payload is not None
    assert event.payload[32:] == b'{"alias":true,"call":"c1","name":"bash","arguments":"ls"}'
    assert (row.id, row.revision, row.type, row.schema) == (event_id("hook", "k"), 1, "tool_call.snapshotted", 1)
    assert (row.producer, row.session, row.turn, row.index) == ("hook", "t:a", "1", 3)
    assert (row.at_basis, row.recorded_at_us, row.outcome, row.first) == ("file", START_US, "appended", 0)
    assert row.body_bytes == len(event.payload) - 32
    assert row.commitment == hashlib.sha256(event.payload).hexdigest()


def test_a_row_without_a_session_has_no_session_tag(log: Log, recorder: MemoryRecorder) -> None:
    opened = {"type": "balance.opened", "producer": "x", "key": "k", "at": "2026-08-01T10:15:00Z"}

    log.append([opened | {"arms": {}, "source": "s", "sha256": "0" * 64}])

    assert recorder.events[0].tags == [f"id:{event_id('x', 'k')}"]


def test_each_row_of_a_batch_has_a_salt_of_its_own(recorder: MemoryRecorder) -> None:
    asked: list[int] = []

    def entropy(count: int) -> bytes:
        asked.append(count)
        return os.urandom(count)

    Log(recorder, entropy=entropy).append([grade("a"), {}, grade("b")])

    salts = {(event.payload or b"")[:32] for event in recorder.events}
    assert asked == [96]
    assert [len(salt) for salt in salts] == [32, 32]


def test_content_that_json_cannot_hold_is_flagged_in_the_envelope(log: Log, recorder: MemoryRecorder) -> None:
    log.append([call({"a": float("nan"), "b": "\ud800"}), call({"a": 1}, key="plain")])

    assert [envelope.decode(event.data).escaped for event in recorder.events] == [True, False]


# -- time --------------------------------------------------------------------------------------


def test_recorded_at_never_goes_back_when_the_clock_does(recorder: MemoryRecorder) -> None:
    times = iter([5_000_000, 3_000_000, 7_000_000])
    log = Log(recorder, clock=lambda: next(times))

    for key in "abc":
        log.append([grade(key)])

    assert [us_of(row.recorded_at) for row in log.read()] == [5_000_000, 5_000_000, 7_000_000]


def test_all_rows_of_one_transaction_are_recorded_at_one_time(log: Log) -> None:
    log.append([grade("a"), grade("b")])

    assert len({row.recorded_at for row in log.read()}) == 1


def test_the_clock_is_the_systems_unless_another_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time_ns", lambda: 1_234_567_890_123)

    assert now_us() == 1_234_567_890


# -- conditions --------------------------------------------------------------------------------


def test_a_condition_that_fits_a_later_row_writes_nothing(log: Log) -> None:
    log.append([grade("a")])

    with pytest.raises(ConditionFailedError) as caught:
        log.append([grade("b", seq=2), exposure("c")], unless=OF_A, after=0)
    assert caught.value.after == 0
    assert log.head() == 1
    assert caught.value.exit_code == 3


def test_a_condition_sees_only_what_stands_after_its_position(log: Log) -> None:
    log.append([grade("a")])

    assert outcomes(log.append([grade("b", seq=2)], unless=OF_A, after=1)) == ["appended"]


def test_the_id_is_looked_up_before_any_condition(log: Log) -> None:
    """A retry after a lost answer finds its own row, which would fail its own condition."""
    log.append([grade("a")], unless=OF_A, after=0)

    assert outcomes(log.append([grade("a")], unless=OF_A, after=0)) == ["duplicate"]


def test_a_condition_keeps_a_conflict_out_too(log: Log) -> None:
    log.append([grade("a", reward=0.8)])

    with pytest.raises(ConditionFailedError):
        log.append([grade("a", reward=0.9)], unless=OF_A, after=0)
    assert [row.outcome for row in log.read()] == ["appended"]


def test_events_that_must_be_new_are_refused_together_if_one_id_exists(log: Log) -> None:
    log.append([grade("a", reward=0.8)])

    for batch in ([grade("b"), grade("a", reward=0.9)], [grade("b"), grade("a", reward=0.8)]):
        with pytest.raises(ConditionFailedError):
            log.append(batch, all_new=True)
    assert log.head() == 1


def test_events_that_must_be_new_are_written_once_and_found_when_resent(log: Log) -> None:
    """A batch that names one id twice is not in its own way: only what stood before it counts."""
    batch = [grade("a"), grade("b"), grade("a")]

    assert outcomes(log.append(batch, all_new=True)) == ["appended", "appended", "duplicate"]
    assert outcomes(log.append(batch, all_new=True)) == ["duplicate"] * 3
    assert log.head() == 2


# -- failures ----------------------------------------------------------------------------------


class Failing(MemoryRecorder):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error
        self.timeouts: list[float | None] = []

    def decide(self, decision: Decision, *, timeout_s: float | None = limits.WAIT_S, inline: bool = False) -> int:
        self.timeouts.append(timeout_s)
        raise self.error


def test_an_unknown_outcome_names_the_ids_that_were_sent() -> None:
    recorder = Failing(OutcomeUnknownError("/there", (), "EIO"))

    with pytest.raises(OutcomeUnknownError) as caught:
        Log(recorder).append([grade("a"), {}, grade("b")])
    assert caught.value.ids == (event_id("hook", "a"), event_id("hook", "b"))
    assert (caught.value.path, caught.value.why) == ("/there", "EIO")


def test_a_busy_store_is_the_callers_to_hear_and_so_is_how_long_it_waits() -> None:
    recorder = Failing(BusyError("/there", 0.5))

    with pytest.raises(BusyError):
        Log(recorder).append([grade()], timeout_s=0.5)
    with pytest.raises(BusyError):
        Log(recorder).append([grade()])
    assert recorder.timeouts == [0.5, limits.WAIT_S]


def test_a_decision_that_is_made_again_answers_for_the_last_time_alone(clock: Callable[[], int]) -> None:
    log = Log(MemoryRecorder(calls=3), clock=clock)

    assert outcomes(log.append([call("a"), call("ab"), call("a")])) == ["appended", "refined", "duplicate"]
    assert [row.position for row in log.read()] == [1, 2]


class Retrying(MemoryRecorder):
    """Calls the decision, loses the commit to somebody else's row, and calls it again."""

    def decide(self, decision: Decision, *, timeout_s: float | None = limits.WAIT_S, inline: bool = False) -> int:
        if self.commits == 0:
            decision(MemoryView(self.events))
            self.commits = 1
            Log(self).append([grade("a")])
        return super().decide(decision, timeout_s=timeout_s, inline=inline)


def test_receipts_are_those_of_the_decision_that_was_written() -> None:
    receipts = Log(Retrying()).append([grade("a"), grade("b")])

    assert [(receipt.outcome, receipt.position) for receipt in receipts] == [("duplicate", 1), ("appended", 2)]


def test_who_asks_gets_the_rows_that_were_written_as_they_are_read(clock: Callable[[], int]) -> None:
    log, rows = Log(MemoryRecorder(calls=2), clock=clock), list[Stored]()

    log.append([call("a"), {}, call("ab"), call("a"), call("b")], wrote=rows)
    log.append([call("a")], wrote=rows)
    with pytest.raises(ConditionFailedError):
        log.append([grade("a")], unless=DCBQuery(), wrote=rows)

    assert [row.envelope.outcome for row in rows] == ["appended", "refined", "conflict"]
    assert rows == [row for page in log.scan() for row in page]


def test_a_row_of_a_newer_envelope_does_not_stop_appending(log: Log, recorder: MemoryRecorder) -> None:
    """A newer program wrote the last row; ours goes on behind it."""
    log.append([grade("a")])
    row = msgspec.json.decode(recorder.events[0].data)
    row |= {"v": 9, "schema": 9, "novel": {"x": 1}, "recorded_at_us": START_US * 2}
    recorder.events[0].data = msgspec.json.encode(row)

    assert outcomes(log.append([grade("b")])) == ["appended"]
    assert [us_of(row.recorded_at) for row in log.read()] == [START_US * 2] * 2


@pytest.mark.parametrize("one", [exposure("1"), b"{}", "{}"], ids=["wire", "bytes", "text"])
def test_one_event_outside_a_list_is_refused_and_not_taken_apart(log: Log, one: Any) -> None:
    with pytest.raises(UsageError, match="Expected a list of events"):
        log.append(one)

    assert log.head() == 0
