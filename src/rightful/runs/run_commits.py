"""Which commits a run made.

A commit is the run's own only if three things say so: it can be reached now and could not before; the
log of this work tree's HEAD shows, since the run began, that it was *made* here and not fetched, merged
in or checked out; and its committer's time lies in the run. In a work tree that another run worked in at
the same time, that log is of both: its commits are candidates, with the reason.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from rightful import limits
from rightful.runs.git import Repository, answer, head_of

_MADE = re.compile(
    r"commit\b|cherry-pick\b|revert\b|am\b|(?:pull|merge|rebase)\b.*\((?:pick|reword|edit|squash|fixup|amend|"
    r"continue|merge|finish squash)\)|(?:merge|pull)\b.*: Merge made\b"
)
"""How entries in a log of HEAD begin where a commit was made (git's builtin/commit.c, sequencer.c, builtin/merge.c)."""

_SLACK_S = 1


class Commit(NamedTuple):
    """A commit.

    Attributes:
        sha: Its name.
        committed_s: Its committer's time; seconds since 1970.
        subject: The first line of its message.
    """

    sha: str
    committed_s: int
    subject: str


class Before(NamedTuple):
    """What a repository held when a run began.

    Attributes:
        head: Its commit; None if there was none.
        known: Every commit that a ref led to.
        log_bytes: How long the log of HEAD was.
    """

    head: str | None
    known: tuple[str, ...]
    log_bytes: int


class Made(NamedTuple):
    """What a run made.

    Attributes:
        commits: Its own, the oldest first.
        candidates: New ones of its time that may be another's.
        why: Why those are not its own; None if there are none.
        more: How many were left out, since there are too many.
    """

    commits: tuple[Commit, ...] = ()
    candidates: tuple[Commit, ...] = ()
    why: str | None = None
    more: int = 0


def before(repository: Repository) -> Before:
    """Return what a repository holds now."""
    refs = answer(repository.folder, "for-each-ref", "--format=%(objectname)") or ""
    return Before(head_of(repository.folder), tuple(dict.fromkeys(refs.split())), len(_log(repository)))


def made(
    repository: Repository, then: Before, *, began_s: int, ended_s: int, others: list[str], branch: str | None = None
) -> Made:
    """Return the commits that a run made.

    Args:
        repository: The work tree it worked in.
        then: What it held before.
        began_s: When the run began; seconds since 1970.
        ended_s: When it ended.
        others: Other runs that worked in the same work tree meanwhile.
        branch: The branch that was made for the run.
    """
    known = [*then.known, *([then.head] if then.head else [])]
    tips = [*(["HEAD"] if head_of(repository.folder) else []), *([f"refs/heads/{branch}"] if branch else [])]
    here = _new(repository, tips, known)
    anywhere = {**_new(repository, [*tips, "--branches"], known), **here}
    created, whole = _created(repository, then)
    in_time = range(began_s - _SLACK_S, ended_s + _SLACK_S + 1)
    own = [one for sha, one in anywhere.items() if sha in created and one.committed_s in in_time]
    rest = [one for sha, one in here.items() if one not in own and one.committed_s in in_time]
    why = None if whole else "the log of HEAD was cut meanwhile, or there is none"
    if others and own:
        own, rest = [], [*own, *rest]
        why = f"another run worked in the same work tree meanwhile: {', '.join(others)}"
    elif rest and why is None:
        why = "nothing shows that they were made here: they were fetched, merged in, or another work tree's"
    kept, more = own[: limits.RUN_COMMITS], max(len(own) - limits.RUN_COMMITS, 0)
    room = limits.RUN_COMMITS - len(kept)
    return Made(tuple(kept), tuple(rest[:room]), why if rest else None, more + max(len(rest) - room, 0))


def _new(repository: Repository, tips: list[str], known: list[str]) -> dict[str, Commit]:
    """Return the commits that can be reached from tips and not from what was known, the oldest first."""
    if not tips:
        return {}
    said = answer(
        repository.folder, "log", "-z", "--no-show-signature", "--encoding=UTF-8", "--reverse", "--topo-order",
        "--format=%H%x1f%ct%x1f%s", "--ignore-missing", "--stdin", *tips, given="".join(f"^{sha}\n" for sha in known),
    )  # fmt: skip
    commits = (part.split("\x1f", 2) for part in (said or "").split("\0") if part)
    return {sha: Commit(sha, int(time), subject.encode("utf-8", "replace").decode()) for sha, time, subject in commits}


def _created(repository: Repository, then: Before) -> tuple[set[str], bool]:
    """Return the commits that the log of HEAD shows as made since then, and whether it is as long as it must be."""
    log = _log(repository)
    made_here = set()
    for line in log[then.log_bytes :].split(b"\n"):
        facts, _, what = line.decode("utf-8", "replace").partition("\t")
        if _MADE.match(what) and len(words := facts.split(" ", 2)) > 1:
            made_here.add(words[1])
    return made_here, len(log) >= then.log_bytes and bool(log)


def _log(repository: Repository) -> bytes:
    path: Path = repository.own / "logs" / "HEAD"
    try:
        with path.open("rb") as file:
            return file.read()
    except OSError:
        return b""
