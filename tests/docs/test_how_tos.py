"""The how-tos of a gptme workspace, followed word for word on a workspace in which a newest-file updater ran."""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.bandit import Bandit

from rightful.cli import main

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"
BLOCK = re.compile(r"^```sh\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
PAIRS = 12
BEGAN = datetime(2026, 8, 1, 10, tzinfo=UTC)


class Done(NamedTuple):
    code: int
    out: str
    err: str


Follow = Callable[[str], dict[str, Done]]


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Twelve pairs of sessions side by side: each grade went to the lessons of the newest state file."""
    for name in [name for name in os.environ if name.startswith(("GPTME_", "XDG_", "LESSON_", "PM_", "RIGHTFUL_"))]:
        monkeypatch.delenv(name)
    folder, state_files = tmp_path / "ws", tmp_path / "tmp" / "claude-lesson-match"
    for made in (folder / "state/sessions", folder / "state/lesson-thompson", folder / "state/bandit", state_files):
        made.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("rightful.importers.gptme.gptme_workspace._TMP", str(tmp_path / "none"))
    monkeypatch.chdir(folder)
    dice, clock, disk, records = random.Random(5), [BEGAN], dict[str, str](), list[dict[str, object]]()
    bandit = Bandit(disk, lambda: clock[0])
    lesson = {name: f"{folder}/lessons/{name}.md" for name in ("git", "tests", "style")}
    for pair in range(PAIRS):
        older, newer = (str(uuid.UUID(int=dice.getrandbits(128), version=4)) for _ in range(2))
        shown = {older: lesson["git"], newer: lesson["tests" if pair % 2 else "style"]}
        starts = {older: BEGAN + timedelta(hours=2 * pair), newer: BEGAN + timedelta(hours=2 * pair, minutes=5)}
        for name, arm in shown.items():
            path, seen = state_files / f"{name}.json", starts[name].timestamp() + 2
            path.write_text(json.dumps({"injected": [arm], "last_pretool": seen}))
            line = {"ts": seen, "session_id": name, "tool_seq": [], "lessons": [{"path": arm}]}
            log = folder / "state/lesson-trajectories" / f"{starts[name]:%Y-%m-%d}.jsonl"
            log.parent.mkdir(exist_ok=True)
            log.write_text((log.read_text() if log.exists() else "") + json.dumps(line) + "\n")
        for name, reward in ((older, 0.9), (newer, 0.1)):
            row = {"session_id": name[:8], "timestamp": starts[name].isoformat(), "duration_seconds": 1800}
            transcript = f"{tmp_path}/home/.claude/projects/-ws/{name}.jsonl"
            records.append(row | {"trajectory_path": transcript, "trajectory_grade": reward})
            clock[0] = starts[name] + timedelta(seconds=1800)
            bandit.update([shown[newer]], reward)
    (folder / "state/sessions/session-records.jsonl").write_text("".join(json.dumps(row) + "\n" for row in records))
    (folder / "state/lesson-thompson/bandit-state.json").write_text(disk["file"])
    (state_files / "session-a.json").write_text(json.dumps({"injected": [f"{folder}/lessons/session-a.md"]}))
    return folder


@pytest.fixture
def follow(workspace: Path, capsys: pytest.CaptureFixture[str]) -> Follow:
    """Run every command of a page, in order, and return what each answered."""

    def run(page: str) -> dict[str, Done]:
        answers: dict[str, Done] = {}
        for hit in BLOCK.finditer((HOW_TO / page).read_text("utf-8")):
            for line in hit["code"].splitlines():
                words = shlex.split(
                    line.replace("/tmp/claude-lesson-match", os.environ["TMPDIR"] + "/claude-lesson-match")
                )
                if "--policy" in words and not Path(words[-1]).exists():
                    continue  # as the page says: nothing was proposed
                code = main(words[1:])
                answers[line] = Done(code, *capsys.readouterr())
        return answers

    return run


def test_gptme_workspace_comes_in_whole_and_its_audit_holds_the_truth(
    follow: Follow, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = follow("from-a-gptme-workspace.md")

    assert [(line, done.code, done.err) for line, done in answers.items() if done.code] == []
    assert "24 grades" in answers["rightful import gptme-workspace"].out
    assert "24 of 24 grades are credited" in answers["rightful posteriors --balances none"].out
    assert main(["audit", "historical-newest", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["foreign_grades"] == PAIRS  # the lower of two bounds, where they differ


def test_old_posteriors_are_repaired_and_come_back(follow: Follow, workspace: Path) -> None:
    target = workspace / "state/lesson-thompson/bandit-state.json"
    before = target.read_bytes()
    follow("from-a-gptme-workspace.md")

    answers = follow("repair-old-posteriors.md")

    assert [(line, done.code, done.err) for line, done in answers.items() if done.code] == []
    [plan] = [done for line, done in answers.items() if "backfill plan" in line]
    assert "3 arms of " in " ".join(plan.out.split())
    [applied] = [done for line, done in answers.items() if "backfill apply" in line]
    assert "was written (for lesson-hook, rebuilt from the log only): 3 arms changed" in applied.out
    assert target.read_bytes() == before


def test_page_keeps_lessons_of_a_past_that_was_not_imported(follow: Follow, workspace: Path) -> None:
    """The page's last command removed them, and its exit code was 0."""
    target = workspace / "state/bandit/bandit-state.json"
    target.write_bytes((workspace / "state/lesson-thompson/bandit-state.json").read_bytes())
    assert main(["init"]) == 0

    answers = follow("credit-one-session.md")

    [plan] = [done for line, done in answers.items() if "backfill plan" in line]
    [published] = [done for line, done in answers.items() if "--publish" in line]
    assert (published.code, plan.code) == (0, 1)
    assert "2 arms removed: style.md, tests.md" in " ".join(plan.out.split())
    lessons = [name.rpartition("/")[2] for name in json.loads(target.read_text())["arms"]]
    assert sorted(lessons) == ["session-a.md", "style.md", "tests.md"]


def test_one_session_is_credited_and_published(follow: Follow, workspace: Path) -> None:
    follow("from-a-gptme-workspace.md")

    answers = follow("credit-one-session.md")

    assert [(line, done.code, done.err) for line, done in answers.items() if done.code] == []
    dry, first, published, *_ = answers.values()
    assert "(dry run" in dry.out
    assert "Lessons (1): session-a.md" in first.out
    assert "ledger: appended" in first.err
    assert "already there: credited once" in published.err
    arms = json.loads((workspace / "state/bandit/bandit-state.json").read_text())["arms"]
    assert arms[f"{workspace}/lessons/session-a.md"]["alpha"] == 1.8
    assert arms[f"{workspace}/lessons/git.md"]["alpha"] == pytest.approx(1 + 12 * 0.9)
