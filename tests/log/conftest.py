from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.log.memory import MemoryRecorder

from rightful.log.log import Log

START_US = 1_785_500_000_000_000


@pytest.fixture
def recorder() -> MemoryRecorder:
    return MemoryRecorder()


@pytest.fixture
def clock() -> Callable[[], int]:
    """A clock that is one second later at each look."""

    def seconds() -> Iterator[int]:
        now = START_US
        while True:
            yield now
            now += 1_000_000

    return seconds().__next__


@pytest.fixture
def log(recorder: MemoryRecorder, clock: Callable[[], int]) -> Log:
    return Log(recorder, path="here", clock=clock, entropy=bytes)


@pytest.fixture
def send(log: Log) -> Callable[..., list[str]]:
    """Append events one by one and return their outcomes."""

    def each(*events: dict[str, Any]) -> list[str]:
        return [log.append([event])[0].outcome for event in events]

    return each
