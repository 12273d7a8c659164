from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.importers import transcript_writers as write

import rightful

A = "7fbe4341-0d57-4016-8374-1ed5e8da4b1b"
B = "203a971d-e91f-4c53-bc91-065beaa5b283"
AT = "2026-08-01T10:15:02Z"


def test_an_owner_is_shown_with_what_makes_it_one(here: Path, run: Run) -> None:
    path = write.claude(here / "c", A, AT)
    write.stream(here / "c" / "tmp" / "cc-session-1.log", A)
    done = run("locate", f"claude-code:{A}", "--root", here / "c")
    assert done.code == 0
    assert f"its own  {path}" in done.out
    assert f"1. inside it is claude-code:{A}." in done.out
    assert "2. inside it is" in done.out
    assert "another form or copy of the transcript that is its own" in done.out
    assert "Searched: 2 transcripts, 0 pointer files." in done.out


def test_what_is_bound_leads_to_what_was_said(here: Path, run: Run, ledger: Path) -> None:
    """A transcript that is bound is not imported by that, and the session's own name stays without words."""
    path = write.claude(here / "a b", A, AT)
    session = "run:mine"
    start = {"type": "session.started", "producer": "rightful-run", "key": "1", "session": session, "at": AT}
    with rightful.open(ledger) as opened:
        opened.append([start | {"harness": "claude-code", "extra": {"native_id": A}}])
    assert run("locate", session, "--root", here / "a b", "--bind").code == 0

    before = run("transcript", session)
    at = before.out.splitlines().index(f"bound to {path} (native-id), not imported; import it with:")
    assert before.out.splitlines()[at + 1] == f"rightful import claude-code '{path}'"
    run("import", "claude-code", path)
    after = run("transcript", session).out.splitlines()
    at = after.index(f"bound to {path} (native-id), imported as claude-code:{A}; show it with:")
    assert after[at + 1] == f"rightful transcript claude-code:{A}"
    path.unlink()
    assert f"bound to {path} (native-id), which cannot be read as a transcript here" in run("transcript", session).out


def test_unknown_session_name_gets_a_hint(run: Run, ledger: Path) -> None:
    done = run("locate", "nobody")

    assert done.code == 2
    assert done.err.endswith("nothing was searched. `rightful status --sessions` lists them.\n")


def test_the_document_has_both_answers_and_every_claim(here: Path, run: Run) -> None:
    path = write.claude(here / "c", A, AT)
    found = run("locate", f"claude-code:{A}", "--root", here / "c", "--json").document
    assert found == {
        "session": f"claude-code:{A}",
        "found": True,
        "owner": str(path),
        "why": f"inside it is claude-code:{A}",
        "claims": [
            {
                "rank": 1, "verdict": "owner", "tool": "claude-code", "native_id": A, "path": str(path),
                "bytes": path.stat().st_size, "started_at": AT, "evidence": f"inside it is claude-code:{A}", "why": "",
            }
        ],
        "lost": [],
        "searched": {"transcripts": 1, "pointers": 0, "passed_over": 0, "whole": True, "problems": []},
        "bound_before": [],
        "bound": [],
    }  # fmt: skip


def test_where_only_candidates_are_found_the_answer_is_no(here: Path, run: Run, ledger: Path) -> None:
    write.codex(here / "c", A, AT)
    done = run("locate", "workspace:41c2@2026-08-01T10:15:00Z", "--root", here / "c", "--bind", "--json")
    assert (done.code, done.document["owner"], done.document["bound"]) == (1, None, [])


def test_transcript_outside_its_layout_is_an_owner_and_skips_are_reported(here: Path, run: Run) -> None:
    path = write.claude(here / "c", A, AT)
    (here / "flat").mkdir()
    moved = path.rename(here / "flat" / path.name)
    (here / "flat" / "notes.md").write_text("x")
    done = run("locate", f"claude-code:{A}", "--root", here / "flat")
    assert (done.code, f"its own  {moved}" in done.out) == (0, True)
    none = run("locate", f"codex:{A}", "--root", here / "flat")
    assert "Searched: 1 transcript, 0 pointer files; 1 other file skipped: no transcript of a tool" in none.out


def test_file_without_session_records_is_refused_if_it_looks_otherwise(here: Path, run: Run) -> None:
    for path, kind in ((write.codex(here / "c", A, AT), "codex"), (write.claude(here / "c", A, AT), "claude-code")):
        done = run("locate", "--missing", path, "--root", here / "c")
        assert (done.code, done.out) == (2, "")
        assert f"contains no session records, it looks like a file of the kind {kind}; nothing was searched" in done.err


def test_missing_transcript_exits_1(here: Path, run: Run) -> None:
    (here / "c").mkdir()
    done = run("locate", f"codex:{A}", "--root", here / "c")
    assert done.code == 1
    assert "no transcript was found that can be linked to it" in done.out


def test_binding_needs_a_ledger_and_is_reported_once_it_is_done(here: Path, run: Run) -> None:
    write.codex(here / "c", A, AT)
    words = ("locate", f"codex:{A}", "--root", here / "c", "--bind")
    assert run(*words).code == 4
    assert run("init").code == 0
    assert "Bound: 1 appended." in run(*words).out
    again = run(*words)
    assert "Bound before, by native-id: file:///" in again.out
    assert "Bound: 1 duplicate." in again.out


def test_what_became_of_what_is_bound_is_checked(here: Path, run: Run, ledger: Path) -> None:
    assert run("locate", "--check").code == 0
    path = write.codex(here / "c", A, AT)
    run("locate", f"codex:{A}", "--root", here / "c", "--bind")
    assert run("locate", "--check", "--root", here / "c").code == 0
    path.write_bytes(path.read_bytes()[1:])
    done = run("locate", "--check", f"codex:{A}", "--root", here / "c", "--json")
    assert done.code == 1
    assert done.document["ok"] is False
    [one] = done.document["transcripts"]
    assert (one["state"], one["session"], one["path"]) == ("changed", f"codex:{A}", str(path))
    assert "changed" in run("locate", "--check", "--root", here / "c").out


@pytest.mark.parametrize(
    "words",
    [
        [], ["x", "--check", "--missing", "f"], ["x", "--missing", "f"], ["codex:x", "--write-back"],
        ["--check", "--bind"], ["nobody"], ["codex:x", "--root", "gone"], ["--missing", "gone"],
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused_and_nothing_is_searched(words: list[str], run: Run) -> None:
    done = run("locate", *words)
    assert (done.code, done.out) == (2, "")


def test_what_a_transcript_says_cannot_steer_the_terminal(here: Path, run: Run) -> None:
    label = "b381dcfa-da0b-5cf5-849f-5787aaac922a"
    write.gptme(here / "c" / "logs", "fox\x1b[31m", AT, write.marker(label, "gptme"))
    done = run("locate", f"workspace:{label}@2026-08-01T10:15:00Z", "--root", here / "c")
    assert done.code == 0
    assert "\x1b" not in done.out
    assert "fox\\x1b[31m" in done.out


def records(here: Path, *rows: dict[str, object]) -> Path:
    path = here / "session-records.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_all_records_with_an_owner_is_yes(here: Path, run: Run) -> None:
    found = write.claude(here / "c", A, AT)
    path = records(here, {"session_id": "a", "trajectory_path": f"/gone/.claude/projects/x/{A}.jsonl"})
    done = run("locate", "--missing", path, "--root", here / "c", "--write-back")
    assert done.code == 0
    assert "1 record, 1 of them without their transcript, 1 of those with an owner." in done.out
    assert "Written back: 1 record. The previous file is kept as" in done.out
    assert json.loads(path.read_text())["trajectory_path"] == str(found)


def test_a_record_that_has_its_transcript_keeps_it_from_all_others(here: Path, run: Run) -> None:
    found = write.claude(here / "c", A, AT)
    path = records(
        here,
        {"session_id": "a", "trajectory_path": f"/gone/.claude/projects/x/{A}.jsonl"},
        {"session_id": "b", "trajectory_path": str(found)},
    )
    done = run("locate", "--missing", path, "--root", here / "c", "--json")
    assert done.code == 1
    [row] = done.document["missing"]
    assert (row["session"], row["owner"], row["why"]) == ("workspace:a", None, "workspace:b claims it as strongly")


def test_a_record_that_names_no_session_is_identified_by_its_line(here: Path, run: Run) -> None:
    (here / "c").mkdir()
    done = run("locate", "--missing", records(here, {"harness": "gptme"}), "--root", here / "c")
    assert (done.code, "line 1: the row names no session (Expected a session id, got none)." in done.out) == (1, True)


def test_the_tools_own_folders_are_searched_where_no_root_is_named(
    here: Path, home: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODEX_HOME", str(here / "elsewhere"))
    path = write.codex(here / "elsewhere", B, AT)
    own = write.claude(home / ".claude", A, AT)
    assert run("locate", f"codex:{B}", "--json").document["owner"] == str(path)
    assert run("locate", f"claude-code:{A}", "--json").document["owner"] == str(own)


@pytest.mark.parametrize("asked", ["openai-agents:chat", "chat"])
def test_a_session_that_writes_into_the_ledger_itself_has_no_file_to_seek(run: Run, ledger: Path, asked: str) -> None:
    with rightful.open(ledger) as opened:
        opened.extend("openai-agents:chat", ["a"])
    done = run("locate", asked)

    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "rightful: openai-agents:chat has no transcript file: its entries are recorded in this ledger, and nothing was "
        "searched. `rightful transcript` and `rightful history` show them.\n"
    )
    assert "no session is named 'openai-agents:other'" in run("locate", "openai-agents:other").err
