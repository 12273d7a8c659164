"""Contradictions of identity: kept when they are recorded, listed by `status`, and paid to nobody."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.cli.test_hook_run import given_on_stdin
from tests.hooking import rows
from tests.importers import codex_lines, copilot_lines
from tests.log.facts import fact

import rightful
from rightful import limits
from rightful.events import SessionStarted, ToolCallSnapshotted, ToolResultSnapshotted

CALLS = Path(__file__).parents[1] / "outside" / "hook-stale-session-id" / "calls.jsonl"
A, B = "5d1c0a52-3b1e-4c1f-9a44-0b6f3a9c7e11", "9b7e2f40-1111-4d2e-8f00-2c2c2c2c2c2c"


def warnings(run: Run, *words: str) -> tuple[int, list[str]]:
    done = run("status", "--check", "--json", *words)
    return done.code, [one["what"] for one in done.document["warnings"] if one["kind"] == "identity"]


def test_hook_call_with_contradicting_ids_is_listed_without_credit(
    run: Run, ledger: Path, home: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = here / "temp" / "claude-lesson-match" / f"{A}.json"
    for number, line in enumerate(CALLS.read_text().splitlines()):
        if number == 1:  # the lesson hook writes what it showed under the id that the calls from now on contradict
            state.parent.mkdir()
            state.write_text('{"injected": ["/lessons/git.md"], "last_pretool": 1785579331.25}')
        given_on_stdin(monkeypatch, json.loads(line))
        assert run("hook", "run", "claude-code", "--ledger", ledger) == (0, "", "")

    found = [row.event for row in rows(ledger)]
    assert [type(event).__name__ for event in found] == [
        "SessionStarted", "ToolCallSnapshotted", "ToolResultSnapshotted",
    ]  # fmt: skip
    stale = {"transcript_path": f"/home/dev/.claude/projects/p/{B}.jsonl"}
    assert [event.extra for event in found if isinstance(event, ToolCallSnapshotted | ToolResultSnapshotted)] == [
        stale, {"tool_name": "Bash"} | stale,
    ]  # fmt: skip
    assert warnings(run) == (
        1,
        [
            (
                f"claude-code:{A}: its sources contradict each other on the session id: session_id {A} (#1), "
                f"transcript_path of the hook {A} (#1), transcript_path of the hook {B} (#2)."
            )
        ],
    )
    assert run("posteriors", "--json").document["arms"] == {}


def test_contradicting_folders_nonces_and_bound_files_are_listed(run: Run, ledger: Path) -> None:
    session = f"claude-code:{A}"
    with rightful.open(ledger) as opened:
        opened.append(
            [
                fact("session.started", "1", session=session, cwd="/one", run_nonce="x"),
                fact("session.started", "2", session=session, cwd="/two", producer="other", run_nonce="y"),
                fact("session.started", "3", session=session, cwd="/later", producer="other"),
                fact("transcript.bound", "4", session=session, uri=f"file:///p/{B}.jsonl", bytes=1, sha256="0" * 64,
                     evidence="cwd-window"),
            ]
        )  # fmt: skip

    code, found = warnings(run)

    assert code == 1
    assert [what.partition(" on the ")[2].partition(":")[0] for what in found] == [
        "run nonce", "working folder", "session id",
    ]  # fmt: skip
    assert found[1].endswith("working folder: hook /one (#1), other /two (#2).")


def test_sources_that_agree_are_not_listed(run: Run, ledger: Path) -> None:
    with rightful.open(ledger) as opened:
        opened.append([fact("session.started", "1", session=f"claude-code:{A}", cwd="/one", run_nonce="x")])

    assert warnings(run)[1] == []


def test_check_reads_all_rows_and_a_plain_status_the_last_ones(
    run: Run, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "STATUS_ROWS", 1)
    with rightful.open(ledger) as opened:
        for key, cwd in (("1", "/one"), ("2", "/two"), ("3", "/two")):
            opened.append([fact("session.started", key, session=f"claude-code:{A}", cwd=cwd, producer=f"p{key}")])

    [found] = warnings(run)[1]

    assert found.endswith("working folder: p1 /one (#1), p2 /two (#2), p3 /two (#3).")
    assert [one for one in run("status", "--json").document["warnings"] if one["kind"] == "identity"] == []


def test_explain_names_the_contradiction_of_a_grade_and_what_settles_it(run: Run, ledger: Path) -> None:
    session, stray = f"claude-code:{A}", {"transcript_path": f"/p/{B}.jsonl"}
    with rightful.open(ledger) as opened:
        opened.append(
            [
                fact("exposure.recorded", "1", session=session, arms=[{"arm": "x"}]),
                fact("tool_call.snapshotted", "2", session=session, call="c", name="Bash", extra=stray),
                fact("grade.recorded", "3", session=session, seq=1, reward=0.8),
            ]
        )

    done = run("explain", "#3")

    assert "ambiguous" in done.out
    said = f"#2 is recorded under {session}, and its transcript_path names {B}"
    assert said in " ".join(done.out.split())
    [remedy] = run("explain", session, "--json").document["remedies"]
    with rightful.open(ledger) as opened:
        assert [receipt.outcome for receipt in opened.append(remedy["events"])] == ["appended"]
    assert run("posteriors", "--json").document["arms"]["x"]["alpha"] == 1.8


def imported_codex(run: Run, folder: Path, named: str) -> int:
    path = folder / f"rollout-2026-08-01T10-15-00-{named}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in (codex_lines.meta(), codex_lines.began())))
    return run("import", "codex", path).code


def imported_copilot(run: Run, folder: Path, named: str) -> int:
    path = folder / "session-state" / named / "events.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(copilot_lines.start()) + "\n")
    return run("import", "copilot", path).code


@pytest.mark.parametrize(
    ("imported", "session"),
    [(imported_codex, f"codex:{codex_lines.PARENT}"), (imported_copilot, copilot_lines.SESSION)],
    ids=["codex", "copilot"],
)
def test_file_named_after_another_session_is_listed_without_credit(
    run: Run, ledger: Path, tmp_path: Path, imported: Callable[[Run, Path, str], int], session: str
) -> None:
    inside = session.partition(":")[2]
    assert imported(run, tmp_path, B) == 0
    with rightful.open(ledger) as opened:
        opened.append(
            [
                fact("exposure.recorded", "1", session=session, arms=[{"arm": "x"}]),
                fact("grade.recorded", "2", session=session, seq=1, reward=0.8),
            ]
        )

    positions = [row.position for row in rows(ledger) if isinstance(row.event, SessionStarted)]
    [stray] = [row.position for row in rows(ledger) if getattr(row.event, "extra", None) == {"file_id": B}]
    code, found = warnings(run)

    assert stray in positions
    assert code == 1
    both = f"id inside the file {inside} (#{stray}), name of the file {B} (#{stray})"
    assert found == [f"{session}: its sources contradict each other on the session id: {both}."]
    assert run("posteriors", "--json").document["arms"] == {}
    said = f"#{stray} is recorded under {session}, and its file name names {B}"
    assert said in " ".join(run("explain", session).out.split())


@pytest.mark.parametrize(
    ("imported", "session"),
    [(imported_codex, f"codex:{codex_lines.PARENT}"), (imported_copilot, copilot_lines.SESSION)],
    ids=["codex", "copilot"],
)
def test_a_file_named_after_its_own_session_is_no_contradiction(
    run: Run, ledger: Path, tmp_path: Path, imported: Callable[[Run, Path, str], int], session: str
) -> None:
    assert imported(run, tmp_path, session.partition(":")[2]) == 0

    assert warnings(run)[1] == []
    assert not any("file_id" in (getattr(row.event, "extra", None) or {}) for row in rows(ledger))
