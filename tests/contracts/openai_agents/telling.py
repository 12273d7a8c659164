"""What the command prints for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.contracts.openai_agents.comparing import Comparison, Tally
from tests.contracts.openai_agents.suites import Expected

_WIDTH = 160  # characters of what a test said


def table(found: Comparison) -> Iterator[str]:
    """Yield the Markdown table, a row for each file and one for all."""
    yield "| suite | SDK's own stores | ours | expected failures | left out |"
    yield "|---|--:|--:|---|--:|"
    every = Tally()
    for name, one in found.files.items():
        yield _row(name, one)
        every.base += one.base
        every.ours += one.ours
        every.left_out += one.left_out
        every.reasons += one.reasons
    yield _row("**all**", every)


def _row(name: str, one: Tally) -> str:
    return f"| {name} | {one.base} | {one.ours} | {_counted(one.reasons)} | {one.left_out or ''} |"


def _counted(reasons: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(reasons.items()))


def verdict(found: Comparison, known: Expected) -> Iterator[str]:
    """Yield what the reasons mean, and everything that is not as the list says."""
    used = sorted({name for one in found.files.values() for name in one.reasons})
    for name in used:
        yield f"{name}: {' '.join(known.reasons[name].split())}"
    yield from _each("left out, since the SDK's own stores do not pass it", found.left_out)
    yield from _each("fails with our store, and was not expected to", found.failing)
    yield from _each("passes with our store, and was expected to fail; take it off the list", found.passing)
    yield from _each("expected to fail, and there is no such test; take it off the list", found.unknown)
    yield from _each("no test of it passes with the SDK's own stores, so nothing was compared", found.empty)
    yield "As expected." if found.ok else "Not as expected."


def _each(what: str, tests: dict[str, str] | list[str]) -> Iterator[str]:
    for test in tests:
        said = f" ({_line(tests[test])})" if isinstance(tests, dict) else ""
        yield f"{test}: {what}{said}"


def _line(said: str) -> str:
    text = "".join(c if c.isprintable() else " " for c in said)
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"
