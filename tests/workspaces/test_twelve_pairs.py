"""The documented first path on twelve pairs of sessions side by side: the true answer, 12 of 24 grades foreign."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.workspaces.acted import LESSONS, Acted, Workspace, copy_changes_times, pairs_plan

VERDICT = "12 of 24 credited grades (50%) went to another session's lessons. The best lesson changes from "


@pytest.fixture
def acted(ledger: Path) -> Acted:
    """A seeded workspace below the ledger's folder: four artifacts, records, and the updater's own file."""
    return Workspace(ledger.parent, pairs_plan(seed=12), UTC, bandit_file=True).act()


def test_twelve_pairs_end_in_the_true_answer(run: Run, acted: Acted) -> None:
    imported = run("import", "auto", "state", "tmp")
    assert (imported.code, len(acted.foreign)) == (0, 12)

    out = run("audit", "historical-newest").out
    document = run("audit", "historical-newest", "--json").document

    assert out.startswith(VERDICT + f"{LESSONS[0]} to {LESSONS[2]}.")
    assert document["foreign_grades_bounds"] == [12, 12]
    assert document["policy_credited_grades_bounds"] == [24, 24]
    assert document["bins_bound"] == {"credited": 24}
    assert document["foreign_reward"] == pytest.approx(sum(paid.reward for paid in acted.foreign), abs=1e-12)


def test_the_three_arms_are_named_with_their_shift(run: Run, acted: Acted) -> None:
    run("import", "auto", "state", "tmp")

    document = run("audit", "historical-newest", "--json").document
    lines = run("audit", "historical-newest").out.splitlines()

    right = {lesson: [1.0, 1.0] for lesson in LESSONS[:3]}
    for session in acted.sessions:
        for lesson in {one for _, _, lessons in session.injections for one in lessons}:
            right[lesson][0] += session.reward or 0.0
            right[lesson][1] += 1.0 - (session.reward or 0.0)
    for arm in document["per_arm"]:
        updated = acted.bandit.arms.get(arm["arm"])
        assert arm["bound"] == pytest.approx(right[arm["arm"]], abs=1e-9)
        assert arm["policy"] == pytest.approx([updated.alpha, updated.beta] if updated else [1.0, 1.0], abs=1e-9)
        mean = arm["policy"][0] / sum(arm["policy"]) - arm["bound"][0] / sum(arm["bound"])
        assert arm["delta_mean"] == pytest.approx(mean, abs=1e-12)
        assert any(line.strip().startswith(arm["arm"]) and f"{mean:+.3f}" in line for line in lines)
    assert {arm["arm"] for arm in document["per_arm"]} == set(LESSONS[:3])


def test_the_robbed_sessions_and_days_are_listed(run: Run, acted: Acted) -> None:
    run("import", "auto", "state", "tmp")

    document = run("audit", "historical-newest", "--json").document
    out = run("audit", "historical-newest").out

    first = {session.native: session.label for session in acted.sessions}
    assert [
        (grade["session"].partition("@")[0], grade["paid_session"], sorted(grade["arms"]), grade["certain"])
        for grade in document["foreign"]
    ] == [(f"workspace:{first[paid.session]}", f"claude-code:{paid.source}", paid.arms, True) for paid in acted.foreign]
    assert [(day["day"], day["grades"], day["foreign"]) for day in document["days"]] == [
        (f"2026-08-0{number}", 4, 2) for number in range(1, 7)
    ]
    for paid in acted.foreign:
        assert f"workspace:{first[paid.session]}@" in out
    assert [line.split()[:4] for line in out.splitlines() if line.strip().startswith("2026-08-0")] == [
        [f"2026-08-0{number}", "4", "4", "2"] for number in range(1, 7)
    ]


@pytest.mark.parametrize("places", [["state"], ["tmp", "state/sessions"]], ids=["logs", "files and events"])
def test_each_form_alone_gives_the_same_answer(run: Run, acted: Acted, places: list[str]) -> None:
    run("import", "auto", *places)

    assert run("audit", "historical-newest").out.startswith(VERDICT.partition(" The best")[0])


def test_state_files_alone_give_bounds_that_contain_the_answer(run: Run, acted: Acted) -> None:
    """Also after a copy of the folder that changes the files' times."""
    run("import", "auto", "tmp/claude-lesson-match", "state/sessions")
    run("init", ".copied")
    copy_changes_times(acted, acted.bandit.now().timestamp() + 86_400)
    run("--ledger", ".copied", "import", "auto", "tmp/claude-lesson-match", "state/sessions")

    for ledger in (".rightful", ".copied"):
        document = run("--ledger", ledger, "audit", "historical-newest", "--json").document
        low, high = document["foreign_grades_bounds"]
        assert low < 12 < high
        assert run("--ledger", ledger, "audit").out.startswith(f"Between {low} and {high} of ")


def test_a_copy_that_changes_times_changes_nothing_where_a_log_gives_them(run: Run, acted: Acted) -> None:
    copy_changes_times(acted, acted.bandit.now().timestamp() + 86_400)

    run("import", "auto", "state", "tmp")

    assert run("audit", "historical-newest").out.startswith(VERDICT)
