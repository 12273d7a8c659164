"""Run the main job on a small workspace: import, posteriors, audit, explain, backfill, transcript, history.

Writes ten sessions into a new folder (temporary unless DIR is given), in the real formats of a lesson hook, session
records and a bandit. Imports them into a new ledger there, shows how the newest-file rule misassigned their credit,
repairs the bandit's file and rolls the repair back. Then it shows the transcript of one session, and compacts the
history of another while a second run appends to it. Your own ledger is not used.
"""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rightful.cli.output import terminal
from rightful.cli.support import ledger_choice
from rightful.errors import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from rightful.demo.demo_workspace import Workspace

_BEFORE = """\
Ten agent sessions worked side by side in {folder}. A lesson hook recorded which lessons each of them \
saw, and session records contain their grades. A lesson updater joined each grade with the *newest* \
exposure file and kept only alpha and beta, in {folder}/state/bandit."""

_AFTER = """\
What to look at
  The ledger      {ledger}: every exposure and grade; nothing in it is ever changed.
  The workspace   {folder}: the folders state, tmp, claude and app contain the files of the tools.
  Imports         run one again: nothing is added.
Try
  rightful --ledger {quoted} explain 'workspace:8be0@2026-08-01T10:20:00+00:00'
  rightful --ledger {quoted} posteriors --balances none
  rightful --ledger {quoted} status"""

_TEMPORARY = """\
This folder is temporary and is kept until you remove it
  rm -r {quoted}"""


class Step(NamedTuple):
    """One command of the demo.

    Attributes:
        before: What it is for.
        words: The command, without `rightful --ledger PATH`.
        after: What it showed.
        happens: A change of the ledger before the command, by the Python API.
    """

    before: str
    words: list[str]
    after: str
    happens: Callable[[Path], None] | None = None


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("folder", metavar="DIR", nargs="?", help="new or empty folder (default: a temporary folder)")


def run(args: argparse.Namespace) -> int:
    """Write the workspace, run the commands, and explain their output."""
    from rightful import ledger as app
    from rightful.demo import demo_workspace

    if args.ledger is not None:
        raise UsageError("the demo creates its own ledger in its folder; nothing was done. Omit --ledger.")
    folder = _fresh(args.folder)
    workspace = demo_workspace.write(folder)
    ledger = folder / ledger_choice.FOLDER
    app.open(ledger, create=True).close()
    if args.json:
        return _as_json(folder, ledger, _steps(workspace))
    terminal.wrap_stdout(_BEFORE.format(folder=folder), "")
    codes = [_show(step, ledger) for step in _steps(workspace)]
    after = {"folder": folder, "ledger": ledger, "quoted": shlex.quote(str(ledger))}
    terminal.wrap_stdout(*(line.format(**after) for line in _AFTER.split("\n")))
    if args.folder is None:
        terminal.wrap_stdout(*(line.format(quoted=shlex.quote(str(folder))) for line in _TEMPORARY.split("\n")))
    return terminal.highest_code(codes)


def _fresh(name: str | None) -> Path:
    if name is None:
        return Path(tempfile.mkdtemp(prefix="rightful-demo-"))
    folder = Path(name).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty; nothing was written. Name a new folder.")
    return folder


def _steps(workspace: Workspace) -> list[Step]:
    hook = [str(path) for path in workspace.lesson_hook]
    return [
        Step(
            "1. Import the files of the lesson hook: which session saw which lessons.",
            ["import", "lesson-hook", *hook],
            "Each line is an exposure. A state file contains only a sanitised name, which is recorded as an alias.",
        ),
        Step(
            "2. Import the session records: which session earned which grade.",
            ["import", "session-records", str(workspace.session_records)],
            "Each row is a session, its grade, and a link to the name under which the hook knows it.",
        ),
        Step(
            "3. Replay: what a bandit should believe if each grade is credited to the lessons of its own session.",
            ["posteriors"],
            "Quoting paths earns 0.75, retrying blindly 0.25. The codex session saw no lesson, so its grade gives no "
            "credit; the session without a grade is pending.",
        ),
        Step(
            "4. Audit: how the newest-file rule credits the same grades.",
            ["audit", "historical-newest"],
            "Nearly every grade went to the session that had just started, and the rule believes in retrying blindly.",
        ),
        *_repair(str(workspace.bandit_state)),
        *_read([str(path) for path in workspace.transcripts]),
        *_compact(str(workspace.database)),
    ]


def _repair(state: str) -> list[Step]:
    """Return the steps for the bandit's file: the rule that wrote it, its errors, the repair and the rollback."""
    return [
        Step(
            "5. Which rule wrote the bandit's file?",
            ["audit", "--recorded", state],
            "The newest-file rule wrote it: its replay gives the file's numbers.",
        ),
        Step(
            "6. Explain: where one lesson's belief comes from.",
            ["explain", "retry-blindly.md"],
            "Every credit with its grade and its exposure; explain any of them by its number.",
        ),
        Step(
            "7. Plan the repair: rebuild the bandit's file from the log alone. Nothing is written.",
            ["backfill", "plan", "--target", state, "--reader", "gptme-sessions", "--rebuild", "--force"],
            "The new content of the file, arm by arm. More than one grade in ten gives no credit, so the plan is "
            "refused unless --force says that you know why; here the codex session saw no lesson.",
        ),
        Step(
            "8. Apply it: the file is replaced atomically, and the ledger records what was written.",
            ["backfill", "apply", "--target", state],
            "The bandit now reads what its sessions earned. The previous file is kept.",
        ),
        Step(
            "9. Roll it back: the previous file is restored byte for byte.",
            ["backfill", "rollback", "--target", state],
            "Both writes are events. The file's old numbers are now in the ledger as its opening balance, and count "
            "again since the repair was rolled back; `--balances none` ignores them.",
        ),
    ]


def _read(transcripts: list[str]) -> list[Step]:
    """Return the steps for the first session's transcript: two files, each entry shown once."""
    return [
        Step(
            "10. Import the transcript of the first session, and the log that its run printed.",
            ["import", "claude-code", *transcripts],
            "Two files, one conversation: an entry that is in both files is one event.",
        ),
        Step(
            "11. Read it by the workspace's name for the session.",
            ["transcript", "workspace:41c2@2026-08-01T10:00:00+00:00"],
            "Each entry once, in order, each call with its result. The session records linked the two names.",
        ),
    ]


def _compact(database: str) -> list[Step]:
    """Return the steps for a history that is compacted while another run appends to it."""
    from rightful.demo.demo_history import SESSION

    return [
        Step(
            "12. Import the database of an app on the OpenAI Agents SDK.",
            ["import", "openai-agents", database],
            "Each row is an item of the session's history.",
        ),
        Step(
            "13. Run A has read this history and waits for the provider's summary. Meanwhile run B appends a message. "
            "Then A compacts. What does the model see next?",
            ["history", SESSION],
            "The summary replaces what A had read, and B's message is kept: A's token covers only what A had read.",
            _compacted,
        ),
        Step(
            "14. What did the compaction cover?",
            ["history", SESSION, "--diff"],
            "Nothing was deleted; `history --full` and `--at POSITION` show what the model saw before.",
        ),
    ]


def _compacted(ledger: Path) -> None:
    """Compact what one run has read after another run has appended a message."""
    from rightful import ledger as app
    from rightful import times
    from rightful.demo import demo_history, demo_workspace

    now_us = times.us_of(demo_workspace.START) + 3_600_000_000
    with app.open(ledger, clock=lambda: now_us) as opened:
        read = opened.history(demo_history.SESSION)
        opened.extend(demo_history.SESSION, [demo_history.MEANWHILE])
        opened.compact(read.token, [demo_history.SUMMARY])


def _show(step: Step, ledger: Path) -> int:
    from rightful import cli

    terminal.wrap_stdout(step.before)
    if step.happens is not None:
        step.happens(ledger)
    terminal.print_stdout(f"$ rightful --ledger {shlex.join([str(ledger), *step.words])}", "")
    code = cli.main(["--ledger", str(ledger), *step.words])
    terminal.wrap_stdout(f"\n=> {step.after}", "")
    return code


def _as_json(folder: Path, ledger: Path, steps: list[Step]) -> int:
    from rightful import cli

    answers: list[dict[str, Any]] = []
    for step in steps:
        if step.happens is not None:
            step.happens(ledger)
        with contextlib.redirect_stdout(io.StringIO()) as answer:
            code = cli.main(["--ledger", str(ledger), *step.words, "--json"])
        document = json.loads(answer.getvalue()) if answer.getvalue() else None
        answers.append(
            {"command": ["rightful", "--ledger", str(ledger), *step.words], "exit_code": code, "answer": document}
        )
    terminal.print_json({"folder": str(folder), "ledger": str(ledger), "steps": answers})
    return terminal.highest_code(answer["exit_code"] for answer in answers)
