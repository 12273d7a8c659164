"""One command imports a whole workspace of several tools, and says what it did not import and why.

`tests/samples` holds synthetic files in the real form of each tool: the lesson hook's in `tmp`
and `ws`, bandits of four tools, session records, gptme's conversations, and what is not imported.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rightful
from rightful.cli import main
from rightful.events import BalanceOpened
from rightful.importers.bandits.bandit_documents import document

OWN = Path(__file__).parents[1] / "samples"
SHARED = Path(__file__).parents[3] / "shared" / "samples"
MTIME_S = 1_785_600_000  # 2026-08-01T16:00Z
CC = "7fbe4341-0d57-4016-8374-1ed5e8da4b1b"
FOX = "2026-08-01-running-blue-fox"
DRAWN = "a6be8a33b7c987f4ffb76d9c9805c7eb"
LESSONS = "/home/dev/my.proj/lessons"
QUOTE, COMMITS = f"{LESSONS}/tools/quote-paths.md", f"{LESSONS}/workflow/small-commits.md"

NO_BIN = (
    f"Expected a session id, got '{DRAWN}': gptme generates such an id if it knows no session, "
    "so it does not identify a session - at `$.session_id`"
)

Said = dict[str, list[str]]

SKIPPED: Said = {
    "a prediction model of the lesson hook": ["ws/state/lesson-predictions/prediction-model.json"],
    "leave-one-out results of lessons": ["ws/state/lesson-thompson/loo-results.json"],
    "a log of credited sessions (lesson-thompson)": ["ws/state/lesson-thompson/sessions.jsonl"],
}

PROBLEMS: Said = {
    "tmp/claude-lesson-match/bad_shape.json": ["Expected `array`, got `object` - at `$.injected`"],
    "tmp/claude-lesson-match/truncated.json": ["Expected JSON, got a truncated line"],
    f"ws/state/lesson-dropout/{DRAWN}.jsonl": [NO_BIN],
    "ws/state/lesson-trajectories/2026-08-01.jsonl": [
        "Expected a session id, got 'unknown', which names no session - at `$.session_id`"
    ],
    "ws/state/sessions/session-records.jsonl": [
        "Object missing required field `session_id` - at `$`",
        "Expected JSON, got a truncated line",
    ],
}

BANDITS = (
    "legacy/bandit-state-lesson_path.json",
    "ws/state/bandit/bandit-state.json",
    "ws/state/lesson-thompson/bandit-state.json",
    "ws/state/pm-dispatch/bandit-state.json",
    "xdg/gptme/lessons/bandit-state.json",
)


@pytest.fixture
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A copy of the samples with one time for all files."""
    copy = tmp_path / "samples"
    shutil.copytree(getattr(request, "param", OWN), copy)
    for path in copy.rglob("*"):
        os.utime(path, (MTIME_S, MTIME_S))
    return copy


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[rightful.Ledger]:
    with rightful.open(tmp_path / "ledger", create=True) as opened:
        yield opened


def imported(ledger: rightful.Ledger, folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    """Run the command; return its exit code, and its answer by file."""
    code = main(["--ledger", str(ledger.path), "import", "auto", str(folder), "--json"])
    reports = json.loads(capsys.readouterr().out)
    return code, {os.path.relpath(report["path"], folder): report for report in reports}


def said(reports: dict[str, Any], mark: str = "") -> Said:
    """What is said of each file in one of the three ways, without its mark."""
    marks = ("note: ", "skipped: ")
    wanted: Said = {}
    for path, report in reports.items():
        for problem in report["problems"]:
            what = str(problem["what"])
            if what.startswith(mark) if mark else not what.startswith(marks):
                wanted.setdefault(path, []).append(what.removeprefix(mark))
    return wanted


def test_one_command_imports_everything(
    ledger: rightful.Ledger, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, reports = imported(ledger, folder, capsys)

    assert code == 2
    assert Counter(row.type for row in ledger.read()) == {
        "exposure.recorded": 14,
        "grade.recorded": 7,
        "session.started": 8 + 8 + 5 + 6,
        "session.ended": 3 + 1 + 2,
        "session.linked": 2 + 1,
        "balance.opened": 5,
        "message.recorded": 8 + 25 + 8,
        "thought.recorded": 1 + 2,
        "tool_call.snapshotted": 3 + 9 + 4,
        "tool_result.snapshotted": 3 + 6 + 4,
        "usage.recorded": 9 + 12 + 7,
        "turn.ended": 2,
        "data.recorded": 9 + 1 + 10,
        "history.compacted": 2 + 1 + 2,
        "history.popped": 1 + 1,
    }
    assert sum(report["appended"] for report in reports.values()) == 39 + 45 + 60 + 48
    assert sum(report["duplicate"] for report in reports.values()) == 7 + 24 + 43 + 19


def test_the_same_command_again_adds_nothing_and_says_the_same(
    ledger: rightful.Ledger, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, once = imported(ledger, folder, capsys)
    again_code, again = imported(ledger, folder, capsys)

    assert (again_code, sum(report["appended"] for report in again.values())) == (code, 0)
    assert sum(report["duplicate"] for report in again.values()) == 46
    assert [report["problems"] for report in again.values()] == [report["problems"] for report in once.values()]


def test_every_file_that_is_skipped_is_said_to_be_what_it_is(
    ledger: rightful.Ledger, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, reports = imported(ledger, folder, capsys)

    told = {path: [f"{what}; not imported by this version"] for what, paths in SKIPPED.items() for path in paths}
    others = "4 files with other suffixes: 2 .yaml, 1 .path, 1 .txt"
    assert said(reports, "skipped: ") == told | {".": [others]}


def test_every_problem_is_said_with_its_file(
    ledger: rightful.Ledger, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, reports = imported(ledger, folder, capsys)

    assert said(reports) == PROBLEMS
    lines = {path: [one["line"] for one in reports[path]["problems"]] for path in PROBLEMS}
    assert lines["ws/state/lesson-trajectories/2026-08-01.jsonl"] == [3]
    assert lines["ws/state/sessions/session-records.jsonl"] == [4, 5, 6, 6, 7]


def test_every_file_of_the_workspace_has_its_answer(
    ledger: rightful.Ledger, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No file is skipped in silence: those of other suffixes are counted, and all others listed."""
    _, reports = imported(ledger, folder, capsys)

    files = [path for path in folder.rglob("*") if path.is_file()]
    listed = {str(path.relative_to(folder)) for path in files if path.suffix in {".json", ".jsonl", ".log"}}
    assert reports.keys() == listed | {"."}
    assert len(files) - len(listed) == 6


def test_each_exposure_is_of_the_session_that_its_file_names(
    ledger: rightful.Ledger, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    imported(ledger, folder, capsys)

    assert Counter(row.session for row in ledger.read(types=["exposure.recorded"])) == {
        f"claude-code:{CC}": 9,
        "claude-code:ca7989fa-4c90-4f22-820d-169a7bf5e2cb": 1,
        "claude-code:a_b_c_d_e": 1,
        f"gptme:{FOX}": 1,
        f"gptme:{FOX}-fork": 1,
        "workspace:0a1b2c3d@2026-08-01T11:38:20.123456+00:00": 1,
    }


def test_every_bandits_file_can_be_made_again_from_its_event(
    ledger: rightful.Ledger, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    imported(ledger, folder, capsys)

    rows = [row.event for row in ledger.read(types=["balance.opened"])]
    balances = {event.source: event for event in rows if isinstance(event, BalanceOpened)}
    sources = {os.path.realpath(folder / name): folder / name for name in BANDITS}
    assert {source: document(event) for source, event in balances.items()} == {
        source: json.loads(path.read_text()) for source, path in sources.items()
    }


def test_the_grades_reach_the_lessons_of_their_own_sessions(
    ledger: rightful.Ledger, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """0.6 for the Claude Code run, noop for the codex one, 0.35 for gptme's; nothing from a balance."""
    imported(ledger, folder, capsys)

    beliefs = ledger.posteriors({"balances": []})
    arms = {arm: (one.alpha, one.beta, one.n) for arm, one in beliefs.arms.items()}
    assert arms == {
        QUOTE: (pytest.approx(1.95, abs=1e-12), pytest.approx(3.05, abs=1e-12), 3),
        COMMITS: (1.6, 1.4, 1),
        f"{LESSONS}/workflow/run-tests-first.md": (1.6, 1.4, 1),
    }
    assert {name: count for name, count in beliefs.counters.items() if count and name.endswith("_grades")} == {
        "credited_grades": 3
    }


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared samples are not part of a checkout")
@pytest.mark.parametrize("folder", [SHARED], indirect=True)
def test_the_shared_samples_say_the_same(
    ledger: rightful.Ledger, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, reports = imported(ledger, folder, capsys)

    own = {path: report for path, report in reports.items() if path not in {"ids.json", "."}}
    assert said(own) == PROBLEMS
    assert said(own, "skipped: ").keys() == {path for paths in SKIPPED.values() for path in paths}
