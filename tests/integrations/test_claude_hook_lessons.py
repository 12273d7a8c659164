from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from tests.hooking import AT_S, CC
from tests.importers.conftest import GOLDEN, Importer

from rightful import ledger as app
from rightful import limits
from rightful.importers.lesson_hook.artifacts import LessonHookReader
from rightful.importers.sources.text_files import Found
from rightful.integrations.claude_code.hook_lessons import LessonFolders, new_exposures
from rightful.integrations.claude_code.lesson_cursor import Cursor, ReadState, ReadStates
from rightful.ledger import Ledger

DAY = "2026-08-01"


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "localtime", time.gmtime)


@pytest.fixture
def left(tmp_path: Path) -> LessonFolders:
    """The files that the lesson hook left of a session, and of others."""
    temp, workspace = tmp_path / "temp", tmp_path / "workspace"
    shutil.copytree(GOLDEN / "state", temp / "claude-lesson-match")
    shutil.copy(GOLDEN / f"cc-session-{CC}-lessons.jsonl", temp)
    shutil.copytree(GOLDEN / "lesson-trajectories", workspace / "state" / "lesson-trajectories")
    shutil.copytree(GOLDEN / "lesson-dropout", workspace / "state" / "lesson-dropout")
    (workspace / "src").mkdir()
    return LessonFolders(str(temp), None, (str(workspace / "src"),))


def taken_by_hook(ledger: Ledger, folders: LessonFolders, raw: str = CC, states: ReadStates | None = None) -> list[str]:
    events, _ = new_exposures(raw, folders, states or {}, int(AT_S * 1e6))
    return [receipt.outcome for receipt in ledger.append(events)]


def lines(path: str | Path, *values: object) -> Path:
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(value) + "\n" for value in values)
    return path


def log_of(folders: LessonFolders, day: str = DAY) -> Path:
    return Path(folders.starts[0]).parent / "state" / "lesson-trajectories" / f"{day}.jsonl"


def matched(session: str = CC, path: str = "x.md", **fields: Any) -> dict[str, Any]:
    return {"ts": AT_S, "session_id": session, "lessons": [{"path": path}], "tool_seq": []} | fields


def test_what_the_hook_took_an_import_finds_there(ledger: Ledger, left: LessonFolders, imported: Importer) -> None:
    assert taken_by_hook(ledger, left) == ["appended"] * 8
    before = [(row.id, row.event) for row in ledger.read()]

    reports = imported("lesson-hook", left.temp, str(log_of(left).parents[1]))

    ours = [report for report in reports if CC in report.path or "trajectories" in report.path]
    assert [(report.appended, report.duplicate) for report in ours] == [(0, 2), (0, 2), (0, 2), (0, 2)]
    assert [(row.id, row.event) for row in ledger.read()][:8] == before


def test_what_an_import_took_the_hook_finds_there(ledger: Ledger, left: LessonFolders, imported: Importer) -> None:
    imported("lesson-hook", left.temp, str(log_of(left).parents[1]))
    before = {row.id: row.event for row in ledger.read()}

    assert taken_by_hook(ledger, left) == ["duplicate"] * 8

    assert {row.id: row.event for row in ledger.read()} == before


def test_events_are_those_of_an_import_to_the_last_field(
    ledger: Ledger, left: LessonFolders, imported: Importer, tmp_path: Path
) -> None:
    """Time, alias and counter of equal lines too."""
    again = json.loads(log_of(left).read_text().splitlines()[0])
    lines(log_of(left), again, matched("other"), again)
    imported("lesson-hook", left.temp, str(log_of(left).parents[1]))
    by_import = {row.id: row.event for row in ledger.read() if CC in (getattr(row.event, "session", None) or "")}
    with app.open(tmp_path / "second", create=True) as second:
        assert taken_by_hook(second, left) == ["appended"] * 10
        by_hook = {row.id: row.event for row in second.read()}

    assert by_hook == by_import


def test_another_sessions_lines_are_left_to_it(ledger: Ledger, left: LessonFolders) -> None:
    lines(log_of(left), matched("other", path=f"{CC}.md"), matched(f"{CC}-2"))

    taken_by_hook(ledger, left)

    assert {getattr(row.event, "session", None) for row in ledger.read()} == {f"claude-code:{CC}"}


def test_only_what_is_new_is_taken_again(left: LessonFolders) -> None:
    _, states = new_exposures(CC, left, {}, int(AT_S * 1e6))
    lines(log_of(left), matched("other"), matched(path="late.md"))

    events, after = new_exposures(CC, left, states, int(AT_S * 1e6))

    assert [event["arms"] for event in events] == [[{"arm": "late.md"}]]
    assert new_exposures(CC, left, after, int(AT_S * 1e6)) == ([], after)


def test_an_equal_line_that_comes_later_is_counted_behind_the_first(ledger: Ledger, left: LessonFolders) -> None:
    lines(log_of(left), matched())
    first, states = new_exposures(CC, left, {}, int(AT_S * 1e6))
    lines(log_of(left), matched())
    second, _ = new_exposures(CC, left, states, int(AT_S * 1e6))

    assert [json.loads(event["key"])[-1] for event in second] == [2]
    assert {receipt.outcome for receipt in ledger.append(first + second)} == {"appended"}


def test_of_lines_that_were_taken_none_is_decoded_again(left: LessonFolders, monkeypatch: pytest.MonkeyPatch) -> None:
    lines(log_of(left), *(matched(path=f"{number}.md") for number in range(50)))
    _, states = new_exposures(CC, left, {}, int(AT_S * 1e6))
    decoded: list[Found] = []
    real = LessonHookReader.events

    def noted(self: LessonHookReader, found: Found) -> Any:
        decoded.append(found)
        return real(self, found)

    monkeypatch.setattr(LessonHookReader, "events", noted)
    lines(log_of(left), matched(path="late.md"))
    events, states = new_exposures(CC, left, states, int(AT_S * 1e6))
    assert (len(events), len(decoded)) == (1, 1)

    lines(log_of(left), matched(path="late.md"), matched(path="7.md"))
    events, _ = new_exposures(CC, left, states, int(AT_S * 1e6))
    assert [json.loads(event["key"])[-1] for event in events] == [2, 2]


def test_equal_lines_are_counted_as_in_an_import_however_they_arrive(
    left: LessonFolders, ledger: Ledger, imported: Importer
) -> None:
    events, states = new_exposures(CC, left, {}, int(AT_S * 1e6))
    order = [0, 1, 0, 0, 2, 1, 0, 2, 2, 3]
    for number in order:
        lines(log_of(left), matched(path=f"{number}.md"), matched("other"))
        more, states = new_exposures(CC, left, states, int(AT_S * 1e6))
        assert len(more) == 1
        events += more
    imported("lesson-hook", left.temp, str(log_of(left).parents[1]))

    assert {receipt.outcome for receipt in ledger.append(events)} == {"duplicate"}
    assert len({event["key"] for event in events}) == 8 + len(order)


def test_one_call_takes_so_many_and_the_next_goes_on(left: LessonFolders, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HOOK_EXPOSURES", 3)
    shown = [f"/lessons/{number}.md" for number in range(7)]
    state = Path(left.temp) / "claude-lesson-match" / f"{CC}.json"
    state.write_text(json.dumps({"injected": shown, "last_pretool": AT_S}))
    lines(log_of(left), *(matched(path=f"{number}.md") for number in range(5)))

    states: ReadStates = {}
    found: list[list[Any]] = []
    for _ in range(7):
        events, states = new_exposures(CC, left, states, int(AT_S * 1e6))
        found.append(events)

    monkeypatch.setattr(limits, "HOOK_EXPOSURES", 1_000)
    assert [len(events) for events in found] == [3, 3, 3, 3, 3, 3, 0]
    assert [event for events in found for event in events] == new_exposures(CC, left, {}, int(AT_S * 1e6))[0]


def test_of_a_state_file_only_the_lessons_behind_those_taken_are_taken(left: LessonFolders) -> None:
    state = Path(left.temp) / "claude-lesson-match" / f"{CC}.json"
    states: ReadStates = {}
    found: list[list[str]] = []
    for shown in (["a", "b"], ["a", "b", "c"], ["a", "b", "c"], ["x", "a", "b", "c"], ["x"]):
        state.write_text(json.dumps({"injected": shown, "last_pretool": AT_S + len(found)}))
        events, states = new_exposures(CC, left, states, int(AT_S * 1e6))
        found.append([event["arms"][0]["arm"] for event in events if event["producer"] == "lesson-hook-state"])

    assert found == [["a", "b"], ["c"], [], ["x", "a", "b", "c"], ["x"]]


def test_a_file_that_was_written_again_is_read_again(ledger: Ledger, left: LessonFolders) -> None:
    _, states = new_exposures(CC, left, {}, int(AT_S * 1e6))
    log_of(left).write_text("")
    lines(log_of(left), *(matched(path=f"{number}.md") for number in range(9)))

    events, _ = new_exposures(CC, left, states, int(AT_S * 1e6))

    assert [event["arms"][0]["arm"] for event in events] == [f"{number}.md" for number in range(9)]


def test_a_line_that_is_still_being_written_is_taken_when_it_is_whole(left: LessonFolders) -> None:
    before, states = new_exposures(CC, left, {}, int(AT_S * 1e6))
    whole = json.dumps(matched(path="late.md"))
    with log_of(left).open("a") as file:
        file.write(whole[:-9])
    assert new_exposures(CC, left, states, int(AT_S * 1e6)) == ([], states)
    with log_of(left).open("a") as file:
        file.write(whole[-9:] + "\n")

    events, _ = new_exposures(CC, left, states, int(AT_S * 1e6))

    assert len(before) == 8
    assert [event["arms"] for event in events] == [[{"arm": "late.md"}]]


def test_what_yesterdays_log_got_last_is_taken_after_midnight(left: LessonFolders) -> None:
    lines(log_of(left, "2026-07-31"), matched(path="yesterday.md"))

    events, _ = new_exposures(CC, left, {}, int(AT_S * 1e6))

    assert {"arm": "yesterday.md"} in [arm for event in events for arm in event["arms"]]


def test_the_folder_of_dropout_logs_may_be_named(left: LessonFolders, tmp_path: Path) -> None:
    lines(tmp_path / "named" / f"{CC}.jsonl", {"ts": AT_S, "session_id": CC, "withheld": [{"path": "w.md"}]})

    events, _ = new_exposures(CC, left._replace(dropout=str(tmp_path / "named")), {}, int(AT_S * 1e6))

    assert [event["withheld"] for event in events if "withheld" in event] == [[{"arm": "w.md"}]]


@pytest.mark.parametrize("raw", ["../outside", "..", ".", "a/../../outside", "/etc/x", "a\x00b", "x" * 300, "\udcff"])
def test_no_id_leads_out_of_a_folder(
    left: LessonFolders, tmp_path: Path, raw: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = {"ts": AT_S, "session_id": raw, "withheld": [{"path": "w.md"}]}
    lines(tmp_path / "workspace" / "state" / "outside.jsonl", outside)
    seen: list[str] = []
    real = os.lstat

    def noted(path: str) -> os.stat_result:
        seen.append(path)
        return real(path)

    monkeypatch.setattr(os, "lstat", noted)

    events, _ = new_exposures(raw, left, {}, int(AT_S * 1e6))

    assert events == []
    folders = {str(Path(os.path.normpath(path)).parent) for path in seen}
    state = f"{tmp_path}/workspace/state"
    assert folders <= {
        left.temp,
        f"{left.temp}/claude-lesson-match",
        f"{state}/lesson-trajectories",
        f"{state}/lesson-dropout",
    }


def test_an_id_that_json_may_write_in_several_ways_is_found(left: LessonFolders) -> None:
    lines(log_of(left), matched("a/ü"), matched("a_ü"), matched("other"))

    events, _ = new_exposures("a/ü", left, {}, int(AT_S * 1e6))

    assert [event["session"] for event in events] == ["claude-code:a/ü"]


def test_a_link_and_a_file_of_another_user_are_not_read(left: LessonFolders, monkeypatch: pytest.MonkeyPatch) -> None:
    moved = log_of(left).with_name("moved")
    log_of(left).rename(moved)
    log_of(left).symlink_to(moved)
    assert len(new_exposures(CC, left, {}, int(AT_S * 1e6))[0]) == 6

    for other in (0, 1_000_001):
        if other != os.lstat(moved).st_uid:
            monkeypatch.setattr(os, "geteuid", lambda other=other: other)
            assert new_exposures(CC, left, {}, int(AT_S * 1e6)) == ([], {})
    for path in (*Path(left.temp).rglob("*"), *log_of(left).parents[1].rglob("*")):
        os.lchown(path, 1_000_001, -1) if os.getuid() == 0 else None
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert new_exposures(CC, left, {}, int(AT_S * 1e6)) == ([], {})


def test_a_lesson_file_that_is_too_long_is_left_to_an_import(
    left: LessonFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = log_of(left).stat().st_size
    for limit, found in ((size, 8), (size - 1, 6)):
        monkeypatch.setattr(limits, "HOOK_READ_BYTES", limit)
        assert len(new_exposures(CC, left, {}, int(AT_S * 1e6))[0]) == found


def test_places_come_from_the_environment_the_input_and_the_own_folder() -> None:
    environment = {"CLAUDE_PROJECT_DIR": "/p", "TMPDIR": "", "LESSON_DROPOUT_LOG_DIR": ""}

    assert LessonFolders.of(environment, "/c", "/p") == LessonFolders("/tmp", None, ("/p", "/c"))
    assert LessonFolders.of({"TMPDIR": "/t", "LESSON_DROPOUT_LOG_DIR": "/d"}, 7, "") == LessonFolders("/t", "/d", ())


def test_a_workspace_is_where_its_mark_is_and_else_the_folder_itself(tmp_path: Path) -> None:
    for marked in (True, False):
        workspace = tmp_path / str(marked)
        inner = workspace / "a" / "b"
        inner.mkdir(parents=True)
        if marked:
            (workspace / "gptme.toml").touch()
        lines((workspace if marked else inner) / "state" / "lesson-trajectories" / f"{DAY}.jsonl", matched())
        events, _ = new_exposures(CC, LessonFolders(str(tmp_path), None, (str(inner),)), {}, int(AT_S * 1e6))
        assert len(events) == 1


@pytest.fixture
def store(tmp_path: Path) -> Path:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "data.mdb").touch()
    return tmp_path / "store" / "data.mdb"


@pytest.mark.parametrize("restored", ["data.mdb", "journal"])
def test_a_cursor_is_of_one_store_and_a_restored_one_takes_all_again(
    tmp_path: Path, store: Path, restored: str
) -> None:
    """Rows stand in two files; either may be older than the cursor."""
    store.with_name("journal").touch()
    Cursor(str(tmp_path), "a").save({"/x": ReadState(3, "ab", "c")})
    assert Cursor(str(tmp_path), "a").load() != {}
    store.with_name(restored).rename(store.with_name("old"))
    store.with_name(restored).touch()

    assert Cursor(str(tmp_path), "a").load() == {}


def test_a_cursor_names_the_files_that_a_ledger_has(tmp_path: Path) -> None:
    with app.open(tmp_path / "ledger", create=True):
        Cursor(str(tmp_path / "ledger"), "a").save({"/x": ReadState(3, "ab", "c")})
    [file] = (tmp_path / "ledger" / "hook").iterdir()

    stats = [(tmp_path / "ledger" / "store" / name).stat() for name in ("data.mdb", "journal")]
    assert json.loads(file.read_bytes())["store"] == [number for one in stats for number in (one.st_dev, one.st_ino)]


def test_a_cursor_comes_back_as_it_was_saved_and_is_its_owners_alone(tmp_path: Path, store: Path) -> None:
    cursor = Cursor(str(tmp_path), "a/../b")
    assert cursor.load() == {}

    cursor.save({"/x": ReadState(3, "ab", "c")})

    assert Cursor(str(tmp_path), "a/../b").load() == {"/x": ReadState(3, "ab", "c")}
    assert Cursor(str(tmp_path), "other").load() == {}
    [file] = (tmp_path / "hook").iterdir()
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    file.write_text("[1")
    assert cursor.load() == {}
    cursor.forget()
    assert list((tmp_path / "hook").iterdir()) == []


def test_the_oldest_cursors_go_when_they_are_many(tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HOOK_CURSORS", 3)
    for number in range(4):
        Cursor(str(tmp_path), str(number)).save({"/x": ReadState(number)})
        for file in (tmp_path / "hook").iterdir():
            os.utime(file, (file.stat().st_atime, file.stat().st_mtime - 10))
    Cursor(str(tmp_path), "another").forget()

    assert [bool(Cursor(str(tmp_path), str(number)).load()) for number in range(4)] == [False, True, True, True]


def test_a_ledger_that_cannot_be_written_only_costs_the_cursor(tmp_path: Path) -> None:
    Cursor(str(tmp_path / "missing"), "a").save({"/x": ReadState(3, "ab", "c")})
    Cursor(str(tmp_path / "missing"), "a").forget()

    assert list(tmp_path.iterdir()) == []
