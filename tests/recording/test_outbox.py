"""Room, failures and what is given up: nothing that was taken is dropped silently."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any

import pytest
from tests.contracts.support import PATIENCE_S
from tests.importers.recording import Gate, completeness, events, turn

from rightful import limits
from rightful.errors import BacklogError, BusyError, InvalidEventError, StorageError, StoreFullError, UsageError
from rightful.ledger import Ledger
from rightful.log.rows import Receipt
from rightful.projections.facts.completeness import Completeness, Hole
from rightful.recording.outbox import Outbox
from rightful.recording.turn_recorder import TurnRecorder


def fill(recorder: TurnRecorder, gate: Gate) -> None:
    """Let as many events wait as there is room for, while nothing is written."""
    gate.open.clear()
    for at in range(limits.OUTBOX_EVENTS):
        recorder.message("user", str(at))


def test_who_writes_faster_than_the_disk_waits_for_room_and_loses_nothing(
    ledger: Ledger, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "OUTBOX_EVENTS", 3)
    gate.open.clear()
    with turn(ledger) as recorder:
        talker = threading.Thread(target=lambda: [recorder.message("user", str(at)) for at in range(50)])
        talker.start()
        assert gate.entered.wait(PATIENCE_S)
        gate.open.set()
        talker.join(PATIENCE_S)

    assert [one.content for one in events(ledger)[:-1]] == [str(at) for at in range(50)]
    assert max(gate.sizes) <= 4  # the end of the turn always has room


def test_full_turn_with_a_timeout_refuses_the_event(
    ledger: Ledger, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "OUTBOX_EVENTS", 3)
    with turn(ledger, timeout_s=0.01) as recorder:
        fill(recorder, gate)
        with pytest.raises(BacklogError) as full:
            recorder.message("user", "one more")
        gate.open.set()
        recorder.flush()

    assert (full.value.waiting, full.value.waited_s) == (3, 0.01)
    assert str(full.value).endswith("after 0.01 s: this event was not accepted. Try again.")
    assert completeness(ledger) == Completeness("complete")
    assert len(events(ledger)) == 4


def test_bytes_need_room_too_and_one_event_always_has_it(
    ledger: Ledger, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "OUTBOX_BYTES", 1_000)
    with turn(ledger, timeout_s=0.01) as recorder:
        gate.open.clear()
        recorder.message("user", "x" * 5_000)
        with pytest.raises(BacklogError):
            recorder.message("user", "y")
        gate.open.set()

    assert len(events(ledger)) == 2


def test_a_flush_with_a_timeout_says_what_still_waits(ledger: Ledger, gate: Gate) -> None:
    gate.open.clear()
    with turn(ledger) as recorder:
        recorder.message("user", "hi")
        with pytest.raises(BacklogError, match=r"1 event.* after 0\.01 s: they remain queued and are written as soon"):
            recorder.flush(timeout_s=0.01)
        gate.open.set()

    assert len(events(ledger)) == 2


def test_the_writing_thread_does_not_wait_for_itself(ledger: Ledger, gate: Gate) -> None:
    found: list[Exception] = []

    def flush(_: object) -> None:
        try:
            recorder.flush()
        except UsageError as error:
            found.append(error)

    with turn(ledger) as recorder:
        gate.open.clear()
        recorder.message("user", "hi").add_done_callback(flush)
        gate.open.set()

    assert len(found) == 1


def test_an_answer_can_be_awaited(ledger: Ledger) -> None:
    async def talk() -> str:
        with turn(ledger) as recorder:
            return (await asyncio.wrap_future(recorder.message("user", "hi"))).outcome

    assert asyncio.run(talk()) == "appended"


def test_storage_error_reaches_the_flush_and_events_keep_their_ids(ledger: Ledger, gate: Gate) -> None:
    gate.error = StoreFullError("/l", "ENOSPC")
    with turn(ledger) as recorder:
        answer = recorder.message("user", "hi")
        with pytest.raises(StoreFullError, match="ENOSPC"):
            recorder.flush()
        waited = answer.done()
        gate.error = None
        recorder.flush()

        assert (waited, answer.result(0).outcome) == (False, "appended")
    assert completeness(ledger) == Completeness("complete")


def test_what_failed_is_tried_again_by_itself(ledger: Ledger, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "OUTBOX_AGAIN_S", 0.0)
    gate.error = BusyError("/l", 30.0)
    with turn(ledger) as recorder:
        answer = recorder.message("user", "hi")
        assert gate.entered.wait(PATIENCE_S)
        gate.error = None

        assert answer.result(PATIENCE_S).outcome == "appended"


def test_who_finds_no_room_because_nothing_can_be_written_hears_why(
    ledger: Ledger, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "OUTBOX_EVENTS", 1)
    gate.error = OSError("odd")
    with turn(ledger) as recorder:
        recorder.message("user", "hi")
        with pytest.raises(StorageError, match=r"the queue could not be written \(OSError: odd\)"):
            recorder.message("user", "one more")
        gate.error = None

    assert [one.content for one in events(ledger)[:-1]] == ["hi"]


def test_a_turn_that_could_not_be_closed_is_closed_later(ledger: Ledger, gate: Gate) -> None:
    recorder = turn(ledger)
    recorder.message("user", "hi")
    recorder.flush()
    gate.error = StoreFullError("/l", "ENOSPC")
    with pytest.raises(StoreFullError):
        recorder.close("done")
    gate.error = None
    recorder.close()

    assert [one.index for one in events(ledger)] == [0, 1]
    assert events(ledger)[-1].stop_reason == "done"


def test_what_is_given_up_is_counted_by_the_end(ledger: Ledger, gate: Gate) -> None:
    recorder = turn(ledger)
    recorder.message("user", "written")
    recorder.flush()
    gate.error, gate.fails_with = StoreFullError("/l", "ENOSPC"), "lost"
    lost = recorder.message("user", "lost")
    for _ in range(2):
        with pytest.raises(StoreFullError):
            recorder.close()
    recorder.close("disk full", drop=True)

    end = events(ledger)[-1]
    assert (end.event_count, end.dropped_count, end.stop_reason) == (3, 1, "disk full")
    assert isinstance(lost.exception(0), StorageError)
    assert completeness(ledger).holes == (Hole("1", "missing", ((1, 1),), 1), Hole("1", "dropped", (), 1))


def test_write_in_progress_is_kept_and_waited_for_up_to_the_timeout(ledger: Ledger, gate: Gate) -> None:
    recorder = turn(ledger)
    gate.open.clear()
    recorder.message("user", "hi")
    assert gate.entered.wait(PATIENCE_S)
    with pytest.raises(BacklogError, match="events that are being written cannot be dropped"):
        recorder.close(drop=True, timeout_s=0.01)
    gate.open.set()
    recorder.close(drop=True)

    assert completeness(ledger) == Completeness("complete")


def test_nothing_is_given_up_that_can_be_written(ledger: Ledger) -> None:
    recorder = turn(ledger)
    recorder.message("user", "hi")
    recorder.close(drop=True)

    assert events(ledger)[-1].dropped_count == 0
    assert completeness(ledger) == Completeness("complete")


def test_what_the_runner_itself_lost_is_counted_by_the_end(ledger: Ledger) -> None:
    with turn(ledger) as recorder:
        recorder.dropped(2)
        recorder.dropped()

    assert events(ledger)[-1].dropped_count == 3


@pytest.mark.parametrize("count", [-1, True, 1.5, 2**53])
def test_what_is_no_number_of_lost_events_is_refused_when_it_is_said(ledger: Ledger, count: Any) -> None:
    """Taken, it would make an end that can never be written."""
    with turn(ledger) as recorder, pytest.raises(UsageError, match="Invalid number of events"):
        recorder.dropped(count)

    assert events(ledger)[-1].dropped_count == 0


def test_a_loss_that_the_end_cannot_count_any_more_is_refused(ledger: Ledger, gate: Gate) -> None:
    recorder = turn(ledger)
    gate.error = StoreFullError("/l", "ENOSPC")
    with pytest.raises(StoreFullError):
        recorder.close()
    with pytest.raises(UsageError, match=r"Turn 1 is closed\. Its end does not count these 2"):
        recorder.dropped(2)
    gate.error = None
    recorder.close()

    assert events(ledger)[-1].dropped_count == 0


def test_what_is_written_makes_room_again(ledger: Ledger, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "OUTBOX_BYTES", 1_000)
    with turn(ledger, timeout_s=0.01) as recorder:
        for _ in range(3):
            recorder.message("user", "x" * 600)
            recorder.flush()
        gate.open.clear()
        recorder.message("user", "a")
        recorder.message("user", "b")
        gate.open.set()

    assert len(events(ledger)) == 6


def test_event_found_invalid_by_the_ledger_is_reported_as_dropped(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = ledger.log.append

    def refusing(batch: Any, **more: Any) -> Any:
        if "odd" in str(batch):
            return [Receipt(None, "invalid", None, None, "Expected something else") for _ in batch]
        return append(batch, **more)

    monkeypatch.setattr(ledger.log, "append", refusing)
    with turn(ledger) as recorder:
        answer = recorder.message("user", "odd")
        recorder.flush()

    assert isinstance(answer.exception(0), InvalidEventError)
    assert events(ledger)[-1].dropped_count == 1


def test_whatever_writing_raises_reaches_who_waits_and_the_events_stay(ledger: Ledger, gate: Gate) -> None:
    gate.error = SystemExit("odd")
    with turn(ledger) as recorder:
        answer = recorder.message("user", "hi")
        with pytest.raises(StorageError, match=r"could not be written \(SystemExit: odd\)"):
            recorder.flush(PATIENCE_S)
        gate.error = None
        recorder.flush(PATIENCE_S)

        assert answer.result(0).outcome == "appended"
    assert completeness(ledger) == Completeness("complete")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_end_of_the_thread_reaches_waiters_and_the_next_call_restarts_it(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "OUTBOX_EVENTS", 1)

    def fails(_: Outbox) -> None:
        raise MemoryError("odd")

    with turn(ledger, timeout_s=PATIENCE_S) as recorder:
        with monkeypatch.context() as patch:
            patch.setattr(Outbox, "_batch", fails)
            answer = recorder.message("user", "hi")
            for call in (recorder.flush, lambda: recorder.message("user", "no room")):
                with pytest.raises(StorageError, match=r"could not be written \(MemoryError: odd\)"):
                    call()
        recorder.message("user", "one more")
        recorder.flush(PATIENCE_S)

        assert answer.result(0).outcome == "appended"
    assert [one.content for one in events(ledger)[:-1]] == ["hi", "one more"]
    assert completeness(ledger) == Completeness("complete")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_callback_that_ends_its_thread_blocks_nothing(ledger: Ledger, gate: Gate) -> None:
    gate.open.clear()
    with turn(ledger) as recorder:
        recorder.message("user", "hi").add_done_callback(lambda _: sys.exit())
        answer = recorder.message("user", "one more")
        gate.open.set()
        recorder.flush(PATIENCE_S)

        assert answer.result(0).outcome == "appended"
    assert completeness(ledger) == Completeness("complete")
