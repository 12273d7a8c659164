"""Which of the SDK's suites are run, and which of their tests are known to fail on our store, and why."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
PINNED = "0.24.0"
"""The version of the SDK that the list of expected failures was made with."""

FILES = (
    "tests/memory/test_session.py",
    "tests/memory/test_session_limit.py",
    "tests/memory/test_session_context_wrapper.py",
    "tests/memory/test_session_persistence_sanitize.py",
    "tests/memory/test_compaction_suffix.py",
    "tests/memory/test_compaction_model_visibility.py",
    "tests/memory/test_openai_responses_compaction_session.py",
    "tests/memory/test_openai_conversations_session.py",
    "tests/memory/test_sqlalchemy_compaction.py",
    "tests/extensions/memory/test_encrypt_session.py",
    "tests/deferred_session_writes/test_compaction.py",
    "tests/deferred_session_writes/test_filters.py",
    "tests/deferred_session_writes/test_max_turns.py",
    "tests/deferred_session_writes/test_pending_write.py",
    "tests/deferred_session_writes/test_recovery.py",
    "tests/deferred_session_writes/test_resume.py",
    "tests/test_agent_runner.py",
    "tests/test_agent_runner_streamed.py",
    "tests/test_hitl_session_scenario.py",
    "tests/test_max_turns.py",
    "tests/test_native_tool_failure_history.py",
    "tests/test_programmatic_tool_calling.py",
    "tests/test_run_impl_resume_paths.py",
    "tests/test_run_state_pending_input.py",
    "tests/test_soft_cancel.py",
    "tests/test_tool_batch_failure_history.py",
    "tests/test_tool_failure_boundaries.py",
)
"""The suites, as paths in the SDK's source distribution: its stores, its deferred writes, its runner."""


class SuiteError(Exception):
    """What kept the command from comparing anything; a sentence for people.

    Attributes:
        exit_code: 2 for what was asked for wrongly, 4 for what the network or the disk did.
    """

    def __init__(self, says: str, *, exit_code: int = 4) -> None:
        super().__init__(says)
        self.exit_code = exit_code


@dataclass(frozen=True)
class Expected:
    """The tests that are known to fail, each with its one reason.

    Attributes:
        reasons: What each reason says, by its name.
        tests: The name of the reason of each test id.
    """

    reasons: dict[str, str]
    tests: dict[str, str]


def expected(path: Path = HERE / "expected.toml") -> Expected:
    """Read the list of expected failures.

    Raises:
        SuiteError: A reason has no words, or a test has two reasons.
    """
    reasons: dict[str, str] = {}
    tests: dict[str, str] = {}
    for name, said in tomllib.loads(path.read_text("utf-8")).items():
        if not said.get("why", "").strip():
            raise SuiteError(f"{path.name}: the reason {name!r} does not say why.", exit_code=2)
        reasons[name] = said["why"].strip()
        for test in said["tests"]:
            if test in tests:
                raise SuiteError(f"{path.name}: {test} has two reasons, {tests[test]!r} and {name!r}.", exit_code=2)
            tests[test] = name
    return Expected(reasons, tests)


def chosen(wanted: list[str]) -> tuple[str, ...]:
    """Return the suites whose path contains one of the words; all of them for no word.

    Raises:
        SuiteError: A word fits no suite.
    """
    for word in wanted:
        if not any(word in file for file in FILES):
            raise SuiteError(f"no suite's path contains {word!r}; the suites are: {', '.join(FILES)}.", exit_code=2)
    return tuple(file for file in FILES if not wanted or any(word in file for word in wanted))
