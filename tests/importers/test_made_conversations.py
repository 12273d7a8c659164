"""What is imported of made-up conversations is what their reference says: `RIGHTFUL_CASES` of them a row.

The default is a number that takes a few seconds; 1,000 a row were run before a release.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.amounts import cases
from tests.importers.conftest import KINDS, MTIME_S
from tests.importers.import_files import import_paths
from tests.importers.made_conversations import CALL, OUTPUT, ROWS, Made, log_of
from tests.log.memory import MemoryRecorder

from rightful.histories.service import Histories
from rightful.importers.engine.checkpoints import Checkpoints
from rightful.log.log import Log
from rightful.log.rows import Stored
from rightful.projections.transcripts import fold
from rightful.projections.transcripts.covered_entries import CoveredEntries
from rightful.projections.transcripts.session_facts import SessionRows

CASES = cases("RIGHTFUL_CASES", 40)


@pytest.mark.parametrize("row", ROWS)
def test_made_conversation_gives_what_its_reference_says(row: str, tmp_path: Path) -> None:
    for case in range(CASES):
        made = ROWS[row](Random(f"{row} {case}"))
        log = Log(MemoryRecorder())
        for step in made.steps:
            imported(log, made, step, tmp_path)
        assert seen(log, made.session) == made.history, case
        check_transcript(log, made, case)


@pytest.mark.parametrize("row", ROWS)
def test_file_that_grows_gives_the_same_history(row: str, tmp_path: Path) -> None:
    """Each import reads on from where the last one stopped, be it in the midst of a line."""
    for case in range(CASES // 10 + 1):
        random = Random(f"{row} {case} grows")
        made = ROWS[row](random)
        log = Log(MemoryRecorder())
        for step in made.steps:
            kept = Checkpoints(tmp_path / f"kept-{case}", "ledger", log)
            cuts = sorted(random.sample(range(1, len(step)), min(6, len(step) - 1)))
            for cut in [*cuts, len(step), len(step)]:
                imported(log, made, step[:cut], tmp_path, kept)
        assert seen(log, made.session) == made.history, case


@pytest.mark.parametrize("row", [row for row in ROWS if row == "all" or row.startswith(("B4", "B5", "B7", "B8"))])
def test_log_and_transcript_give_one_history_in_any_order(row: str, tmp_path: Path) -> None:
    """The log of a run is imported before, within or after the import of the transcript of the same session."""
    for case in range(CASES):
        random = Random(f"{row} {case} log")
        made = ROWS[row](random)
        [whole] = made.steps
        stream = made._replace(name="cc-session-1.log")
        data = log_of(whole, has_prompts=row in {"B4", "B7", "B8"} and random.random() < 0.3)
        cut, logs = random.randrange(len(whole)), [(stream, data[: random.randrange(len(data))]), (stream, data)]
        log = Log(MemoryRecorder())
        steps = random.choice(
            [[*logs, (made, whole)], [(made, whole[:cut]), *logs, (made, whole)], [(made, whole), *logs]]
        )
        kept = Checkpoints(tmp_path / f"log-{case}", "ledger", log)
        for what, data in steps:
            imported(log, what, data, tmp_path, kept)
        assert seen(log, made.session) == made.history, case
        check_transcript(log, made, case)


def imported(log: Log, made: Made, data: bytes, folder: Path, kept: Checkpoints | None = None) -> None:
    path = folder / made.name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    os.utime(path, (MTIME_S, MTIME_S))
    for report in import_paths(log, KINDS[made.kind], [str(path)], stdin=io.BytesIO(), checkpoints=kept):
        assert report.conflicts == 0, report


def seen(log: Log, session: str) -> list[str]:
    return [_text(item) for item in Histories(log).history(session).items]


def _text(item: Any) -> str:
    said = item.get("content")
    if isinstance(said, list):
        return "".join(part["text"] for part in said)
    return said if isinstance(said, str) else str(item["type"])


def check_transcript(log: Log, made: Made, case: int) -> None:
    """The transcript holds each message once, marks what was taken back, and agrees with the history on its view."""
    rows = list(rows_of(log, made.session))
    entries = [entry for entry in fold(made.session, rows).entries if entry.kind == "message"]
    if made.undone is not None:
        undone = [entry.text for entry in entries if entry.taken_back is True]
        assert sorted(map(str, undone)) == sorted(made.undone), case
    if made.messages is not None:
        said = [entry.text for entry in entries if entry.summary is not True]
        assert said == [text for text in made.messages if text not in (CALL, OUTPUT)], case
    gathered = SessionRows(keeps=False)
    for row in rows:
        gathered.take(row)
    assert CoveredEntries(gathered.facts()).view == [tuple(id_) for id_ in _ids(log, made.session)], case


def _ids(log: Log, session: str) -> list[Any]:
    return list(Histories(log).history(session).ids)


def rows_of(log: Log, session: str) -> Iterator[Stored]:
    for page in log.of_session(session):
        yield from page
