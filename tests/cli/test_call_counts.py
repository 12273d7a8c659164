"""What one query, one import and one call of a hook cost in calls of our functions: the numbers may only fall.

The count of one append is in `tests/storage/test_calls.py`.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest
from tests.cli.conftest import Run
from tests.hooking import before_tool
from tests.importers.import_files import import_paths

import rightful
from rightful.importers.engine.checkpoints import FOLDER, Checkpoints
from rightful.importers.engine.file_report import FileReport
from rightful.importers.engine.formats import AUTO, kinds

SOURCE: Final = str(Path(rightful.__file__).parent)
TRANSCRIPTS: Final = Path(__file__).parents[1] / "samples" / "claude" / "projects" / "-home-dev-my-proj"
MOST: Final = {
    "posteriors under another policy": 116,
    "import of one transcript": 2005,
    "import of four lines": 482,
    "call of a hook": 198,
}


def calls_of(work: Callable[[], object]) -> list[str]:
    """Return the names of our functions that a piece of work calls in this thread."""
    calls: list[str] = []

    def count(frame: FrameType, kind: str, _: object) -> None:
        if kind == "call" and frame.f_code.co_filename.startswith(SOURCE):
            calls.append(f"{frame.f_code.co_filename[len(SOURCE) :]} {frame.f_code.co_qualname}")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def fact(kind: str, session: str, **fields: Any) -> dict[str, Any]:
    key = f"{kind} {session}"
    return {"type": kind, "producer": "tests/1", "key": key, "session": session, "at": "2026-01-01T00:00:00Z"} | fields


def test_posteriors_under_another_policy(tmp_path: Path) -> None:
    with rightful.open(tmp_path / "l", create=True) as ledger:
        for name in "ab":
            ledger.append([fact("exposure.recorded", f"t:{name}", arms=[{"arm": "x"}])])
        ledger.append([fact("grade.recorded", "t:a", reward=0.5, seq=1)])
        for policy in ("bound", "historical-newest"):
            ledger.posteriors(policy)

        calls = calls_of(lambda: ledger.posteriors({"causal_order": "lenient"}))

    assert len(calls) <= MOST["posteriors under another policy"], "\n".join(calls)


def test_import_of_one_transcript(run: Run, ledger: Path) -> None:
    second, first = sorted(TRANSCRIPTS.glob("*.jsonl"))[-2:]
    assert run("import", "auto", first).code == 0

    calls = calls_of(lambda: run("import", "auto", second))

    assert len(calls) <= MOST["import of one transcript"], "\n".join(calls)


def test_import_of_a_small_transcript_without_the_command_line(tmp_path: Path) -> None:
    """Four lines become five events; the kinds are loaded before."""
    second, first = sorted(TRANSCRIPTS.glob("*.jsonl"))[-2:]
    small = tmp_path / second.name
    small.write_text("".join(second.read_text().splitlines(keepends=True)[:4]))
    with rightful.open(tmp_path / "l", create=True) as ledger:

        def read(path: Path) -> list[FileReport]:
            checkpoints = Checkpoints(ledger.path / FOLDER, ledger.id, ledger.log)
            return list(import_paths(ledger.log, kinds(AUTO), [str(path)], stdin=io.BytesIO(), checkpoints=checkpoints))

        read(first)
        reports: list[FileReport] = []
        calls = calls_of(lambda: reports.extend(read(small)))

    assert [report.appended for report in reports] == [5]
    assert len(calls) <= MOST["import of four lines"], "\n".join(calls)


def test_call_of_a_hook(run: Run, ledger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def call(number: int) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(before_tool(number)).encode())))
        assert run("hook", "run", "claude-code", "--ledger", ledger) == (0, "", "")

    call(1)

    calls = calls_of(lambda: call(2))

    assert len(calls) <= MOST["call of a hook"], "\n".join(calls)
