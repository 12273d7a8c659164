"""What a gptme conversation was compacted to: its history is the view, message by message."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.importers.conftest import Importer
from tests.importers.gptme_files import SESSION, Message, history, rows, said, said_in, write
from tests.importers.growing import import_once
from tests.importers.test_gptme import header, lessons, zone  # noqa: F401 - the machine's time is UTC

from rightful.events import ExposureRecorded, HistoryCompacted
from rightful.importers.gptme.conversation import Gptme
from rightful.ledger import Ledger

SYS, A, B, C, D, E = (said(n, "user", text) for n, text in enumerate(["sys", *"abcde"], 1))
CALL = said(7, "assistant", '@shell(c1): {"command": "ls"}')
RESULT = said(8, "system", "long result", call_id="c1")
SHORT = RESULT | {"content": "short"}
SUM, SUM2 = said(10, "system", "summary"), said(20, "system", "summary of all")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "fox"


def main_of(folder: Path, *messages: Message) -> Path:
    return write(folder / "conversation.jsonl", *messages)


def view_of(folder: Path, *messages: Message, number: int = 1) -> Path:
    return write(folder / "views" / f"compacted-{number:03}.jsonl", *messages)


def compacted(ledger: Ledger) -> list[HistoryCompacted]:
    return [row.event for row in ledger.read(session=SESSION) if isinstance(row.event, HistoryCompacted)]


@pytest.mark.parametrize(
    ("main", "view"),
    [
        ([SYS, A, B, C, D], [SYS, SUM, D]),
        ([SYS, A, B, C, D], [SYS, C, D]),
        ([SYS, A, B, C, D], [SUM, D]),
        ([SYS, A, B, C, D], [SYS, SUM, A, D]),
        ([SYS, A, B, C, D], [SYS, A, SUM, C, SUM2, D]),
        ([SYS, A, CALL, RESULT, D], [SYS, A, CALL, SHORT, D]),
        ([SYS, A, CALL, RESULT, D], [SYS, SUM, D]),
        ([SYS, A, A, A, D], [SYS, A, D]),
    ],
)
def test_the_history_of_a_compacted_conversation_is_its_view(
    ledger: Ledger, imported: Importer, folder: Path, main: list[Message], view: list[Message]
) -> None:
    imported("gptme", main_of(folder, *main), view_of(folder, *view))

    shown = history(ledger)
    calls = ['call shell {"command": "ls"}'] if CALL in view else []
    assert [text for text in shown if not text.startswith("call")] == [one["content"] for one in view]
    assert [text for text in shown if text.startswith("call")] == calls
    assert said_in(ledger) == [one["content"] for one in main if "call_id" not in one]


def test_a_compaction_says_what_gave_way_to_what(ledger: Ledger, imported: Importer, folder: Path) -> None:
    imported("gptme", main_of(folder, SYS, A, CALL, RESULT, D), view_of(folder, SYS, SUM, D))

    [one] = compacted(ledger)
    ids = [row.id for row in ledger.read() if row.type not in {"session.started", "history.compacted"}]
    assert one.covers == tuple((item, 0) for item in ids[1:5])
    assert (one.mode, one.items) == ("compacted", [{"role": "system", "content": "summary"}])
    assert (one.after, one.response_id) == (None, None)


def test_a_view_is_said_once_it_was_used(ledger: Ledger, folder: Path) -> None:
    """Until a message stands behind the summary in both, nobody was shown it."""
    for path in (main_of(folder, SYS, A, B), view_of(folder, SYS, SUM)):
        import_once(ledger, Gptme(), path)
    assert (history(ledger), compacted(ledger)) == (["sys", "a", "b"], [])

    for path in (main_of(folder, SYS, A, B, C), view_of(folder, SYS, SUM, C)):
        import_once(ledger, Gptme(), path)
    assert history(ledger) == ["sys", "summary", "c"]


def test_a_view_that_grows_is_the_same_compaction(ledger: Ledger, folder: Path) -> None:
    for more in ([], [C], [C, D], [C, D, E]):
        for path in (main_of(folder, SYS, A, B, *more), view_of(folder, SYS, SUM, B, *more)):
            import_once(ledger, Gptme(), path)

    assert (len(compacted(ledger)), history(ledger)) == (1, ["sys", "summary", "b", "c", "d", "e"])


def test_what_the_conversation_says_without_the_view_stays(ledger: Ledger, imported: Importer, folder: Path) -> None:
    """The user went back to the whole conversation, or another view was made."""
    imported("gptme", main_of(folder, SYS, A, B, C, D), view_of(folder, SYS, SUM, C))

    assert history(ledger) == ["sys", "summary", "c", "d"]


def test_an_undo_in_a_view_leaves_the_message_out(ledger: Ledger, imported: Importer, folder: Path) -> None:
    imported("gptme", main_of(folder, SYS, A, B, C, D), view_of(folder, SYS, SUM, B, D))

    assert history(ledger) == ["sys", "summary", "b", "d"]
    assert [one.items for one in compacted(ledger)][1] == []


@pytest.mark.parametrize(
    ("second", "shown"),
    [
        ([SYS, SUM2, E], ["sys", "summary of all", "e"]),
        ([SYS, SUM, SUM2, E], ["sys", "summary", "summary of all", "e"]),
        ([SYS, SUM, D, E], ["sys", "summary", "d", "e"]),
        ([SUM2, D, E], ["summary of all", "d", "e"]),
    ],
)
def test_a_later_view_takes_the_place_of_what_the_earlier_one_put_there(
    ledger: Ledger, imported: Importer, folder: Path, second: list[Message], shown: list[str]
) -> None:
    main = main_of(folder, SYS, A, B, C, D, E)
    imported("gptme", main, view_of(folder, SYS, SUM, C, D), view_of(folder, *second, number=2))

    assert history(ledger) == shown


def test_views_stand_in_the_order_of_their_numbers(ledger: Ledger, imported: Importer, folder: Path) -> None:
    views = [view_of(folder, SYS, SUM, C, number=999), view_of(folder, SYS, SUM2, D, number=1000)]
    imported("gptme", main_of(folder, SYS, A, B, C, D), *views)

    assert history(ledger) == ["sys", "summary of all", "d"]


def test_an_undo_in_a_view_takes_back_what_the_view_had_put_there(ledger: Ledger, folder: Path) -> None:
    for path in (main_of(folder, SYS, A), view_of(folder, SYS, SUM, A)):
        import_once(ledger, Gptme(), path)
    assert history(ledger) == ["sys", "summary", "a"]
    for path in (main_of(folder, SYS, A, B), view_of(folder, SYS, SUM, B)):
        import_once(ledger, Gptme(), path)

    assert history(ledger) == ["sys", "summary", "b"]


def test_a_view_that_another_one_took_over_leaves_nothing_behind(ledger: Ledger, folder: Path) -> None:
    for path in (main_of(folder, SYS, A), view_of(folder, SYS, SUM, A)):
        import_once(ledger, Gptme(), path)
    view = view_of(folder, SYS, SUM)
    import_once(ledger, Gptme(), view)
    assert history(ledger) == ["sys", "summary", "a"]
    for path in (main_of(folder, SYS, A, B), view, view_of(folder, SYS, SUM2, B, number=2)):
        import_once(ledger, Gptme(), path)

    assert history(ledger) == ["sys", "summary of all", "b"]


def test_lessons_in_a_view_were_shown_too(ledger: Ledger, imported: Importer, folder: Path) -> None:
    shown = lessons(header())
    imported("gptme", main_of(folder, SYS, A, B), view_of(folder, SYS, shown, B))

    assert [type(row.event) for row in ledger.read(types=["exposure.recorded"])] == [ExposureRecorded]
    assert history(ledger) == ["sys", shown["content"], "b"]


def test_a_view_without_its_conversation_is_taken_unchanged(ledger: Ledger, imported: Importer, folder: Path) -> None:
    imported("gptme", view_of(folder, SYS, SUM, C))

    assert (said_in(ledger), compacted(ledger)) == (["sys", "summary", "c"], [])


def test_later_message_of_the_conversation_is_not_in_the_view_alone(ledger: Ledger, folder: Path) -> None:
    from rightful.importers.engine.formats import Origin
    from rightful.importers.sources.text_files import Found

    main_of(folder, SYS, A)
    reader = Gptme().reader(Origin(str(folder / "views" / "compacted-001.jsonl"), 0))
    for line, one in enumerate((SYS, SUM), 1):
        assert list(reader.events(Found(line, one))) == []
    main_of(folder, SYS, A, B)

    [event] = reader.events(Found(3, B))

    assert isinstance(event, dict)
    assert [event["type"], event["items"]] == ["history.compacted", [{"role": "system", "content": "summary"}]]


def test_a_view_of_another_name_has_no_earlier_one(ledger: Ledger, imported: Importer, folder: Path) -> None:
    other = write(folder / "views" / "mine.jsonl", SYS, SUM, C)
    imported("gptme", main_of(folder, SYS, A, B, C), other)

    assert [one.mode for one in compacted(ledger)] == ["mine"]
    assert history(ledger) == ["sys", "summary", "c"]
    assert len(rows(ledger)) == 6


def test_conversation_overwritten_by_its_view_has_the_same_history(ledger: Ledger, imported: Importer) -> None:
    outside = Path(__file__).parents[1] / "outside" / "gptme-view-over-conversation"
    expected = json.loads((outside / "expect.json").read_text())["sessions"]["gptme:2026-08-01-blue-owl"]

    imported("gptme", outside / "2")

    found = [item.get("content") for item in ledger.history("gptme:2026-08-01-blue-owl").items]
    assert found == expected["history"]
