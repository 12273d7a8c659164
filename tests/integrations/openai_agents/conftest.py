from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from agents.tracing import TracingProcessor, set_trace_processors, set_tracing_disabled

from rightful.integrations.openai_agents import LedgerSession
from rightful.ledger import Ledger


class Kept(TracingProcessor):
    """Keeps the spans here; the SDK's own processor would send them away."""

    def __init__(self) -> None:
        self.spans: list[Any] = []

    def on_trace_start(self, trace: Any) -> None: ...

    def on_trace_end(self, trace: Any) -> None: ...

    def on_span_start(self, span: Any) -> None: ...

    def on_span_end(self, span: Any) -> None:
        self.spans.append(span)

    def shutdown(self) -> None: ...

    def force_flush(self) -> None: ...


@pytest.fixture(autouse=True)
def spans() -> list[Any]:
    """What is traced; nothing leaves this machine."""
    kept = Kept()
    set_trace_processors([kept])
    return kept.spans


@pytest.fixture(params=["traced", "untraced"])
def tracing(request: pytest.FixtureRequest) -> Iterator[bool]:
    set_tracing_disabled(request.param == "untraced")
    yield request.param == "traced"
    set_tracing_disabled(False)


@pytest.fixture(params=[True, False], ids=["hooks", "the SDK's own notes"])
def hooked(request: pytest.FixtureRequest) -> bool:
    """Whether runs have the session's hooks, or prove by what the SDK notes for itself."""
    return bool(request.param)


@pytest.fixture
def session(ledger: Ledger) -> Iterator[LedgerSession]:
    made = LedgerSession("chat", ledger)
    yield made
    made.close()
