from __future__ import annotations

import io
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.producers.agenta_records import Taker
from tests.producers.recording import Gate

from rightful import ledger as app
from rightful.ledger import Ledger
from rightful.producers.agenta.records import Agenta
from rightful.producers.bandits.state import BanditState
from rightful.producers.claude_code.transcript import ClaudeCode
from rightful.producers.codex.rollout import Codex
from rightful.producers.copilot.session import Copilot
from rightful.producers.gptme.conversation import Gptme
from rightful.producers.gptme.manifest import GptmeManifest
from rightful.producers.gptme.receipts import GptmeReceipts
from rightful.producers.grok.stream import Grok
from rightful.producers.importing.loop import Kind, import_paths
from rightful.producers.importing.reports import FileReport
from rightful.producers.lesson_hook.artifacts import LessonHook
from rightful.producers.openai_agents_files.kind import OpenAIAgents
from rightful.producers.session_records import SessionRecords

GOLDEN = Path(__file__).parents[1] / "golden" / "imports"
MTIME_S = 1_785_600_000

KINDS: dict[str, list[Kind]] = {
    "lesson-hook": [LessonHook()],
    "session-records": [SessionRecords()],
    "bandit-state": [BanditState()],
    "gptme": [Gptme()],
    "claude-code": [ClaudeCode()],
    "codex": [Codex()],
    "copilot": [Copilot()],
    "grok": [Grok()],
    "openai-agents": [OpenAIAgents()],
    "agenta": [Agenta()],
    "manifest": [GptmeManifest()],
    "receipts": [GptmeReceipts()],
}
KINDS["auto"] = [one for kinds in list(KINDS.values()) for one in kinds]

Importer = Callable[..., list[FileReport]]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with app.open(tmp_path / "ledger", create=True) as opened:
        yield opened


@pytest.fixture
def imported(ledger: Ledger) -> Importer:
    """Import paths and return the report of each file."""

    def run(kind: str, *paths: Path | str, stdin: bytes = b"") -> list[FileReport]:
        texts = [str(path) for path in paths]
        return list(import_paths(ledger.log, KINDS[kind], texts, stdin=io.BytesIO(stdin)))

    return run


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    """A copy of the golden files with a fixed time."""
    copy = tmp_path / "golden"
    shutil.copytree(GOLDEN, copy)
    for path in copy.rglob("*.json*"):
        os.utime(path, (MTIME_S, MTIME_S))
    return copy


def said(report: FileReport) -> dict[str, Any]:
    """A report without its path."""
    document = report.as_dict()
    del document["path"]
    return document


@pytest.fixture
def take(ledger: Ledger) -> Taker:
    """Import records from standard input, or from a file, and return the report."""

    def take(*records: Any, path: Path | None = None) -> FileReport:
        lines = [one if isinstance(one, str) else json.dumps(one) for one in records]
        data = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")
        if path is not None:
            path.write_bytes(data)
            os.utime(path, (MTIME_S, MTIME_S))
        paths = ["-" if path is None else str(path)]
        [report] = import_paths(ledger.log, [Agenta()], paths, stdin=io.BytesIO(data), receipts=True)
        return report

    return take


@pytest.fixture
def gate(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> Gate:
    return Gate(ledger.log, monkeypatch)
