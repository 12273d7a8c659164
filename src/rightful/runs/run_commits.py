"""Find the commits that a run made.

A commit is the run's own only if three conditions are met. It is reachable now and was not before. The
reflog of this work tree's HEAD shows that it was *created* here since the run began, and not fetched, merged
in or checked out. Its committer's time is within the run. If another run used the same work tree at the same
time, the reflog contains the commits of both. Its commits are then only candidates, with the reason.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from rightful import limits
from rightful.runs.git import Repository, git_or_none, head_of

_MADE = re.compile(
    r"commit\b|cherry-pick\b|revert\b|am\b|(?:pull|merge|rebase)\b.*\((?:pick|reword|edit|squash|fixup|amend|"
    r"continue|merge|finish squash)\)|(?:merge|pull)\b.*: Merge made\b"
)
"""The start of reflog entries that create a commit (git's builtin/commit.c, sequencer.c, builtin/merge.c)."""

_SLACK_S = 1


class Commit(NamedTuple):
    """A commit.

    Attributes:
        sha: Its object name.
        committed_s: Its committer's time; seconds since 1970.
        subject: The first line of its message.
    """

    sha: str
    committed_s: int
    subject: str


class RepositoryState(NamedTuple):
    """The state of a repository when a run began.

    Attributes:
        head: The commit of HEAD; None if there was none.
        known: Every object that a ref pointed to.
        log_bytes: The length of HEAD's reflog.
    """

    head: str | None
    known: tuple[str, ...]
    log_bytes: int


class RunCommits(NamedTuple):
    """The commits that a run made.

    Attributes:
        commits: Its own commits, the oldest first.
        candidates: New commits of the same time that may belong to another run or user.
        why: The reason why the candidates do not count as its own; None without candidates.
        more: The number of commits omitted because of the limit.
    """

    commits: tuple[Commit, ...] = ()
    candidates: tuple[Commit, ...] = ()
    why: str | None = None
    more: int = 0


def repository_state(repository: Repository) -> RepositoryState:
    """Return the current state of a repository."""
    refs = git_or_none(repository.folder, "for-each-ref", "--format=%(objectname)") or ""
    return RepositoryState(head_of(repository.folder), tuple(dict.fromkeys(refs.split())), len(_log(repository)))


def commits_of_run(
    repository: Repository,
    before: RepositoryState,
    *,
    began_s: int,
    ended_s: int,
    others: list[str],
    branch: str | None = None,
) -> RunCommits:
    """Return the commits that a run made.

    Args:
        repository: The repository, with the run's work tree.
        before: Its state before the run.
        began_s: When the run began; seconds since 1970.
        ended_s: When the run ended.
        others: Other runs that used the same work tree at the same time.
        branch: The branch that was created for the run.
    """
    known = [*before.known, *([before.head] if before.head else [])]
    tips = [*(["HEAD"] if head_of(repository.folder) else []), *([f"refs/heads/{branch}"] if branch else [])]
    here = _new(repository, tips, known)
    anywhere = {**_new(repository, [*tips, "--branches"], known), **here}
    created, whole = _created(repository, before)
    in_time = range(began_s - _SLACK_S, ended_s + _SLACK_S + 1)
    own = [commit for sha, commit in anywhere.items() if sha in created and commit.committed_s in in_time]
    rest = [commit for sha, commit in here.items() if commit not in own and commit.committed_s in in_time]
    why = None if whole else "the log of HEAD was cut meanwhile, or there is none"
    if others and own:
        own, rest = [], [*own, *rest]
        why = f"another run worked in the same work tree meanwhile: {', '.join(others)}"
    elif rest and why is None:
        why = "nothing shows that they were made here: they were fetched, merged in, or another work tree's"
    kept, more = own[: limits.RUN_COMMITS], max(len(own) - limits.RUN_COMMITS, 0)
    room = limits.RUN_COMMITS - len(kept)
    return RunCommits(tuple(kept), tuple(rest[:room]), why if rest else None, more + max(len(rest) - room, 0))


def _new(repository: Repository, tips: list[str], known: list[str]) -> dict[str, Commit]:
    """Return the commits that are reachable from tips and not from known commits, the oldest first."""
    if not tips:
        return {}
    log = git_or_none(
        repository.folder, "log", "-z", "--no-show-signature", "--encoding=UTF-8", "--reverse", "--topo-order",
        "--format=%H%x1f%ct%x1f%s", "--ignore-missing", "--stdin", *tips, given="".join(f"^{sha}\n" for sha in known),
    )  # fmt: skip
    commits = (part.split("\x1f", 2) for part in (log or "").split("\0") if part)
    return {sha: Commit(sha, int(time), subject.encode("utf-8", "replace").decode()) for sha, time, subject in commits}


def _created(repository: Repository, before: RepositoryState) -> tuple[set[str], bool]:
    """Return the commits that HEAD's reflog shows as created since then, and whether the reflog was not cut."""
    log = _log(repository)
    made_here = set()
    for line in log[before.log_bytes :].split(b"\n"):
        facts, _, what = line.decode("utf-8", "replace").partition("\t")
        if _MADE.match(what) and len(words := facts.split(" ", 2)) > 1:
            made_here.add(words[1])
    return made_here, len(log) >= before.log_bytes and bool(log)


def _log(repository: Repository) -> bytes:
    path: Path = repository.own / "logs" / "HEAD"
    try:
        with path.open("rb") as file:
            return file.read()
    except OSError:
        return b""
