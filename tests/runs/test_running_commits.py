from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from rightful import limits
from rightful.runs import git, run_commits, run_identity
from rightful.runs.git import Repository


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "A")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "a@example.com")
    run_git(tmp_path, "init", "-q", "-b", "main")
    return git.repository_of(tmp_path)


def run_git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def commit(repository: Repository, subject: str, at_s: int, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("GIT_COMMITTER_DATE", f"@{at_s} +0000")
    run_git(repository.folder, "commit", "-q", "--allow-empty", "-m", subject)
    return run_git(repository.folder, "rev-parse", "HEAD")


def test_a_branch_that_had_no_commit_gets_its_first_in_a_run(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    then = run_commits.repository_state(repository)
    sha = commit(repository, "first", 1_000, monkeypatch)

    made = run_commits.commits_of_run(repository, then, began_s=999, ended_s=1_001, others=[])

    assert made == ((run_commits.Commit(sha, 1_000, "first"),), (), None, 0)


@pytest.mark.parametrize(("at_s", "is_own"), [(998, False), (999, True), (1_011, True), (1_012, False)])
def test_a_commit_of_another_time_is_none_of_the_runs(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, at_s: int, is_own: bool
) -> None:
    then = run_commits.repository_state(repository)
    sha = commit(repository, "x", at_s, monkeypatch)

    made = run_commits.commits_of_run(repository, then, began_s=1_000, ended_s=1_010, others=[])

    assert [one.sha for one in made.commits] == ([sha] if is_own else [])
    assert made.candidates == ()


def test_a_log_of_head_that_was_cut_proves_nothing(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(repository, "before", 900, monkeypatch)
    then = run_commits.repository_state(repository)
    sha = commit(repository, "x", 1_000, monkeypatch)
    (repository.own / "logs" / "HEAD").write_text("")

    made = run_commits.commits_of_run(repository, then, began_s=999, ended_s=1_001, others=[])

    assert (made.commits, [one.sha for one in made.candidates]) == ((), [sha])
    assert made.why == "the log of HEAD was cut meanwhile, or there is none"


def test_what_was_picked_and_rebased_in_the_run_was_made_in_it(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = commit(repository, "base", 900, monkeypatch)
    run_git(repository.folder, "checkout", "-q", "-b", "side")
    commit(repository, "side", 901, monkeypatch)
    run_git(repository.folder, "checkout", "-q", "-b", "other", base)
    commit(repository, "other", 902, monkeypatch)
    then = run_commits.repository_state(repository)
    monkeypatch.setenv("GIT_COMMITTER_DATE", "@1000 +0000")
    run_git(repository.folder, "cherry-pick", "--allow-empty", "side")
    run_git(repository.folder, "checkout", "-q", "side")
    run_git(repository.folder, "rebase", "-q", "--empty=keep", "--force-rebase", "other")

    made = run_commits.commits_of_run(repository, then, began_s=999, ended_s=1_001, others=[])

    assert [one.subject for one in made.commits] == ["side", "side"]


def test_commits_are_recorded_up_to_the_limit_and_the_rest_counted(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "RUN_COMMITS", 2)
    then = run_commits.repository_state(repository)
    subjects = [commit(repository, str(number), 1_000, monkeypatch) for number in range(2)]
    at_limit = run_commits.commits_of_run(repository, then, began_s=999, ended_s=1_001, others=[])
    commit(repository, "one past it", 1_000, monkeypatch)

    past_it = run_commits.commits_of_run(repository, then, began_s=999, ended_s=1_001, others=[])
    shared = run_commits.commits_of_run(repository, then, began_s=999, ended_s=1_001, others=["run:b"])

    assert [one.sha for one in at_limit.commits] == subjects
    assert (len(at_limit.commits), at_limit.more) == (2, 0)
    assert (len(past_it.commits), past_it.more) == (2, 1)
    assert (len(shared.candidates), shared.more) == (2, 1)


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("https://me:secret@example.com/a/b.git", "https://example.com/a/b.git"),
        ("https://me:se@cret@example.com/a@b", "https://example.com/a@b"),
        ("https://example.com/a/b.git?token=secret", "https://example.com/a/b.git"),
        ("me:secret@example.com:a/b.git", "example.com:a/b.git"),
        ("ext::sh -c 'connect --password secret'", None),
        ("git@example.com:a/b.git", "git@example.com:a/b.git"),
        ("/srv/a#b@c/d.git", "/srv/a#b@c/d.git"),
    ],
)
def test_a_password_in_the_address_of_the_origin_is_not_kept(url: str, kept: str | None) -> None:
    assert run_identity.without_secrets(url) == kept
