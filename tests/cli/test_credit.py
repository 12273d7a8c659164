from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.cli.conftest import Run

from rightful import ledger as app
from rightful.events import ExposureRecorded, GradeRecorded

A_SAYS = "Session: session-a\nOutcome: productive (reward 0.800, from the grade)\nLessons (1): session-a.md\n"
MADE = "rightful: note: no session of this ledger had that id, so it now has {}.\n"
APPENDED = "rightful: ledger: appended\n"
GRADED = ("--outcome", "productive", "--grade", "0.8")


def put(folder: Path, name: str, *arms: str, mtime: int = 1_785_600_000, **fields: object) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(json.dumps({"injected": list(arms)} | fields))
    os.utime(path, (mtime, mtime))
    return path


@pytest.fixture
def state(here: Path) -> Path:
    """Two sessions; B's exposure is the newer file."""
    put(here / "state", "session-a.json", "lessons/session-a.md", mtime=1_785_600_000)
    put(here / "state", "session-b.json", "lessons/session-b.md", mtime=1_785_600_060)
    return here / "state"


def files(folder: Path) -> dict[str, tuple[int, bytes]]:
    """All files but LMDB's table of readers, in which every process that reads the ledger has a slot."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in [folder, *folder.rglob("*")]
        if path.name != "lock.mdb"
    }


def alphas(run: Run) -> dict[str, float]:
    return {arm: one["alpha"] for arm, one in run("posteriors", "--json").document["arms"].items()}


def test_the_named_session_is_credited_and_never_the_newest(ledger: Path, run: Run, state: Path) -> None:
    """The two-file case of the issue, byte for byte."""
    done = run("credit", "--session-state-dir", state, "--exposure-session-id", "session-a", *GRADED)

    assert (done.code, done.out, done.err) == (0, A_SAYS, MADE.format("claude-code:session-a") + APPENDED)
    assert alphas(run) == {"lessons/session-a.md": 1.8}


def test_a_workspace_id_alone_names_the_record_too(ledger: Path, run: Run, state: Path) -> None:
    done = run("credit", "--session-state-dir", state, "--workspace-session-id", "session-a", *GRADED)

    assert (done.out, done.err) == (A_SAYS, MADE.format("workspace:session-a") + APPENDED)
    assert alphas(run) == {"lessons/session-a.md": 1.8}
    with app.open(ledger) as opened:
        shown, grade = [row.event for row in opened.read()]
    assert isinstance(shown, ExposureRecorded)
    assert isinstance(grade, GradeRecorded)
    assert (shown.session, grade.session) == ("workspace:session-a", "workspace:session-a")


def test_the_exposure_id_decides_over_the_workspace_id(ledger: Path, run: Run, state: Path) -> None:
    ids = ("--workspace-session-id", "session-b", "--exposure-session-id", "session-a")

    done = run("credit", "--session-state-dir", state, *ids, *GRADED)

    made = "workspace:session-b and claude-code:session-a"
    assert (done.out, done.err) == (A_SAYS, MADE.format(made) + APPENDED)
    assert alphas(run) == {"lessons/session-a.md": 1.8}


@pytest.mark.parametrize("newer", ["a", "b"])
@pytest.mark.parametrize("first", ["session-a", "session-b"])
def test_neither_file_time_nor_content_time_nor_order_decides(
    ledger: Path, run: Run, state: Path, newer: str, first: str
) -> None:
    a, b = (20, 10) if newer == "a" else (10, 20)
    put(state, "session-a.json", "lessons/session-a.md", last_pretool=1_785_600_000 + a)
    put(state, "session-b.json", "lessons/session-b.md", last_pretool=1_785_600_000 + b)
    grades = {"session-a": "0.8", "session-b": "0.1"}

    for name in sorted(grades, reverse=first == "session-b"):
        run("credit", "--session-state-dir", state, "--exposure-session-id", name, "--grade", grades[name])

    assert alphas(run) == {"lessons/session-a.md": 1.8, "lessons/session-b.md": 1.1}


def test_run_twice_it_credits_once(ledger: Path, run: Run, state: Path) -> None:
    words = ("credit", "--session-state-dir", state, "--exposure-session-id", "session-a", *GRADED)

    outcomes = [[one["outcome"] for one in run(*words, "--json").document["receipts"]] for _ in range(2)]

    assert outcomes == [["appended", "appended"], ["duplicate", "duplicate"]]
    assert alphas(run) == {"lessons/session-a.md": 1.8}


def test_another_grade_replaces_the_last(ledger: Path, run: Run, state: Path) -> None:
    for grade in ("0.8", "0.25"):
        run("credit", "--session-state-dir", state, "--exposure-session-id", "session-a", "--grade", grade)

    assert alphas(run) == {"lessons/session-a.md": 1.25}


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--outcome", "productive"), "Outcome: productive (the policy sets the reward)"),
        (("--outcome", "noop", "--grade", "1"), "Outcome: noop (reward 1.000, from the grade)"),
        (("--grade", "0.12345"), "Outcome: not given (reward 0.123, from the grade)"),
        (("--outcome", "unknown", "--grade", "0.5"), "Outcome: unknown (reward 0.500, from the grade)"),
        (("--outcome", "unknown"), "Outcome: unknown (no reward: nothing is credited)"),
    ],
)
def test_the_second_line_says_what_decides(
    ledger: Path, run: Run, state: Path, words: tuple[str, ...], line: str
) -> None:
    done = run("credit", "--session-state-dir", state, "--exposure-session-id", "session-a", *words)

    assert (done.code, done.out.splitlines()[1]) == (0, line)


def test_an_outcome_alone_is_mapped_by_the_policy(ledger: Path, run: Run, state: Path) -> None:
    run("credit", "--session-state-dir", state, "--exposure-session-id", "session-a", "--outcome", "productive")

    assert alphas(run) == {"lessons/session-a.md": 2.0}


def test_unknown_outcome_is_not_a_grade(ledger: Path, run: Run, state: Path) -> None:
    run("credit", "--session-state-dir", state, "--exposure-session-id", "session-a", "--outcome", "unknown")

    assert run("status", "--json").document["events"] == 0


def test_lessons_are_shown_by_their_file_names(ledger: Path, run: Run, state: Path) -> None:
    put(state, "c.json", "/home/dev/lessons/tools/y.md", "x.md", "lessons/dir/", "a\x1b[2J.md")

    done = run("credit", "--session-state-dir", state, "--exposure-session-id", "c", "--grade", "1", "--dry-run")

    assert "the exposure record is malformed" in done.out
    put(state, "c.json", "/home/dev/lessons/tools/y.md", "x.md", "lessons/dir/")
    done = run("credit", "--session-state-dir", state, "--exposure-session-id", "c", "--grade", "1", "--dry-run")
    assert done.out.splitlines()[2] == "Lessons (3): y.md, x.md, dir"


@pytest.mark.parametrize(
    ("how", "text", "events"),
    [
        ("missing", None, 0),
        ("empty", "", 0),
        ("empty", '{"injected": []}', 2),
        ("malformed", '{"injected": {"not": "a list"}, "last_pretool": "0"}', 0),
    ],
    ids=range(4),
)
def test_unusable_exposure_record_gives_no_credit_and_exits_0(
    ledger: Path, run: Run, state: Path, how: str, text: str | None, events: int
) -> None:
    """That a session was shown nothing is a fact, and is recorded; that its record is broken is none."""
    path = state / "session-a.json"
    path.unlink()
    if text is not None:
        path.write_text(text)

    done = run("credit", "--session-state-dir", state, "--exposure-session-id", "session-a", *GRADED)

    assert done.code == 0
    assert done.out.splitlines()[2].startswith(f"Lessons (0): the exposure record is {how}: ")
    assert done.out.splitlines()[2].endswith("; nothing is credited")
    said = (
        "appended; gives no credit under bound: empty (its exposure lists no lesson)"
        if events
        else "nothing was recorded"
    )
    assert f"rightful: ledger: {said}" in done.err.splitlines()
    assert alphas(run) == {}
    assert run("status", "--json").document["events"] == events


@pytest.mark.parametrize("known_from", ["files", "ledger", "records"])
def test_ambiguous_exposure_record_gives_no_credit_and_exits_0(
    ledger: Path, run: Run, state: Path, here: Path, known_from: str
) -> None:
    put(state, "a_b.json", "lessons/whose.md")
    records: tuple[str | Path, ...] = ()
    if known_from == "files":
        put(state, "a.b.json", "lessons/other.md")
    elif known_from == "ledger":
        shown = {"type": "exposure.recorded", "producer": "hook", "key": "1", "at": "2026-08-01T10:00:00Z"}
        with app.open(ledger) as opened:
            opened.append([shown | {"session": "claude-code:a.b", "arms": [{"arm": "lessons/other.md"}]}])
    else:
        row = {"session_id": "w", "trajectory_path": "/home/dev/.claude/projects/-p/a.b.jsonl"}
        (here / "records.jsonl").write_text(json.dumps(row))
        records = ("--session-records", here / "records.jsonl")

    done = run("credit", "--session-state-dir", state, "--exposure-session-id", "a/b", *records, *GRADED)

    assert (done.code, done.out.splitlines()[2]) == (
        0,
        (
            "Lessons (0): the exposure record is ambiguous: a_b.json could also be the record of 'a.b'; nothing is "
            "credited"
        ),
    )
    assert alphas(run) == {}


def test_alias_in_the_ledger_does_not_make_a_record_ambiguous(ledger: Path, run: Run, state: Path) -> None:
    """The imported state file of the same session must not stand in its own way."""
    put(state, "a_b.json", "lessons/mine.md")
    run("import", "lesson-hook", state / "a_b.json")

    done = run("credit", "--session-state-dir", state, "--exposure-session-id", "a/b", *GRADED)

    assert done.out.splitlines()[2] == "Lessons (1): mine.md"
    assert alphas(run) == {"lessons/mine.md": 1.8}


def test_a_wrong_id_never_reaches_a_session_of_a_like_name(ledger: Path, run: Run, state: Path) -> None:
    run("credit", "--session-state-dir", state, "--exposure-session-id", "session-a", *GRADED)
    run("credit", "--session-state-dir", state, "--exposure-session-id", "session_a", "--grade", "0")

    assert alphas(run) == {"lessons/session-a.md": 1.8}


@pytest.mark.parametrize("ids", [(), ("--exposure-session-id", ""), ("--exposure-session-id", "unknown")])
def test_credit_without_a_session_exits_2(ledger: Path, run: Run, state: Path, ids: tuple[str, ...]) -> None:
    done = run("credit", "--session-state-dir", state, *ids, *GRADED)

    assert (done.code, done.out) == (2, "")
    assert "--exposure-session-id" in done.err
    assert run("status", "--json").document["events"] == 0


@pytest.mark.parametrize("words", [(), ("--grade", "1.1"), ("--grade", "nan"), ("--grade", "x"), ("--outcome", " ")])
def test_without_a_grade_it_refuses_with_2(ledger: Path, run: Run, state: Path, words: tuple[str, ...]) -> None:
    done = run("credit", "--session-state-dir", state, "--exposure-session-id", "session-a", *words)

    assert (done.code, done.out) == (2, "")
    assert run("status", "--json").document["events"] == 0


def test_a_dry_run_says_the_same_and_touches_nothing(run: Run, state: Path, here: Path) -> None:
    words = ("--session-state-dir", state, "--exposure-session-id", "session-a", "--bandit-dir", here / "bandit")
    before = files(here)
    here.chmod(0o500)
    state.chmod(0o500)
    try:
        done = run("--ledger", here / "ledger", "credit", *words, *GRADED, "--dry-run")
    finally:
        here.chmod(0o700)
        state.chmod(0o700)

    assert (done.code, done.out) == (0, A_SAYS + "(dry run: nothing was written)\n")
    assert files(here) == before


def test_a_dry_run_leaves_a_ledger_unchanged(ledger: Path, run: Run, state: Path, here: Path) -> None:
    before = files(here)

    run("credit", "--session-state-dir", state, "--exposure-session-id", "session-a", *GRADED, "--dry-run")

    assert files(here) == before


def test_a_ledger_is_made_only_where_it_is_named(run: Run, state: Path, here: Path) -> None:
    words = ("credit", "--session-state-dir", state, "--exposure-session-id", "session-a", *GRADED)

    without = run(*words)

    assert (without.code, without.out) == (4, "")  # a failure comes before any result (row A14)
    assert without.err == (
        f"rightful: nothing was recorded: No ledger at {here}/.rightful. Run `rightful init`, or name a ledger with "
        f"--ledger.\n"
    )
    assert not (here / ".rightful").exists()
    assert run("--ledger", here / "named", *words).code == 0
    assert run("--ledger", here / "named", "status", "--json").document["events"] == 2


def test_dry_run_reports_that_there_is_no_ledger(run: Run, state: Path, here: Path) -> None:
    words = ("credit", "--session-state-dir", state, "--exposure-session-id", "session-a", *GRADED, "--dry-run")
    before = files(here)

    found, named = run(*words), run("--ledger", here / "named", *words)

    assert (found.code, named.code, files(here)) == (0, 0, before)
    assert found.err == (
        f"rightful: nothing would be recorded: No ledger at {here}/.rightful. Run `rightful init`, or name a ledger "
        f"with --ledger.\n"
    )
    assert named.err == f"rightful: note: no ledger at {here}/named; without --dry-run it would be created.\n"


def test_a_ledger_named_by_the_environment_is_not_made(
    run: Run, state: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RIGHTFUL_LEDGER", str(here / "named"))

    done = run("credit", "--session-state-dir", state, "--exposure-session-id", "session-a", *GRADED)

    assert done.code == 4
    assert not (here / "named").exists()


@pytest.mark.parametrize("stands", [False, True])
def test_the_bandit_file_is_spoken_of_and_never_written(
    ledger: Path, run: Run, state: Path, here: Path, *, stands: bool
) -> None:
    bandit = here / "bandit"
    if stands:
        bandit.mkdir()
        (bandit / "bandit-state.json").write_text("{}")
    words = ("--session-state-dir", state, "--exposure-session-id", "session-a", "--bandit-dir", bandit)

    done = run("credit", *words, *GRADED)

    assert (done.code, done.out) == (0, A_SAYS)
    said = "exists and was not changed" if stands else "does not exist and was not created"
    assert f"rightful: {bandit}/bandit-state.json {said}" in done.err
    assert [path.read_text() for path in bandit.glob("*")] == ["{}"] * stands


def test_the_grade_is_taken_from_the_session_records_where_none_is_given(
    ledger: Path, run: Run, state: Path, here: Path
) -> None:
    row = {"session_id": "w", "start_time": "2026-08-01T10:00:00Z", "trajectory_grade": 0.8, "outcome": "productive"}
    (here / "records.jsonl").write_text(json.dumps(row) + "\n")
    ids = ("--workspace-session-id", "w", "--exposure-session-id", "session-a")

    done = run("credit", "--session-state-dir", state, "--session-records", here / "records.jsonl", *ids)

    assert (done.code, done.out) == (0, A_SAYS)
    assert alphas(run) == {"lessons/session-a.md": 1.8}


def test_session_records_that_cannot_be_read_are_spoken_of_and_not_used(
    ledger: Path, run: Run, state: Path, here: Path
) -> None:
    words = ("--session-state-dir", state, "--exposure-session-id", "session-a", "--session-records", here / "none")

    done = run("credit", *words, *GRADED)

    assert (done.code, done.out) == (0, A_SAYS)
    assert done.err.splitlines() == [
        f"rightful: {here}/none could not be read: No such file or directory; it was not used.",
        MADE.format("claude-code:session-a").rstrip(),
        "rightful: ledger: appended",
    ]


def test_the_document_has_the_facts(ledger: Path, run: Run, state: Path) -> None:
    done = run("credit", "--session-state-dir", state, "--exposure-session-id", "session-a", *GRADED, "--json")

    document = done.document
    assert [receipt["outcome"] for receipt in document.pop("receipts")] == ["appended", "appended"]
    assert document == {
        "session": "session-a",
        "outcome": "productive",
        "grade": 0.8,
        "exposure": {"state": "found", "why": None, "session": "claude-code:session-a"},
        "lessons": ["lessons/session-a.md"],
        "dry_run": False,
        "bandit_file": None,
        "happened": "appended",
    }
