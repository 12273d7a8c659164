"""Prepare a `rightful run` before its command starts."""

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
from rightful.runs import git, run_commits, run_folder, run_identity, run_records
from rightful.runs.live_runs import IN_GIT, LIVE, LiveRun, LiveRunFiles, user_folder

if TYPE_CHECKING:
    import argparse

    from rightful.ledger import Ledger
    from rightful.runs.git import Repository, Worktree
    from rightful.runs.run_commits import RepositoryState
    from rightful.runs.run_identity import Identity


class Place(NamedTuple):
    """The identity, the folders and the command of a run.

    Attributes:
        identity: Its name, nonce and mark.
        began_us: When it began; microseconds since 1970, UTC.
        ledger: The ledger's absolute path.
        cwd: The working folder of its command.
        command: The command as the user entered it.
        harness: Its agent tool; None if unknown.
        setup: The command to start, and the session id or log folder passed to the tool.
        environment: The command's environment.
        temp: The private folder.
        live_files: The locked files by which other runs detect this one.
        repository: The repository around its folder; None if there is none.
        tree: Its own work tree; None if it has none.
        before: The state of the repository when the run began.
    """

    identity: Identity
    began_us: int
    ledger: Path
    cwd: Path
    command: list[str]
    harness: str | None
    setup: run_identity.ToolSetup
    environment: dict[str, str]
    temp: Path
    live_files: LiveRunFiles
    repository: Repository | None
    tree: Worktree | None
    before: RepositoryState | None


def begin(args: argparse.Namespace, ledger: Ledger, command: list[str], cwd: Path, session: str | None) -> Place | None:
    """Prepare a run and record its start; return its place, or None if its name is taken.

    Raises:
        UsageError: It cannot be prepared with these options. Nothing was started, and nothing is left.
        StorageError: The ledger, or a folder, cannot be written. Likewise.
    """
    began_us = now_us()
    identity = run_identity.new_identity(began_us, session)
    path = ledger.path.resolve()
    where = _work_folder(args, path, identity, cwd)
    try:
        place = _place(args, path, identity, began_us, command, where)
    except BaseException:
        _remove(where)
        raise
    try:
        run_records.begin(ledger.log, _start(args, place), timeout_s=limits.RUN_WAIT_S)
    except run_records.NameTakenError:
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
    """The folder of a run, the repository around it, and its own work tree if it has one."""

    cwd: Path
    repository: Repository | None
    tree: Worktree | None


def _place(
    args: argparse.Namespace, ledger: Path, identity: Identity, began_us: int, command: list[str], where: _WorkFolder
) -> Place:
    harness = args.harness or run_identity.tool_of(command)
    setup = run_identity.tool_setup(command, harness, ledger / run_identity.RUNS / identity.mark)
    try:
        if setup.logs is not None:
            run_identity.make_private_folder(setup.logs)
        temp = run_folder.temporary(os.environ)
    except OSError as error:
        raise StorageError(
            f"no folder could be created for the run: {error.filename}: {error.strerror}", "Nothing was started."
        ) from None
    repository = where.repository
    live_run = LiveRun(identity.session, str(where.cwd), _top(repository))
    sharing = repository.common / IN_GIT if repository else user_folder(os.environ)
    live_files = LiveRunFiles([ledger / run_identity.RUNS / LIVE, sharing], identity.mark, live_run)
    return Place(
        identity, began_us, ledger, where.cwd, command, harness, setup,
        run_identity.environment_of(os.environ, identity, ledger=str(ledger), cwd=where.cwd, temp=temp, setup=setup),
        temp, live_files, repository, where.tree,
        None if repository is None else run_commits.repository_state(repository),
    )  # fmt: skip


def _work_folder(args: argparse.Namespace, ledger: Path, identity: Identity, cwd: Path) -> _WorkFolder:
    """Return the folder of the run, after creating its work tree if --worktree is given."""
    try:
        repository = git.repository_of(cwd)
    except git.GitError as error:
        if args.worktree is None:
            return _WorkFolder(cwd, None, None)
        raise UsageError(
            f"--worktree needs a git repository, but {cwd} is not in one ({error}); nothing was started. Change to a "
            f"repository, or omit --worktree."
        ) from None
    if args.worktree is None:
        return _WorkFolder(cwd, repository, None)
    path = Path(args.worktree).absolute() if args.worktree else ledger / run_identity.WORKTREES / identity.mark
    tree = git.add_worktree(repository, path, identity.mark)
    return _WorkFolder(tree.cwd, git.repository_of(tree.path), tree)


def _remove(where: _WorkFolder) -> None:
    if where.tree is not None and where.repository is not None:
        git.end_worktree(where.repository.main(), where.tree, keep=False)


def _top(repository: Repository | None) -> str | None:
    return None if repository is None or repository.top is None else str(repository.top)


def _start(args: argparse.Namespace, place: Place) -> dict[str, Any]:
    outer = os.environ.get(run_identity.SESSION, "")
    tree = place.tree
    return run_records.start_event(
        place.identity,
        place.began_us,
        {"harness": place.harness, "model": args.model, "cwd": str(place.cwd), "work_item": args.item},
        {
            "program": os.path.basename(place.command[0]),  # noqa: PTH119 - arguments may hold secrets; a name does not
            "native_id": place.setup.native_id,
            "logs": None if place.setup.logs is None else str(place.setup.logs),
            "worktree": None if tree is None else str(tree.path),
            "branch": None if tree is None else tree.branch,
            "base": None if tree is None else tree.base,
            "started_by": outer if is_session(outer) and outer != place.identity.session else None,
        },
    )


def notes(place: Place) -> list[str]:
    """Return the notes to print before the command starts."""
    lines = []
    if place.harness is not None and place.harness not in run_identity.TOOLS:
        known = ", ".join(sorted(run_identity.TOOLS))
        lines.append(
            f"{place.harness} is not a known agent tool ({known}); it is recorded, but no transcript is searched for"
        )
    if variables := git.redirecting_variables(os.environ):
        lines.append(f"not passed to the command: {', '.join(variables)}, which point git to another repository")
    if place.tree is not None:
        lines.append(f"it works in {place.tree.path}, on the new branch {place.tree.branch}")
        if left := place.tree.left_behind:
            changes = terminal.plural(left, "uncommitted change")
            lines.append(f"{changes} {'is' if left == 1 else 'are'} not in that work tree")
        if place.tree.has_submodules:
            lines.append("submodules are not checked out in that work tree; run git submodule update --init")
    elif sharing := [live_run.session for live_run in place.live_files.before if shares(place, live_run)]:
        runs = f"{', '.join(sharing)} {'works' if len(sharing) == 1 else 'work'}"
        lines.append(
            f"{runs} in this folder too, on the same files" if place.repository is None else
            f"{runs} in this work tree too, on the same files and the same index; --worktree gives each run its own"
        )  # fmt: skip
    if place.live_files.refused:
        lines.append(f"other runs cannot see this one: {place.live_files.refused[0]} cannot be written")
    return lines


def shares(place: Place, live_run: LiveRun) -> bool:
    """Return whether another run works on the same files."""
    top = _top(place.repository)
    return live_run.cwd == str(place.cwd) or (top is not None and live_run.top == top)


def _undo(place: Place) -> None:
    """Remove what was created for a run that does not start."""
    place.live_files.close()
    with suppress(OSError):
        place.temp.rmdir()
    remove_empty(place)
    _remove(_WorkFolder(place.cwd, place.repository, place.tree))


def remove_empty(place: Place) -> None:
    """Remove the folder for the tool's log if there is nothing in it."""
    if place.setup.logs is not None:
        with suppress(OSError):
            for folder in (place.setup.logs, place.setup.logs.parent, place.setup.logs.parent.parent):
                folder.rmdir()
