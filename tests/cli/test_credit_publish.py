"""`credit --publish`: one session graded and the bandit's file repaired, in one command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run
from tests.cli.test_credit import A_SAYS, GRADED, put
from tests.readers_of_tools import Bandit

from rightful import ledger as app
from rightful.events import ExposureRecorded, GradeRecorded

GIT, TESTS = "/ws/lessons/git.md", "/ws/lessons/tests.md"
READER = ("--reader", "gptme-sessions")


@pytest.fixture
def state(here: Path) -> Path:
    put(here / "state", "session-a.json", GIT, TESTS)
    put(here / "state", "session-b.json", GIT)
    return here / "state"


@pytest.fixture
def target(here: Path) -> Path:
    return here / "bandit-state.json"


def words(state: Path, session: str = "session-a", *more: str | Path) -> list[str | Path]:
    return ["credit", "--session-state-dir", state, "--exposure-session-id", session, *more]


def means(target: Path) -> dict[str, tuple[float, float]]:
    return {arm: (one.alpha, one.beta) for arm, one in Bandit(target).arms.items()}


def test_file_has_the_credit_and_a_repetition_writes_nothing(ledger: Path, run: Run, state: Path, target: Path) -> None:
    first = run(*words(state, "session-a", *GRADED, "--publish", target, *READER))
    written = target.read_bytes()
    again = run(*words(state, "session-a", *GRADED, "--publish", target, *READER))

    assert (first.code, again.code) == (0, 0)
    assert first.out.startswith(A_SAYS.replace("(1): session-a.md", "(2): git.md, tests.md"))
    assert f"{target} was written (for gptme-sessions, a new file): 2 arms changed" in first.out
    assert "already has the planned content" in again.out
    assert "already there: credited once" in again.err
    assert target.read_bytes() == written
    assert means(target) == {GIT: (1.8, 1.2), TESTS: (1.8, 1.2)}

    changed = run(*words(state, "session-a", "--grade", "0.6", "--publish", target, *READER))
    assert "was written (for gptme-sessions, from the log and its opening balances): 2 arms changed" in changed.out
    assert means(target) == {GIT: (1.6, 1.4), TESTS: (1.6, 1.4)}


def test_rewards_of_single_lessons_context_and_decay_are_in_the_file(
    ledger: Path, run: Run, state: Path, target: Path
) -> None:
    context = ("--context", "code", "", "--decay-rate", "0.5")
    run(*words(state, "session-b", "--grade", "1.0", "--publish", target, *READER, *context))

    more = ("--arm-reward", "tests.md=0.25", "--arm-reward", f"{GIT}=0.75")
    done = run(*words(state, "session-a", "--grade", "0.5", *more, "--publish", target, *READER, *context))

    assert done.code == 0
    assert means(target) == {GIT: (1.5 + 0.75, 1.25), TESTS: (1.25, 1.75)}  # b's credit decayed by a half
    contexts = json.loads(target.read_text())["contextual_arms"]
    assert {arm: list(inside) for arm, inside in contexts.items()} == {
        GIT: ['["code", null]'],
        TESTS: ['["code", null]'],
    }
    with app.open(ledger) as opened:
        grade = [row.event for row in opened.read() if isinstance(row.event, GradeRecorded)][-1]
        shown = [row.event for row in opened.read() if isinstance(row.event, ExposureRecorded)][-1]
    assert (grade.per_arm, grade.decay_rate, shown.context) == ({GIT: 0.75, TESTS: 0.25}, 0.5, ("code", None))


def test_other_rewards_of_single_lessons_are_a_regrade(ledger: Path, run: Run, state: Path, target: Path) -> None:
    publish = ("--grade", "0.5", "--publish", target, *READER)
    run(*words(state, "session-a", *publish, "--arm-reward", "tests.md=0.25"))
    done = run(*words(state, "session-a", *publish, "--arm-reward", "tests.md=0.75"))

    assert "replaces grade seq 1" in done.err
    assert means(target) == {GIT: (1.5, 1.5), TESTS: (1.75, 1.25)}


def test_refused_publication_keeps_the_credit_and_exits_1(ledger: Path, run: Run, state: Path, target: Path) -> None:
    target.write_text('{"arms": {"/ws/lessons/old.md": {"alpha": 2.0, "beta": 1.0, "confounded": 1}}}')

    done = run(*words(state, "session-a", *GRADED, "--publish", target, *READER))
    document = run(*words(state, "session-a", *GRADED, "--publish", target, *READER, "--json"))

    assert (done.code, document.code) == (1, 1)
    assert f"the credit is recorded, but nothing was published: {target} was not written: " in done.err
    assert done.err.count("was not written") == 1
    assert "mixes forms" in document.document["published"]["error"]
    assert run("posteriors", "--json").document["arms"][GIT]["alpha"] == 1.8
    assert "confounded" in target.read_text()


def test_reader_that_fits_no_arm_writes_no_file_and_says_why(ledger: Path, run: Run, state: Path, target: Path) -> None:
    pm = ("--publish", target, "--reader", "pm-dispatch")
    done = run(*words(state, "session-a", *GRADED, *pm))
    uncredited = run(*words(state, "session-none", *GRADED, *pm))

    assert (done.code, uncredited.code, target.exists()) == (1, 1, False)
    why = f"nothing was published: {target} was not written: the file would have no arm: the log credits no arm that"
    assert f"the credit is recorded, but {why} pm-dispatch takes" in done.err
    assert f"rightful: {why} pm-dispatch takes" in uncredited.err


def test_notes_of_the_plan_follow_what_was_written(ledger: Path, run: Run, here: Path, target: Path) -> None:
    """The hook looks up absolute paths, so a file of relative ones would be of no use to it."""
    put(here / "state", "session-a.json", "lessons/git.md")

    done = run(*words(here / "state", "session-a", *GRADED, "--publish", target, "--reader", "lesson-hook"))

    assert done.code == 0
    assert "Note: no arm has the form that lesson-hook looks up" in done.out


def test_old_numbers_that_the_policy_excludes_are_not_reported_as_a_later_state(
    ledger: Path, run: Run, state: Path, target: Path
) -> None:
    target.write_text('{"arms": {"/ws/lessons/git.md": {"alpha": 3.0, "beta": 1.0}}, "last_updated": "2026-01-01"}')
    run("import", "bandit-state", target)

    done = run(*words(state, "session-a", *GRADED, "--publish", target, *READER, "--policy", '{"balances": []}'))

    assert (done.code, "a later state" in done.out) == (0, False)
    assert "(for gptme-sessions, the old numbers did not count)" in done.out
    assert "Note: the present numbers do not count: the policy's `balances` exclude this file." in done.out


def test_document_has_what_was_done(ledger: Path, run: Run, state: Path, target: Path) -> None:
    document = run(*words(state, "session-a", *GRADED, "--publish", target, *READER, "--json")).document

    assert document["published"]["done"]["happened"] == "written"
    assert document["published"]["plan"]["target"] == str(target)
    assert document["happened"] == "appended"


def test_dry_run_writes_no_file(ledger: Path, run: Run, state: Path, target: Path) -> None:
    done = run(*words(state, "session-a", *GRADED, "--publish", target, *READER, "--dry-run"))

    assert (done.code, target.exists()) == (0, False)
    assert done.out.endswith("(dry run: nothing was written)\n")


@pytest.mark.parametrize(
    ("more", "what"),
    [
        (("--publish", "b.json"), "--publish needs --reader"),
        (READER, "--reader and --policy need --publish"),
        (("--policy", "bound"), "--reader and --policy need --publish"),
        (("--publish", "b.json", "--reader", "x"), "there is no reader 'x'"),
        (("--publish", "none/b.json", *READER), "its folder does not exist"),
        (("--publish", "b.json", *READER, "--policy", "newest"), "newest"),
        (("--decay-rate", "0"), "--decay-rate 0.0 is not above 0"),
        (("--decay-rate", "1.5"), "--decay-rate 1.5 is not above 0"),
        (("--decay-rate", "nan"), "--decay-rate nan is not above 0"),
        (("--arm-reward", "git.md"), "is not LESSON=X"),
        (("--arm-reward", "git.md=2"), "is not LESSON=X"),
        (("--arm-reward", "git.md=nan"), "is not LESSON=X"),
        (("--arm-reward", "other.md=0.5"), "'other.md' is not a lesson of the exposure"),
    ],
)
def test_wrong_use_is_refused_before_anything_is_credited(
    ledger: Path, run: Run, state: Path, more: Any, what: str
) -> None:
    done = run(*words(state, "session-a", *GRADED, *more))

    assert (done.code, what in done.err) == (2, True)
    assert run("status", "--json").document["events"] == 0


def test_lesson_name_that_fits_several_is_refused(ledger: Path, run: Run, here: Path) -> None:
    put(here / "state", "session-c.json", "/a/git.md", "/b/git.md")

    done = run(*words(here / "state", "session-c", *GRADED, "--arm-reward", "git.md=0.5"))

    assert (done.code, "fits several lessons (/a/git.md, /b/git.md)" in done.err) == (2, True)


def test_bandit_file_of_a_publication_is_null(ledger: Path, run: Run, state: Path, target: Path) -> None:
    bandit = ("--bandit-dir", target.parent, "--publish", target, *READER)
    document = run(*words(state, "session-a", *GRADED, *bandit, "--json")).document

    assert document["bandit_file"] is None
