"""What `rightful run` records when its command has ended, and what it clears up."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rightful import limits, times
from rightful.cli.output import terminal
from rightful.cli.support.run_start import remove_empty, shares
from rightful.errors import RightfulError
from rightful.log.log import now_us
from rightful.runs import git as running_git
from rightful.runs import run_commits as running_commits
from rightful.runs import run_folder as running_folder
from rightful.runs import run_identity as running
from rightful.runs import run_records as running_records

if TYPE_CHECKING:
    import argparse

    from rightful.cli.support.run_start import Place
    from rightful.ledger import Ledger
    from rightful.runs.run_commits import Made
    from rightful.runs.run_transcripts import Sought


class RunOutput(NamedTuple):
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
    ended_us = max(now_us(), place.began_us)
    report: dict[str, Any] = {
        "session": place.identity.session, "run_nonce": place.identity.nonce, "exit_code": code,
        "started_at": times.text_of(place.began_us), "ended_at": times.text_of(ended_us),
    }  # fmt: skip
    for step in (_record, _clear, _write_report, _note_unbound):
        try:
            step(args, place, ended_us, report)
        except Exception as error:  # noqa: BLE001 - nothing of ours may hide how the command ended
            terminal.warn_stderr(f"{str(error) or type(error).__name__} (after the command had ended with {code})")
    return code


def _found(place: Place, ended_us: int) -> RunOutput:
    from rightful.runs.run_transcripts import Sought, Span, sought

    lives = place.held.others()
    beside = [life.session for life in lives if shares(place, life)]
    span = Span(
        place.harness, place.own, place.command, place.environment, place.temp, place.cwd, place.began_us, ended_us,
        [life.session for life in lives if life.cwd == str(place.cwd)],
    )  # fmt: skip
    try:
        transcript = sought(span)
    except OSError as error:
        transcript = Sought(None, (), f"{error.filename or 'a folder'} cannot be read: {error.strerror}")
    if place.repository is None or place.before is None:
        return RunOutput(transcript, None, {})
    made = running_commits.made(
        place.repository, place.before, began_s=place.began_us // 1_000_000, ended_s=ended_us // 1_000_000,
        others=beside, branch=None if place.tree is None else place.tree.branch,
    )  # fmt: skip
    origin = running_git.origin_of(place.repository)
    return RunOutput(transcript, made, {
        "origin": None if origin is None else running.without_secrets(origin),
        "branch": running_git.answer(place.repository.folder, "symbolic-ref", "--quiet", "--short", "HEAD"),
        "head_before": place.before.head,
        "head_after": running_git.head_of(place.repository.folder),
    })  # fmt: skip


def _record(args: argparse.Namespace, place: Place, ended_us: int, report: dict[str, Any]) -> None:
    """Record the end at once, and then what is found; what cannot be written is kept."""
    del args
    from rightful import ledger as app

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
    if why is not None and claims and place.own.native_id is None:
        # a claim that was not compared with others stays a candidate, unless only this run can make it
        taken, claims = lack["data"]["why"], [lack]
    _fill(report, found, taken)
    if why is not None:
        report["kept"] = _keep(place, [end_event, *sure, *claims], ended_us, why)


def _drain(ledger: Ledger, place: Place) -> None:
    """Append what hooks of the session could not: their spool may be in the folder that is removed."""
    from rightful.integrations.spool.spool_drain import drain
    from rightful.integrations.spool.spool_files import Spool

    spool = Spool(str(ledger.path), place.environment)
    if spool.waiting():
        drain(spool, ledger.log, timeout_s=limits.HOOK_WAIT_S)


def _events(place: Place, ended_us: int, found: RunOutput) -> tuple[list[Any], list[Any], Any]:
    """Return what is recorded in any case, what claims the transcript, and what is recorded instead of that."""
    from rightful.runs.run_transcripts import Sought

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


def _fill(report: dict[str, Any], found: RunOutput, taken: str | None) -> None:
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
    report["commits"] = [] if found.made is None else [commit.sha for commit in found.made.commits]
    report["commit_candidates"] = [] if found.made is None else [commit.sha for commit in found.made.candidates]


def _keep(place: Place, events: list[Any], ended_us: int, why: str) -> str | None:
    """Keep what could not be written in the spool; else say it, with what to do."""
    from rightful import content
    from rightful.integrations.spool.spool_files import Spool

    path = Spool(str(place.ledger), os.environ).keep_events(events, ended_us)
    if path is not None:
        terminal.warn_stderr(
            f"the run's end could not be recorded yet: {why} It is kept in {path}; the next command that opens the "
            f"ledger writes it."
        )
        return path
    terminal.warn_stderr(f"the run's end could not be recorded or kept: {why} Pass these lines to `rightful ingest`:")
    for event in events:
        terminal.warn_stderr(content.to_json(event).decode())
    return None


def _clear(args: argparse.Namespace, place: Place, ended_us: int, report: dict[str, Any]) -> None:
    """Remove what is not needed any more, and say what stays."""
    del ended_us
    place.held.close()
    remove_empty(place)
    bound = report.get("transcript") or {}
    paths = [*report.get("candidates", ()), *([_path(bound["uri"])] if bound else [])]
    why = running_folder.end(place.temp, os.environ, paths, keep=args.keep)
    report["temporary"] = None if why is None else str(place.temp)
    if why is not None and not args.quiet:
        terminal.note_stderr(f"temporary files were kept in {place.temp}: {why}")
    if bound and not args.quiet:
        terminal.note_stderr(_import_of(args, place, _path(bound["uri"])))
    report["worktree"] = report["branch"] = None
    if place.tree is None or place.repository is None:
        return
    if (why := running_git.end_worktree(place.repository.main(), place.tree, keep=args.keep)) is not None:
        is_there = place.tree.path.exists()
        report["worktree"], report["branch"] = str(place.tree.path) if is_there else None, place.tree.branch
        what = "was kept" if is_there else "was removed by the command"
        terminal.note_stderr(f"the work tree {place.tree.path} (branch {place.tree.branch}) {what}: {why}")


def _import_of(args: argparse.Namespace, place: Place, path: str) -> str:
    """Return the command that imports the transcript; binding it does not read it."""
    import shlex

    words = ["rightful", *(["--ledger", args.ledger] if args.ledger else []), "import", str(place.harness), path]
    return f"its transcript is bound but not imported; import it with: {shlex.join(words)}"


def _note_unbound(args: argparse.Namespace, place: Place, ended_us: int, report: dict[str, Any]) -> None:
    """Print why no transcript was bound, if the agent tool is known."""
    del ended_us
    if not args.quiet and place.harness in running.TOOLS and report.get("transcript") is None and report.get("why"):
        terminal.note_stderr(f"no transcript was bound to {place.identity.session}: {report['why']}")


def _path(uri: str) -> str:
    from urllib.parse import unquote_to_bytes, urlsplit

    return os.fsdecode(unquote_to_bytes(urlsplit(uri).path))


def _write_report(args: argparse.Namespace, place: Place, ended_us: int, report: dict[str, Any]) -> None:
    """Write the report of --report atomically."""
    del place, ended_us
    if args.report is None:
        return
    path = Path(args.report)
    half = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    try:
        half.write_text(terminal.json_text(report) + "\n", encoding="utf-8")
        half.replace(path)
    except OSError as error:
        with suppress(OSError):
            half.unlink()
        terminal.warn_stderr(f"the report could not be written to {path}: {error.strerror}")
