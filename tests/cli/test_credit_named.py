"""`credit` finds its sessions as every other command does, and says which session it added."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.cli.test_credit import GRADED, MADE, alphas, files, put

from rightful import ledger as app
from rightful.events import GradeRecorded

LONG = "7fbe4341-0000-4000-8000-000000000001"


def started(ledger: Path, *sessions: str) -> None:
    common = {"type": "session.started", "producer": "hook", "at": "2026-08-01T10:00:00Z"}
    with app.open(ledger) as opened:
        opened.append([{"key": f'["{session}"]', "session": session, **common} for session in sessions])


def graded(ledger: Path) -> list[tuple[str, str | None]]:
    with app.open(ledger) as opened:
        events = [row.event for row in opened.read()]
    return [(event.session, event.exposure_session) for event in events if isinstance(event, GradeRecorded)]


@pytest.mark.parametrize("given", ["7fbe", LONG, f"claude-code:{LONG}", "claude-code:7fbe"])
def test_an_exposure_id_is_found_by_its_beginning_or_full_name(ledger: Path, run: Run, here: Path, given: str) -> None:
    started(ledger, f"claude-code:{LONG}")
    state = put(here / "state", f"{LONG}.json", "lessons/a.md").parent

    done = run("credit", "--session-state-dir", state, "--exposure-session-id", given, *GRADED)

    assert (done.code, graded(ledger)) == (0, [(f"claude-code:{LONG}", f"claude-code:{LONG}")])
    assert alphas(run) == {"lessons/a.md": 1.8}
    assert "it now has" not in done.err


def test_a_workspace_label_means_the_session_of_the_records(ledger: Path, run: Run, here: Path) -> None:
    started(ledger, "workspace:ab12@2026-08-01T10:00:00Z")
    state = put(here / "state", "ab12.json", "lessons/a.md").parent

    done = run("credit", "--session-state-dir", state, "--workspace-session-id", "ab12", *GRADED)

    assert graded(ledger) == [("workspace:ab12@2026-08-01T10:00:00Z", None)]
    assert alphas(run) == {"lessons/a.md": 1.8}
    assert "'ab12' is workspace:ab12@2026-08-01T10:00:00Z of this ledger" in done.err


def test_a_missing_record_names_the_one_of_the_linked_session(ledger: Path, run: Run, here: Path) -> None:
    started(ledger, "workspace:a000@2026-08-01T10:00:00Z", f"claude-code:{LONG}")
    with app.open(ledger) as opened:
        opened.append(
            [
                {
                    "type": "session.linked", "producer": "p", "key": "k", "at": "2026-08-01T10:00:00Z",
                    "session": "workspace:a000@2026-08-01T10:00:00Z", "other": f"claude-code:{LONG}", "as": "native",
                    "evidence": "native-id",
                }
            ]
        )  # fmt: skip
    state = put(here / "state", f"{LONG}.json", "lessons/a.md").parent
    words = ("credit", "--session-state-dir", state, "--workspace-session-id", "a000", *GRADED)

    done, dry = run(*words), run(*words, "--dry-run")

    assert (done.code, graded(ledger)) == (0, [])
    assert (
        f"the exposure record is missing: a000.json is not in {state}, but {LONG}.json of the linked session "
        f"claude-code:{LONG} is; to credit that exposure, add --exposure-session-id {LONG}; nothing is credited"
    ) in done.out
    assert f"add --exposure-session-id {LONG}" in dry.out
    run(*words, "--exposure-session-id", LONG)
    assert alphas(run) == {"lessons/a.md": 1.8}


def test_an_id_that_fits_several_sessions_is_refused(ledger: Path, run: Run, here: Path) -> None:
    started(ledger, f"claude-code:{LONG}", "claude-code:7fbe9999")
    state = put(here / "state", f"{LONG}.json", "lessons/a.md").parent

    done = run("credit", "--session-state-dir", state, "--exposure-session-id", "7fbe", *GRADED)

    assert (done.code, graded(ledger)) == (2, [])
    assert f"'7fbe' fits 2 sessions: claude-code:{LONG}, claude-code:7fbe9999. Nothing was credited." in done.err


@pytest.mark.parametrize("given", ["7fbe", "7fbe9", "7fb", LONG, "ab12"])
def test_a_dry_run_answers_as_the_real_run_does(ledger: Path, run: Run, here: Path, given: str) -> None:
    """Of a beginning that fits two sessions, one, or none because it is too short; of a full id; of another tool's."""
    started(ledger, f"claude-code:{LONG}", "claude-code:7fbe9999", "codex:ab12")
    state = put(here / "state", f"{LONG}.json", "lessons/a.md").parent
    put(here / "state", "7fbe9999.json", "lessons/b.md")
    before = files(here)
    words = ("credit", "--session-state-dir", state, "--exposure-session-id", given, *GRADED)

    dry = run(*words, "--dry-run")
    kept = files(here) == before
    real = run(*words)

    assert kept
    assert dry.code == real.code == (2 if given == "7fbe" else 0)
    assert dry.out.replace("(dry run: nothing was written)\n", "") == real.out
    assert dry.err in real.err


def test_an_id_with_a_record_of_its_own_is_not_a_beginning(ledger: Path, run: Run, here: Path) -> None:
    """`session-1` is a new session, although `session-10` of the ledger begins so."""
    started(ledger, "claude-code:session-10")
    put(here / "state", "session-10.json", "lessons/ten.md")
    state = put(here / "state", "session-1.json", "lessons/one.md").parent

    done = run("credit", "--session-state-dir", state, "--exposure-session-id", "session-1", *GRADED)

    assert alphas(run) == {"lessons/one.md": 1.8}
    assert MADE.format("claude-code:session-1") in done.err


def test_the_beginning_of_another_tools_id_is_not_taken(ledger: Path, run: Run, here: Path) -> None:
    """A workspace's ids are short: one could begin a tool's id by chance."""
    started(ledger, f"claude-code:{LONG}")
    state = put(here / "state", f"{LONG}.json", "lessons/a.md").parent

    done = run("credit", "--session-state-dir", state, "--workspace-session-id", "7fbe", *GRADED)

    assert (done.code, graded(ledger)) == (0, [])
    assert "the exposure record is missing" in done.out


def test_locate_lists_the_sessions_that_begin_so(ledger: Path, run: Run) -> None:
    started(ledger, f"claude-code:{LONG}", "claude-code:7fbe9999")

    done = run("locate", "7fbe")

    assert done.code == 2
    assert f"'7fbe' is the beginning of 2 sessions: claude-code:{LONG}, claude-code:7fbe9999." in done.err
