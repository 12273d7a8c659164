"""What was taken back of a gptme conversation: never twice, whoever tells of it, and never too early."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest
from tests.importers.conftest import Importer
from tests.importers.gptme_files import SESSION, Message, appended, event, history, rows, said, said_in, write
from tests.importers.growing import import_once
from tests.importers.test_gptme import lessons, zone  # noqa: F401 - the machine's time is UTC

from rightful.errors import InvalidEventError
from rightful.events import HistoryPopped
from rightful.importers.engine.checkpoints import FOLDER, Checkpoints
from rightful.importers.engine.formats import End, Origin
from rightful.importers.engine.loop import Import
from rightful.importers.gptme import gptme_messages
from rightful.importers.gptme.conversation import Gptme
from rightful.importers.sources.growing_files import Lines
from rightful.importers.sources.text_files import Found, Problem
from rightful.importers.sources.watch import Watch, Watcher
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


def again(ledger: Ledger, path: Path) -> list[str]:
    """Import as the command line does, with what was kept; return what it says."""
    return [one.what for one in import_once(ledger, Gptme(), path).problems]


def test_a_conversation_that_became_shorter_was_undone(ledger: Ledger, folder: Path) -> None:
    again(ledger, main_of(folder, A, B, CALL, RESULT))
    again(ledger, main_of(folder, A))

    assert history(ledger) == ["a"]
    assert said_in(ledger) == ["a", "b", CALL["content"]]
    assert len(popped(ledger)) == 4
    assert {one.at_basis for one in popped(ledger)} == {"file"}


def test_a_message_that_was_edited_gives_way_to_what_it_became(ledger: Ledger, folder: Path) -> None:
    again(ledger, main_of(folder, A, B))
    again(ledger, main_of(folder, A, said(2, "user", "better")))

    assert history(ledger) == ["a", "better"]


def test_what_occurs_twice_and_then_once_was_removed_once(ledger: Ledger, folder: Path) -> None:
    again(ledger, main_of(folder, A, B, B))
    again(ledger, main_of(folder, A, B))

    assert history(ledger) == ["a", "b"]


def test_rewritten_conversation_with_equal_content_removed_nothing(ledger: Ledger, folder: Path) -> None:
    path = main_of(folder, A, B)
    again(ledger, path)
    path.write_text("".join(json.dumps(one, indent=None, separators=(",", ":")) + "\n" for one in (A, B, C)))
    again(ledger, path)

    assert (history(ledger), popped(ledger)) == (["a", "b", "c"], [])


@pytest.mark.parametrize(("cut", "times"), [(0, 1), (10, 1), (100, 1), (-1, 0)])
def test_a_conversation_that_is_being_written_takes_nothing_back_yet(
    ledger: Ledger, folder: Path, cut: int, times: int
) -> None:
    """gptme empties the file and writes it again from the beginning."""
    path = main_of(folder, A, B)
    whole = path.read_bytes()
    again(ledger, path)
    path.write_bytes(whole[:cut])

    told = again(ledger, path)

    assert history(ledger) == ["a", "b"]
    waits = "note: earlier messages are missing and the file is being written; the next import records what was removed"
    assert told.count(waits) == times
    path.write_bytes(whole)
    again(ledger, path)
    assert (history(ledger), popped(ledger)) == (["a", "b"], [])


def test_what_waited_is_said_by_the_import_that_finds_the_file_whole(ledger: Ledger, folder: Path) -> None:
    path = main_of(folder, A, B, C)
    again(ledger, path)
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0] + b'{"role"')
    again(ledger, path)
    assert history(ledger) == ["a", "b", "c"]

    again(ledger, main_of(folder, A, D))

    assert history(ledger) == ["a", "d"]


def test_an_undo_of_an_undo_and_an_undo_of_that_are_what_the_file_says(ledger: Ledger, folder: Path) -> None:
    """A backup that is copied back has the same messages, which have the same ids."""
    for messages in ([A, B, CALL], [A], [A, B, CALL], [A, B], [A, B, CALL], [A, C], [A, C, B]):
        again(ledger, main_of(folder, *messages))
        before = rows(ledger)
        assert again(ledger, folder / "conversation.jsonl")
        assert rows(ledger) == before

        texts = [text for text in history(ledger) if not text.startswith("call ")]
        assert sorted(texts) == sorted(one["content"] for one in messages)
    assert len(said_in(ledger)) == 4


def test_what_waited_is_not_forgotten_when_the_file_is_another_one_again(ledger: Ledger, folder: Path) -> None:
    path = main_of(folder, A, B, C)
    again(ledger, path)
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0] + b'{"role"')
    again(ledger, path)

    again(ledger, main_of(folder, D))

    assert history(ledger) == ["d"]


def test_a_conversation_that_changes_while_it_is_read_is_not_whole(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = main_of(folder, A)

    def growing(stream: BinaryIO) -> Iterator[Found | Problem]:
        main.write_bytes(main.read_bytes() + b"\n")
        return iter(Lines(stream))

    monkeypatch.setattr(gptme_messages, "Lines", growing)

    with pytest.raises(InvalidEventError, match="is incomplete or being written"):
        Gptme().reader(Origin(str(folder / "branches" / "main-undo-0.jsonl"), 0))


def test_a_conversation_is_read_again_only_when_it_was_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main_of(folder, A)
    reads = 0

    def counted(stream: BinaryIO) -> Iterator[Found | Problem]:
        nonlocal reads
        reads += 1
        return iter(Lines(stream))

    monkeypatch.setattr(gptme_messages, "Lines", counted)
    kind = Gptme()
    for name in ("main-undo-0.jsonl", "main-undo-1.jsonl"):
        reader = kind.reader(Origin(str(folder / "branches" / name), 0))
        for line in range(1, 50):
            list(reader.events(Found(line, said(line, "user", "other"))))
    assert reads == 1, "all files beside a conversation are held against one reading of it"

    main_of(folder, A, B)
    reader = kind.reader(Origin(str(folder / "branches" / "main-undo-0.jsonl"), 0))
    assert [one["type"] for one in reader.events(Found(1, B)) if not isinstance(one, Problem)] == ["message.recorded"]
    assert reads == 2


def test_the_import_that_says_what_was_removed_says_it_once(ledger: Ledger, folder: Path) -> None:
    again(ledger, main_of(folder, A, B))
    path = main_of(folder, A)
    for _ in range(3):
        again(ledger, path)
    again(ledger, main_of(folder, A, C))

    assert (len(popped(ledger)), history(ledger)) == (1, ["a", "c"])


def test_a_backup_tells_what_was_undone_before_the_first_import(
    ledger: Ledger, imported: Importer, folder: Path
) -> None:
    backup = write(folder / "branches" / "main-undo-0.jsonl", A, B, CALL, RESULT)
    imported("gptme", main_of(folder, A, C), backup)

    assert history(ledger) == ["a", "c"]
    assert said_in(ledger) == ["a", "c", "b", CALL["content"]]


def test_a_branch_of_a_user_is_no_part_of_the_conversations_history(
    ledger: Ledger, imported: Importer, folder: Path
) -> None:
    imported("gptme", main_of(folder, A, B), write(folder / "branches" / "other.jsonl", A, C))

    assert (history(ledger), said_in(ledger)) == (["a", "b"], ["a", "b", "c"])


@pytest.mark.parametrize("name", ["branches/main-undo-0.jsonl", "views/compacted-001.jsonl"])
@pytest.mark.parametrize("named", [True, False])
def test_a_copy_waits_for_its_conversation_to_be_whole(
    ledger: Ledger, imported: Importer, folder: Path, name: str, named: bool
) -> None:
    main = main_of(folder, A)
    whole = main.read_bytes()
    main.write_bytes(whole + b'{"role"')
    copy = write(folder / name, A, B)

    [report] = imported("gptme", copy if named else copy.parent)

    what = (
        "note: `conversation.jsonl` of its conversation is incomplete or being written; the next import reads this file"
    )
    assert ([one.what for one in report.problems], report.exit_code) == ([what], 0)
    assert list(ledger.read()) == []


def test_broken_lessons_of_a_branch_are_a_problem_and_the_message_removed(
    ledger: Ledger, imported: Importer, folder: Path
) -> None:
    broken = lessons("nothing")
    main_of(folder, A)
    [report] = imported("gptme", write(folder / "branches" / "main-undo-0.jsonl", A, broken))

    what = "Expected lessons, each with `## title` and `*Path: …*`; found none - at `$.content`"
    assert [(one.line, one.what) for one in report.problems] == [(2, what)]
    assert (history(ledger), said_in(ledger)) == (["a"], ["a", broken["content"]])


def test_a_log_of_a_conversation_with_views_waits_for_it_too(ledger: Ledger, imported: Importer, folder: Path) -> None:
    main = main_of(folder, A)
    main.write_bytes(main.read_bytes() + b'{"role"')
    log = write(folder / "events.jsonl", appended(1, A))
    (folder / "views").mkdir()

    assert [(one.waits, one.exit_code) for one in imported("gptme", log)] == [(True, 0)]
    (folder / "views").rmdir()
    assert [(one.waits, one.exit_code) for one in imported("gptme", log)] == [(False, 0)]


def test_a_watch_looks_again_at_a_copy_that_waited(ledger: Ledger, folder: Path) -> None:
    """The copy itself does not change when its conversation is whole again."""
    main = main_of(folder, A)
    main.write_bytes(main.read_bytes() + b'{"role"')
    write(folder / "branches" / "main-undo-0.jsonl", A, B)
    importing = Import(ledger.log, [Gptme()], 0, None, Checkpoints(ledger.path / FOLDER, ledger.id, ledger.log))
    watch = Watch(importing, [str(folder)], Watcher())
    list(watch.scan())
    assert said_in(ledger) == ["a"]

    main_of(folder, A)
    list(watch.scan())

    assert said_in(ledger) == ["a", "b"]


def test_a_branch_without_its_conversation_is_taken_unchanged(ledger: Ledger, imported: Importer, folder: Path) -> None:
    [report] = imported("gptme", write(folder / "branches" / "other.jsonl", A, B))

    assert [one.what for one in report.problems] == [
        "note: its conversation has no `conversation.jsonl`; its messages were imported without comparison"
    ]
    assert (history(ledger), popped(ledger)) == (["a", "b"], [])


def test_conversation_that_grows_while_its_branch_is_read_removes_nothing(ledger: Ledger, folder: Path) -> None:
    """What was not there when it was read first is looked for again."""
    main = main_of(folder, A)
    reader = Gptme().reader(Origin(str(folder / "branches" / "main-undo-0.jsonl"), 0))
    first = list(reader.events(Found(1, A)))
    main_of(folder, A, B)
    second = list(reader.events(Found(2, B)))

    assert [one["type"] for one in [*first, *second] if isinstance(one, dict)] == ["message.recorded"] * 2
    assert main.exists()


def test_message_removed_by_log_backup_and_conversation_is_removed_once(
    ledger: Ledger, imported: Importer, folder: Path
) -> None:
    again(ledger, main_of(folder, A, B))
    log = write(folder / "events.jsonl", appended(1, A), appended(2, B), event(3, "undo", n=1))
    backup = write(folder / "branches" / "main-undo-0.jsonl", A, B)
    main = main_of(folder, A)
    again(ledger, main)
    before = rows(ledger)
    for path in (log, backup, log, main):
        again(ledger, path)
    imported("gptme", folder)

    assert (len(popped(ledger)), rows(ledger)) == (1, before)


def test_a_time_of_the_file_that_moved_while_it_was_read_waits(ledger: Ledger, folder: Path) -> None:
    path = main_of(folder, A, B)
    first = Gptme().reader(Origin(str(path), 0))
    for line, one in enumerate((A, B), 1):
        list(first.events(Found(line, one)))
    main_of(folder, A)
    mtime_us = os.stat(path).st_mtime_ns // 1_000  # noqa: PTH116 - a time is read

    for opened_us, count in ((mtime_us - 1, 0), (mtime_us, 1)):
        second = Gptme().reader(Origin(str(path), opened_us))
        second.restart(first.state())
        list(second.events(Found(1, A)))
        told = list(second.finish(End("", is_whole=True)))
        assert [one["type"] for one in told if isinstance(one, dict)] == ["history.popped"] * count
