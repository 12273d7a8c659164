from __future__ import annotations

import io
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.importers.agenta_records import Taker
from tests.importers.import_files import import_paths
from tests.importers.recording import Gate

from rightful import ledger as app
from rightful.importers.agenta.agenta_records import Agenta
from rightful.importers.bandits.bandit_state import BanditState
from rightful.importers.claude_code.claude_transcript import ClaudeCode
from rightful.importers.codex.rollout import Codex
from rightful.importers.copilot.copilot_session import Copilot
from rightful.importers.engine.file_report import FileReport
from rightful.importers.engine.formats import Kind
from rightful.importers.gptme.conversation import Gptme
from rightful.importers.gptme_records.manifest import GptmeManifest
from rightful.importers.gptme_records.receipts import GptmeReceipts
from rightful.importers.grok.grok_stream import Grok
from rightful.importers.lesson_hook.artifacts import LessonHook
from rightful.importers.openai_agents.sdk_databases import OpenAIAgents
from rightful.importers.session_records import SessionRecords
from rightful.ledger import Ledger

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
