"""The event log of a gptme conversation: what it says, and what it does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.importers.conftest import Importer
from tests.importers.gptme_files import SESSION, Message, appended, event, history, said, said_in, write
from tests.importers.growing import import_once
from tests.importers.test_gptme import lessons, zone  # noqa: F401 - the machine's time is UTC

from rightful.events import DataRecorded, HistoryPopped
from rightful.importers.gptme.conversation import Gptme
from rightful.ledger import Ledger

A, B, C, D = (said(n, "user", text) for n, text in enumerate("abcd", 1))
CALL = said(5, "assistant", '@shell(c1): {"command": "ls"}')
RESULT = said(6, "system", "ran", call_id="c1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "fox"


def main_of(folder: Path, *messages: Message) -> Path:
    return write(folder / "conversation.jsonl", *messages)


def popped(ledger: Ledger) -> list[HistoryPopped]:
    return [row.event for row in ledger.read(session=SESSION) if isinstance(row.event, HistoryPopped)]


def again(ledger: Ledger, path: Path) -> None:
    """Import as the command line does, with what was kept."""
    import_once(ledger, Gptme(), path)


def test_the_event_log_says_what_was_undone(ledger: Ledger, imported: Importer, folder: Path) -> None:
    log = [appended(1, A), appended(2, B), appended(3, CALL), appended(4, RESULT), event(5, "undo", n=2)]
    imported("gptme", write(folder / "events.jsonl", *log, appended(6, C)))

    assert history(ledger) == ["a", "b", "c"]
    assert {one.at.isoformat() for one in popped(ledger)} == {"2026-08-01T10:16:05.000001+00:00"}


def test_message_repeated_after_undo_is_the_fact_of_the_conversation(
    ledger: Ledger, imported: Importer, folder: Path
) -> None:
    log = [appended(1, A), appended(2, B), event(3, "undo", n=1), appended(4, B), appended(5, B)]
    [_, second] = imported("gptme", main_of(folder, A, B, B), write(folder / "events.jsonl", *log))

    assert (said_in(ledger), second.appended, popped(ledger)) == (["a", "b", "b"], 0, [])


def test_an_undo_of_an_older_version_takes_back_one(ledger: Ledger, imported: Importer, folder: Path) -> None:
    imported("gptme", write(folder / "events.jsonl", appended(1, A), appended(2, B), event(3, "undo")))

    assert history(ledger) == ["a"]


def test_an_undo_of_more_than_the_log_shows_is_noted(ledger: Ledger, imported: Importer, folder: Path) -> None:
    [report] = imported("gptme", write(folder / "events.jsonl", appended(1, A), event(2, "undo", n=3)))

    what = "note: it undoes more messages than this log has: 2; the conversation's import records the rest"
    assert [(one.line, one.what) for one in report.problems] == [(2, what)]
    assert history(ledger) == []


def test_the_event_log_says_what_was_edited(ledger: Ledger, imported: Importer, folder: Path) -> None:
    edited = [A, said(2, "user", "better"), C]
    log = [appended(1, A), appended(2, B), event(3, "message_edit", messages=edited), event(4, "undo", n=1)]
    imported("gptme", write(folder / "events.jsonl", *log))

    assert sorted(history(ledger)) == ["a", "better"]
    assert said_in(ledger) == ["a", "b", "better", "c"]


def test_an_undo_in_a_view_takes_nothing_from_the_conversation(
    ledger: Ledger, imported: Importer, folder: Path
) -> None:
    """The log says how many, and not that they were the view's: a summary, and then what stands before it."""
    log = [appended(1, A), appended(2, B), event(3, "undo", n=2), appended(4, C)]
    main = main_of(folder, A, B, C)
    view = write(folder / "views" / "compacted-001.jsonl", A, C)
    imported("gptme", main, write(folder / "events.jsonl", *log), view)

    assert (history(ledger), popped(ledger)) == (["a", "c"], [])


def test_messages_that_gptme_was_started_with_stand_in_a_checkpoint(
    ledger: Ledger, imported: Importer, folder: Path
) -> None:
    """A checkpoint has a number of its own, which the next event may have again."""
    log = [appended(50, B), event(51, "checkpoint", messages=[A, B]), appended(51, C), event(52, "undo", n=3)]
    imported("gptme", write(folder / "events.jsonl", *log))

    assert said_in(ledger) == ["b", "a", "c"]
    assert history(ledger) == []


def test_a_log_that_was_cut_at_a_checkpoint_took_nothing_back(ledger: Ledger, folder: Path) -> None:
    """Newer versions drop what stands before the latest checkpoint."""
    path = write(folder / "events.jsonl", appended(1, A), appended(2, B))
    again(ledger, path)
    write(path, event(3, "checkpoint", messages=[A, B]), appended(4, C))
    again(ledger, path)

    assert (history(ledger), popped(ledger)) == (["a", "b", "c"], [])


def test_two_processes_that_write_the_same_number_tell_two_things(
    ledger: Ledger, imported: Importer, folder: Path
) -> None:
    other = event(1, "renamed", name="x")
    imported("gptme", write(folder / "events.jsonl", appended(1, A), appended(1, B), other, other))

    assert history(ledger) == ["a", "b"]
    data = [row.event for row in ledger.read() if isinstance(row.event, DataRecorded)]
    assert [(one.name, one.data) for one in data] == [("renamed", other)] * 2


def test_the_copied_log_of_a_fork_is_the_forks_own(ledger: Ledger, imported: Importer, folder: Path) -> None:
    log = [appended(1, A), appended(2, B), event(3, "undo", n=1)]
    paths = [write(folder.parent / name / "events.jsonl", *log) for name in ("fox", "fork")]
    reports = imported("gptme", *paths)

    assert [(one.appended, one.conflicts) for one in reports] == [(3, 0), (3, 0)]
    assert (history(ledger), history(ledger, "gptme:fork")) == (["a"], ["a"])


@pytest.mark.parametrize(
    ("row", "what"),
    [
        (event(1, "undo", n="1"), "Expected `int`, got `str` - at `$.payload.n`"),
        (event(1, "message_append"), "Object missing required field `message` - at `$.payload`"),
        (event(1, "message_append", message={}), "Object missing required field `role` - at `$.payload.message`"),
        (
            event(1, "message_edit", messages=[A, {}]),
            "Object missing required field `role` - at `$.payload.messages[1]`",
        ),
        ({**appended(1, A), "ts": "now"}, "Expected a time, got 'now' - at `$.ts`"),
        ({**appended(1, A), "seq": None}, "Expected `int`, got `null` - at `$.seq`"),
    ],
)
def test_an_event_of_another_form_is_a_problem_and_its_neighbours_are_read(
    ledger: Ledger, imported: Importer, folder: Path, row: object, what: str
) -> None:
    [report] = imported("gptme", write(folder / "events.jsonl", appended(1, B), row, appended(2, C)))

    assert [(one.line, one.what) for one in report.problems] == [(2, what)]
    assert {"b", "c"} <= set(said_in(ledger))


def test_a_message_of_a_view_that_a_checkpoint_holds_is_left_to_the_view(
    ledger: Ledger, imported: Importer, folder: Path
) -> None:
    summary = said(3, "system", "summary")
    main = main_of(folder, A, B, C)
    view = write(folder / "views" / "compacted-001.jsonl", A, summary, C)
    log = write(folder / "events.jsonl", appended(1, B), event(2, "checkpoint", messages=[A, summary, C]))
    for path in (log, main, view):
        imported("gptme", path)

    assert said_in(ledger) == ["b", "a", "c"]
    assert [text for text in history(ledger) if text == "summary"] == ["summary"]
