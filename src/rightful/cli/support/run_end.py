"""Record the end of a `rightful run`, and remove its temporary files."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rightful import limits, times
from rightful.cli.output import terminal
from rightful.cli.support.run_start import remove_empty, shares
from rightful.errors import RightfulError
from rightful.log.log import now_us
from rightful.runs import git, run_commits, run_folder, run_identity, run_records

if TYPE_CHECKING:
    import argparse

    from rightful.cli.support.run_start import Place
    from rightful.ledger import Ledger
    from rightful.runs.run_commits import RunCommits
    from rightful.runs.run_transcripts import TranscriptSearch


class RunOutput(NamedTuple):
    """The transcript and the commits of a run.

    Attributes:
        transcript: Its transcript, or why none is known.
        commits: Its commits; None outside of a repository.
        facts: Further facts about the repository.
    """

    transcript: TranscriptSearch
    commits: RunCommits | None
    facts: dict[str, Any]


def end(args: argparse.Namespace, place: Place, code: int) -> int:
    """Record the end of a run, clear up, and return the command's exit code, whatever happens."""
    ended_us = max(now_us(), place.began_us)
    report: dict[str, Any] = {
        "session": place.identity.session, "run_nonce": place.identity.nonce, "exit_code": code,
        "started_at": times.text_of(place.began_us), "ended_at": times.text_of(ended_us),
    }  # fmt: skip
    steps = (
        partial(_record, place, ended_us, report), partial(_clear, args, place, report),
        partial(_write_report, args, report), partial(_note_unbound, args, place, report),
    )  # fmt: skip
    for step in steps:
        try:
            step()
        except Exception as error:  # noqa: BLE001 - nothing of ours may hide how the command ended
            terminal.warn_stderr(f"{str(error) or type(error).__name__} (after the command had ended with {code})")
    return code


def _run_output(place: Place, ended_us: int) -> RunOutput:
    from rightful.runs.run_transcripts import FinishedRun, TranscriptSearch, find_transcript

    others = place.live_files.others()
    sharing = [live_run.session for live_run in others if shares(place, live_run)]
    finished = FinishedRun(
        place.harness, place.setup, place.command, place.environment, place.temp, place.cwd, place.began_us, ended_us,
        [live_run.session for live_run in others if live_run.cwd == str(place.cwd)],
    )  # fmt: skip
    try:
        transcript = find_transcript(finished)
    except OSError as error:
        transcript = TranscriptSearch(None, (), f"{error.filename or 'a folder'} cannot be read: {error.strerror}")
    if place.repository is None or place.before is None:
        return RunOutput(transcript, None, {})
    made = run_commits.commits_of_run(
        place.repository, place.before, began_s=place.began_us // 1_000_000, ended_s=ended_us // 1_000_000,
        others=sharing, branch=None if place.tree is None else place.tree.branch,
    )  # fmt: skip
    origin = git.origin_of(place.repository)
    return RunOutput(transcript, made, {
        "origin": None if origin is None else run_identity.without_secrets(origin),
        "branch": git.git_or_none(place.repository.folder, "symbolic-ref", "--quiet", "--short", "HEAD"),
        "head_before": place.before.head,
        "head_after": git.head_of(place.repository.folder),
    })  # fmt: skip


def _record(place: Place, ended_us: int, report: dict[str, Any]) -> None:
    """Record the end at once, and then what is found; keep in the spool what cannot be written."""
    from rightful import ledger as app

    end_event = run_records.end_event(place.identity, ended_us, report["exit_code"])
    why = None
    try:
        with app.open(place.ledger) as ledger:
            ledger.append([end_event], timeout_s=limits.RUN_WAIT_S)
            _drain(ledger, place)
    except (RightfulError, OSError) as error:
        why = str(error)
    found = _run_output(place, ended_us)
    certain, claims, no_claim = _events(place, ended_us, found)
    refusal = None
    if why is None:
        try:
            with app.open(place.ledger) as ledger:
                refusal = run_records.finish(
                    ledger.log, place.identity, certain, claims, no_claim, timeout_s=limits.RUN_WAIT_S
                )
        except (RightfulError, OSError) as error:
            why = str(error)
    if why is not None and claims and place.setup.native_id is None:
        # a claim that was not compared with others stays a candidate, unless only this run can make it
        refusal, claims = no_claim["data"]["why"], [no_claim]
    _fill(report, found, refusal)
    if why is not None:
        report["kept"] = _keep(place, [end_event, *certain, *claims], ended_us, why)


def _drain(ledger: Ledger, place: Place) -> None:
    """Append the spooled events of the session's hooks: their spool may be in the folder that is removed."""
    from rightful.integrations.spool.spool_drain import drain
    from rightful.integrations.spool.spool_files import Spool

    spool = Spool(str(ledger.path), place.environment)
    if spool.waiting():
        drain(spool, ledger.log, timeout_s=limits.HOOK_WAIT_S)


def _events(place: Place, ended_us: int, found: RunOutput) -> tuple[list[Any], list[Any], Any]:
    """Return the events to record in any case, the claims on the transcript, and the event to record without them."""
    from rightful.runs.run_transcripts import TranscriptSearch

    identity, certain, claims = place.identity, [], []
    if (
        place.repository is not None
        and found.commits is not None
        and (found.commits.commits or found.commits.candidates)
    ):
        certain.append(run_records.commits_event(identity, ended_us, place.repository, found.commits, found.facts))
    own = found.transcript.own
    if own is not None:
        claims.append(run_records.binding_event(identity, ended_us, own))
        if own.native is not None:
            claims.append(run_records.link_event(identity, ended_us, own.native, own.as_, own.evidence))
    elif found.transcript.why is not None and place.harness is not None:
        certain.append(run_records.candidates_event(identity, ended_us, found.transcript))
    mine = TranscriptSearch(None, (own.file.path,) if own else (), "the ledger could not be asked who else claims it")
    return certain, claims, run_records.candidates_event(identity, ended_us, mine)


def _fill(report: dict[str, Any], found: RunOutput, refusal: str | None) -> None:
    own = found.transcript.own if refusal is None else None
    report["transcript"] = None if own is None else {
        "uri": own.uri, "evidence": own.evidence, "session": own.native,
        "bytes": own.content.bytes, "sha256": own.content.sha256,
    }  # fmt: skip
    refused = None if refusal is None else found.transcript.own
    report["candidates"] = list(found.transcript.candidates) if refused is None else [refused.file.path]
    report["why"] = refusal or found.transcript.why
    report["commits"] = [] if found.commits is None else [commit.sha for commit in found.commits.commits]
    report["commit_candidates"] = [] if found.commits is None else [commit.sha for commit in found.commits.candidates]


def _keep(place: Place, events: list[Any], ended_us: int, why: str) -> str | None:
    """Keep the events in the spool and return the file; if that fails, print them."""
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


def _clear(args: argparse.Namespace, place: Place, report: dict[str, Any]) -> None:
    """Remove the temporary files and the work tree, and print which of them are kept."""
    place.live_files.close()
    remove_empty(place)
    bound = report.get("transcript")
    own = [_path(bound["uri"])] if bound else []
    paths = [*report.get("candidates", ()), *own]
    why = run_folder.end(place.temp, os.environ, paths, keep=args.keep)
    report["temporary"] = None if why is None else str(place.temp)
    if why is not None and not args.quiet:
        terminal.note_stderr(f"temporary files were kept in {place.temp}: {why}")
    if own and not args.quiet:
        terminal.note_stderr(_import_hint(args, place, own[0]))
    report["worktree"] = report["branch"] = None
    if place.tree is None or place.repository is None:
        return
    if (why := git.end_worktree(place.repository.main(), place.tree, keep=args.keep)) is not None:
        is_there = place.tree.path.exists()
        report["worktree"], report["branch"] = str(place.tree.path) if is_there else None, place.tree.branch
        what = "was kept" if is_there else "was removed by the command"
        terminal.note_stderr(f"the work tree {place.tree.path} (branch {place.tree.branch}) {what}: {why}")


def _import_hint(args: argparse.Namespace, place: Place, path: str) -> str:
    import shlex

    words = ["rightful", *(["--ledger", args.ledger] if args.ledger else []), "import", str(place.harness), path]
    return f"its transcript is bound but not imported; import it with: {shlex.join(words)}"


def _note_unbound(args: argparse.Namespace, place: Place, report: dict[str, Any]) -> None:
    is_unbound = report.get("transcript") is None and report.get("why")
    if is_unbound and place.harness in run_identity.TOOLS and not args.quiet:
        terminal.note_stderr(f"no transcript was bound to {place.identity.session}: {report['why']}")


def _path(uri: str) -> str:
    from urllib.parse import unquote_to_bytes, urlsplit

    return os.fsdecode(unquote_to_bytes(urlsplit(uri).path))


def _write_report(args: argparse.Namespace, report: dict[str, Any]) -> None:
    """Write the report of --report atomically."""
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
