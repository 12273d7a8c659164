from __future__ import annotations

import json
import os
import time
import tracemalloc
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.importers.conftest import KINDS, Importer, said

from rightful.events import ExposureRecorded, SessionStarted
from rightful.field_types import ArmShown
from rightful.identity import composite_key, event_id
from rightful.importers.engine.formats import Origin
from rightful.importers.gptme.conversation import Gptme
from rightful.importers.shared.foreign_fields import digest
from rightful.importers.sources.growing_files import WAITS, Lines
from rightful.importers.sources.text_files import Found
from rightful.ledger import Ledger

FOX = "2026-08-01-running-blue-fox"
QUOTE = "/home/dev/my.proj/lessons/tools/quote-paths.md"
AT = "2026-08-01T10:15:01.123456"
WHOSE = "messages outside `conversation.jsonl` and the folders `branches` and `views`: their session is unknown"
LOCAL = "note: the times have no UTC offset; they were read as local time of this machine (UTC)"


@pytest.fixture(autouse=True)
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The machine's local time is UTC, unless a test says otherwise."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def header(
    path: str = "x.md", *, title: str = "Title", category: str = "tools", matched: str | None = "2 keyword(s)"
) -> str:
    by = "" if matched is None else f"\n*Matched by: {matched}*\n"
    return f"\n## {title}\n\n*Path: {path}*\n\n*Category: {category}*\n{by}\n"


def lessons(*blocks: str, **fields: Any) -> dict[str, Any]:
    content = "# Relevant Lessons\n" + "".join(blocks)
    return {"role": "system", "content": content, "timestamp": AT, "hide": True} | fields


def message(role: str = "user", content: Any = "hello", **fields: Any) -> dict[str, Any]:
    return {"role": role, "content": content, "timestamp": "2026-08-01T10:15:00.000001"} | fields


def write(path: Path, *rows: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def exposures(ledger: Ledger) -> list[ExposureRecorded]:
    return [row.event for row in ledger.read() if isinstance(row.event, ExposureRecorded)]


def arms(ledger: Ledger) -> list[list[str]]:
    return [[one.arm for one in event.arms] for event in exposures(ledger)]


@pytest.fixture
def main(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "fox" / "conversation.jsonl"


def test_a_lessons_message_is_an_exposure_of_its_folders_session(
    ledger: Ledger, imported: Importer, golden: Path
) -> None:
    path = golden / "gptme" / FOX / "conversation.jsonl"
    [report] = imported("gptme", path)

    [event] = exposures(ledger)
    assert (event.producer, event.session, event.alias) == ("gptme-lessons", f"gptme:{FOX}", False)
    assert event.arms == (ArmShown(QUOTE),)
    assert (event.at, event.at_basis) == (datetime(2026, 8, 1, 10, 15, 1, 123456, UTC), None)
    assert event.extra == {"lessons": [{"title": "Quote Paths", "category": "tools", "matched_by": "2 keyword(s)"}]}
    row = json.loads(path.read_text().splitlines()[3])
    content = digest(["system", row["timestamp"], row["content"]])
    assert event.id == event_id("gptme-lessons", composite_key(FOX, content, 1))
    assert [one.what for one in report.problems] == [LOCAL]


def test_the_conversation_says_that_its_session_began(ledger: Ledger, imported: Importer, golden: Path) -> None:
    imported("gptme", golden / "gptme" / FOX / "conversation.jsonl")

    first, started = [row.event for row in ledger.read() if isinstance(row.event, SessionStarted)]
    assert (first.session, first.harness, first.model) == (f"gptme:{FOX}", "gptme", None)
    assert (started.session, started.harness, started.model) == (f"gptme:{FOX}", "gptme", "anthropic/claude-sonnet")
    assert first.at == started.at == datetime(2026, 8, 1, 10, 15, 0, 1, UTC)


def test_the_golden_conversations_give_the_golden_ids(ledger: Ledger, imported: Importer, golden: Path) -> None:
    """Event ids are for ever: a changed id would import everything a second time."""
    imported("gptme", golden / "gptme")

    assert {row.id: [row.type, row.session] for row in ledger.read()} == json.loads((golden / "gptme.ids").read_text())


def test_a_message_that_stands_in_a_branch_or_a_view_too_is_the_same_fact(
    ledger: Ledger, imported: Importer, main: Path
) -> None:
    row = lessons(header())
    branch = main.parent / "branches" / "main-undo-0.jsonl"
    view = main.parent / "views" / "compacted-001.jsonl"
    paths = [write(path, row) for path in (view, branch, main)]

    reports = imported("gptme", *paths)

    assert [(one.appended, one.duplicate) for one in reports] == [(1, 0), (1, 1), (1, 2)]
    assert [event.session for event in exposures(ledger)] == ["gptme:fox"]


def test_only_the_conversation_itself_says_that_the_session_began(
    ledger: Ledger, imported: Importer, main: Path
) -> None:
    """A view begins with a summary, and with the model of a later day."""
    imported("gptme", write(main.parent / "views" / "compacted-001.jsonl", message(metadata={"model": "other"})))

    assert [row.type for row in ledger.read()] == ["message.recorded", "data.recorded"]


def test_message_twice_in_a_file_is_two_facts_and_a_repeated_file_is_not(
    ledger: Ledger, imported: Importer, main: Path
) -> None:
    write(main, lessons(header()), lessons(header()))

    [once], [again] = imported("gptme", main), imported("gptme", main)

    assert (once.kinds, once.duplicate) == (
        {"exposure.recorded": 2, "message.recorded": 2, "session.started": 1},
        0,
    )
    assert (again.appended, again.duplicate) == (0, 5)


def test_a_fork_is_another_session_that_was_shown_the_same(ledger: Ledger, imported: Importer, main: Path) -> None:
    fork = main.parents[1] / "fox-fork" / "conversation.jsonl"
    imported("gptme", write(main, lessons(header())), write(fork, lessons(header())))

    assert [event.session for event in exposures(ledger)] == ["gptme:fox", "gptme:fox-fork"]


def test_the_arms_stand_in_the_order_in_which_they_were_shown(ledger: Ledger, imported: Importer, main: Path) -> None:
    blocks = (header("b.md") + "Body.\n", header("a.md", category="None", matched="git commit, *.py*") + "Body.\n")

    imported("gptme", write(main, lessons(*blocks)))

    [event] = exposures(ledger)
    assert [one.arm for one in event.arms] == ["b.md", "a.md"]
    assert event.extra is not None
    assert event.extra["lessons"][1] == {"title": "Title", "category": "None", "matched_by": "git commit, *.py*"}


def test_a_lesson_whose_matcher_says_nothing_was_shown_too(ledger: Ledger, imported: Importer, main: Path) -> None:
    """gptme's auto_include leaves the line out where it matched by nothing that has a name."""
    imported("gptme", write(main, lessons(header("a.md", matched=None) + "Body.\n", header("b.md"))))

    assert arms(ledger) == [["a.md", "b.md"]]


QUOTED = {
    "a path": "*Path: y.md*\n",
    "a path and a category": "*Path: y.md*\n\n*Category: tools*\n\n*Matched by: 1 keyword(s)*\n",
    "a title and a path": "## Other\n\n*Path: y.md*\n\nText.\n",
    "another level": header("y.md").replace("## ", "### "),
    "indented": header("y.md").replace("\n## ", "\n    ## "),
    "quoted": header("y.md").replace("\n", "\n> "),
}


@pytest.mark.parametrize("how", QUOTED)
def test_a_text_that_quotes_a_part_of_a_header_shows_nothing(
    ledger: Ledger, imported: Importer, main: Path, how: str
) -> None:
    imported("gptme", write(main, lessons(header("x.md") + QUOTED[how], header("z.md"))))

    assert arms(ledger) == [["x.md", "z.md"]]


@pytest.mark.parametrize(
    "row",
    [
        message("user", "# Relevant Lessons\n" + header(), hide=True),
        message("assistant", "# Relevant Lessons\n" + header(), hide=True),
        lessons(header(), hide=False),
        {name: value for name, value in lessons(header()).items() if name != "hide"},
        lessons(header(), hide="true"),
        lessons(header(), content="I read:\n# Relevant Lessons\n" + header()),
        lessons(header(), content="# Relevant Lessons Learned\n" + header()),
        lessons(header(), content=["# Relevant Lessons\n" + header()]),
    ],
)
def test_a_message_that_is_not_injected_shows_no_lessons(
    ledger: Ledger, imported: Importer, main: Path, row: dict[str, Any]
) -> None:
    [report] = imported("gptme", write(main, row))

    assert (exposures(ledger), report.exit_code, report.kinds) == (
        [],
        0,
        {"session.started": 1, "message.recorded": 1},
    )


@pytest.mark.parametrize(
    ("row", "what"),
    [
        (lessons("\nnothing\n"), "Expected lessons, each with `## title` and `*Path: …*`; found none - at `$.content`"),
        (lessons(header(), timestamp=None), "Expected `str`, got `null` - at `$.timestamp`"),
        (lessons(header(), timestamp="today"), "Expected a time, got 'today' - at `$.timestamp`"),
        ({"a": 1}, "Object missing required field `role` - at `$`"),
    ],
)
def test_message_of_another_form_is_a_problem_and_others_are_imported(
    ledger: Ledger, imported: Importer, main: Path, row: object, what: str
) -> None:
    [report] = imported("gptme", write(main, message(), row, lessons(header("z.md"))))

    assert [(one.line, one.what) for one in report.problems if one.lost] == [(2, what)]
    assert arms(ledger) == [["z.md"]]


@pytest.mark.parametrize(("zone", "hour"), [("Europe/Berlin", 8), ("America/New_York", 14), ("UTC", 10)])
def test_a_time_without_offset_is_the_local_time_of_this_machine(
    ledger: Ledger, imported: Importer, main: Path, monkeypatch: pytest.MonkeyPatch, zone: str, hour: int
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    winter = lessons(header("w.md"), timestamp="2026-12-01T10:15:01")

    [report] = imported("gptme", write(main, lessons(header()), winter))

    summer, later = exposures(ledger)
    assert summer.at == datetime(2026, 8, 1, hour, 15, 1, 123456, UTC)
    assert later.at.hour == hour + (zone != "UTC")
    assert [one.what.partition("(")[0] for one in report.problems] == [LOCAL.partition("(")[0]]


def test_a_time_with_an_offset_is_that_time(ledger: Ledger, imported: Importer, main: Path) -> None:
    [report] = imported("gptme", write(main, lessons(header(), timestamp="2026-08-01T10:15:01+02:00")))

    assert [event.at for event in exposures(ledger)] == [datetime(2026, 8, 1, 8, 15, 1, tzinfo=UTC)]
    assert report.problems == []


def test_the_zone_of_the_machine_makes_no_second_fact(
    ledger: Ledger, imported: Importer, main: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported("gptme", write(main, lessons(header())))
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()

    [report] = imported("gptme", main)

    assert (report.appended, report.duplicate, report.conflicts) == (0, 3, 0)


def test_a_torn_last_line_is_imported_once_it_is_whole(ledger: Ledger, imported: Importer, main: Path) -> None:
    whole = write(main, lessons(header("a.md")), lessons(header("b.md"))).read_bytes()
    main.write_bytes(whole[:-30])

    [torn] = imported("gptme", main)
    main.write_bytes(whole)
    [mended] = imported("gptme", main)

    assert [(one.line, one.what, one.lost) for one in torn.problems if one.line] == [(2, f"note: {WAITS}", False)]
    assert (torn.appended, mended.appended, mended.duplicate) == (3, 2, 3)
    assert arms(ledger) == [["a.md"], ["b.md"]]


def test_a_file_that_was_rewritten_shorter_takes_nothing_back(ledger: Ledger, imported: Importer, main: Path) -> None:
    imported("gptme", write(main, lessons(header("a.md")), lessons(header("b.md"))))

    [report] = imported("gptme", write(main, lessons(header("b.md")), lessons(header("c.md"))))

    assert report.kinds == {"exposure.recorded": 1, "message.recorded": 1}
    assert arms(ledger) == [["a.md"], ["b.md"], ["c.md"]]


def test_a_model_that_is_known_later_is_said_later(ledger: Ledger, imported: Importer, main: Path) -> None:
    said_later = [message(metadata=7), message(metadata={"model": None}), message(metadata={"resolved_model": "opus"})]
    imported("gptme", write(main, message()))
    imported("gptme", write(main, message(), *said_later))

    started = [row.event for row in ledger.read() if isinstance(row.event, SessionStarted)]
    assert [event.model for event in started] == [None, "opus"]
    assert [event.run_nonce for event in started] == [None, None]


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("fox/messages.jsonl", WHOSE),
        ("unknown/conversation.jsonl", "Expected a session id, got 'unknown', which names no session"),
        ("a\nb/conversation.jsonl", "Expected a session id, got 'a\\nb', which is not a valid name"),
    ],
)
def test_lessons_of_an_unnamed_owner_are_a_problem_in_a_folder_too(
    ledger: Ledger, imported: Importer, tmp_path: Path, name: str, what: str
) -> None:
    path = write(tmp_path / "logs" / name, lessons(header()))

    [named], [found] = imported("gptme", path), imported("auto", tmp_path / "logs")

    assert said(named)["problems"] == [{"line": None, "what": what}]
    [problem] = found.problems
    assert problem.what in (what, f"{what}; messages that show lessons and were not imported: 1")
    assert (named.exit_code, found.exit_code, found.passed, list(ledger.read())) == (2, 2, 0, [])


def test_messages_without_lessons_outside_conversations_are_skipped(imported: Importer, tmp_path: Path) -> None:
    path = write(tmp_path / "logs" / "fox" / "messages.jsonl", message(), message("assistant"))

    [named], [found] = imported("gptme", path), imported("auto", tmp_path / "logs")

    assert said(named)["problems"] == [{"line": None, "what": WHOSE}]
    assert said(found)["problems"] == [{"line": None, "what": f"skipped: {WHOSE}"}]
    assert (named.exit_code, found.exit_code, found.passed, found.is_read) == (2, 0, 1, False)


def test_standard_input_has_no_folder(imported: Importer) -> None:
    [report] = imported("gptme", "-", stdin=json.dumps(lessons(header())).encode())

    what = "Expected a file: a conversation is named by its folder, and standard input has none"
    assert (said(report)["problems"], report.exit_code) == ([{"line": None, "what": what}], 2)


def test_the_folder_is_the_one_that_a_path_leads_to(
    ledger: Ledger, imported: Importer, main: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(main, lessons(header()))
    (main.parents[1] / "latest").symlink_to("fox")
    monkeypatch.chdir(main.parent)

    reports = imported("gptme", main.parents[1] / "latest" / "conversation.jsonl", "conversation.jsonl")

    assert [(one.appended, one.duplicate) for one in reports] == [(3, 0), (0, 3)]
    assert {row.session for row in ledger.read()} == {"gptme:fox"}


def test_a_conversation_is_never_in_memory_as_a_whole(main: Path) -> None:
    rows = (message(content="x" * 10_000, timestamp=f"2026-08-01T10:15:00.{at:06}") for at in range(3_000))
    write(main, *rows)
    reader = Gptme().reader(Origin(str(main), 0))

    tracemalloc.start()
    with main.open("rb") as stream:
        events = sum(1 for item in Lines(stream) if isinstance(item, Found) for _ in reader.events(item))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert (events, os.path.getsize(main) > 30_000_000) == (3_001, True)  # noqa: PTH202 - a size is read, no path is built
    assert peak < 5_000_000
    assert len(json.dumps(reader.state())) < 90 * 3_000


@pytest.mark.parametrize(
    ("value", "is_one"),
    [
        (message(), True),
        (message("tool"), True),
        ({"role": "user", "content": "x"}, False),
        (message("nobody"), False),
        (message(None), False),  # type: ignore[arg-type]
    ],
)
def test_auto_tells_a_message_by_its_content(value: dict[str, Any], is_one: bool) -> None:
    assert KINDS["gptme"][0].recognises(value) is is_one
