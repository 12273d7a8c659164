"""Two runs of one suite, with the SDK's own stores and with ours, and what their difference means."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.contracts.openai_agents.suites import Expected

Outcome = tuple[str, str]
"""`passed`, `failed` or `skipped`, and what was said of it."""


@dataclass
class Tally:
    """One file of the suites.

    Attributes:
        base: How many of its tests pass with the SDK's own stores.
        ours: How many of those pass with ours.
        reasons: How many fail as expected, by reason.
        left_out: How many do not pass with the SDK's own stores, so they say nothing of ours.
    """

    base: int = 0
    ours: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    left_out: int = 0


@dataclass
class Comparison:
    """What came out.

    Attributes:
        files: The tally of each file, in the order of the suites.
        left_out: The tests that do not pass with the SDK's own stores, and what they said there.
        failing: The tests that fail with ours and were not expected to, and what they said.
        passing: The tests that were expected to fail with ours and pass.
        unknown: The tests that were expected to fail and are in none of the files.
        empty: The files of which no test passes with the SDK's own stores.
    """

    files: dict[str, Tally]
    left_out: dict[str, str] = field(default_factory=dict)
    failing: dict[str, str] = field(default_factory=dict)
    passing: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether the list of expected failures is exactly what fails."""
        return not (self.failing or self.passing or self.unknown or self.empty)

    def document(self) -> dict[str, Any]:
        """Return it as JSON."""
        files = {
            name: {"base": one.base, "ours": one.ours, "expected": dict(one.reasons), "left_out": one.left_out}
            for name, one in self.files.items()
        }
        return {
            "ok": self.ok,
            "files": files,
            "failing": self.failing,
            "passing": self.passing,
            "unknown": self.unknown,
            "empty": self.empty,
            "left_out": self.left_out,
        }


def file_of(test: str) -> str:
    """Return the file of a test id."""
    return test.partition("::")[0]


def compare(
    files: Iterable[str], base: Mapping[str, Outcome], ours: Mapping[str, Outcome], known: Expected
) -> Comparison:
    """Judge a run with our stores by one with the SDK's own and by the list of what is expected to fail."""
    found = Comparison({file: Tally() for file in files})
    for test, (outcome, said) in base.items():
        tally = found.files[file_of(test)]
        if outcome != "passed":
            tally.left_out += 1
            found.left_out[test] = f"{outcome}: {said}"
            continue
        tally.base += 1
        _judge(found, tally, test, ours.get(test, ("failed", "it was not run")), known.tests.get(test))
    found.failing |= {test: said for test, (outcome, said) in ours.items() if test not in base and outcome == "failed"}
    found.unknown = [test for test in known.tests if file_of(test) in found.files and test not in base]
    found.empty = [file for file, tally in found.files.items() if not tally.base]
    return found


def _judge(found: Comparison, tally: Tally, test: str, outcome: Outcome, reason: str | None) -> None:
    passes = outcome[0] == "passed"
    tally.ours += passes
    if reason is None and not passes:
        found.failing[test] = f"{outcome[0]}: {outcome[1]}"
    elif reason is not None and passes:
        found.passing.append(test)
    elif reason is not None:
        tally.reasons[reason] += 1
