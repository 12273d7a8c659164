"""Credit a session's lessons with its grade: the lessons of exactly that session, or none.

Accepts the arguments of a lesson updater that joined each grade with the newest exposure file. Reads the exposure
record `<safe name>.json` of the exposure session, else of the workspace session, and appends the exposure and the
grade. Running it twice credits once. A missing, empty, malformed or ambiguous record is reported and gives no credit.
If there is no ledger, one is created only if --ledger names it.

A bandit's file changes only with --publish, which writes the beliefs of the ledger to it as `backfill apply` does.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rightful.cli.output import terminal
from rightful.cli.support import ledger_choice
from rightful.errors import LedgerNotFoundError, RightfulError, UsageError

if TYPE_CHECKING:
    import argparse

    from rightful.backfill.apply_plan import Done
    from rightful.backfill.plan_document import Plan, PlanRequest
    from rightful.importers.shared.grade_numbers import GradeContent
    from rightful.ledger import Ledger
    from rightful.log.rows import Receipt
    from rightful.projections.facts.facts import Facts
    from rightful.recording.session_credit import CreditRequest, Exposure, Records

_CODES = {"invalid": terminal.INVALID, "conflict": terminal.CONFLICT}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument(
        "--session-state-dir",
        metavar="DIR",
        default=os.path.join(os.environ.get("TMPDIR") or "/tmp", "claude-lesson-match"),  # noqa: PTH118, S108 - the hook's own default
        help="folder of the lesson hook's state files (default: %(default)s)",
    )
    parser.add_argument(
        "--bandit-dir",
        metavar="DIR",
        help="folder of the updater's bandit-state.json; never written, reported if it exists",
    )
    parser.add_argument(
        "--session-records",
        metavar="FILE",
        help="session records to read the grade from, without --grade or --outcome",
    )
    parser.add_argument("--workspace-session-id", metavar="W", help="id of the session that was graded")
    parser.add_argument(
        "--exposure-session-id", metavar="E", help="id of the session that saw the lessons (default: W)"
    )
    parser.add_argument(
        "--outcome", metavar="WORD", help="outcome that the policy maps to a reward, such as productive or noop"
    )
    parser.add_argument("--grade", metavar="X", type=float, help="reward, 0 to 1; overrides the outcome")
    parser.add_argument(
        "--arm-reward",
        metavar="LESSON=X",
        action="append",
        default=[],
        help="reward of one lesson, named by its path or suffix (repeatable)",
    )
    parser.add_argument(
        "--context", metavar="VALUE", nargs="+", help="context values of the bandit, in order; '' for an unknown value"
    )
    parser.add_argument(
        "--decay-rate", metavar="G", type=float, help="factor by which this grade decays all beliefs, 0 to 1"
    )
    _add_publish(parser)
    parser.add_argument("--dry-run", action="store_true", help="print what would be credited; write nothing")


def _add_publish(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--publish", metavar="FILE", help="bandit file to write the beliefs to (needs --reader)")
    parser.add_argument(
        "--reader",
        metavar="READER",
        help="format of the file: gptme-sessions, lesson-hook, gptme-hybrid or pm-dispatch",
    )
    parser.add_argument(
        "--policy",
        metavar="NAME|FILE|JSON",
        help="policy of the published beliefs (default: bound, decayed by --decay-rate per session)",
    )


def run(args: argparse.Namespace) -> int:
    """Append the exposure and the grade, and print what was credited."""
    from rightful.cli.show import show_credit
    from rightful.recording import session_credit

    request = session_credit.credit_request(args.workspace_session_id, args.exposure_session_id)
    rate = _decay_rate(args)
    publication = _publication(args)
    records = session_credit.read_records(args.session_records)
    graded = _requested_grade(args, request, records)._replace(decay_rate=rate)
    if records.problem:
        terminal.warn_stderr(f"{records.problem}; it was not used.")
    try:
        ledger = _opened(args)
    except LedgerNotFoundError as error:
        exposure = session_credit.read_exposure(args.session_state_dir, request, records.ids(request))
        if args.dry_run:
            _warn_without_ledger(args, error)
            return _answer(args, request, _with_rewards(args, graded, exposure), exposure, [])
        terminal.warn_stderr(f"nothing was recorded: {_no_ledger(error.path)}")
        if exposure.state == "found":
            return error.exit_code
        return _answer(args, request, graded, exposure, [])
    with ledger:
        request = _in_ledger(ledger, request, args.session_state_dir)
        graded = graded._replace(exposure_session=request.exposure_session)
        names = ledger.projected().catch_up().names
        written = (name for name, alias in zip(names.texts, names.alias, strict=True) if not alias)
        others = [*records.ids(request), *session_credit.known_ids(request, written)]
        exposure = session_credit.read_exposure(args.session_state_dir, request, others)
        if exposure.state == "missing" and request.exposure_id is None:
            exposure = exposure._replace(why=exposure.why + _linked_record(ledger, request, args.session_state_dir))
        graded = _with_rewards(args, graded, exposure)
        if args.dry_run:
            return _answer(args, request, graded, exposure, [])
        receipts = _append(args, ledger, request, exposure, graded)
        _note_made(request, receipts)
        happened = show_credit.sentence(ledger, receipts, graded, empty=exposure.state == "empty")
        published = None if publication is None else _published(args, ledger, publication)
    code = _answer(args, request, graded, exposure, receipts, happened, published)
    credited = any(receipt.outcome in {"appended", "duplicate"} for receipt in receipts)
    return code if published is None else max(code, published.print(args, credited=credited))


def _no_ledger(path: str) -> str:
    return f"No ledger at {path}. Run `rightful init`, or name a ledger with --ledger."


def _warn_without_ledger(args: argparse.Namespace, error: LedgerNotFoundError) -> None:
    """Warn in a dry run that there is no ledger, or note that one would be created."""
    if args.ledger is None:
        terminal.warn_stderr(f"nothing would be recorded: {_no_ledger(error.path)}")
    else:
        terminal.note_stderr(f"no ledger at {error.path}; without --dry-run it would be created.")


def _in_ledger(ledger: Ledger, request: CreditRequest, folder: str) -> CreditRequest:
    """Return what was asked with the names that the ledger has for it.

    Args:
        ledger: The ledger.
        request: The ids as they were given.
        folder: The lesson hook's state folder. An id that has a record there is a whole id, not a beginning.

    Raises:
        UsageError: Several sessions fit an id.
    """
    facts = ledger.projected().catch_up()
    return request.with_ledger_names(
        None if request.workspace_id is None else _name(facts, request.workspace_id, "workspace", folder),
        None if request.exposure_id is None else _name(facts, request.exposure_id, "claude-code", folder),
    )


def _name(facts: Facts, given: str, space: str, folder: str) -> str | None:
    """Return the one session that fits an id, that of the option's own namespace first; None if none fits."""
    from rightful.cli.support import options
    from rightful.recording import session_credit

    own = f"{space}:{given}"
    if options.sessions_with(facts, own):
        return own
    fitting = options.sessions_with(facts, given) or facts.names.beginning_with(f"{own}@", facts.watermark, 1)
    if not fitting and not Path(session_credit.record_path(folder, given)).exists():
        full = given if given.startswith(f"{space}:") else own
        fitting = options.sessions_beginning(facts, full)
    if len(fitting) > 1:
        raise UsageError(
            f"{given!r} fits {len(fitting):,} sessions: {options.names_text(fitting)}. Nothing was credited. "
            f"Name one in full."
        )
    for name in fitting:
        terminal.note_stderr(f"{given!r} is {name} of this ledger.")
    return fitting[0] if fitting else None


def _linked_record(ledger: Ledger, request: CreditRequest, folder: str) -> str:
    """Return which records the folder has of sessions that are linked to the workspace's, and the option for them."""
    from rightful.projections.credit import linked_names
    from rightful.recording import session_credit

    names = linked_names.names_of_run(ledger.projected().catch_up(), request.exposed)
    ids = [name.partition(":")[2] for name in names if name.startswith("claude-code:")]
    paths = {session: Path(session_credit.record_path(folder, session)) for session in ids}
    return "".join(
        f", but {path.name} of the linked session claude-code:{session} is; to credit that exposure, add "
        f"--exposure-session-id {session}"
        for session, path in paths.items()
        if path.exists()
    )


def _note_made(request: CreditRequest, receipts: list[Receipt]) -> None:
    """Name the sessions that a credit added to the ledger; a typing error would be one."""
    if request.new_sessions and any(receipt.outcome == "appended" for receipt in receipts):
        terminal.note_stderr(
            f"no session of this ledger had that id, so it now has {' and '.join(request.new_sessions)}."
        )


def _requested_grade(args: argparse.Namespace, request: CreditRequest, records: Records) -> GradeContent:
    """Return the grade that was given, or that the session records hold."""
    from rightful.importers.shared.grade_numbers import GradeContent

    if args.grade is not None and not (math.isfinite(args.grade) and 0.0 <= args.grade <= 1.0):
        raise UsageError(f"--grade {args.grade} is not from 0 to 1; nothing was credited. Pass a reward.")
    if args.outcome is not None and not args.outcome.strip():
        raise UsageError("--outcome is empty; nothing was credited. Pass a word, or omit it.")
    if args.grade is not None or args.outcome is not None:
        outcome = None if args.outcome == "unknown" else args.outcome
        return GradeContent(args.grade, outcome, request.exposure_session)
    if args.session_records is None or request.workspace_id is None:
        raise UsageError(
            "the grade is missing; nothing was credited. Pass --grade or --outcome, or --session-records "
            "and --workspace-session-id to look it up."
        )
    return records.last_grade(request.workspace_id)._replace(exposure_session=request.exposure_session)


def _decay_rate(args: argparse.Namespace) -> float | None:
    rate: float | None = args.decay_rate
    if rate is not None and not 0.0 < rate <= 1.0:
        raise UsageError(
            f"--decay-rate {rate} is not above 0 and at most 1; nothing was credited. Pass the factor to keep."
        )
    return rate


def _with_rewards(args: argparse.Namespace, graded: GradeContent, exposure: Exposure) -> GradeContent:
    """Return a grade with the rewards of single lessons, by their names in the exposure.

    Raises:
        UsageError: One is not a reward, or names no lesson of the exposure, or several.
    """
    found: dict[str, float] = {}
    for text in args.arm_reward if exposure.state == "found" else ():
        name, _, value = text.rpartition("=")
        try:
            reward = float(value)
        except ValueError:
            reward = math.nan
        if not name or not 0.0 <= reward <= 1.0:
            raise UsageError(f"--arm-reward {text!r} is not LESSON=X, X from 0 to 1; nothing was credited.")
        fit = [arm for arm in exposure.arms if arm == name] or [
            arm for arm in exposure.arms if arm.endswith(f"/{name}")
        ]
        if len(fit) != 1:
            listed = ", ".join(fit or exposure.arms)
            which = "fits several lessons" if fit else "is not a lesson of the exposure"
            raise UsageError(f"--arm-reward: {name!r} {which} ({listed}); nothing was credited. Pass the path of one.")
        found[fit[0]] = reward
    return graded._replace(per_arm=found or None)


def _publication(args: argparse.Namespace) -> PlanRequest | None:
    """Return what is to be published; None where nothing is.

    Raises:
        UsageError: --publish and --reader are not given together, or there is no such reader.
        TargetError: The file cannot be a target.
        PolicyError: The policy is not valid.
    """
    if args.publish is None:
        if args.reader is not None or args.policy is not None:
            raise UsageError("--reader and --policy need --publish FILE; nothing was credited. Name the file.")
        return None
    from rightful.backfill import plan_document, planning
    from rightful.cli.support import options

    if args.reader is None:
        raise UsageError("--publish needs --reader, the format of the file; nothing was credited. Pass a reader.")
    rate = args.decay_rate  # each graded session decays what came before it, as each call of such an updater does
    default = "bound" if rate is None else terminal.json_text({"decay": {"mode": "session", "gamma": rate}})
    policy = options.policy_named(args.policy or default).policy
    asked = plan_document.PlanRequest(args.publish, args.reader, policy)
    planning.real_target(asked)
    return asked


def _published(args: argparse.Namespace, ledger: Ledger, target: PlanRequest) -> Published:
    """Write the beliefs to a bandit's file, as `backfill apply` does; the credit stays, whatever comes of it."""
    from rightful.cli.commands import backfill

    try:
        return Published(*backfill.publish(args, ledger, target), None)
    except RightfulError as error:
        return Published(None, None, error)


class Published(NamedTuple):
    """What became of a publication.

    Attributes:
        done: What was done; None where it failed.
        plan: What was written.
        error: Why nothing was written.
    """

    done: Done | None
    plan: Plan | None
    error: RightfulError | None

    def print(self, args: argparse.Namespace, *, credited: bool) -> int:
        """Print it, unless it is part of a document, and return the exit code."""
        from rightful.cli.commands import backfill
        from rightful.cli.show import show_backfill

        if self.error is not None:
            recorded = "the credit is recorded, but " if credited else ""
            terminal.warn_stderr(f"{recorded}nothing was published: {self.error}")
            return self.error.exit_code
        assert self.done is not None
        assert self.plan is not None
        if not args.json:
            show_backfill.show_applied(self.done, self.plan, backfill.rollback_command(args, self.done.target))
        return terminal.DONE

    def document(self) -> dict[str, Any]:
        """Return it with the keys of `backfill apply --json`, or why nothing was written."""
        if self.plan is None:
            return {"error": str(self.error)}
        return {"done": self.done, "plan": msgspec.json.decode(self.plan.document())}


def _opened(args: argparse.Namespace) -> Ledger:
    from rightful import ledger as app

    if args.ledger is None or args.dry_run:
        return ledger_choice.open_ledger(args, readonly=args.dry_run)
    path = ledger_choice.ledger_path(args.ledger)
    try:
        return app.open(path)
    except LedgerNotFoundError:
        ledger_choice.refuse_parent(path)
        return app.open(path, create=True)


def _append(
    args: argparse.Namespace, ledger: Ledger, request: CreditRequest, exposure: Exposure, graded: GradeContent
) -> list[Receipt]:
    from rightful.log.log import now_us
    from rightful.recording import session_credit

    if not exposure.is_recorded or (graded.reward is None and graded.outcome is None):
        return []
    context = None if args.context is None else tuple(value or None for value in args.context)
    return session_credit.append(
        ledger.log, request, *session_credit.events_of(request, exposure, graded, now_us(), context)
    )


def _answer(
    args: argparse.Namespace,
    request: CreditRequest,
    graded: GradeContent,
    exposure: Exposure,
    receipts: list[Receipt],
    happened: str = "nothing was recorded",
    published: Published | None = None,
) -> int:
    if args.json:
        document = _document(args, request, graded, exposure, receipts)
        document |= {} if published is None else {"published": published.document()}
        terminal.print_json(document | {"happened": None if args.dry_run else happened})
    else:
        terminal.print_stdout(f"Session: {request.id}")
        terminal.print_stdout(f"Outcome: {_outcome(args, graded)}")
        terminal.print_stdout(_lessons(exposure))
        if args.dry_run:
            terminal.print_stdout("(dry run: nothing was written)")
        else:
            terminal.warn_stderr(f"ledger: {happened}")
    for receipt in receipts:
        if receipt.outcome in _CODES:
            terminal.warn_stderr(terminal.problem_of(receipt))
    if (bandit := _bandit_file(args)) is not None:
        state = "exists and was not changed" if bandit.exists() else "does not exist and was not created"
        terminal.warn_stderr(
            f"{bandit} {state}: a bandit's file changes only with --publish, or `rightful backfill apply`."
        )
    return terminal.highest_code(_CODES.get(receipt.outcome, terminal.DONE) for receipt in receipts)


def _outcome(args: argparse.Namespace, graded: GradeContent) -> str:
    word = graded.outcome or args.outcome
    if graded.reward is not None:
        return f"{word or 'not given'} (reward {graded.reward:.3f}, from the grade)"
    return f"{word} (the policy sets the reward)" if graded.outcome else f"{word} (no reward: nothing is credited)"


def _lessons(exposure: Exposure) -> str:
    if exposure.state != "found":
        return f"Lessons (0): the exposure record is {exposure.state}: {exposure.why}; nothing is credited"
    return f"Lessons ({len(exposure.arms)}): {', '.join(_file_name(arm) for arm in exposure.arms)}"


def _file_name(arm: str) -> str:
    return arm.rstrip("/").rpartition("/")[2] or arm


def _bandit_file(args: argparse.Namespace) -> Path | None:
    if args.bandit_dir is None or args.publish is not None:
        return None
    return Path(args.bandit_dir) / "bandit-state.json"


def _document(
    args: argparse.Namespace, request: CreditRequest, graded: GradeContent, exposure: Exposure, receipts: list[Receipt]
) -> dict[str, Any]:
    bandit = _bandit_file(args)
    return {
        "session": request.id,
        "outcome": graded.outcome,
        "grade": graded.reward,
        "exposure": {"state": exposure.state, "why": exposure.why or None, "session": request.exposed},
        "lessons": list(exposure.arms),
        "dry_run": args.dry_run,
        "bandit_file": None if bandit is None else str(bandit),
        "receipts": [receipt._asdict() for receipt in receipts],
    }
