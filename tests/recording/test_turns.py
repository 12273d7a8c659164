"""The turn recorder: what it records, under which index and id, and how it ends."""

from __future__ import annotations

import threading
import weakref

import pytest
from tests.contracts.support import PATIENCE_S
from tests.importers.recording import SESSION, Gate, completeness, events, turn

import rightful
from rightful import limits
from rightful.errors import InvalidEventError, StoreFullError, UsageError
from rightful.ledger import Ledger
from rightful.projections.facts.completeness import Completeness, Hole


def test_a_turn_holds_what_was_said_in_its_order_and_its_end_counts_it(ledger: Ledger) -> None:
    with turn(ledger, previous=None) as recorder:
        recorder.message("user", "list the files")
        recorder.thought("they want ls")
        recorder.tool_call("c1", name="bash", arguments={"command": "ls"})
        recorder.requested("g1", {"call": "c1"}, kind="user_approval")
        recorder.answered("g1", {"approved": True}, kind="user_approval")
        recorder.tool_result("c1", "README.md", complete=True)
        recorder.usage({"input_tokens": 3}, of="r1")
        recorder.error("too slow")
        recorder.data("mode", "plan")

    found = events(ledger)
    assert [one.__struct_config__.tag for one in found] == [
        "message.recorded", "thought.recorded", "tool_call.snapshotted", "interaction.requested",
        "interaction.answered", "tool_result.snapshotted", "usage.recorded", "error.recorded", "data.recorded",
        "turn.ended",
    ]  # fmt: skip
    assert [one.index for one in found] == list(range(10))
    assert {(one.producer, one.session, one.turn) for one in found} == {("my-runner", SESSION, "1")}
    assert (found[-1].event_count, found[-1].dropped_count, found[-1].stop_reason) == (10, 0, None)
    assert completeness(ledger) == Completeness("complete")


def test_the_ids_are_those_that_the_producers_single_calls_give(ledger: Ledger) -> None:
    with turn(ledger) as recorder:
        recorder.message("user", "hi")
        recorder.tool_call("c1", name="bash")

    producer = ledger.producer("my-runner")
    assert producer.message(SESSION, "user", "hi", turn="1", index=0).outcome == "duplicate"
    assert producer.tool_call(SESSION, "c1", name="bash", turn="1").outcome == "duplicate"


def test_a_receipt_is_given_once_the_event_is_durable_and_not_before(ledger: Ledger, gate: Gate) -> None:
    gate.open.clear()
    with turn(ledger) as recorder:
        answer = recorder.message("user", "hi")
        assert gate.entered.wait(PATIENCE_S)
        assert not answer.done()
        gate.open.set()
        receipt = answer.result(PATIENCE_S)

    assert (receipt.outcome, receipt.position) == ("appended", 1)
    assert next(row.id for row in ledger.read()) == receipt.id


def test_what_was_taken_can_not_be_cancelled(ledger: Ledger, gate: Gate) -> None:
    gate.open.clear()
    with turn(ledger) as recorder:
        assert not recorder.message("user", "hi").cancel()
        gate.open.set()

    assert len(events(ledger)) == 2


def test_flush_returns_when_all_is_durable(ledger: Ledger) -> None:
    with turn(ledger) as recorder:
        answers = [recorder.message("user", str(at)) for at in range(50)]
        recorder.flush()

        assert all(answer.done() for answer in answers)
        assert len(events(ledger)) == 50


def test_many_events_share_a_transaction(ledger: Ledger, gate: Gate) -> None:
    with turn(ledger) as recorder:
        gate.open.clear()
        recorder.message("user", "first")
        assert gate.entered.wait(PATIENCE_S)
        for at in range(limits.INGEST_EVENTS + 5):
            recorder.message("user", str(at))
        gate.open.set()
        recorder.flush()

    assert gate.sizes == [1, limits.INGEST_EVENTS, 5, 1]


def test_a_transaction_holds_no_more_than_its_bytes(
    ledger: Ledger, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "INGEST_BYTES", 2_000)
    with turn(ledger) as recorder:
        gate.open.clear()
        recorder.message("user", "first")
        assert gate.entered.wait(PATIENCE_S)
        for at in range(4):
            recorder.message("user", f"{at}" * 900)
        gate.open.set()

    assert gate.sizes == [1, 2, 3]


def test_threads_share_a_turn_and_no_index_is_given_twice(ledger: Ledger) -> None:
    with turn(ledger) as recorder:

        def talk(name: str) -> None:
            for at in range(200):
                recorder.message("user", f"{name} {at}")

        threads = [threading.Thread(target=talk, args=(str(name),)) for name in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    found = events(ledger)
    assert [one.index for one in found] == list(range(1_601))
    for name in range(8):
        mine = [one.content for one in found[:-1] if one.content.startswith(f"{name} ")]
        assert mine == [f"{name} {at}" for at in range(200)]


def test_a_growing_call_is_one_fact_and_each_state_has_its_index(ledger: Ledger) -> None:
    with turn(ledger) as recorder:
        answers = [
            recorder.tool_call("c1", arguments={}),
            recorder.tool_call("c1", name="bash", arguments={"command": "ls"}),
        ]

    assert [answer.result().outcome for answer in answers] == ["appended", "refined"]
    assert completeness(ledger) == Completeness("complete")


def test_an_equal_state_that_is_recorded_again_takes_no_index(ledger: Ledger) -> None:
    """The ledger stores it once, so an index of its own would look like a hole."""
    with turn(ledger) as recorder:
        first = recorder.tool_call("c1", name="bash")
        recorder.tool_call("c1", name="bash", complete=True)
        again = recorder.tool_call("c1", name="bash")

    assert again is first
    assert completeness(ledger) == Completeness("complete")
    assert events(ledger)[-1].event_count == 3


def test_equal_messages_are_two_facts_unless_a_key_says_otherwise(ledger: Ledger) -> None:
    with turn(ledger) as recorder:
        recorder.message("user", "yes")
        recorder.message("user", "yes")
        recorder.message("assistant", "he", key="m1")
        recorder.message("assistant", "hello", key="m1")

    rows = list(ledger.read())
    assert [row.outcome for row in rows] == ["appended", "appended", "appended", "refined", "appended"]
    assert len({row.id for row in rows}) == 4


def test_what_is_recorded_is_a_copy(ledger: Ledger, gate: Gate) -> None:
    gate.open.clear()
    arguments = {"command": "ls", "list": [1]}
    with turn(ledger) as recorder:
        recorder.message("user", "first")
        recorder.tool_call("c1", arguments=arguments)
        arguments["command"] = "rm"
        arguments["list"].append(2)  # type: ignore[attr-defined]
        gate.open.set()

    assert events(ledger)[1].arguments == {"command": "ls", "list": [1]}


def test_content_is_kept_whatever_it_holds(ledger: Ledger) -> None:
    odd = {"nul": "\x00", "lone": "\ud800", "inf": float("inf"), "big": 2**70, "$int": 1}
    with turn(ledger) as recorder:
        recorder.tool_result("c1", odd)

    assert events(ledger)[0].output == odd


def test_what_does_not_fit_is_refused_at_once_and_has_no_index(ledger: Ledger) -> None:
    with turn(ledger) as recorder:
        recorder.message("user", "1")
        with pytest.raises(InvalidEventError) as refused:
            recorder.tool_call("")
        with pytest.raises(InvalidEventError):
            recorder.message("user", {1: 2})
        with pytest.raises(InvalidEventError):
            recorder.message("user", "x" * (limits.EVENT_BYTES + 1))
        for given in ("type", "id", "key", "index"):
            with pytest.raises(UsageError, match="The turn sets type, producer"):
                recorder.tool_call("c1", **{given: "7"})
        recorder.message("user", "2")

    assert refused.value.place == "$.call"
    assert completeness(ledger) == Completeness("complete")
    assert len(events(ledger)) == 3


@pytest.mark.parametrize(("session", "name"), [("no namespace", "1"), ("runner:a", ""), ("runner:a", "t" * 257)])
def test_a_turn_with_an_unfit_name_is_not_begun(ledger: Ledger, session: str, name: str) -> None:
    with pytest.raises(InvalidEventError):
        ledger.producer("my-runner").turn(session, name)


def test_an_exception_closes_the_turn_and_its_end_says_so(ledger: Ledger) -> None:
    def fail() -> None:
        with turn(ledger) as recorder:
            recorder.message("user", "hi")
            raise KeyError

    with pytest.raises(KeyError):
        fail()

    assert events(ledger)[-1].stop_reason == "exception: KeyError"
    assert completeness(ledger) == Completeness("complete")


def test_an_exception_is_not_hidden_by_a_turn_that_can_not_be_closed(ledger: Ledger, gate: Gate) -> None:
    recorder = turn(ledger)

    def fail() -> None:
        with recorder:
            gate.error = StoreFullError("/l", "ENOSPC")
            raise KeyError

    with pytest.raises(KeyError) as raised:
        fail()
    gate.error = None
    recorder.close()

    assert raised.value.__notes__[0].startswith(f"Turn 1 of {SESSION} was not closed: No space left")


def test_a_ledger_that_is_closed_writes_what_its_turns_still_hold(ledger: Ledger, gate: Gate) -> None:
    """Who closes the ledger before the turn loses the turn's end, and nothing that was taken."""
    recorder = turn(ledger)
    gate.error = StoreFullError("/l", "ENOSPC")
    recorder.message("user", "hi")
    with pytest.raises(StoreFullError):
        recorder.flush()
    gate.error = None
    ledger.close()

    with rightful.open(ledger.path) as again:
        assert [one.content for one in events(again)] == ["hi"]


def test_what_a_closed_ledger_could_not_write_is_said(ledger: Ledger, gate: Gate) -> None:
    recorder = turn(ledger)
    gate.error = StoreFullError("/l", "ENOSPC")
    answer = recorder.message("user", "hi")

    with pytest.warns(RuntimeWarning, match=r"1 event\(s\) were not written: No space left"):
        ledger.close()
    assert not answer.done()
    recorder._outbox.drop_queued(None)  # else the end of the tests would warn again


def test_a_closed_turn_takes_nothing_more_and_closing_again_is_nothing(ledger: Ledger) -> None:
    with turn(ledger) as recorder:
        recorder.message("user", "hi")
    recorder.close()

    with pytest.raises(UsageError, match=r"Turn 1 is closed\. The event was not recorded"):
        recorder.message("user", "late")
    assert len(events(ledger)) == 2


def test_a_lost_turn_is_seen_by_the_next(ledger: Ledger) -> None:
    with turn(ledger, "2", previous="1") as recorder:
        recorder.message("user", "hi")

    assert completeness(ledger).holes == (Hole("1", "missing"),)


def test_closing_ends_the_thread_and_so_does_forgetting_the_recorder(ledger: Ledger) -> None:
    before = set(threading.enumerate())

    def threads() -> list[threading.Thread]:
        return [one for one in threading.enumerate() if one.name == "rightful outbox" and one not in before]

    with turn(ledger) as recorder:
        recorder.message("user", "hi")
    closed = threads()
    left = turn(ledger, "2")
    left.message("user", "hi")
    left.flush()
    [mine] = threads()
    gone = weakref.ref(left)
    del left
    mine.join(PATIENCE_S)

    assert (closed, gone(), mine.is_alive()) == ([], None, False)
