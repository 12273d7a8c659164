"""No exception at any line of the queue leaves a call without an outcome, or the next calls waiting."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from tests.faults.interrupting import each_line

from rightful.integrations.openai_agents import call_queue as lines
from rightful.integrations.openai_agents.call_queue import CallQueue

WAIT_S = 10
ERRORS = [KeyboardInterrupt, TimeoutError]


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("here", [True, False], ids=["caller", "thread"])
def test_interrupted_call_gets_an_outcome(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch, *, here: bool
) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda _: None)  # a thread that is ended so need not say it
    for interruption in each_line(error, room="integrations/openai_agents", here=here):
        with interruption.watching(), monkeypatch.context() as patch:
            threads = lines._Threads()
            patch.setattr(lines, "_threads", threads)
            line, made = CallQueue(), list[int]()

            def call(line: CallQueue = line, made: list[int] = made) -> Any:
                return line.put(lambda: made.append(1)).result(WAIT_S)

            said = interruption.run(call)
            assert said is None or isinstance(said, error | InterruptedError), interruption.place
            assert not (isinstance(said, TimeoutError) and interruption.place is None)
            assert len(made) <= 1, interruption.place
            assert line.put(lambda: "next").result(WAIT_S) == "next", interruption.place
            assert line.now(lambda: "now") == "now", interruption.place
            threads.end()
