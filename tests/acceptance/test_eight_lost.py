"""Issue 4: eight sessions had no transcript in their records; those were on disk, and the pointers were gone."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from tests.importers import transcript_writers as write

import rightful
from rightful.cli import main
from rightful.events import TranscriptBound

HOME = "2026-08-01T10:%02d:%s"


def item(number: int) -> str:
    return f"b381dcfa-da0b-5cf5-849f-5787aaac92{number:02d}"


def session(number: int) -> str:
    return f"workspace:{item(number)}@{HOME % (number, '00+00:00')}"


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Eight runs of gptme, each in its own folder, a ninth that wrote none, and a record of each without a path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RIGHTFUL_LEDGER", raising=False)
    rows = []
    for number in range(9):
        rows.append(
            {
                "session_id": item(number),
                "start_time": HOME % (number, "00+00:00"),
                "end_time": HOME % (number, "50+00:00"),
                "harness": "gptme",
                "trajectory_path": None,
                "note": "ä\u2028",
            }
        )
        if number < 8:
            folder = tmp_path / "ws" / "gptme-runs" / f"gptme-logs-{item(number)}"
            write.gptme(folder, f"2026-08-01-fox-{number}", HOME % (number, "02.5+00:00"))
    path = tmp_path / "ws" / "state" / "sessions" / "session-records.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\r\n" for row in rows) + '{"session_id": "torn')
    assert main(["init"]) == 0
    return path


def missing(path: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    capsys.readouterr()
    code = main(["locate", "--missing", str(path), "--root", str(path.parents[2]), "--json", *words])
    return code, json.loads(capsys.readouterr().out)


def test_each_is_found_in_its_own_folder_bound_and_written_back(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = workspace.read_bytes()
    code, found = missing(workspace, capsys, "--bind", "--write-back")
    paths = [
        f"{workspace.parents[2]}/gptme-runs/gptme-logs-{item(n)}/2026-08-01-fox-{n}/conversation.jsonl"
        for n in range(8)
    ]
    assert code == 1  # the ninth has none
    assert [row["owner"] for row in found["missing"]] == [*paths, None]
    assert found["missing"][8]["why"] == "no transcript was found that can be linked to it"
    with rightful.open(".rightful") as ledger:
        bound = [row.event for row in ledger.read(types=["transcript.bound"])]
    assert [event.session for event in bound if isinstance(event, TranscriptBound)] == [session(n) for n in range(8)]
    for event, path in zip(bound, paths, strict=True):
        assert isinstance(event, TranscriptBound)
        data = Path(path).read_bytes()
        assert (event.uri, event.bytes, event.evidence) == (Path(path).as_uri(), len(data), "directory")
        assert event.sha256 == hashlib.sha256(data).hexdigest()
    lines, old = workspace.read_bytes().split(b"\n"), before.split(b"\n")
    assert [json.loads(line)["trajectory_path"] for line in lines[:8]] == paths
    expected = [
        line.replace(b'"trajectory_path": null', b'"trajectory_path": ' + json.dumps(path).encode())
        for line, path in zip(old[:8], paths, strict=True)
    ]
    assert lines == [*expected, *old[8:]]
    assert Path(found["written"]["backup"]).read_bytes() == before


def test_doing_it_again_changes_nothing(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing(workspace, capsys, "--bind", "--write-back")
    after = workspace.read_bytes()
    code, found = missing(workspace, capsys, "--bind", "--write-back")
    assert (code, found["bound"], found["written"]["lines"]) == (1, [], [])
    assert workspace.read_bytes() == after


def test_binding_again_is_a_duplicate(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert {one["outcome"] for one in missing(workspace, capsys, "--bind")[1]["bound"]} == {"appended"}
    assert {one["outcome"] for one in missing(workspace, capsys, "--bind")[1]["bound"]} == {"duplicate"}
