"""Names of sessions that the reader of the hook's files read: exact where only one name has that form (row A2)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.projections.telling import alphas, ask, bins, exposed, graded, linked, log_of
from tests.reports.explaining import explained

import rightful
from rightful import times
from rightful.cli import main
from rightful.identity import composite_key
from rightful.ledger import Ledger

UUID = "aaaaaaaa-0000-4000-8000-000000000001"
NATIVE = f"claude-code:{UUID}"


@pytest.mark.parametrize("reader", ["lesson-hook-state", "lesson-hook-events"])
def test_name_without_underscore_is_the_exact_name(reader: str) -> None:
    """So a link leads to it, which leads to no alias."""
    events = [linked("workspace:w", NATIVE, evidence="pointer"), graded("workspace:w", 0.8)]

    assert alphas(ask(exposed(NATIVE, "x", by=reader, alias=True), *events)) == {"x": 1.8}


@pytest.mark.parametrize(
    ("name", "reader"),
    [
        pytest.param("claude-code:a_b", "lesson-hook-state", id="several names have that form"),
        pytest.param(NATIVE, "other-hook", id="another producer has another sanitiser"),
    ],
)
def test_any_other_alias_never_matches_exactly(name: str, reader: str) -> None:
    events = [linked("workspace:w", name, evidence="pointer"), graded("workspace:w", 0.8)]

    assert bins(ask(exposed(name, "x", by=reader, alias=True), *events)) == {"unmatched": 1}


def test_explanations_use_the_exact_name() -> None:
    """A grade under another name is missing only the link, and the exposure waits for it under its own name."""
    log = log_of(exposed(NATIVE, "x", by="lesson-hook-state", alias=True), graded("workspace:w", 0.8))
    [waiting] = explained(log, NATIVE).exposures
    assert (waiting.session, waiting.state) == (NATIVE, "pending")
    assert [name.alias for name in explained(log, NATIVE).names] == [False]

    [row] = explained(log, "workspace:w").grades
    [link] = [event for remedy in row.remedies for event in remedy.events if event["type"] == "session.linked"]
    assert link["session"] == "workspace:w"
    log.append([linked("workspace:w", NATIVE, evidence="pointer")])

    [row] = explained(log, "workspace:w").grades
    assert (row.state, row.arms) == ("credited", ["x"])


def state_file(folder: Path) -> Path:
    path = folder / f"{UUID}.json"
    path.write_text(json.dumps({"injected": ["/l/git.md"], "last_pretool": 1_785_579_000.0}))
    return path


def record_file(folder: Path) -> Path:
    path = folder / "session-records.jsonl"
    row = {
        "session_id": "41c2", "harness": "claude-code", "outcome": "productive", "trajectory_grade": 0.8,
        "timestamp": "2026-08-01T10:00:00Z", "duration_seconds": 3_600,
        "trajectory_path": f"/home/u/.claude/projects/p/{UUID}.jsonl",
    }  # fmt: skip
    path.write_text(json.dumps(row) + "\n")
    return path


def stored_before(ledger: Ledger) -> None:
    """Append the exposure as the previous version stored it: with `alias`, under the same key."""
    key = composite_key(UUID, "/l/git.md")
    ledger.append(
        [{
            "type": "exposure.recorded", "producer": "lesson-hook-state", "key": key, "session": NATIVE, "alias": True,
            "at": times.text_of(1_785_579_000_000_000), "at_basis": "file", "arms": [{"arm": "/l/git.md"}],
        }]
    )  # fmt: skip


def imported(ledger: Path, kind: str, path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["--ledger", str(ledger), "import", kind, str(path), "--json"]) == 0
    report: dict[str, Any] = json.loads(capsys.readouterr().out)[0]
    return report


def test_import_into_a_ledger_of_before_is_duplicate_and_credited(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / ".rightful"
    with rightful.open(path, create=True) as ledger:
        stored_before(ledger)

    state = imported(path, "lesson-hook", state_file(tmp_path), capsys)
    imported(path, "session-records", record_file(tmp_path), capsys)

    assert (state["appended"], state["duplicate"], state["problems"]) == (0, 1, [])
    with rightful.open(path) as ledger:
        found = ledger.posteriors()
        assert found.arms["/l/git.md"].alpha == 1.8
        assert dict(found.counters) == {"credited_grades": 1}
