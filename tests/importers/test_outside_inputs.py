"""Inputs that outside use found: each folder of `tests/outside` that has an `expect.json` gives exactly that.

An `expect.json` names the `kind` to import the `steps` (folders below it, one after the other) as, and of each session
what is to be read back. It may also give the `problems` of the import, the sessions from the `newest` on, and the
`days` of coverage. A row that is not fixed yet is in `OPEN`, with the id of its fault; the fix removes it there.
"""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.importers.conftest import KINDS, Importer
from tests.importers.import_files import import_paths

from rightful.cli.show.show_transcript import is_visible
from rightful.events import SessionStarted
from rightful.importers.engine.checkpoints import FOLDER, Checkpoints
from rightful.ledger import Ledger
from rightful.policies import policy_of
from rightful.projections.transcripts.entries import Entry, Transcript
from rightful.reports.session_coverage import days_of, ground_of
from rightful.reports.session_list import sessions

OUTSIDE = Path(__file__).parents[1] / "outside"
OPEN: dict[str, str] = {}
"""Rows that are not fixed yet: the folder, and the fault's id in the list of faults."""

ROWS = [
    pytest.param(path.parent, marks=[pytest.mark.xfail(strict=True, reason=OPEN[path.parent.name])])
    if path.parent.name in OPEN
    else pytest.param(path.parent)
    for path in sorted(OUTSIDE.glob("*/expect.json"))
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_outside_input_gives_what_it_must(row: Path, ledger: Ledger, tmp_path: Path) -> None:
    expected = json.loads((row / "expect.json").read_text())
    problems = import_steps(row, expected, ledger, tmp_path)

    found = {session: read_back(ledger, session, wanted) for session, wanted in expected["sessions"].items()}

    assert found == expected["sessions"]
    if "problems" in expected:
        assert problems == expected["problems"]
    if "newest" in expected:
        assert [one.session for one in sessions(ledger.projected(), "", 0).shown] == expected["newest"]
        assert [one.session for one in sessions(ledger.projected(), "", 1).shown] == expected["newest"][:1]
    if "days" in expected:
        ground = ground_of(ledger.projected(), policy_of("bound"))
        assert [day.day for day in days_of(ground)] == expected["days"]


@pytest.mark.parametrize("row", [row for row in ROWS if not row.marks], ids=lambda row: row.name)
def test_outside_input_imported_again_adds_nothing(
    row: Path, ledger: Ledger, imported: Importer, tmp_path: Path
) -> None:
    expected = json.loads((row / "expect.json").read_text())
    import_steps(row, expected, ledger, tmp_path)
    before = ledger.log.head()

    imported(expected["kind"], tmp_path / "in")

    assert ledger.log.head() == before


def import_steps(row: Path, expected: dict[str, Any], ledger: Ledger, tmp_path: Path) -> list[str]:
    """Import each step from the same place, as a tool that writes its files over would leave them.

    Returns:
        The problems that were reported, without notes.
    """
    problems = []
    for step in expected["steps"]:
        shutil.copytree(row / step, tmp_path / "in", dirs_exist_ok=True, ignore=shutil.ignore_patterns("expect.json"))
        kept = Checkpoints(ledger.path / FOLDER, ledger.id, ledger.log)
        paths = [str(tmp_path / "in")]
        reports = import_paths(ledger.log, KINDS[expected["kind"]], paths, stdin=io.BytesIO(), checkpoints=kept)
        problems += [problem.what for report in reports for problem in report.problems if problem.lost]
    return problems


def read_back(ledger: Ledger, session: str, wanted: dict[str, Any]) -> dict[str, Any]:
    """Return what a session holds, under the keys that are wanted."""
    transcript = ledger.transcript(session)
    usage = transcript.as_dict().get("usage", {})
    read: dict[str, Callable[[], Any]] = {
        "history": lambda: [_item_text(item) for item in ledger.history(session).items],
        "messages": lambda: [_text(entry) for entry in _messages(transcript)],
        "taken": lambda: [_text(entry) for entry in transcript.entries if entry.taken_back is True],
        "shown": lambda: [_text(entry) for entry in transcript.entries if is_visible(entry)],
        "why": lambda: transcript.why,
        "resumes": lambda: next(_resumed(ledger, session), None),
        "first_at": lambda: next(one.first_at for one in sessions(ledger.projected(), session, 0).shown),
    }
    for what in ("input", "output"):
        read[what] = partial(_count, usage.get("total", {}), what)
        read[f"cumulative_{what}"] = partial(_count, usage.get("cumulative", {}), what)
    return {key: read[key]() for key in wanted}


def _messages(transcript: Transcript) -> Iterator[Entry]:
    return (
        entry
        for entry in transcript.entries
        if entry.kind == "message" and entry.hidden is not True and entry.meta is not True
    )


def _text(entry: Entry) -> str:
    return entry.text if isinstance(entry.text, str) else entry.kind


def _item_text(item: Any) -> str:
    said = item.get("content")
    if isinstance(said, list):
        return "\n".join(part["text"] for part in said if isinstance(part.get("text"), str))
    return str(said if isinstance(said, str) else item["type"])


def _count(counts: dict[str, int], what: str) -> int | None:
    return next((counts[name] for name in (f"{what}_tokens", f"{what}Tokens") if name in counts), None)


def _resumed(ledger: Ledger, session: str) -> Iterator[Any]:
    for row in ledger.read(session=session, types=["session.started"]):
        if isinstance(row.event, SessionStarted) and isinstance(row.event.extra, dict) and "resumes" in row.event.extra:
            yield row.event.extra["resumes"]
