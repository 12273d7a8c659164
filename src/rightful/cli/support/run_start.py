"""What `rightful run` prepares before its command starts."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rightful import limits
from rightful.cli.output import terminal
from rightful.errors import StorageError, UsageError
from rightful.identity import is_session
from rightful.log.log import now_us
from rightful.runs import git as running_git
from rightful.runs import run_commits as running_commits
from rightful.runs import run_folder as running_folder
from rightful.runs import run_identity as running
from rightful.runs import run_records as running_records
from rightful.runs.live_runs import IN_GIT, LIVE, Held, Life, of_user

if TYPE_CHECKING:
    import argparse

    from rightful.ledger import Ledger
    from rightful.runs.git import Repository, Worktree
    from rightful.runs.run_commits import Before


class Place(NamedTuple):
    """All that a run was given.

    Attributes:
        identity: Who it is.
        began_us: When it began; microseconds since 1970, UTC.
        ledger: The ledger's absolute path.
        cwd: Where its command runs.
        command: The command, as it was given.
        harness: Its tool; None if that is not known.
        own: What it has of its tool.
        environment: The command's environment.
        temp: The private folder.
        held: By what others see that it is there.
        repository: The repository around its folder; None if there is none.
        tree: Its own work tree; None if it has none.
        before: What the repository held.
    """

    identity: running.Identity
    began_us: int
    ledger: Path
    cwd: Path
    command: list[str]
    harness: str | None
    own: running.Own
    environment: dict[str, str]
    temp: Path
    held: Held
    repository: Repository | None
    tree: Worktree | None
    before: Before | None


def begin(args: argparse.Namespace, ledger: Ledger, command: list[str], cwd: Path, session: str | None) -> Place | None:
    """Prepare a run and record its start; return what it was given, None if its name is taken.

    Raises:
        UsageError: It cannot be prepared with these options. Nothing was started, and nothing is left.
        StorageError: The ledger, or a folder, cannot be written. Likewise.
    """
    began_us = now_us()
    identity = running.drawn(began_us, session)
    place = _prepared(args, ledger.path.resolve(), identity, began_us, command, cwd)
    try:
        running_records.begin(ledger.log, _start(args, place), timeout_s=limits.RUN_WAIT_S)
    except running_records.NameTakenError:
        _undo(place)
        terminal.warn_stderr(
            f"a run named {identity.session} was started before, and a second one could not be distinguished from it; "
            f"nothing was started. Use another --session name, or omit it."
        )
        return None
    except BaseException:
        _undo(place)
        raise
    return place


class _WorkFolder(NamedTuple):
    """Where a run works: its folder, the repository around it, and its own work tree if it has one."""

    cwd: Path
    repository: Repository | None
    tree: Worktree | None


def _prepared(
    args: argparse.Namespace, ledger: Path, identity: running.Identity, began_us: int, command: list[str], cwd: Path
) -> Place:
    where = _where(args, ledger, identity, cwd)
    try:
        return _placed(args, ledger, identity, began_us, command, where)
    except BaseException:
        _remove(where)
        raise


def _placed(
    args: argparse.Namespace,
    ledger: Path,
    identity: running.Identity,
    began_us: int,
    command: list[str],
    where: _WorkFolder,
) -> Place:
    harness = args.harness or running.tool_of(command)
    own = running.own_of(command, harness, ledger / running.RUNS / identity.mark)
    try:
        if own.logs is not None:
            running.made_private(own.logs)
        temp = running_folder.temporary(os.environ)
    except OSError as error:
        raise StorageError(
            f"no folder could be created for the run: {error.filename}: {error.strerror}", "Nothing was started."
        ) from None
    repository = where.repository
    life = Life(identity.session, str(where.cwd), _top(repository))
    beside = repository.common / IN_GIT if repository else of_user(os.environ)
    return Place(
        identity, began_us, ledger, where.cwd, command, harness, own,
        running.environment_of(os.environ, identity, ledger=str(ledger), cwd=where.cwd, temp=temp, own=own),
        temp, Held([ledger / running.RUNS / LIVE, beside], identity.mark, life), repository, where.tree,
        None if repository is None else running_commits.before(repository),
    )  # fmt: skip


def _where(args: argparse.Namespace, ledger: Path, identity: running.Identity, cwd: Path) -> _WorkFolder:
    """Return where the run works, after creating its work tree if --worktree is given."""
    try:
        repository = running_git.repository_of(cwd)
    except running_git.GitError as error:
        if args.worktree is None:
            return _WorkFolder(cwd, None, None)
        raise UsageError(
            f"--worktree needs a git repository, but {cwd} is not in one ({error}); nothing was started. Change to a "
            f"repository, or omit --worktree."
        ) from None
    if args.worktree is None:
        return _WorkFolder(cwd, repository, None)
    path = Path(args.worktree).absolute() if args.worktree else ledger / running.WORKTREES / identity.mark
    tree = running_git.add_worktree(repository, path, identity.mark)
    return _WorkFolder(tree.cwd, running_git.repository_of(tree.path), tree)


def _remove(where: _WorkFolder) -> None:
    if where.tree is not None and where.repository is not None:
        running_git.end_worktree(where.repository.main(), where.tree, keep=False)


def _top(repository: Repository | None) -> str | None:
    return None if repository is None or repository.top is None else str(repository.top)


def _start(args: argparse.Namespace, place: Place) -> dict[str, Any]:
    outer = os.environ.get(running.SESSION, "")
    tree = place.tree
    return running_records.started(
        place.identity,
        place.began_us,
        {"harness": place.harness, "model": args.model, "cwd": str(place.cwd), "work_item": args.item},
        {
            "program": os.path.basename(place.command[0]),  # noqa: PTH119 - arguments may hold secrets; a name does not
            "native_id": place.own.native_id,
            "logs": None if place.own.logs is None else str(place.own.logs),
            "worktree": None if tree is None else str(tree.path),
            "branch": None if tree is None else tree.branch,
            "base": None if tree is None else tree.base,
            "started_by": outer if is_session(outer) and outer != place.identity.session else None,
        },
    )


def notes(place: Place) -> list[str]:
    """Return the notes to print before the command starts."""
    lines = []
    if place.harness is not None and place.harness not in running.TOOLS:
        known = ", ".join(sorted(running.TOOLS))
        lines.append(
            f"{place.harness} is not a known agent tool ({known}); it is recorded, but no transcript is searched for"
        )
    if led := running_git.environment_says(os.environ):
        lines.append(f"not passed to the command: {', '.join(led)}, which point git to another repository")
    if place.tree is not None:
        lines.append(f"it works in {place.tree.path}, on the new branch {place.tree.branch}")
        if place.tree.left_behind:
            is_one = place.tree.left_behind == 1
            changes = terminal.plural(place.tree.left_behind, "uncommitted change")
            lines.append(f"{changes} {'is' if is_one else 'are'} not in that work tree")
        if place.tree.has_submodules:
            lines.append("submodules are not checked out in that work tree; run git submodule update --init")
    elif there := [life.session for life in place.held.before if shares(place, life)]:
        who = f"{', '.join(there)} {'works' if len(there) == 1 else 'work'}"
        lines.append(
            f"{who} in this folder too, on the same files" if place.repository is None else
            f"{who} in this work tree too, on the same files and the same index; --worktree gives each run its own"
        )  # fmt: skip
    if place.held.refused:
        lines.append(f"other runs cannot see this one: {place.held.refused[0]} cannot be written")
    return lines


def shares(place: Place, life: Life) -> bool:
    """Return whether another run works on the same files."""
    top = _top(place.repository)
    return life.cwd == str(place.cwd) or (top is not None and life.top == top)


def _undo(place: Place) -> None:
    """Remove what was created for a run that does not start."""
    place.held.close()
    with suppress(OSError):
        place.temp.rmdir()
    remove_empty(place)
    _remove(_WorkFolder(place.cwd, place.repository, place.tree))


def remove_empty(place: Place) -> None:
    """Remove the folder for the tool's log if there is nothing in it."""
    if place.own.logs is not None:
        with suppress(OSError):
            for folder in (place.own.logs, place.own.logs.parent, place.own.logs.parent.parent):
                folder.rmdir()
