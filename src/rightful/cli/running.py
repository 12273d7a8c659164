"""What `rightful run` prepares before its command starts, and what it records when that has ended."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rightful import limits, times
from rightful.cli import common
from rightful.errors import RightfulError, StorageError, UsageError
from rightful.identity import is_session
from rightful.producers import running, running_commits, running_folder, running_git, running_records
from rightful.producers.running_lives import IN_GIT, LIVE, Held, Life

if TYPE_CHECKING:
    import argparse

    from rightful.app import Ledger
    from rightful.producers.running_commits import Before, Made
    from rightful.producers.running_git import Repository, Worktree
    from rightful.producers.running_transcripts import Sought


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


def _now_us() -> int:
    return time.time_ns() // 1_000


def begin(args: argparse.Namespace, ledger: Ledger, command: list[str], cwd: Path, session: str | None) -> Place | None:
    """Prepare a run and record its start; return what it was given, None if its name is taken.

    Raises:
        UsageError: It cannot be prepared as it was asked. Nothing was started, and nothing is left.
        StorageError: The ledger, or a folder, cannot be written. Likewise.
    """
    began_us = _now_us()
    identity = running.drawn(began_us, session)
    place = _prepared(args, ledger.path.resolve(), identity, began_us, command, cwd)
    try:
        running_records.begin(ledger.log, _start(args, place), timeout_s=limits.RUN_WAIT_S)
    except running_records.NameTakenError:
        _undo(place)
        common.complain(
            f"a run was started as {identity.session} before, and another one of that name could not be told from "
            f"it; nothing was started. Give --session another name, or leave it out."
        )
        return None
    except BaseException:
        _undo(place)
        raise
    return place


class _Where(NamedTuple):
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
    args: argparse.Namespace, ledger: Path, identity: running.Identity, began_us: int, command: list[str], where: _Where
) -> Place:
    harness = args.harness or running.tool_of(command)
    own = running.own_of(command, harness, ledger / running.RUNS / identity.mark)
    try:
        if own.logs is not None:
            running.made_private(own.logs)
        temp = running_folder.temporary(os.environ)
    except OSError as error:
        raise StorageError(
            f"no folder could be made for the run: {error.filename}: {error.strerror}", "Nothing was started."
        ) from None
    repository = where.repository
    life = Life(identity.session, str(where.cwd), _top(repository), is_apart=where.tree is not None)
    folders = [ledger / running.RUNS / LIVE, *([repository.common / IN_GIT] if repository else [])]
    return Place(
        identity, began_us, ledger, where.cwd, command, harness, own,
        running.environment_of(os.environ, identity, ledger=str(ledger), temp=temp, own=own),
        temp, Held(folders, identity.mark, life), repository, where.tree,
        None if repository is None else running_commits.before(repository),
    )  # fmt: skip


def _where(args: argparse.Namespace, ledger: Path, identity: running.Identity, cwd: Path) -> _Where:
    """Return where the run works, having made its work tree if it was asked for."""
    try:
        repository = running_git.repository_of(cwd)
    except running_git.GitError as error:
        if args.worktree is None:
            return _Where(cwd, None, None)
        raise UsageError(
            f"--worktree needs a git repository, and {cwd} is in none ({error}); nothing was started. Go into one, "
            f"or leave --worktree out."
        ) from None
    if args.worktree is None:
        return _Where(cwd, repository, None)
    path = Path(args.worktree).absolute() if args.worktree else ledger / running.WORKTREES / identity.mark
    tree = running_git.add_worktree(repository, path, identity.mark)
    return _Where(tree.cwd, running_git.repository_of(tree.path), tree)


def _remove(where: _Where) -> None:
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
    """Return what is worth knowing before a run's command has the terminal."""
    told = []
    if led := running_git.environment_says(os.environ):
        told.append(f"not handed on to the command: {', '.join(led)}, which lead git to another place than its folder")
    if place.tree is not None:
        told.append(f"it works in {place.tree.path}, on the new branch {place.tree.branch}")
        if place.tree.left_behind:
            told.append(f"{common.many(place.tree.left_behind, 'change')} that you have not committed are not in there")
        if place.tree.has_submodules:
            told.append("submodules are not checked out in there: git submodule update --init")
    elif there := [life.session for life in place.held.before if _shares(place, life)]:
        who = f"{', '.join(there)} {'works' if len(there) == 1 else 'work'}"
        told.append(
            f"{who} in this folder too, on the same files" if place.repository is None else
            f"{who} in this work tree too, on the same files and the same index; --worktree gives each run its own"
        )  # fmt: skip
    if place.held.refused:
        told.append(f"other runs cannot see this one: {place.held.refused[0]} cannot be written")
    return told


def _shares(place: Place, life: Life) -> bool:
    """Say whether another run works on the same files."""
    top = _top(place.repository)
    return life.cwd == str(place.cwd) or (top is not None and life.top == top)


def _undo(place: Place) -> None:
    """Take back what was made for a run that does not start."""
    place.held.close()
    with suppress(OSError):
        place.temp.rmdir()
    _remove_empty(place)
    _remove(_Where(place.cwd, place.repository, place.tree))


def _remove_empty(place: Place) -> None:
    """Remove the folder for the tool's log if there is nothing in it."""
    if place.own.logs is not None:
        with suppress(OSError):
            for folder in (place.own.logs, place.own.logs.parent, place.own.logs.parent.parent):
                folder.rmdir()


class Found(NamedTuple):
    """What a run left.

    Attributes:
        transcript: Its transcript, or why none is known.
        made: Its commits; None outside of a repository.
        facts: More of the repository.
    """

    transcript: Sought
    made: Made | None
    facts: dict[str, Any]


def end(args: argparse.Namespace, place: Place, code: int) -> int:
    """Record what a run left, clear up, and return its exit code, whatever happens."""
    ended_us = max(_now_us(), place.began_us)
    report: dict[str, Any] = {
        "session": place.identity.session, "run_nonce": place.identity.nonce, "exit_code": code,
        "started_at": times.text_of(place.began_us), "ended_at": times.text_of(ended_us),
    }  # fmt: skip
    for step in (_record, _clear, _write_report):
        try:
            step(args, place, ended_us, report)
        except Exception as error:  # noqa: BLE001 - nothing of ours may hide how the command ended
            common.complain(f"{str(error) or type(error).__name__} (after the command had ended with {code})")
    return code


def _found(place: Place, ended_us: int) -> Found:
    from rightful.producers.running_transcripts import Sought, Span, sought

    lives = place.held.others()
    beside = [life.session for life in lives if _shares(place, life)]
    span = Span(
        place.harness, place.own, place.command, place.environment, place.temp, place.cwd, place.began_us, ended_us,
        [life.session for life in lives if life.cwd == str(place.cwd)],
    )  # fmt: skip
    try:
        transcript = sought(span)
    except OSError as error:
        transcript = Sought(None, (), f"{error.filename or 'a folder'} cannot be read: {error.strerror}")
    if place.repository is None or place.before is None:
        return Found(transcript, None, {})
    made = running_commits.made(
        place.repository, place.before, began_s=place.began_us // 1_000_000, ended_s=ended_us // 1_000_000,
        others=beside, branch=None if place.tree is None else place.tree.branch,
    )  # fmt: skip
    origin = running_git.origin_of(place.repository)
    return Found(transcript, made, {
        "origin": None if origin is None else running.without_secrets(origin),
        "branch": running_git.answer(place.repository.folder, "symbolic-ref", "--quiet", "--short", "HEAD"),
        "head_before": place.before.head,
        "head_after": running_git.answer(place.repository.folder, "rev-parse", "--verify", "--quiet", "HEAD^{commit}"),
    })  # fmt: skip


def _record(args: argparse.Namespace, place: Place, ended_us: int, report: dict[str, Any]) -> None:
    """Record the end at once, and then what is found; what cannot be written is kept."""
    del args
    from rightful import app

    end_event = running_records.ended(place.identity, ended_us, report["exit_code"])
    why = None
    try:
        with app.open(place.ledger) as ledger:
            ledger.append([end_event], timeout_s=limits.RUN_WAIT_S)
            _drain(ledger, place)
    except (RightfulError, OSError) as error:
        why = str(error)
    found = _found(place, ended_us)
    sure, claims, lack = _events(place, ended_us, found)
    taken = None
    if why is None:
        try:
            with app.open(place.ledger) as ledger:
                taken = running_records.finish(
                    ledger.log, place.identity, sure, claims, lack, timeout_s=limits.RUN_WAIT_S
                )
        except (RightfulError, OSError) as error:
            why = str(error)
    _fill(report, found, taken)
    if why is not None:
        # a claim that nobody could compare with others' stays a candidate, unless only this run can make it
        lonely = found.transcript.owned is not None and found.transcript.owned.evidence == "native-id"
        kept = [end_event, *sure, *(claims if lonely else [lack] if claims else [])]
        report["kept"] = _keep(place, kept, ended_us, why)


def _drain(ledger: Ledger, place: Place) -> None:
    """Append what hooks of the session could not: their spool may be in the folder that is removed."""
    from rightful.producers.spool import Spool

    spool = Spool(str(ledger.path), place.environment)
    if spool.waiting():
        spool.drain(ledger.log, timeout_s=limits.HOOK_WAIT_S)


def _events(place: Place, ended_us: int, found: Found) -> tuple[list[Any], list[Any], Any]:
    """Return what is recorded in any case, what claims the transcript, and what is recorded instead of that."""
    from rightful.producers.running_transcripts import Sought

    identity, sure, claims = place.identity, [], []
    if place.repository is not None and found.made is not None and (found.made.commits or found.made.candidates):
        sure.append(running_records.commits(identity, ended_us, place.repository, found.made, found.facts))
    owned = found.transcript.owned
    if owned is not None:
        claims.append(running_records.bound(identity, ended_us, owned))
        if owned.native is not None:
            claims.append(running_records.linked(identity, ended_us, owned.native, owned.as_, owned.evidence))
    elif found.transcript.why is not None and place.harness is not None:
        sure.append(running_records.candidates(identity, ended_us, found.transcript))
    mine = Sought(None, (owned.file.path,) if owned else (), "the ledger could not be asked who else claims it")
    return sure, claims, running_records.candidates(identity, ended_us, mine)


def _fill(report: dict[str, Any], found: Found, taken: str | None) -> None:
    owned = found.transcript.owned if taken is None else None
    report["transcript"] = None if owned is None else {
        "uri": owned.uri, "evidence": owned.evidence, "session": owned.native,
        "bytes": owned.content.bytes, "sha256": owned.content.sha256,
    }  # fmt: skip
    candidates = found.transcript.candidates
    if taken is not None and found.transcript.owned is not None:
        candidates = (found.transcript.owned.file.path,)
    report["candidates"] = list(candidates)
    report["why"] = taken or found.transcript.why
    report["commits"] = [] if found.made is None else [one.sha for one in found.made.commits]
    report["commit_candidates"] = [] if found.made is None else [one.sha for one in found.made.candidates]


def _keep(place: Place, events: list[Any], ended_us: int, why: str) -> str | None:
    """Keep what could not be written in the spool; else say it, with what to do."""
    from rightful import content
    from rightful.producers.spool import Spool

    path = Spool(str(place.ledger), os.environ).keep_events(events, ended_us)
    if path is not None:
        common.complain(f"the run's end could not be recorded yet: {why} It waits in {path}; the next command that "
                        f"opens the ledger writes it.")  # fmt: skip
        return path
    common.complain(f"the run's end could not be recorded, nor kept: {why} Give these lines to `rightful ingest`:")
    for event in events:
        common.complain(content.to_json(event).decode())
    return None


def _clear(args: argparse.Namespace, place: Place, ended_us: int, report: dict[str, Any]) -> None:
    """Remove what is not needed any more, and say what stays."""
    del ended_us
    place.held.close()
    _remove_empty(place)
    bound = report.get("transcript") or {}
    paths = [*report.get("candidates", ()), *([_path(bound["uri"])] if bound else [])]
    why = running_folder.end(place.temp, os.environ, paths, keep=args.keep)
    report["temporary"] = None if why is None else str(place.temp)
    if why is not None and not args.quiet:
        common.note(f"temporary files were kept in {place.temp}: {why}")
    report["worktree"] = report["branch"] = None
    if place.tree is None or place.repository is None:
        return
    if (why := running_git.end_worktree(place.repository.main(), place.tree, keep=args.keep)) is not None:
        report["worktree"], report["branch"] = str(place.tree.path), place.tree.branch
        common.note(f"the work tree {place.tree.path} (branch {place.tree.branch}) was kept: {why}")


def _path(uri: str) -> str:
    from urllib.parse import unquote_to_bytes, urlsplit

    return os.fsdecode(unquote_to_bytes(urlsplit(uri).path))


def _write_report(args: argparse.Namespace, place: Place, ended_us: int, report: dict[str, Any]) -> None:
    """Write the report that was asked for; whole, or not at all."""
    del place, ended_us
    if args.report is None:
        return
    path = Path(args.report)
    half = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    try:
        half.write_text(common.json_text(report) + "\n", encoding="utf-8")
        half.replace(path)
    except OSError as error:
        with suppress(OSError):
            half.unlink()
        common.complain(f"the report could not be written to {path}: {error.strerror}")
