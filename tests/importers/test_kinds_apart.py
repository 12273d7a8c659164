"""Every file of every tool is told by exactly one kind, whatever the order in which they are asked."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import pytest
from tests.importers.reading_lines import SAMPLES
from tests.importers.test_outside_inputs import OUTSIDE

from rightful.importers.claude_code.claude_transcript import ClaudeCode
from rightful.importers.engine.checkpoints import FOLDER, Checkpoints
from rightful.importers.engine.file_report import FileReport
from rightful.importers.engine.formats import AUTO, KINDS, kinds
from rightful.importers.engine.loop import Import
from rightful.importers.sources.text_files import Found, objects_of
from rightful.ledger import Ledger

EXPECTED = {
    "claude": "claude-code",
    "codex": "codex",
    "copilot": "copilot",
    "grok": "grok",
    "tmp/cc-session-20260801-1015.log": "claude-code",
    "tmp/cc-session-7fbe4341-0d57-4016-8374-1ed5e8da4b1b-lessons.jsonl": "lesson-hook",
    "tmp/claude-lesson-match": "lesson-hook",
    "gptme": "gptme",
    "gptme/receipts.jsonl": "receipts",
    "gptme-runs": "gptme",
    "manifest": "manifest",
    "legacy": "bandit-state",
    "xdg": "bandit-state",
    "ws/state/bandit": "bandit-state",
    "ws/state/lesson-thompson/bandit-state.json": "bandit-state",
    "ws/state/pm-dispatch": "bandit-state",
    "ws/state/sessions": "session-records",
    "ws/state/lesson-trajectories": "lesson-hook",
    "ws/state/lesson-dropout": "lesson-hook",
}
"""Whose files stand where; the longest place that fits counts. Elsewhere nobody's."""

NOBODYS = {"prediction-model.json", "loo-results.json", "sessions.jsonl", "truncated.json"}
FILES = sorted(path for path in SAMPLES.rglob("*") if path.suffix in {".json", ".jsonl", ".log"})


def expected(path: Path) -> str | None:
    place = path.relative_to(SAMPLES).as_posix()
    fitting = [name for name in EXPECTED if place == name or place.startswith(f"{name}/")]
    return EXPECTED[max(fitting, key=len)] if fitting and path.name not in NOBODYS else None


def kinds_of(path: Path) -> list[set[str]]:
    """Of each object of a file that any kind knows, which kinds know it."""
    with path.open("rb") as stream:
        found = [item.value for item in objects_of(stream) if isinstance(item, Found)]
    told = [{kind.NAME for kind in kinds(AUTO) if kind.recognises(value)} for value in found]
    return [names for names in told if names]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(SAMPLES).as_posix())
def test_every_sample_file_is_recognised_by_exactly_one_kind(path: Path) -> None:
    wanted = expected(path)
    if wanted is not None and wanted not in KINDS:
        pytest.skip(f"the kind {wanted} is not here yet")

    told = kinds_of(path)
    if wanted is None:
        assert told == []
    else:
        assert told
        assert all(names == {wanted} for names in told), told


FOREIGN = {
    "01-qwen-code-taken-for-claude": "a session of Qwen Code",
    "02-droid-stream-taken-for-claude": "a session of Droid",
    "07-opencode-part-taken-for-grok": "a part of a session of OpenCode",
    "11-unsupported/cursor-agent-transcript.jsonl": "a transcript of Cursor",
    "11-unsupported/droid-session.jsonl": "a session of Droid",
    "11-unsupported/gemini-session.json": "a session of Gemini CLI",
    "11-unsupported/kiro.json": "a conversation of Kiro",
    "11-unsupported/pi-session.jsonl": "a session of Pi",
    "other-tools/cursor-stream.jsonl": "an object with",
    "other-tools/gemini-stream.jsonl": "an object with",
    "other-tools/heartbeat.json": "an object with",
    "other-tools/hook-input.jsonl": "an input of a hook",
    "other-tools/qwen-stream.jsonl": "a session of Qwen Code",
}
"""Inputs of tools that are not imported, and how their description begins."""

FOREIGN_FILES = {
    path: what
    for name, what in FOREIGN.items()
    for path in ([OUTSIDE / name] if (OUTSIDE / name).is_file() else sorted((OUTSIDE / name).rglob("*.json*")))
}
SESSION = "claude-code:00000000-0000-7000-8000-000000000001"
OWN_FILES = {path: kind for path in FILES if (kind := expected(path)) is not None}


def imported(ledger: Ledger, kind: str, path: Path) -> FileReport:
    """Import one file as the command line does."""
    importing = Import(ledger.log, kinds(kind), 0, None, None, False, lambda: kinds(AUTO))
    [report] = [one for one in importing.reports(str(path), io.BytesIO()) if one.path != str(path.parent)]
    return report


@pytest.mark.parametrize("kind", [*KINDS, AUTO])
def test_no_importer_reads_a_file_of_a_tool_that_is_not_imported(ledger: Ledger, kind: str) -> None:
    for path, what in FOREIGN_FILES.items():
        report = imported(ledger, kind, path)

        [problem] = report.problems
        if kind != "openai-agents":
            assert problem.what.startswith(what), path
            assert problem.what.endswith(("; not imported by this version", "; nothing was imported from it")), path
        assert (report.appended, report.exit_code, report.is_read) == (0, 2, False), path
    assert ledger.log.head() == 0


@pytest.mark.parametrize("kind", [*KINDS, AUTO])
def test_a_file_of_a_tool_that_is_not_imported_is_skipped_in_a_folder(
    ledger: Ledger, kind: str, tmp_path: Path
) -> None:
    for path, what in FOREIGN_FILES.items():
        folder = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        shutil.copy(path, folder)
        report = imported(ledger, kind, folder)

        [problem] = report.problems
        assert problem.what.startswith(f"skipped: {what}"), path
        assert (report.appended, report.exit_code, report.passed) == (0, 0, 1), path
    assert ledger.log.head() == 0


@pytest.mark.parametrize("kind", KINDS)
def test_no_importer_reads_a_file_of_another_kind(ledger: Ledger, kind: str) -> None:
    for path, own in OWN_FILES.items():
        if own == kind:
            continue
        report = imported(ledger, kind, path)

        [problem] = report.problems
        if kind != "openai-agents":
            assert problem.what == (
                f"this looks like a file of kind {own}, not {kind}; nothing was imported from it. "
                f"Import it as {own}, or as auto"
            ), path
        assert (report.appended, report.exit_code, report.is_read) == (0, 2, False), path
    assert ledger.log.head() == 0


def test_a_hook_input_amid_unknown_objects_is_still_not_a_session(ledger: Ledger, tmp_path: Path) -> None:
    """The search ends at the first object that another tool proves its own, also behind many that prove nothing."""
    rows = [{"type": "event", "session_id": "s"}] * 40 + [{"session_id": "s", "hook_event_name": "Stop"}]
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    report = imported(ledger, "claude-code", path)

    assert [problem.what for problem in report.problems] == [
        "an input of a hook, for `rightful hook run`; not imported by this version"
    ]
    assert ledger.log.head() == 0


def test_what_an_older_version_read_from_a_foreign_file_is_withdrawn(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "qwen-code.jsonl"
    shutil.copy(OUTSIDE / "01-qwen-code-taken-for-claude" / "qwen-code.jsonl", path)

    def run() -> FileReport:
        kept = Checkpoints(ledger.path / FOLDER, ledger.id, ledger.log)
        importing = Import(ledger.log, kinds("claude-code"), 0, None, kept, False, lambda: kinds(AUTO))
        [report] = importing.reports(str(path), io.BytesIO())
        return report

    with monkeypatch.context() as patched:
        patched.setattr(ClaudeCode, "recognises", lambda *_: True)
        patched.setattr(ClaudeCode, "READER_VERSION", 1)
        before = run()
    after = run()

    assert before.appended > 0
    assert after.exit_code == 2
    assert sum(row.type == "event.withdrawn" for row in ledger.read()) == before.appended
    assert [entry.kind for entry in ledger.transcript(SESSION).entries if entry.withdrawn is not True] == []
