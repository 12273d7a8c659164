from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.importers import transcript_writers as write
from tests.locate.searching import TOOLS, WRITERS, A, B, answers, owners, run

from rightful import limits, times
from rightful.locate import find_transcripts
from rightful.locate.find_transcripts import LedgerSessions
from rightful.locate.ranks import Rank
from rightful.locate.wanted_sessions import session_of_name

ITEM = "b381dcfa-da0b-5cf5-849f-5787aaac922a"
START, LATER = "2026-08-01T10:15:00Z", "2026-08-01T10:15:04Z"


@pytest.mark.parametrize("tool", TOOLS)
def test_folder_and_time_make_an_owner_only_of_the_only_one(tool: str, tmp_path: Path) -> None:
    path = WRITERS[tool](tmp_path, A, LATER)
    one = run("41c2", START, tool=tool, cwd=write.CWD)
    assert owners(tmp_path, one) == [str(path)]
    WRITERS[tool](tmp_path, B, "2026-08-01T10:15:09Z")
    [found] = answers(tmp_path, one)
    assert found.owner is None
    assert "2 transcripts began in that folder at that time" in found.why


def test_folder_and_time_that_two_runs_share_make_no_owner(tmp_path: Path) -> None:
    write.codex(tmp_path, A, LATER)
    before = "2026-08-01T10:14:50Z"
    runs = [run(label, at, tool="codex", cwd=write.CWD) for label, at in (("41c2", before), ("36d9", START))]
    assert [one.why for one in answers(tmp_path, *runs)] == [
        f"workspace:36d9@{START} started there before it began",
        f"workspace:41c2@{before} claims it as strongly",
    ]


def test_a_weaker_claim_loses_to_another_runs_stronger_one(tmp_path: Path) -> None:
    path = write.codex(tmp_path, A, LATER)
    strong = run("41c2", START, tool="codex", natives={f"codex:{A}": Rank.NATIVE})
    weak = run("36d9", START, tool="codex", cwd=write.CWD)
    assert owners(tmp_path, strong, weak) == [str(path), None]


def test_the_window_ends_where_the_limit_says(tmp_path: Path) -> None:
    at = times.us_from(START) + limits.LOCATE_WINDOW_S * 1_000_000
    path = write.codex(tmp_path / "a", A, times.text_of(at))
    one = run("41c2", START, tool="codex", cwd=write.CWD)
    assert owners(tmp_path / "a", one) == [str(path)]
    write.codex(tmp_path / "b", A, times.text_of(at + 1))
    assert owners(tmp_path / "b", one) == [None]


def test_a_tool_that_is_not_known_makes_a_candidate(tmp_path: Path) -> None:
    write.codex(tmp_path, A, LATER)
    assert answers(tmp_path, run("41c2", START, cwd=write.CWD))[0].why == "which tool the run used is not known"


def test_a_colliding_project_folder_is_no_proof(tmp_path: Path) -> None:
    """`my.proj` and `my-proj` share one folder of Claude Code."""
    write.claude(tmp_path, A, LATER, cwd="/home/dev/my-proj")
    one = run("41c2", START, tool="claude-code", cwd="/home/dev/my.proj")
    assert answers(tmp_path, one)[0].judged == ()
    write.lines(
        tmp_path / "projects" / "-home-dev-my-proj" / f"{B}.jsonl",
        {"type": "user", "timestamp": LATER, "sessionId": B, "message": {"role": "user", "content": "x"}},
    )
    [found] = answers(tmp_path, one)
    assert (found.owner, found.found) == (None, True)
    assert "those of other folders look the same" in found.why


def test_what_is_bound_to_another_run_is_not_taken_from_it(tmp_path: Path) -> None:
    from rightful.projections.bindings import Binding, Bindings

    path = write.codex(tmp_path, A, LATER)
    one = run("41c2", START, tool="codex", cwd=write.CWD)
    bound = Bindings()
    known = LedgerSessions(sessions={one.name: one}, bindings=bound)
    where = find_transcripts.search_folders([str(tmp_path)], {}, tmp_path)
    (tmp_path / "link").symlink_to(".")
    via = tmp_path / "link" / path.relative_to(tmp_path)  # a home is often reached through a link
    for session, uri, owner in (
        ("codex:x", path.as_uri(), str(path)),
        ("workspace:other", path.as_uri(), None),
        ("workspace:other", via.as_uri(), None),
    ):
        bound._bound = {(session, uri): Binding(session, uri, 1, "", "cwd-window", None, 1)}
        found, _ = find_transcripts.locate(known, one.name, where)
        assert (found.owner and found.owner.file.path) == owner


def test_a_search_that_was_cut_off_proves_only_what_stands_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write.codex(tmp_path, A, LATER)
    sessions = session_of_name(f"codex:{A}"), run("41c2", START, tool="codex", cwd=write.CWD)
    write.codex(tmp_path, "zzz" + B[3:], "2026-08-02T00:00:00Z")
    monkeypatch.setattr(limits, "LOCATE_FILES", 2)
    assert owners(tmp_path, *sessions) == [str(path)] * 2
    monkeypatch.setattr(limits, "LOCATE_FILES", 1)
    assert owners(tmp_path, *sessions) == [str(path), None]


def test_so_many_candidates_are_named_of_which_only_the_time_fits(tmp_path: Path) -> None:
    for number in range(limits.LOCATE_CLAIMS + 1):
        write.codex(tmp_path, f"{A[:-2]}{number:02d}", LATER)
    [found] = answers(tmp_path, run("41c2", START, tool="codex"))
    assert len(found.judged) == limits.LOCATE_CLAIMS
    assert {one.why for one in found.judged} == {"only the time fits"}


def test_where_not_all_can_be_read_being_the_only_one_is_no_proof(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write.codex(tmp_path, A, LATER, write.marker(ITEM, "codex"))
    write.codex(tmp_path, B, "2026-08-01T11:15:04Z")
    sessions = run(ITEM, START, tool="codex"), run("41c2", "2026-08-01T11:15:00Z", tool="codex", cwd=write.CWD)
    assert None not in owners(tmp_path, *sessions)
    (tmp_path / "sessions" / "rollout-x.jsonl").write_text("{}")
    may = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: not str(path).endswith("rollout-x.jsonl") and may(path, mode))
    marked, alone = answers(tmp_path, *sessions)
    assert marked.owner is not None
    assert marked.owner.file.path == str(path)
    assert (alone.owner, alone.why) == (None, "not all could be read, so another file may fit as well")


def test_a_run_that_started_there_in_between_is_rather_the_owner(tmp_path: Path) -> None:
    """Its own record says that it had ended before, so it claims nothing itself; the clock of one may be wrong."""
    write.codex(tmp_path, A, "2026-08-01T10:15:30Z")
    first = run("41c2", START, tool="codex", cwd=write.CWD)
    ended = times.us_from("2026-08-01T10:15:20Z")
    second = run("36d9", "2026-08-01T10:15:10Z", tool="codex", cwd=write.CWD, end_us=ended)
    assert answers(tmp_path, first, second)[0].why == f"{second.name} started there before it began"
    second.tool = "gptme"
    assert owners(tmp_path, first, second)[0] is not None
    second.tool, second.cwd = "codex", "/elsewhere"
    assert owners(tmp_path, first, second)[0] is not None


def test_an_end_in_whole_seconds_is_the_whole_second(tmp_path: Path) -> None:
    path = write.codex(tmp_path, A, "2026-08-01T10:15:04.700Z")
    ended = times.us_from("2026-08-01T10:15:04Z")
    assert owners(tmp_path, run("41c2", START, tool="codex", cwd=write.CWD, end_us=ended)) == [str(path)]


def test_two_names_of_one_run_are_no_rivals(tmp_path: Path) -> None:
    path = write.codex(tmp_path, A, LATER)
    one = run("41c2", START, tool="codex", cwd=write.CWD)
    other = run("36d9", "2026-08-01T10:15:02Z", tool="codex", cwd=write.CWD)
    assert owners(tmp_path, one, other)[0] is None
    one.natives = {other.name: Rank.NATIVE}
    assert owners(tmp_path, one, other) == [str(path), str(path)]


def test_no_files_time_is_looked_at(tmp_path: Path) -> None:
    write.codex(tmp_path, A, "2026-08-01T09:00:00Z")
    for path in tmp_path.rglob("*.jsonl"):
        os.utime(path, (times.us_from(LATER) / 1e6,) * 2)
    assert answers(tmp_path, run("41c2", START, tool="codex", cwd=write.CWD))[0].judged == ()
