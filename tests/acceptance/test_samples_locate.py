"""Every record of the samples that can be bound is, and the others say why."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from rightful.cli import main

SAMPLES = Path(__file__).parents[1] / "samples"
CLAUDE = "claude/projects/-home-dev-my-proj/7fbe4341-0d57-4016-8374-1ed5e8da4b1b.jsonl"
GPTME = "gptme/logs/2026-08-01-running-blue-fox/conversation.jsonl"
FOX = "gptme:2026-08-01-running-blue-fox"
SAME = "workspace:7c1d9e02@2026-08-01T10:15:00.123456+00:00"


def test_the_records_of_the_samples(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.delenv("RIGHTFUL_LEDGER", raising=False)
    root = tmp_path / "samples"
    shutil.copytree(SAMPLES, root)
    records = root / "ws/state/sessions/session-records.jsonl"
    assert main(["locate", "--missing", str(records), "--root", str(root), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [(row["line"], row["session"], row["owner"], row["why"]) for row in found["missing"]] == [
        (1, SAME, f"{root}/{CLAUDE}", "its first turn is marked for session 41c2"),
        (
            2, "workspace:0a1b2c3d@2026-08-01T11:38:20.123456+00:00", None,
            "its beginning was copied from 019fbcd1-e4a0-7bdc-9da7-2ed83980ed9b",
        ),
        (3, SAME, f"{root}/{CLAUDE}", "its first turn is marked for session 41c2"),
        (4, None, None, "the row names no session (Expected a session id, got none)"),
        (6, "workspace:g1", None, "no transcript was found that can be linked to it"),
        (6, "workspace:g2", None, "no transcript was found that can be linked to it"),
        (
            7, "workspace:oldstyle", f"{root}/{GPTME}",
            f"its folder is {FOX}, which is joined to workspace:oldstyle by a path in its record",
        ),
    ]  # fmt: skip
    assert [one["line"] for one in found["problems"]] == [5]
