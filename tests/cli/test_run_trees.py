from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.running import Place, meeting, told


def test_commits_in_an_own_work_tree_are_the_runs_and_the_tree_is_kept(place: Place) -> None:
    place.repository()

    done = place.run("--worktree", "--", "none", FAKE_COMMITS="2")

    tree = Path(done.report["worktree"])
    made = place.git("log", "--format=%H", "--reverse", "main..HEAD", cwd=tree).split()
    [event] = place.events("data.recorded")
    assert done.report["commits"] == made
    assert [(one["sha"], one["subject"]) for one in event.data["commits"]] == [
        (made[0], "work 0"), (made[1], "work 1"),
    ]  # fmt: skip
    assert (event.name, event.data["candidates"], event.data["why"]) == ("commits", [], None)
    assert event.data["repository"] == str(place.project / ".git")
    assert (event.data["worktree"], event.data["branch"]) == (str(tree), done.report["branch"])
    assert event.data["head_before"] == place.git("rev-parse", "main")
    assert f"the work tree {tree} (branch {done.report['branch']}) was kept: it has new commits" in done.err
    assert place.git("status", "--porcelain") == ""


def test_a_work_tree_without_work_goes_with_its_branch(place: Place, tmp_path: Path) -> None:
    place.repository()

    done = place.run("--worktree", "--", "none", FAKE_TELLS=str(tmp_path / "told"))

    assert told(tmp_path / "told")["cwd"] == str(
        place.ledger / "worktrees" / done.report["session"].removeprefix("run:")
    )
    assert done.report["worktree"] is None
    assert list((place.ledger / "worktrees").iterdir()) == []
    assert place.git("branch", "--list", "--format=%(refname:short)").split() == ["main"]
    assert len(place.git("worktree", "list").splitlines()) == 1


@pytest.mark.parametrize(
    "work",
    [
        "echo two > a.txt",
        "touch new",
        "git checkout -q -b other && git commit -q --allow-empty -m x",
        "git commit -q --allow-empty -m x && git checkout -q --detach HEAD~",
    ],
)
def test_a_work_tree_with_work_is_kept(place: Place, work: str) -> None:
    place.repository()

    done = place.run("--worktree", "--", "sh", "-c", work)

    assert Path(done.report["worktree"]).is_dir()
    assert "was kept: it has" in done.err


@pytest.mark.parametrize(
    "left", ["git checkout -q --detach && FAKE_COMMITS=1 none && git checkout -q -", "git reset -q"]
)
def test_a_work_tree_whose_log_alone_leads_to_commits_is_kept(place: Place, left: str) -> None:
    """Removing it would remove the log, and with it the last way to them."""
    place.repository()

    done = place.run("--worktree", "--", "sh", "-c", left)

    is_kept = "checkout" in left
    assert (done.report["worktree"] is not None) == is_kept
    assert ("some commits made in it are reachable only from its reflog of HEAD" in done.err) == is_kept


@pytest.mark.parametrize("commits", ["0", "1"])
@pytest.mark.parametrize("remove", ['rm -r "$PWD"', 'git worktree remove --force --force "$PWD"'])
def test_removed_work_tree_is_forgotten_and_its_commits_are_kept(place: Place, commits: str, remove: str) -> None:
    place.repository()

    done = place.run("--worktree", "--", "sh", "-c", f"none; {remove}", FAKE_COMMITS=commits)

    kept = place.git("branch", "--list", "--format=%(refname:short)", "rightful/*").split()
    assert len(place.git("worktree", "list").splitlines()) == 1
    assert (len(kept), done.report["worktree"]) == (int(commits), None)
    assert ("was removed by the command: its commits are on that branch" in done.err) == bool(kept)


def test_an_own_place_and_keep_are_as_asked(place: Place) -> None:
    place.repository()

    done = place.run(f"--worktree={place.root / 'there'}", "--keep", "--", "true")

    assert done.report["worktree"] == str(place.root / "there")
    assert (place.root / "there" / "a.txt").read_text() == "one\n"


def test_a_place_that_is_taken_is_refused_and_left_alone(place: Place) -> None:
    place.repository()
    (place.root / "there").mkdir()
    (place.root / "there" / "mine").write_text("x")

    done = place.run(f"--worktree={place.root / 'there'}", "--", "true")

    assert done.code == 2
    assert "Cannot create a work tree" in done.err
    assert (place.root / "there" / "mine").read_text() == "x"
    assert place.git("branch", "--list", "--format=%(refname:short)").split() == ["main"]


@pytest.mark.parametrize("stood", [True, False])
def test_work_tree_on_which_a_git_hook_fails_is_removed_and_the_hook_named(place: Place, *, stood: bool) -> None:
    place.repository()
    hook = place.project / ".git" / "hooks" / "post-checkout"
    hook.write_text("#!/bin/sh\nexit 3\n")
    hook.chmod(0o755)
    there = place.root / "there"
    if stood:
        there.mkdir()

    done = place.run(f"--worktree={there}", "--", "true")

    assert done.code == 2
    assert "`git worktree add` exited with 3 without a message, perhaps because of a git hook" in done.err
    assert not there.exists()
    assert len(place.git("worktree", "list").splitlines()) == 1
    assert place.git("branch", "--list", "--format=%(refname:short)").split() == ["main"]


def test_a_repository_without_a_commit_is_refused(place: Place) -> None:
    place.git("init", "-q")

    done = place.run("--worktree", "--", "true")

    assert done.code == 2
    assert "has no commit yet" in done.err
    assert place.rows() == []


def test_a_bare_repository_and_a_linked_work_tree_have_work_trees_too(place: Place) -> None:
    place.repository()
    place.git("clone", "-q", "--bare", str(place.project), str(place.root / "bare"))
    place.git("worktree", "add", "-q", str(place.root / "linked"))

    bare = place.run("--worktree", "--", "none", cwd=place.root / "bare", FAKE_COMMITS="1")
    linked = place.run("--worktree", "--", "none", cwd=place.root / "linked", FAKE_COMMITS="1")

    assert [len(one.report["commits"]) for one in (bare, linked)] == [1, 1]
    assert place.git("rev-parse", "linked") == place.git("rev-parse", "main")


def test_the_same_folder_of_the_work_tree_is_worked_in(place: Place, tmp_path: Path) -> None:
    place.repository()
    (place.project / "sub").mkdir()
    (place.project / "sub" / "b").write_text("b")
    place.git("add", ".")
    place.git("commit", "-q", "-m", "second")

    place.run("--worktree", "--", "none", cwd=place.project / "sub", FAKE_TELLS=str(tmp_path / "told"))

    cwd = Path(str(told(tmp_path / "told")["cwd"]))
    assert (cwd.name, cwd.parent.parent) == ("sub", place.ledger / "worktrees")


def test_the_callers_index_does_not_leak_into_the_session(place: Place, tmp_path: Path) -> None:
    place.repository()
    leaks: Any = {"GIT_INDEX_FILE": str(tmp_path / "index"), "GIT_DIR": "/elsewhere", "GIT_WORK_TREE": "/elsewhere"}

    done = place.run("--worktree", "--", "none", FAKE_COMMITS="1", FAKE_TELLS=str(tmp_path / "told"), **leaks)

    assert len(done.report["commits"]) == 1
    assert set(told(tmp_path / "told")["env"]) & set(leaks) == set()
    assert not (tmp_path / "index").exists()
    assert "not passed to the command: GIT_DIR, GIT_WORK_TREE, GIT_INDEX_FILE" in done.err


def test_uncommitted_changes_outside_the_work_tree_are_noted(place: Place) -> None:
    place.repository()
    (place.project / "a.txt").write_text("two\n")

    assert "1 uncommitted change is not in that work tree" in place.run("--worktree", "--", "true").err


def test_commits_in_the_shared_checkout_are_the_runs_when_it_was_alone(place: Place) -> None:
    place.repository()

    done = place.run("--", "none", FAKE_COMMITS="1")

    assert done.report["commits"] == [place.git("rev-parse", "HEAD")]
    assert done.report["worktree"] is None


def test_commits_that_were_fetched_or_merged_in_are_not_the_runs(place: Place) -> None:
    place.repository()
    other = place.root / "other"
    place.git("clone", "-q", str(place.project), str(other))
    script = (
        'cd "$OTHER" && git commit -q --allow-empty -m theirs && cd "$OLDPWD" && git pull -q --ff-only "$OTHER" main'
    )

    done = place.run("--", "sh", "-c", script, OTHER=str(other))

    assert done.report["commits"] == []
    assert done.report["commit_candidates"] == [place.git("rev-parse", "HEAD")]
    assert "nothing shows that they were made here" in place.events("data.recorded")[0].data["why"]


def test_a_commit_that_was_amended_away_is_not_recorded(place: Place) -> None:
    place.repository()
    script = "git commit -q --allow-empty -m one && git commit -q --amend --allow-empty -m two"

    done = place.run("--", "sh", "-c", script)

    assert done.report["commits"] == [place.git("rev-parse", "HEAD")]


def test_commits_of_two_runs_in_one_checkout_are_candidates_of_both(place: Place) -> None:
    place.repository()

    met = meeting(place, "--", "sh", "-c", "git commit -q --allow-empty -m x || true", count=2)

    assert [one["commits"] for one in met] == [[], []]
    for event in place.events("data.recorded"):
        assert "another run worked in the same work tree meanwhile" in event.data["why"]


def test_concurrent_run_in_one_checkout_is_warned_and_one_in_a_tree_is_not(place: Place) -> None:
    place.repository()
    inner = [sys.executable, "-m", "rightful", "run"]

    beside = place.run("--quiet", "--", *inner, "--", "true")
    apart = place.run("--quiet", "--", *inner, "--worktree", "--", "true")

    assert f"{beside.report['session']} works in this work tree too" in beside.err
    assert "works in this work tree too" not in apart.err


def test_killed_run_is_not_listed_as_running(place: Place) -> None:
    place.repository()
    process = place.start("--", "sh", "-c", "echo here; exec sleep 600")
    process.stdout.readline()
    process.kill()
    process.communicate(timeout=60)
    assert len(list((place.project / ".git" / "rightful").iterdir())) == 1

    done = place.run("--", "true")

    assert "works in" not in done.err
    assert list((place.project / ".git" / "rightful").iterdir()) == []
