"""What tests of turns share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tests.contracts.base import event
from tests.contracts.support import PATIENCE_S

from rightful.storage.recorder import LMDBRecorder
from rightful.storage.writer import Writer


def writer_of(recorder: LMDBRecorder) -> Writer:
    assert recorder._store is not None
    assert recorder._store.writer is not None
    return recorder._store.writer


def begun(work: Callable[[], object]) -> Callable[[], Any]:
    """Begin work in a new thread; return a function that waits for its outcome."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as error:  # noqa: BLE001 - it is the outcome
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()

    def ended() -> Any:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
        return outcome[0]

    return ended


def served(work: Callable[[], object]) -> Any:
    return begun(work)()


def append(recorder: LMDBRecorder, data: str = "data") -> int:
    """Append one event, in the calling thread if the write lock is free."""
    return recorder.decide(lambda _: [event(data)], inline=True)


class Held:
    """An inline decision that waits while it has the write lock."""

    def __init__(self, recorder: LMDBRecorder) -> None:
        self.reached, self.go, self._recorder = threading.Event(), threading.Event(), recorder

    def append(self) -> int:
        def decide(_: object) -> list[Any]:
            self.reached.set()
            assert self.go.wait(PATIENCE_S)
            return [event("held")]

        return self._recorder.decide(decide, inline=True)
