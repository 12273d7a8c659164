"""The git repository of a run, and its own work tree.

Only the working folder selects the repository. The caller's variables that would select another one (git
sets some for its hooks) are not passed on. A work tree or branch that contains work is never removed.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from rightful.errors import UsageError
from rightful.runs.live_runs import IN_GIT
from rightful.runs.process import unblock_signals
from rightful.runs.run_identity import GIT_LOCATIONS

BRANCHES = "rightful/"
"""Prefix of the branch of a run's own work tree; the run's mark follows."""

_TRIES = 5
_HALF_MADE = "commondir"  # the last file that git writes for a new work tree


class GitError(Exception):
    """A git command failed; the message is git's own."""


def git(folder: Path, *words: str, given: str | None = None) -> str:
    """Return the output of a git command in a folder.

    Raises:
        GitError: The command failed, or git is not installed.
    """
    environment = {name: value for name, value in os.environ.items() if name not in GIT_LOCATIONS}
    environment |= {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
    try:
        done = subprocess.run(  # noqa: S603 - git itself, with arguments of ours
            ["git", "-C", str(folder), *words],  # noqa: S607 - the one that the caller's shell would start
            input=(given or "").encode("utf-8", "surrogateescape"), capture_output=True, check=False, env=environment,
            preexec_fn=unblock_signals,
        )  # fmt: skip
    except OSError as error:
        raise GitError(f"git could not be started: {error.strerror}") from None
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        what = " ".join([word for word in words if word.isalpha()][:2])
        silent = f"`git {what}` exited with {done.returncode} without a message, perhaps because of a git hook"
        raise GitError(lines[-1] if lines else silent)
    return done.stdout.decode("utf-8", "surrogateescape")


def git_or_none(folder: Path, *words: str, given: str | None = None) -> str | None:
    """Return the output of a git command without its last newline; None if the command fails."""
    try:
        return git(folder, *words, given=given).removesuffix("\n")
    except GitError:
        return None


class Repository(NamedTuple):
    """The repository around a folder.

    Attributes:
        common: The git folder that all work trees share.
        own: The git folder of this work tree alone, with its HEAD and its index.
        top: The work tree; None in a bare repository.
        prefix: The path of the folder within the work tree.
    """

    common: Path
    own: Path
    top: Path | None
    prefix: str = ""

    @property
    def folder(self) -> Path:
        """The folder to run git commands in."""
        return self.top or self.common

    def main(self) -> Repository:
        """Return the repository without a work tree, which remains when a work tree is removed."""
        return Repository(self.common, self.common, None)


def head_of(folder: Path) -> str | None:
    """Return the commit of a folder's HEAD; None if there is none, or git fails."""
    return git_or_none(folder, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")


def repository_of(folder: Path) -> Repository:
    """Return the repository around a folder.

    Raises:
        GitError: The folder is not in a repository, or git does not trust its owner.
    """
    lines = git(folder, "rev-parse", "--git-common-dir", "--git-dir", "--is-bare-repository").splitlines()
    common, own = ((folder / line).resolve() for line in lines[:2])
    top = git_or_none(folder, "rev-parse", "--show-toplevel")
    prefix = git_or_none(folder, "rev-parse", "--show-prefix") or ""
    return Repository(common, own, Path(top).resolve() if top else None, prefix)


class Worktree(NamedTuple):
    """A run's own work tree.

    Attributes:
        path: Its folder.
        branch: The branch that was created for it.
        base: The commit that it began with.
        cwd: The folder in it that corresponds to the caller's working folder.
        has_submodules: Whether it declares submodules; they are not checked out.
        left_behind: The number of uncommitted changes in the caller's work tree, which it does not contain.
    """

    path: Path
    branch: str
    base: str
    cwd: Path
    has_submodules: bool
    left_behind: int


def add_worktree(repository: Repository, path: Path, mark: str) -> Worktree:
    """Create a work tree on a new branch at the current commit.

    Args:
        repository: The repository.
        path: The work tree's folder; it does not exist yet, or is empty.
        mark: The run's mark.

    Raises:
        UsageError: The work tree cannot be created; no part of it remains.
    """
    base = head_of(repository.folder)
    if base is None:
        raise UsageError(
            f"{repository.folder} has no commit yet, so it cannot have a work tree. Nothing was started. "
            "Commit first, or omit --worktree."
        )
    branch = f"{BRANCHES}{mark}"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _alone(repository):
            _add(repository, path, branch, base)
    except (GitError, OSError) as error:
        raise UsageError(
            f"Cannot create a work tree at {path}: {error}. Nothing was started. Pass another path with "
            "--worktree=PATH, or omit it."
        ) from None
    git_or_none(repository.folder, "worktree", "lock", "--reason", f"rightful run {mark}", str(path))
    cwd = path / repository.prefix
    return Worktree(
        path=path, branch=branch, base=base, cwd=cwd if cwd.is_dir() else path,
        has_submodules=(path / ".gitmodules").is_file(), left_behind=_changes(repository),
    )  # fmt: skip


def _add(repository: Repository, path: Path, branch: str, base: str) -> None:
    """Create a work tree. Retry if git found one that another program had not finished creating.

    Raises:
        GitError: The work tree cannot be created; no part of it remains.
    """
    words = ("-c", "core.logAllRefUpdates=true", "worktree", "add", "--quiet", "--no-track", "-b", branch)
    for left in reversed(range(_TRIES)):
        try:
            git(repository.folder, *words, str(path), base)
        except GitError as error:
            _remove_half(repository, path, branch)
            git_or_none(repository.folder, "update-ref", "-d", f"refs/heads/{branch}", base)
            if left == 0 or _HALF_MADE not in str(error):
                raise
        else:
            return


def _remove_half(repository: Repository, path: Path, branch: str) -> None:
    """Remove the work tree that git left behind after a failure, for example of a hook.

    git cleans up after other failures itself. The branch is unique to this run, so it identifies the work
    tree as ours: another process may have created one for another repository at this path.
    """
    if git_or_none(path, "symbolic-ref", "--quiet", "HEAD") == f"refs/heads/{branch}":
        git_or_none(repository.folder, "worktree", "remove", "--force", str(path))


@contextmanager
def _alone(repository: Repository) -> Iterator[None]:
    """Lock a repository, so that only one run at a time creates or removes a work tree.

    git reads the metadata of all work trees when it creates one, and fails if another is incomplete.
    """
    try:
        folder = repository.common / IN_GIT
        folder.mkdir(mode=0o700, exist_ok=True)
        fd = os.open(folder / "worktrees.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:  # not writable: git itself will report it
        yield
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _changes(repository: Repository) -> int:
    if repository.top is None:
        return 0
    return len((git_or_none(repository.top, "status", "--porcelain") or "").splitlines())


def work_in(repository: Repository, tree: Worktree) -> str | None:
    """Return a description of the work in a run's work tree; None if there is none and it can be removed."""
    tip = git_or_none(repository.folder, "rev-parse", "--verify", "--quiet", f"refs/heads/{tree.branch}")
    if not tree.path.exists():
        return None if tip in {tree.base, None} else "its commits are on that branch"
    head = head_of(tree.path)
    status = git_or_none(tree.path, "status", "--porcelain", "--untracked-files=all")
    if head is None or status is None:
        return "git cannot read it"
    if head != tree.base or tip not in {tree.base, None}:
        return "it has new commits"
    if status:
        return "it has uncommitted changes"
    return "some commits made in it are reachable only from its reflog of HEAD" if _left(tree) else None


def _left(tree: Worktree) -> bool:
    """Return whether a work tree was on commits that only its reflog of HEAD reaches."""
    seen = git_or_none(tree.path, "log", "--walk-reflogs", "--format=%H", "HEAD") or ""
    known = ("--not", "--all")
    return bool(git_or_none(tree.path, "rev-list", "--max-count=1", "--ignore-missing", "--stdin", *known, given=seen))


def end_worktree(repository: Repository, tree: Worktree, *, keep: bool) -> str | None:
    """Remove a run's work tree and its branch if it contains no work; return why it was kept, or None.

    Ignored files in it are not work: they go with it. What its command removed is only forgotten.
    """
    git_or_none(repository.folder, "worktree", "unlock", str(tree.path))
    if (why := work_in(repository, tree)) is not None and tree.path.exists():
        return why
    if keep and tree.path.exists():
        return "--keep was given"
    try:
        with _alone(repository):
            git(repository.folder, "worktree", "remove", str(tree.path))
    except GitError as error:
        if tree.path.exists():
            return str(error)
    if why is None:
        git_or_none(repository.folder, "update-ref", "-d", f"refs/heads/{tree.branch}", tree.base)
    return why


def origin_of(repository: Repository) -> str | None:
    """Return the configured URL that the repository was cloned from."""
    return git_or_none(repository.folder, "config", "--get", "remote.origin.url")


def redirecting_variables(base: Mapping[str, str]) -> list[str]:
    """Return the names of the caller's variables that would make git use another repository."""
    return [name for name in GIT_LOCATIONS if name in base]
