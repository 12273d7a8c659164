from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from tests.importers import transcript_writers as write
from tests.locate.searching import TOOLS, WRITERS, A, B, answers, owners, pointer, run

from rightful import limits, times
from rightful.locate import find_transcripts
from rightful.locate.find_transcripts import LedgerSessions
from rightful.locate.ranks import Rank
from rightful.locate.wanted_sessions import session_of_name

ITEM = "b381dcfa-da0b-5cf5-849f-5787aaac922a"
START, LATER = "2026-08-01T10:15:00Z", "2026-08-01T10:15:04Z"


@pytest.mark.parametrize("tool", TOOLS)
def test_the_id_inside_a_file_makes_it_its_own(tool: str, tmp_path: Path) -> None:
    path = WRITERS[tool](tmp_path, A, LATER)
    WRITERS[tool](tmp_path, B, LATER)
    [found] = answers(tmp_path, session_of_name(f"{tool}:{A}"))
    assert found.owner is not None
    assert (found.owner.file.path, found.owner.rank) == (str(path), Rank.NATIVE)


def test_a_run_whose_own_id_the_tool_took_over_owns_what_has_it_inside(tmp_path: Path) -> None:
    path = write.claude(tmp_path, ITEM, LATER)
    assert owners(tmp_path, run(ITEM, START, tool="claude-code")) == [str(path)]


def test_a_short_label_is_no_id_of_a_tools(tmp_path: Path) -> None:
    write.gptme(tmp_path / "logs", "41c2", LATER)
    assert answers(tmp_path, run("41c2", START, tool="gptme", cwd="/elsewhere"))[0].judged == ()


def test_a_name_that_the_lines_contradict_owns_nothing(tmp_path: Path) -> None:
    write.claude(tmp_path, A, LATER, session=B)
    [found] = answers(tmp_path, session_of_name(f"claude-code:{A}"))
    assert (found.owner, found.judged[0].verdict) == (None, "contradicted")
    assert found.why == f"what was found is contradicted: its name says {A}, and its lines say {B}"


def test_a_marker_wins_over_a_pointer(tmp_path: Path) -> None:
    marked = write.codex(tmp_path, A, LATER, write.marker(ITEM, "codex"))
    other = write.gptme(tmp_path / "logs", "x", LATER)
    pointer(tmp_path, f"gptme-traj-{ITEM}.path", other)
    [found] = answers(tmp_path, run(ITEM, START))
    assert found.owner is not None
    assert (found.owner.file.path, found.owner.rank) == (str(marked), Rank.SENTINEL)


def test_marker_of_a_reused_label_belongs_to_the_run_of_its_time(tmp_path: Path) -> None:
    old = write.claude(tmp_path, A, LATER, write.marker("41c2", "claude-code"))
    new = write.claude(tmp_path, B, "2026-08-02T10:15:04Z", write.marker("41c2", "claude-code"))
    first = run("41c2", START, tool="claude-code", end_us=times.us_from("2026-08-01T10:30:00Z"))
    second = run("41c2", "2026-08-02T10:15:00Z", tool="claude-code")
    assert owners(tmp_path, first, second) == [str(old), str(new)]


@pytest.mark.parametrize("claim", ["marker", "pointer", "folder"])
def test_reused_label_is_not_of_the_killed_run_without_a_known_end(claim: str, tmp_path: Path) -> None:
    def left(at: str) -> Path:
        if claim == "folder":
            return write.gptme(tmp_path / "gptme-runs" / "gptme-logs-41c2", "owl", at)
        path = write.gptme(tmp_path / "logs", "owl", at, write.marker("41c2", "gptme") if claim == "marker" else "x")
        if claim == "pointer":
            pointer(tmp_path, "gptme-traj-41c2.path", path)
        return path

    killed = run("41c2", START, tool="gptme")

    left("2026-08-01T12:00:04Z")
    [found] = answers(tmp_path, killed)
    assert (found.owner, found.found) == (None, True)
    assert "41c2 is a reused label" in found.why
    path = left("2026-08-01T10:15:59Z")
    assert owners(tmp_path, killed) == [str(path)]


def test_a_marker_of_a_label_without_any_time_is_only_a_candidate(tmp_path: Path) -> None:
    write.claude(tmp_path, A, LATER, write.marker("41c2", "claude-code"))
    [found] = answers(tmp_path, run("41c2", None))
    assert (found.owner, found.found) == (None, True)
    assert "no time shows that this use of it is the right one" in found.why


def test_a_marker_that_was_given_to_another_tool_is_contradicted(tmp_path: Path) -> None:
    write.claude(tmp_path, A, LATER, write.marker(ITEM, "codex"))
    [found] = answers(tmp_path, run(ITEM, START))
    assert [one.verdict for one in found.judged] == ["contradicted"]


def test_a_quoted_marker_takes_nothing_from_the_one_that_wears_it(tmp_path: Path) -> None:
    worn = write.claude(tmp_path, A, LATER, write.marker(ITEM, "claude-code"))
    write.claude(tmp_path, B, LATER, "What does this mean? " + write.marker(ITEM, "claude-code"))
    [found] = answers(tmp_path, run(ITEM, START, tool="claude-code"))
    assert found.owner is not None
    assert found.owner.file.path == str(worn)
    assert "as in a quotation" in next(one.why for one in found.judged if one.verdict == "candidate")


def test_a_quoted_marker_alone_is_a_candidate(tmp_path: Path) -> None:
    write.claude(tmp_path, B, LATER, "What does this mean? " + write.marker(ITEM, "claude-code"))
    assert owners(tmp_path, run(ITEM, START, tool="claude-code")) == [None]


def test_a_fork_that_replays_the_parents_prompt_does_not_share_its_marker(tmp_path: Path) -> None:
    parent = write.codex(tmp_path, A, LATER, write.marker(ITEM, "codex"))
    write.codex(tmp_path, B, LATER, write.marker(ITEM, "codex"), forked_from_id=A)
    assert owners(tmp_path, run(ITEM, START, tool="codex")) == [str(parent)]


def test_two_files_with_one_marker_are_candidates(tmp_path: Path) -> None:
    """A `/fork` of gptme copies the folder, and nothing inside says which is the copy."""
    write.gptme(tmp_path / "logs", "fox", LATER, write.marker(ITEM, "gptme"))
    write.gptme(tmp_path / "logs", "fox-fork", LATER, write.marker(ITEM, "gptme"))
    [found] = answers(tmp_path, run(ITEM, START, tool="gptme"))
    assert (found.owner, found.why) == (None, "2 transcripts fit it equally well")


def test_a_pointer_owns_where_nothing_contradicts_it(tmp_path: Path) -> None:
    path = write.gptme(tmp_path / "logs", "fox", START)
    pointer(tmp_path, f"gptme-traj-{ITEM}.path", path)
    [found] = answers(tmp_path, run(ITEM, START, tool="gptme"))
    assert found.owner is not None
    assert (found.owner.file.path, found.owner.rank) == (str(path), Rank.POINTER)


@pytest.mark.parametrize(
    ("known", "why"),
    [
        ({"start": "2026-08-01T10:15:05Z"}, "before the run's start"),
        ({"end_us": times.us_from("2026-08-01T10:15:02Z")}, "after the run's end"),
        ({"cwd": "/home/dev/other"}, "it ran in /home/dev/my.proj, and the run in /home/dev/other"),
        ({"tool": "codex"}, "the run used codex, and this is a transcript of gptme"),
    ],
)
def test_a_pointer_that_the_content_contradicts_owns_nothing(known: dict[str, str], why: str, tmp_path: Path) -> None:
    path = write.gptme(tmp_path / "logs", "fox", LATER)
    pointer(tmp_path, f"gptme-traj-{ITEM}.path", path)
    [found] = answers(tmp_path, run(ITEM, known.pop("start", START), **known))
    assert (found.owner, found.found) == (None, False)
    assert why in found.why


def test_a_pointer_to_what_is_marked_for_another_is_contradicted(tmp_path: Path) -> None:
    path = write.gptme(tmp_path / "logs", "fox", LATER, write.marker("36d9", "gptme"))
    pointer(tmp_path, f"gptme-traj-{ITEM}.path", path)
    [found] = answers(tmp_path, run(ITEM, START))
    assert found.why == "what was found is contradicted: its first turn is marked for session 36d9"


def test_a_pointer_to_a_printed_log_leads_to_the_tools_own_file(tmp_path: Path) -> None:
    own = write.claude(tmp_path, A, LATER)
    log = write.stream(tmp_path / "tmp" / "cc-session-1.log", A)
    pointer(tmp_path, "cc-session-log-ref-41c2.txt", log)
    assert owners(tmp_path, run("41c2", START, tool="claude-code")) == [str(own)]


def test_a_stub_is_never_owned_and_the_log_of_its_session_is(tmp_path: Path) -> None:
    stub = write.lines(
        tmp_path / "projects" / "-home-dev-my-proj" / f"{A}.jsonl",
        {"type": "queue-operation", "timestamp": LATER, "sessionId": A},
    )
    assert answers(tmp_path, session_of_name(f"claude-code:{A}"))[0].why == "it contains no message"
    log = write.stream(tmp_path / "tmp" / "cc-session-1.log", A)
    pointer(tmp_path, "cc-session-log-ref-41c2.txt", log)
    assert owners(tmp_path, session_of_name(f"claude-code:{A}"), run("41c2", START)) == [str(log), str(log)]
    assert stub.exists()


def test_a_stale_pointer_of_a_reused_label_owns_nothing_without_a_time(tmp_path: Path) -> None:
    path = write.grok(tmp_path / "grok-trajectories", "run-1")
    pointer(tmp_path, "grok-build-session-log-ref-41c2.txt", path)
    [found] = answers(tmp_path, run("41c2", START, tool="grok"))
    assert (found.owner, found.found) == (None, True)
    assert "41c2 is a reused label" in found.why


@pytest.mark.parametrize("at", ["2026-08-01T10:15:04.100Z", "2026-08-01T10:25:00Z"], ids=["same second", "meanwhile"])
def test_a_pointer_that_a_run_of_the_same_label_took_owns_nothing(at: str, tmp_path: Path) -> None:
    """Two dispatches of one second share a label, or it is used again while the first one runs: one has a record."""
    mine = write.claude(tmp_path, A, LATER)
    other = write.claude(tmp_path, B, at)
    written = pointer(tmp_path, "cc-session-log-ref-41c2.txt", other)
    one = run("41c2", START, tool="claude-code", cwd=write.CWD, end_us=times.us_from("2026-08-01T10:30:00Z"))

    [found] = answers(tmp_path, one)
    assert (found.owner, found.found) == (None, True)
    assert found.why.startswith("another transcript that no other pointer names began there with the run")
    pointer(tmp_path, "cc-session-log-ref-50aa.txt", mine)
    assert owners(tmp_path, one) == [str(other)]  # so that one is another run's
    written.write_text(f"{mine}\n")
    assert owners(tmp_path, one) == [None if "04.100" in at else str(mine)]


def test_one_file_that_links_lead_to_has_one_owner(tmp_path: Path) -> None:
    """The home is often reached through a link; Grok's files have no id by which two paths of one would meet."""
    path = write.grok(tmp_path / "real" / "grok-trajectories", ITEM)
    (tmp_path / "link").symlink_to("real")
    via = tmp_path / "link" / "grok-trajectories" / path.name
    pointer(tmp_path / "real", f"grok-build-session-log-ref-{ITEM}.txt", via)
    other = run("another-run-of-grok", START, tool="grok", paths={str(via), "grok\0", "\ud800", "x/y"})

    assert owners(tmp_path / "real", run(ITEM, START, tool="grok")) == [str(path)]
    found = answers(tmp_path / "real", run(ITEM, START, tool="grok"), other)
    assert [one.why for one in found] == [
        f"{other.name} claims it as strongly",
        f"{run(ITEM, START).name} claims it as strongly",
    ]


def test_a_pointer_to_a_file_that_is_gone_is_reported_and_is_no_proof(tmp_path: Path) -> None:
    pointer(tmp_path, f"gptme-traj-{ITEM}.path", "/gone/gptme/fox/conversation.jsonl")
    [found] = answers(tmp_path, run(ITEM, START))
    assert (found.found, found.judged) == (False, ())
    assert found.lost[0].endswith("points at /gone/gptme/fox/conversation.jsonl, which no longer exists")


def test_what_has_the_name_of_a_file_that_is_gone_is_a_candidate(tmp_path: Path) -> None:
    moved = write.gptme(tmp_path / "data" / "gptme" / "logs", "fox", LATER)
    pointer(tmp_path, f"gptme-traj-{ITEM}.path", "/gone/gptme/fox/conversation.jsonl")
    one = run(ITEM, START, tool="gptme")
    environ = {"XDG_DATA_HOME": str(tmp_path / "data"), "TMPDIR": str(tmp_path / "tmp")}
    where = find_transcripts.search_folders([], environ, tmp_path)
    found, _ = find_transcripts.locate(LedgerSessions(sessions={one.name: one}), one.name, where)
    assert found.owner is None
    assert [judged.claim.file.path for judged in found.judged] == [str(moved)]
    assert found.why.startswith("/gone/gptme/fox/conversation.jsonl, which it names, is missing")


def test_a_pointer_that_holds_no_path_is_reported(tmp_path: Path) -> None:
    pointer(tmp_path, f"gptme-traj-{ITEM}.path", "two\nlines")
    (tmp_path / "tmp" / "gptme-traj-x.path").write_text("x" * (limits.LOCATE_POINTER_BYTES + 1))
    [found] = answers(tmp_path, run(ITEM, START))
    assert found.lost == (f"{tmp_path}/tmp/gptme-traj-{ITEM}.path contains no path",)


def test_a_pointer_is_read_up_to_its_limit(tmp_path: Path) -> None:
    at_limit = "/" + "x" * (limits.LOCATE_POINTER_BYTES - 2)  # and its newline
    pointer(tmp_path, f"gptme-traj-{ITEM}.path", at_limit)
    assert "which no longer exists" in answers(tmp_path, run(ITEM, START))[0].lost[0]
    pointer(tmp_path, f"gptme-traj-{ITEM}.path", at_limit + "x")
    assert answers(tmp_path, run(ITEM, START))[0].lost[0].endswith("contains no path")


def test_single_conversation_of_a_runs_folder_is_its_own_if_begun_later(tmp_path: Path) -> None:
    folder = tmp_path / "gptme-runs" / f"gptme-logs-{ITEM}"
    path = write.gptme(folder, "owl", "2026-08-01T10:15:01.000Z")
    [found] = answers(tmp_path, run(ITEM, "2026-08-01T10:15:00.999Z", tool="gptme"))
    assert found.owner is not None
    assert (found.owner.file.path, found.owner.rank) == (str(path), Rank.DIRECTORY)
    [found] = answers(tmp_path, run(ITEM, "2026-08-01T10:15:01.000Z", tool="gptme"))
    assert found.owner is None
    assert found.why.startswith("it began in the run's first second")


def test_a_computed_start_needs_a_second_more(tmp_path: Path) -> None:
    folder = tmp_path / "gptme-runs" / f"gptme-logs-{ITEM}"
    write.gptme(folder, "owl", "2026-08-01T10:15:01.500Z")
    one = run(ITEM, START, tool="gptme", is_exact=False)
    assert owners(tmp_path, one) == [None]
    one.start_us = times.us_from("2026-08-01T10:14:59Z")
    assert owners(tmp_path, one) != [None]


def test_a_place_without_a_time_inside_is_a_candidate(tmp_path: Path) -> None:
    write.grok(tmp_path / "grok-trajectories", ITEM)
    [found] = answers(tmp_path, run(ITEM, START, tool="grok"))
    assert (found.owner, found.found, found.why) == (None, True, "it contains no time")


def test_what_two_records_name_is_nobodys(tmp_path: Path) -> None:
    path = write.claude(tmp_path, A, LATER)
    runs = [run(label, START, paths={str(path)}, natives={f"claude-code:{A}": Rank.POINTER}) for label in ("a", "b")]
    assert owners(tmp_path, *runs) == [None, None]


def test_copies_with_the_same_bytes_are_one_transcript_and_others_are_not(tmp_path: Path) -> None:
    path = write.gptme(tmp_path / "logs", "fox", LATER)
    shutil.copytree(path.parent, tmp_path / "cache" / "fox")
    name = session_of_name("gptme:fox")
    assert owners(tmp_path, name) == [str(tmp_path / "cache" / "fox" / "conversation.jsonl")]
    path.write_text(path.read_text() + json.dumps({"role": "user", "content": "more", "timestamp": LATER}) + "\n")
    [found] = answers(tmp_path, name)
    assert (found.owner, found.why) == (None, "its tool's file exists in two places, with different content")


def test_a_pointer_that_another_user_wrote_is_no_proof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write.gptme(tmp_path / "logs", "fox", LATER)
    written = pointer(tmp_path, f"gptme-traj-{ITEM}.path", path)
    assert owners(tmp_path, run(ITEM, START, tool="gptme")) == [str(path)]
    if os.geteuid() == 0:
        os.chown(written, 4321, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 4321)
    [found] = answers(tmp_path, run(ITEM, START, tool="gptme"))
    assert (found.owner, found.why) == (None, "another user wrote the pointer")


def test_what_another_user_wrote_where_everybody_can_is_no_proof(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody can write a log into /tmp that says any session's id."""
    (tmp_path / "tmp").mkdir()
    log = write.stream(tmp_path / "tmp" / "cc-session-1.log", A)
    assert owners(tmp_path, session_of_name(f"claude-code:{A}")) == [str(log)]
    if os.geteuid() == 0:
        os.chown(log, 4321, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 4321)
    assert owners(tmp_path, session_of_name(f"claude-code:{A}")) == [str(log)]  # nobody else can write there
    (tmp_path / "tmp").chmod(0o1777)
    [found] = answers(tmp_path, session_of_name(f"claude-code:{A}"))
    assert (found.owner, found.why) == (None, "another user wrote it, into a folder that every user may write to")


def test_a_tools_own_name_is_not_sought_by_time(tmp_path: Path) -> None:
    own = session_of_name(f"codex:{A}")
    own.start_us, own.cwd = times.us_from(START), write.CWD
    write.codex(tmp_path, B, LATER)
    assert answers(tmp_path, own)[0].judged == ()


def test_what_a_records_path_names_is_its_own_where_nothing_contradicts_it(tmp_path: Path) -> None:
    path = write.grok(tmp_path / "grok-trajectories", "x")
    [found] = answers(tmp_path, run("41c2", START, tool="grok", paths={str(path)}))
    assert found.owner is not None
    assert (found.owner.file.path, found.owner.words) == (str(path), "its record names this path")
    assert owners(tmp_path, *(run(label, START, paths={str(path)}) for label in ("a", "b"))) == [None, None]


def test_a_weaker_claim_beside_a_stronger_one_is_a_candidate_and_says_so(tmp_path: Path) -> None:
    write.codex(tmp_path, A, LATER, write.marker(ITEM, "codex"))
    pointer(tmp_path, f"gptme-traj-{ITEM}.path", write.gptme(tmp_path / "logs", "x", LATER))
    [found] = answers(tmp_path, run(ITEM, START))
    assert [(one.verdict, one.why) for one in found.judged] == [
        ("owner", ""), ("candidate", "another transcript has a stronger claim"),
    ]  # fmt: skip


def test_a_pointer_of_one_tool_to_a_transcript_of_another_is_contradicted(tmp_path: Path) -> None:
    pointer(tmp_path, f"gptme-traj-{ITEM}.path", write.codex(tmp_path, A, LATER))
    [found] = answers(tmp_path, run(ITEM, START))
    assert [(one.verdict, one.why) for one in found.judged] == [
        ("contradicted", "the pointer is one of gptme, and this is a transcript of codex")
    ]
