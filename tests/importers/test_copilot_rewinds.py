"""A rewind of Copilot's takes lines out of the file: the ledger keeps them, and the history does not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.importers.copilot_lines import SESSION, SID, answer, asked, eid, record, start, turn, turned, uid
from tests.importers.growing import import_once, put, rows_of
from tests.importers.reading_lines import written

from rightful import ledger as app
from rightful.events import HistoryPopped
from rightful.field_types import ItemRange
from rightful.importers.copilot.copilot_session import Copilot
from rightful.ledger import Ledger

KEPT = [start(), asked("u1", "a"), turn("t2"), answer("a3", "A"), turned("t4")]
TAKEN = [asked("u5", "b"), turn("t6", "1"), answer("a7", "B", messageId=uid("m")), asked("u8", "c")]
MORE = [asked("u9", "d")]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "files" / SID / "events.jsonl"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with app.open(tmp_path / "ledger", create=True) as opened:
        yield opened


def imported(ledger: Ledger, file: Path, *rows: Any) -> int:
    put(file, written(rows))
    report = import_once(ledger, Copilot(), file)
    assert (report.lost, report.conflicts) == (0, 0)
    return report.appended


def popped(ledger: Ledger) -> list[Any]:
    return [row.event.items for row in ledger.read() if isinstance(row.event, HistoryPopped)]


@pytest.mark.parametrize(("rows", "appended"), [(KEPT, 1), (KEPT + MORE, 2)])
def test_what_a_rewind_took_out_of_the_file_is_taken_out_of_the_history(
    ledger: Ledger, file: Path, rows: list[Any], appended: int
) -> None:
    imported(ledger, file, *KEPT, *TAKEN)

    assert imported(ledger, file, *rows) == appended

    assert popped(ledger) == [(ItemRange(first=(eid("u5"), 0), last=(eid("u8"), 0)),)]
    [event] = [row.event for row in ledger.read() if isinstance(row.event, HistoryPopped)]
    assert (event.session, event.turn) == (SESSION, None)
    before = rows_of(ledger)
    assert imported(ledger, file, *rows) == 0
    assert rows_of(ledger) == before


def test_a_file_that_is_being_written_again_has_lost_nothing_yet(ledger: Ledger, file: Path) -> None:
    imported(ledger, file, *KEPT, *TAKEN)
    whole = written([*KEPT, *TAKEN])
    for cut in (len(written(KEPT)) + 9, len(whole) - 9):
        put(file, whole[:cut].replace(b'"session.start"', b'"session.start" '))
        import_once(ledger, Copilot(), file)

    put(file, whole.replace(b'"session.start"', b'"session.start" '))
    import_once(ledger, Copilot(), file)
    assert popped(ledger) == []
    imported(ledger, file, *KEPT)
    assert popped(ledger) == [(ItemRange(first=(eid("u5"), 0), last=(eid("u8"), 0)),)]


def test_a_file_that_grows_on_after_a_rewind_takes_nothing_back_again(ledger: Ledger, file: Path) -> None:
    imported(ledger, file, *KEPT, *TAKEN)
    imported(ledger, file, *KEPT)

    assert imported(ledger, file, *KEPT, *MORE) == 1

    assert len(popped(ledger)) == 1


def test_file_without_lost_user_messages_removes_nothing(ledger: Ledger, file: Path) -> None:
    imported(ledger, file, *KEPT, *TAKEN)

    imported(ledger, file, *KEPT[:1], *KEPT[2:], *TAKEN)
    imported(ledger, file, *KEPT, *TAKEN)
    imported(ledger, file, *KEPT, *TAKEN[:1], *TAKEN[3:])

    assert popped(ledger) == []


def test_a_compaction_behind_a_rewind_hides_no_message_that_is_still_there(ledger: Ledger, file: Path) -> None:
    imported(ledger, file, *KEPT, *TAKEN)

    compacted = record("session.compaction_complete", "k9", success=True, summaryContent="s")
    imported(ledger, file, *KEPT, compacted)

    assert popped(ledger) == [(ItemRange(first=(eid("u5"), 0), last=(eid("u8"), 0)),)]
