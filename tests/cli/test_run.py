from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tests.hooking import before_tool
from tests.running import Place, told


def test_the_command_knows_who_it_is_and_where_the_ledger_is(place: Place, tmp_path: Path) -> None:
    done = place.run("--", "none", FAKE_TELLS=str(tmp_path / "told"))

    env = told(tmp_path / "told")["env"]
    assert done.code == 0
    assert env["RIGHTFUL_SESSION"] == done.report["session"]
    assert env["RIGHTFUL_RUN_NONCE"] == done.report["run_nonce"]
    assert (len(env["RIGHTFUL_RUN_NONCE"]), int(env["RIGHTFUL_RUN_NONCE"], 16) > 0) == (32, True)
    assert env["RIGHTFUL_LEDGER"] == str(place.ledger)
    assert env["RIGHTFUL_RUN_NONCE"] not in env["RIGHTFUL_SESSION"]


def test_a_relative_ledger_is_handed_on_as_an_absolute_one(place: Place, tmp_path: Path) -> None:
    place.run("--", "none", FAKE_TELLS=str(tmp_path / "told"), RIGHTFUL_LEDGER="../ledger")

    assert told(tmp_path / "told")["env"]["RIGHTFUL_LEDGER"] == str(place.ledger)


def test_start_and_end_are_recorded_with_what_is_known(place: Place) -> None:
    done = place.run("--item", "repo/7", "--model", "big", "--harness", "grok", "--", "sh", "-c", "exit 3")

    [start, *_, end] = place.events("session.started", "session.ended")
    assert (done.code, end.exit_code, start.session, end.session) == (3, 3, *[done.report["session"]] * 2)
    assert (start.harness, start.model, start.work_item) == ("grok", "big", "repo/7")
    assert (start.cwd, start.run_nonce) == (str(place.project), done.report["run_nonce"])
    assert start.extra == {"program": "sh"}
    assert start.at <= end.at


def test_start_is_stored_before_the_command_and_the_ledger_is_free(
    place: Place,
) -> None:
    line = '{"type":"session.ended","producer":"p","key":"1","session":"t:a","at":"2026-08-01T10:15:00Z"}'
    script = f'echo \'{line}\' | "$PY" -m rightful ingest - && "$PY" -m rightful status --json'

    done = place.run("--", "sh", "-c", script, PY=sys.executable)

    assert done.code == 0
    kinds = [type(event).__name__ for event in place.events()]
    assert kinds == ["SessionStarted", "SessionEnded", "SessionEnded"]
    assert [row.session for row in place.rows()][1] == "t:a"


def test_nothing_is_printed_on_stdout_and_stdin_is_the_commands(place: Place) -> None:
    process = place.start("--", "cat", stdin=subprocess.PIPE)

    out, err = process.communicate("words\n", timeout=60)

    assert (process.returncode, out) == (0, "words\n")
    assert "this is run:" in err


def test_quiet_leaves_the_notes_out(place: Place) -> None:
    assert place.run("--quiet", "--", "true").err == ""


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--", "no-such-program"), 127, "program not found; nothing was started or recorded"),
        (("--", "./no-such-file"), 127, "could not be started: No such file"),
        (("--", "./plain"), 126, "could not be started: Permission denied"),
    ],
)
def test_a_command_that_cannot_be_started_ends_as_in_a_shell(
    place: Place, words: tuple[str, ...], code: int, said: str
) -> None:
    (place.project / "plain").write_text("words")

    done = place.run(*words)

    assert done.code == code
    assert said in done.err
    assert [event.exit_code for event in place.events("session.ended")] == ([code] if words[1][0] == "." else [])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("true",), "Put it after `--`"),
        (("--",), "Put it after `--`"),
        (("--worktree", "true"), "Put it after `--`"),
        (("--json", "--", "true"), "Use --report FILE instead"),
        (("--cwd", "gone", "--", "true"), "is not a folder"),
        (("--session", "run:unknown", "--", "true"), "is not a valid session name"),
        (("--worktree", "--", "true"), "needs a git repository"),
    ],
)
def test_what_cannot_be_done_as_asked_is_refused_before_anything_starts(
    place: Place, words: tuple[str, ...], said: str
) -> None:
    done = place.run(*words)

    assert done.code == 2
    assert said in done.err
    assert place.rows() == []
    assert list((place.root / "temp").iterdir()) == []


def test_options_behind_the_dashes_are_the_commands(place: Place) -> None:
    done = place.run("--", "echo", "--json", "--", "--ledger", "x", "-h")

    assert (done.code, done.out) == (0, "--json -- --ledger x -h\n")


def test_where_there_is_no_ledger_nothing_is_started(place: Place, tmp_path: Path) -> None:
    done = place.run("--", "touch", str(tmp_path / "ran"), RIGHTFUL_LEDGER=str(tmp_path / "gone"))

    assert done.code == 4
    assert "No ledger at" in done.err
    assert not (tmp_path / "ran").exists()


def test_a_ledger_that_cannot_be_written_starts_nothing(place: Place, tmp_path: Path) -> None:
    place.repository()
    limited = [
        "prlimit",
        "--fsize=1000",
        *place.words("--harness", "gptme", "--worktree", "--", "touch", tmp_path / "ran"),
    ]

    done = subprocess.run(limited, cwd=place.project, env=place.env(), capture_output=True, text=True, check=False)

    assert done.returncode == 4
    assert "Nothing of this call was written" in done.stderr
    assert not (tmp_path / "ran").exists()
    assert list((place.root / "temp").iterdir()) == []
    assert [path.name for path in (place.ledger / "runs").iterdir()] == ["live"]
    assert place.git("branch", "--list", "--format=%(refname:short)").split() == ["main"]


def test_a_name_that_a_run_had_is_refused_and_the_second_starts_nothing(place: Place, tmp_path: Path) -> None:
    first = place.run("--session", "workspace:41c2@2026-08-01", "--", "true")

    second = place.run("--session", "workspace:41c2@2026-08-01", "--", "touch", str(tmp_path / "ran"))

    assert (first.code, first.report["session"]) == (0, "workspace:41c2@2026-08-01")
    assert (second.code, second.report) == (3, {})
    assert "a second one could not be distinguished from it" in second.err
    assert not (tmp_path / "ran").exists()
    assert list((place.root / "temp").iterdir()) == []
    assert len(place.events("session.started")) == 1


def test_a_name_without_a_namespace_is_a_runs(place: Place) -> None:
    assert place.run("--session", "mine", "--", "true").report["session"] == "run:mine"


def test_a_run_within_a_run_says_who_started_it_and_is_its_own(place: Place) -> None:
    done = place.run("--", sys.executable, "-m", "rightful", "run", "--", "true")

    outer, inner = place.events("session.started")
    assert done.code == 0
    assert inner.extra["started_by"] == outer.session == done.report["session"]
    assert len({outer.run_nonce, inner.run_nonce}) == len({outer.session, inner.session}) == 2
    assert place.events("session.linked") == []


# -- temporary files -----------------------------------------------------------------------


def test_the_temporary_folder_is_private_and_gone_at_the_end(place: Place, tmp_path: Path) -> None:
    script = 'umask 0; touch "$TMPDIR/left"; stat -c "%a %n" "$TMPDIR"'

    done = place.run("--", "sh", "-c", script, TMP="/elsewhere")

    mode, folder = done.out.split()
    assert (mode, Path(folder).parent) == ("700", place.root / "temp")
    assert list((place.root / "temp").iterdir()) == []
    assert done.report["temporary"] is None


def test_a_kept_folder_is_named(place: Place) -> None:
    done = place.run("--keep", "--", "sh", "-c", 'echo x > "$TMPDIR/left"')

    folder = Path(done.report["temporary"])
    assert (folder / "left").read_text() == "x\n"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert f"temporary files were kept in {folder}" in done.err


def test_what_others_look_for_is_handed_back_to_the_callers_folder(place: Place) -> None:
    (place.root / "temp" / "claude-lesson-match").mkdir()
    script = 'mkdir "$TMPDIR/claude-lesson-match"; echo 1 > "$TMPDIR/claude-lesson-match/a.json"; touch "$TMPDIR/junk"'

    place.run("--", "sh", "-c", script)

    assert (place.root / "temp" / "claude-lesson-match" / "a.json").read_text() == "1\n"
    assert [path.name for path in (place.root / "temp").iterdir()] == ["claude-lesson-match"]


def test_temporary_files_replace_no_existing_file(place: Place) -> None:
    (place.root / "temp" / "cc-session-1.log").write_text("another's")

    done = place.run("--", "sh", "-c", 'echo mine > "$TMPDIR/cc-session-1.log"')

    assert (place.root / "temp" / "cc-session-1.log").read_text() == "another's"
    assert (Path(done.report["temporary"]) / "cc-session-1.log").read_text() == "mine\n"
    assert "could not be moved back" in done.err


# -- what could not be written -------------------------------------------------------------


def test_unwritable_end_waits_in_the_spool_and_keeps_the_exit_code(place: Place) -> None:
    moved = place.root / "moved"

    done = place.run("--", "sh", "-c", f'mv "{place.ledger}" "{moved}"; exit 5')
    moved.rename(place.ledger)
    waits = Path(str(done.report["kept"]))
    drained = place.run("--", "true")

    assert (done.code, drained.code) == (5, 0)
    assert "could not be recorded yet" in done.err
    assert str(waits) in done.err
    assert not waits.exists()
    assert [event.exit_code for event in place.events("session.ended", session=done.report["session"])] == [5]


def test_a_killed_run_leaves_its_start_and_takes_its_command_with_it(place: Place) -> None:
    process = place.start("--", "sh", "-c", 'trap "echo ended; exit 0" TERM; echo here; while :; do sleep 0.05; done')
    assert process.stdout.readline() == "here\n"

    process.kill()
    rest, _ = process.communicate(timeout=60)  # the pipe ends with the command

    assert rest == "ended\n"
    assert process.returncode == -9
    assert [type(event).__name__ for event in place.events()] == ["SessionStarted"]
    [killed] = [row.session for row in place.rows()]
    script = f'"{sys.executable}" -m rightful status --json'
    seen = place.run("--", "sh", "-c", script)  # from within one that is there
    assert json.loads(seen.out)["unended_runs"] == [killed]
    told = subprocess.run(
        [sys.executable, "-m", "rightful", "status", "--check"], env=place.env(), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert told.returncode == 1
    assert f"warning: 1 run never ended and is no longer running ({killed})" in " ".join(told.stdout.split())
    assert "No warnings." not in told.stdout
    assert "runs without end" in told.stdout
    assert f"{killed}; `rightful locate SESSION` finds what one left" in told.stdout


def test_what_cannot_be_right_is_said_before_anything_starts(place: Place, tmp_path: Path) -> None:
    made = tmp_path / "made"

    for report in (tmp_path / "nowhere" / "r.json", tmp_path, ""):
        process = place.start("--report", report, "--", "touch", made)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 2
        assert f"--report {str(report)!r} cannot be written; nothing was started" in err
    assert not made.exists()
    assert place.rows() == []

    done = place.run("--harness", "foo", "--", "true")
    assert done.code == 0
    assert "foo is not a known agent tool (claude-code, codex, copilot, gptme, grok); it is recorded" in done.err


def test_single_run_gets_its_name_and_why_no_transcript_is_bound(place: Place) -> None:
    done = place.run("--harness", "codex", "--", "true")
    session = done.report["session"]
    assert done.err.splitlines() == [
        f"rightful: note: this is {session}.",
        f"rightful: note: no transcript was bound to {session}: {done.report['why']}",
    ]

    script = f'"{sys.executable}" -m rightful run -- true'
    beside = place.run("--quiet", "--", "sh", "-c", script)
    assert "not isolated from other sessions: ports" in beside.err


def test_hook_calls_in_the_private_folder_are_written_before_it_is_removed(place: Place) -> None:
    moved = place.root / "moved"
    call = json.dumps(before_tool())
    script = (
        f'mv "{place.ledger}" "{moved}"; printf %s \'{call}\' | "{sys.executable}" -m rightful hook run claude-code '
        f'--ledger "{place.ledger}"; find "$TMPDIR" -name "*.events.jsonl" | wc -l; mv "{moved}" "{place.ledger}"'
    )

    done = place.run("--quiet", "--", "sh", "-c", script, XDG_STATE_HOME="/dev/null")

    assert (done.code, done.out.strip(), done.err) == (0, "1", "")
    assert [event.call for event in place.events("tool_call.snapshotted")] == ["toolu_1"]
    assert list((place.root / "temp").iterdir()) == []
