"""Who closes a store while a thread has its own turn, and what else is given back meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.contracts.base import event, found
from tests.contracts.support import PATIENCE_S
from tests.storage.turns import Held, append, begun, served, writer_of

from rightful.errors import ClosedError
from rightful.storage.recorder import LMDBRecorder


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[LMDBRecorder]:
    with LMDBRecorder(tmp_path / "s", kind="plain", create=True) as recorder:
        yield recorder


@pytest.mark.parametrize("had", [False, True], ids=["no writer was begun", "a writer was begun"])
def test_who_closes_waits_for_a_turn_that_is_had(tmp_path: Path, had: bool) -> None:
    recorder = LMDBRecorder(tmp_path / "s", kind="plain", create=True)
    if had:
        recorder.append([event()])
    thread, held = writer_of(recorder)._thread, Held(recorder)
    first = begun(held.append)
    assert held.reached.wait(PATIENCE_S)
    closing = threading.Thread(target=recorder.close)
    closing.start()
    closing.join(0.05)
    assert closing.is_alive()
    if thread is not None:
        thread.join(0.05)
    held.go.set()
    closing.join(PATIENCE_S)

    assert first() == 1 + had
    assert isinstance(served(lambda: append(recorder)), ClosedError)
    with LMDBRecorder(tmp_path / "s", kind="plain") as again:
        assert found(again) == list(range(1, 2 + had))


@pytest.mark.parametrize("had", [False, True], ids=["no writer was begun", "a writer was begun"])
def test_a_store_that_was_closed_meanwhile_refuses(recorder: LMDBRecorder, had: bool) -> None:
    if had:
        recorder.append([event()])
    writer = writer_of(recorder)
    writer.stop()
    if writer._thread is not None:
        writer._thread.join(PATIENCE_S)

    assert isinstance(served(lambda: writer.submit(lambda _: [event()], 1, inline=True)), ClosedError)


def test_handle_collected_during_a_commit_does_not_block_others(tmp_path: Path) -> None:
    """Garbage is collected anywhere, so also where the thread has the lock that giving a handle back needs."""
    with LMDBRecorder(tmp_path / "s", kind="plain", create=True) as recorder:
        other = [LMDBRecorder(tmp_path / "s", kind="plain")]
        assert recorder._store is not None

        class Collects:
            def __next__(self) -> int:
                other.clear()
                return 1

        recorder._store.commit_signal._numbers = Collects()  # type: ignore[assignment]
        assert served(lambda: append(recorder)) == 1
        assert not other
        assert len(recorder._store.holders) == 1


def test_who_closes_while_a_turn_is_had_keeps_no_other_store_waiting(tmp_path: Path) -> None:
    """The thread that has the turn may need to give another one back, since garbage is collected anywhere."""
    recorder, other = LMDBRecorder(tmp_path / "s", kind="plain", create=True), list[LMDBRecorder]()
    other.append(LMDBRecorder(tmp_path / "other", kind="plain", create=True))
    reached, go = threading.Event(), threading.Event()

    def decide(_: object) -> list[Any]:
        reached.set()
        assert go.wait(PATIENCE_S)
        other.clear()
        return [event()]

    first = begun(lambda: recorder.decide(decide, inline=True))
    assert reached.wait(PATIENCE_S)
    closing = threading.Thread(target=recorder.close, daemon=True)
    closing.start()
    while recorder._store is not None:
        pass
    closing.join(0.05)
    go.set()

    assert first() == 1
    closing.join(PATIENCE_S)
    assert not closing.is_alive()


def test_opening_a_store_while_it_closes_waits_and_succeeds(tmp_path: Path) -> None:
    recorder = LMDBRecorder(tmp_path / "s", kind="plain", create=True)
    held, opened = Held(recorder), list[list[int]]()
    first = begun(held.append)
    assert held.reached.wait(PATIENCE_S)
    closing = threading.Thread(target=recorder.close)
    closing.start()
    while recorder._store is not None:
        pass

    def opens() -> None:
        with LMDBRecorder(tmp_path / "s", kind="plain") as again:
            opened.append([*found(again), again.append([event()])])

    opening = threading.Thread(target=opens)
    opening.start()
    opening.join(0.05)
    assert opening.is_alive()
    held.go.set()
    for thread in (closing, opening):
        thread.join(PATIENCE_S)

    assert (first(), opened) == (1, [[1, 2]])
