from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tests import amounts
from tests.running import Place, meeting, told

import rightful
from rightful.locate.evidence import hashed

RUNS = amounts.either(20, 6)


def test_claude_code_is_given_an_id_and_its_transcript_is_bound_by_it(place: Place, tmp_path: Path) -> None:
    done = place.run("--", "claude", "-p", "hello", FAKE_TELLS=str(tmp_path / "told"))

    words = told(tmp_path / "told")["words"]
    [native] = (place.root / "home" / ".claude" / "projects").glob("*/*.jsonl")
    assert list(words) == ["--session-id", native.stem, "-p", "hello"]
    [link], [bound] = place.events("session.linked"), place.events("transcript.bound")
    assert (link.session, link.other, link.as_, link.evidence) == (
        done.report["session"], f"claude-code:{native.stem}", "native", "native-id",
    )  # fmt: skip
    assert (bound.uri, bound.bytes, bound.sha256) == (native.as_uri(), native.stat().st_size, hashed(native).sha256)
    assert (bound.evidence, bound.session) == ("native-id", done.report["session"])
    assert done.report["transcript"]["uri"] == native.as_uri()
    assert done.err.endswith(
        f"note: its transcript is bound but not imported; import it with: rightful import claude-code {native}\n"
    )
    assert "import" not in place.run("--quiet", "--", "claude").err


@pytest.mark.parametrize("words", [("-c",), ("--resume=x",), ("mcp", "list"), ("--version",), ("--session-id", "u")])
def test_claude_code_is_given_no_id_where_it_begins_no_session_of_its_own(
    place: Place, tmp_path: Path, words: tuple[str, ...]
) -> None:
    place.run("--", "claude", *words, FAKE_TELLS=str(tmp_path / "told"))

    assert list(told(tmp_path / "told")["words"]) == list(words)


def test_gptme_writes_into_a_folder_of_the_runs_own_that_stays(place: Place) -> None:
    done = place.run("--", "gptme", "hello")

    mark = done.report["session"].removeprefix("run:")
    [file] = (place.ledger / "runs" / mark / "logs" / "gptme").glob("*/conversation.jsonl")
    [link], [bound] = place.events("session.linked"), place.events("transcript.bound")
    assert (link.other, link.evidence) == (f"gptme:{file.parent.name}", "directory")
    assert (bound.uri, bound.evidence) == (file.as_uri(), "directory")
    assert stat.S_IMODE(file.parent.parent.stat().st_mode) == 0o700
    assert not (place.root / "home" / ".local" / "share").exists()


def test_a_resumed_conversation_of_gptme_stays_where_the_others_are(place: Place, tmp_path: Path) -> None:
    place.run("--", "gptme", "--resume", FAKE_TELLS=str(tmp_path / "told"))

    assert "GPTME_LOGS_HOME" not in told(tmp_path / "told")["env"]


def test_two_conversations_in_the_runs_own_folder_are_candidates(place: Place) -> None:
    done = place.run("--harness", "gptme", "--", "sh", "-c", "gptme a; gptme b")

    [lack] = place.events("data.recorded")
    assert lack.name == "transcript-candidates"
    assert len(lack.data["candidates"]) == 2
    assert lack.data["why"] == done.report["why"] == "2 conversations began in the run's own log folder"
    assert place.events("session.linked", "transcript.bound") == []


def test_a_name_that_another_run_is_linked_to_is_not_taken_from_it(place: Place) -> None:
    first = place.run("--", "gptme", "--name", "task")

    second = place.run("--", "gptme", "--name", "task")

    assert [link.session for link in place.events("session.linked")] == [first.report["session"]]
    assert second.report["why"] == f"{first.report['session']} is linked to gptme:task already"
    assert second.report["transcript"] is None
    assert len(second.report["candidates"]) == 1


@pytest.mark.parametrize("tool", ["codex", "copilot"])
def test_a_session_that_alone_began_here_is_the_runs_by_folder_and_time(place: Place, tool: str) -> None:
    place.run("--", tool, cwd=place.root)  # of another folder

    done = place.run("--", tool)

    link = place.events("session.linked", session=done.report["session"])[0]
    assert link.evidence == "cwd-window"
    assert link.other.startswith(f"{tool}:")
    assert done.report["transcript"]["evidence"] == "cwd-window"


def test_a_session_that_began_before_the_run_is_not_its_own(place: Place) -> None:
    subprocess.run(["codex"], env=place.env(), cwd=place.project, check=True)

    done = place.run("--harness", "codex", "--", "true")

    assert done.report["transcript"] is None
    assert done.report["candidates"] == []
    assert "no session of codex began in this folder" in done.report["why"]


def test_two_candidate_sessions_of_one_run_bind_neither(place: Place) -> None:
    done = place.run("--harness", "codex", "--", "sh", "-c", "codex; codex")

    assert done.report["transcript"] is None
    assert len(done.report["candidates"]) == 2
    assert done.report["why"] == "2 sessions began in this folder while the run was there"


def test_a_session_of_another_folder_is_no_candidate(place: Place) -> None:
    done = place.run("--harness", "codex", "--", "sh", "-c", "cd / && codex; cd - && codex")

    [bound] = place.events("transcript.bound")
    assert f'"cwd": "{place.project}"' in Path(bound.uri.removeprefix("file://")).read_text()
    assert done.report["candidates"] == []


def test_marker_in_the_command_decides_between_two_sessions(place: Place) -> None:
    mark = "<!-- BOB_SESSION_SENTINEL=789183b7-e986-46c1-9d5f-0544c8f3c4c9 session_id=41c2 -->\nFix"

    done = place.run("--harness", "codex", "--", "sh", "-c", 'codex; FAKE_SAYS="$0" codex', mark)

    assert done.report["transcript"]["evidence"] == "sentinel"
    assert "BOB_SESSION_SENTINEL" in Path(done.report["transcript"]["uri"].removeprefix("file://")).read_text()


@pytest.mark.parametrize("temp", ["temp", "link"])
def test_a_transcript_that_stands_in_the_private_folder_keeps_it(place: Place, temp: str) -> None:
    (place.root / "link").symlink_to("temp")
    pointer = 'printf %s "$TMPDIR/x/conversation.jsonl" > "$TMPDIR/gptme-traj-1.path"'
    script = f'GPTME_LOGS_HOME="$TMPDIR" gptme --name x; {pointer}'

    done = place.run("--harness", "gptme", "--", "sh", "-c", script, TMPDIR=str(place.root / temp))

    kept = Path(done.report["temporary"])
    assert done.report["transcript"]["uri"] == f"file://{kept.resolve()}/x/conversation.jsonl"
    assert (Path(done.report["temporary"]) / "x" / "conversation.jsonl").is_file()
    assert "it contains a transcript" in done.err


def test_a_pointer_in_the_private_folder_leads_to_the_transcript(place: Place) -> None:
    script = 'printf %s "$PWD/x/conversation.jsonl" > "$TMPDIR/gptme-traj-1.path"'

    done = place.run("--harness", "gptme", "--", "sh", "-c", f"GPTME_LOGS_HOME=$PWD gptme --name x; {script}")

    assert done.report["transcript"]["evidence"] == "pointer"
    assert done.report["transcript"]["session"] == "gptme:x"


def test_a_command_that_removes_its_private_folder_keeps_its_transcript(place: Place) -> None:
    done = place.run("--harness", "gptme", "--", "sh", "-c", 'gptme; rm -r "$TMPDIR"')

    assert done.report["transcript"]["evidence"] == "directory"


def test_a_report_does_not_claim_what_the_ledger_could_not_be_asked_about(place: Place) -> None:
    moved = place.root / "moved"

    done = place.run("--harness", "codex", "--", "sh", "-c", f'codex; mv "{place.ledger}" "{moved}"')

    assert done.report["transcript"] is None
    assert len(done.report["candidates"]) == 1
    assert done.report["why"] == "the ledger could not be asked who else claims it"


def test_runs_of_one_item_at_once_share_nothing(place: Place, tmp_path: Path) -> None:
    place.repository()
    script = 'env > "$OUT/$RIGHTFUL_RUN_NONCE"; pwd >> "$OUT/$RIGHTFUL_RUN_NONCE"'
    (tmp_path / "out").mkdir()
    words = ("--item", "same", "--harness", "gptme", "--worktree", "--")

    met = meeting(
        place, *words, "sh", "-c", f"{script}; gptme; FAKE_COMMITS=1 none", count=RUNS, OUT=str(tmp_path / "out")
    )

    told = [path.read_text().splitlines() for path in (tmp_path / "out").iterdir()]
    for name in ("RIGHTFUL_SESSION", "RIGHTFUL_RUN_NONCE", "TMPDIR", "GPTME_LOGS_HOME", "PWD"):
        assert len({line for env in told for line in env if line.startswith(f"{name}=")}) == RUNS, name
    for key in ("session", "run_nonce", "worktree", "branch"):
        assert len({str(one[key]) for one in met}) == RUNS, key
    assert len({one["transcript"]["uri"] for one in met}) == RUNS
    assert {one["transcript"]["evidence"] for one in met} == {"directory"}
    assert len({sha for one in met for sha in one["commits"]}) == RUNS
    assert {len(one["commits"]) for one in met} == {1}
    assert {tuple(one["commit_candidates"]) for one in met} == {()}
    links = place.events("session.linked")
    assert len({link.session for link in links}) == len({link.other for link in links}) == RUNS


def test_two_codex_runs_in_one_folder_do_not_get_each_others_transcript(place: Place) -> None:
    met = meeting(place, "--harness", "codex", "--", "codex", count=2)

    assert [one["transcript"] for one in met] == [None, None]
    assert place.events("session.linked", "transcript.bound") == []
    lacks = place.events("data.recorded")
    assert len(lacks) == 2
    assert all("began in this folder" in one.data["why"] or "other runs" in one.data["why"] for one in lacks)


def test_run_without_transcript_does_not_get_that_of_a_concurrent_run(place: Place) -> None:
    outer = place.run("--harness", "codex", "--", sys.executable, "-m", "rightful", "run", "--", "codex")

    assert outer.report["transcript"] is None
    assert "other runs were in this folder meanwhile" in outer.report["why"]


def test_runs_of_two_ledgers_in_one_folder_outside_git_see_each_other(place: Place) -> None:
    """One that leaves no transcript would have the other's for its own."""
    rightful.open(place.root / "other", create=True).close()
    inner = f'"{sys.executable}" -m rightful --ledger "{place.root / "other"}" run --quiet -- codex'

    outer = place.run("--harness", "codex", "--", "sh", "-c", inner)

    assert outer.report["transcript"] is None
    assert "other runs were in this folder meanwhile" in outer.report["why"]


def test_claude_code_runs_of_one_second_get_their_own_transcripts(place: Place) -> None:
    gate = [place.start("--report", place.root / f"r{number}", "--", "claude") for number in range(2)]
    for process in gate:
        process.communicate(timeout=60)

    reports = [json.loads((place.root / f"r{number}").read_text()) for number in range(2)]
    assert {one["transcript"]["evidence"] for one in reports} == {"native-id"}
    assert len({one["transcript"]["uri"] for one in reports}) == 2
