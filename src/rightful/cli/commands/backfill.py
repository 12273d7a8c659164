"""Write repaired posteriors into the file that a tool reads, or undo that.

`plan` computes the new content of the file and explains it; the file is not changed. `apply` writes the content of a
plan; run again, it completes an interrupted write. `rollback` restores the previous file byte for byte. `status` shows
what was published, and whether a tool has written to the file since.
"""

from __future__ import annotations

import contextlib
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from rightful.cli.output import logs, terminal
from rightful.cli.support import options
from rightful.errors import UsageError

if TYPE_CHECKING:
    import argparse

    from rightful.backfill.apply_plan import Done
    from rightful.backfill.plan_document import Old, Plan, PlanRequest
    from rightful.backfill.planning import Books, FullPlan
    from rightful.ledger import Ledger

STEPS = ("plan", "apply", "rollback", "status")
_QUESTION = ("reader", "policy", "as_of", "decay_at", "rebuild", "drop_updates")
_TAKES = {
    "plan": {"target", *_QUESTION, "force", "out"},
    "apply": {"target", *_QUESTION, "force", "plan"},
    "rollback": {"target", "force", "publication"},
    "status": {"target"},
}
"""Which options each step takes."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the step, the file, the question and what overrides a refusal."""
    parser.add_argument("step", metavar="STEP", choices=STEPS, help="plan, apply, rollback or status")
    parser.add_argument("--target", metavar="FILE", help="the tool's state file; only its folder must exist")
    parser.add_argument(
        "--reader", metavar="READER",
        help="format of the file: gptme-sessions, lesson-hook, gptme-hybrid or pm-dispatch",
    )  # fmt: skip
    parser.add_argument("--policy", metavar="NAME|FILE|JSON", help="policy of the new beliefs (default: bound)")
    options.add_position(parser)
    old = parser.add_mutually_exclusive_group()
    old.add_argument(
        "--rebuild", action="store_true",
        help="ignore the numbers in the file; rebuild them from the ledger only",
    )  # fmt: skip
    old.add_argument(
        "--drop-updates", action="store_true",
        help="ignore what the tool wrote since our last publication; keep opening balances",
    )  # fmt: skip
    parser.add_argument("--force", action="store_true", help="continue even if a check refuses")
    parser.add_argument("--out", metavar="PLAN", help="file for a copy of the plan, as JSON")
    parser.add_argument("--plan", metavar="PLAN", help="plan file to apply (default: the target's last plan)")
    parser.add_argument("--publication", metavar="ID", help="publication to roll back; it must be in force")


def run(args: argparse.Namespace) -> int:
    """Do one step."""
    _check(args)
    with options.open_folded(args) as ledger:
        books = _books(ledger)
        match args.step:
            case "plan":
                return _plan(args, books, ledger)
            case "apply":
                return _apply(args, books)
            case "rollback":
                return _rollback(args, books)
            case _:
                return _status(args, books)


def _check(args: argparse.Namespace) -> None:
    """Refuse an option that the step would pass over, and a step without a file."""
    every = set().union(*_TAKES.values())
    given = {name for name in every if getattr(args, name) not in (None, False)}
    if odd := sorted(given - _TAKES[args.step]):
        named = ", ".join(f"--{name.replace('_', '-')}" for name in odd)
        raise UsageError(f"`backfill {args.step}` does not accept {named}; nothing was done.")
    if args.step == "status":
        return
    if args.target is None and args.step == "apply" and args.plan is None:
        raise UsageError("`backfill apply` needs --target FILE or --plan PLAN; nothing was done.")
    if args.target is None and args.step != "apply":
        raise UsageError(f"`backfill {args.step}` needs --target FILE; nothing was done.")
    if args.plan is not None and given - {"plan"}:
        raise UsageError("`backfill apply --plan` accepts no other option; nothing was done.")
    if args.step == "plan" and args.reader is None:
        raise UsageError("`backfill plan` needs --reader, the format of the file; nothing was done.")
    if args.step == "apply" and args.plan is None and args.reader is None and given - {"target"}:
        raise UsageError("`backfill apply` without --reader applies the last plan and accepts only --target.")


def _books(ledger: Ledger) -> Books:
    from rightful.backfill.planning import Books

    return Books(ledger.projected(), ledger.path, ledger.id)


def _request(args: argparse.Namespace) -> PlanRequest:
    from rightful.backfill.plan_document import PlanRequest

    policy = options.policy_named(args.policy or "bound").policy
    old: Old = "rebuilt" if args.rebuild else "kept" if args.drop_updates else "counted"
    decay_at = options.decay_at(args, policy)
    return PlanRequest(args.target, args.reader, policy, options.as_of(args), decay_at, old, args.force)


def _plan(args: argparse.Namespace, books: Books, ledger: Ledger) -> int:
    from rightful.cli.show import show_backfill

    if args.out is not None:
        _check_out(args.out, args.target, ledger.path)
    found = _planned(args, books, _request(args))
    kept = _keep(books, found.plan)
    if args.out is not None:
        _write(args.out, found.plan)
    elif not kept:
        terminal.note_stderr(f"{ledger.path} cannot be written, so the plan was not kept; save it with --out.")
    if args.json:
        terminal.print_json(msgspec.json.decode(found.plan.document()))
    else:
        show_backfill.show_plan(found.plan)
    return terminal.CHECK_SAID_NO if found.plan.refusals and not found.plan.forced else terminal.DONE


def _planned(args: argparse.Namespace, books: Books, request: PlanRequest) -> FullPlan:
    from rightful.backfill import planning

    found = planning.make_plan(books, request)
    logs.of(args).step("planned", target=found.plan.target, sha256=found.plan.new_sha256)
    return found


def _keep(books: Books, plan: Plan) -> bool:
    """Keep a plan as the target's last one; False where the ledger's folder cannot be written."""
    from rightful.backfill.replaced_bytes import ReplacedBytes

    try:
        ReplacedBytes(books.folder).keep_plan(plan.target, plan.document())
    except OSError:
        return False
    return True


def _check_out(out: str, named: str, ledger: Path) -> None:
    """Refuse to write a plan over what it is about: the target by any name, its tool's files, the ledger's."""
    from rightful.backfill import target_file

    real = target_file.resolved(named, makes_folder=True)
    what = None
    with contextlib.suppress(OSError, ValueError):  # no such file yet, or no path, which writing it says
        if target_file.within(out, ledger):
            what = "lies in the ledger's own folder"
        elif os.path.realpath(out) in {real, f"{real}.bak", f"{real}.lock", target_file.temporary_path(real)}:
            what = "is the target, its backup or its lock file"
        elif Path(out).samefile(real):
            what = "is another name of the target"
    if what is not None:
        raise UsageError(f"--out {out} {what}; nothing was written. Name another file.")


def _write(path: str, plan: Plan) -> None:
    try:
        Path(path).write_bytes(plan.document())
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"--out {path} cannot be written ({why}); the file was not changed. Name another.") from None


def _apply(args: argparse.Namespace, books: Books) -> int:
    from rightful.backfill import apply_plan
    from rightful.cli.show import show_backfill
    from rightful.log.log import now_us

    plan = _plan_to_apply(args, books)
    done = apply_plan.apply(books, plan, now_us)
    if args.json:
        terminal.print_json({"done": done, "plan": msgspec.json.decode(plan.document())})
    else:
        show_backfill.show_applied(done, plan, rollback_command(args, done.target))
    return terminal.DONE


def _plan_to_apply(args: argparse.Namespace, books: Books) -> Plan:
    """Return the plan that is named, the target's last one, or a new one where the question is given."""
    from rightful.backfill import plan_document, target_file
    from rightful.backfill.replaced_bytes import ReplacedBytes

    if args.plan is not None:
        try:
            return plan_document.plan_from(Path(args.plan).read_bytes(), args.plan)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise UsageError(f"--plan {args.plan} cannot be read ({why}); nothing was written.") from None
    real = target_file.resolved(args.target, makes_folder=True)
    stored = ReplacedBytes(books.folder).plan_of(real)
    if args.reader is None:
        if stored is None:
            raise UsageError(f"there is no plan for {real}; nothing was written. Run `rightful backfill plan` first.")
        return plan_document.plan_from(stored, f"the last plan of {real}")
    return _new_plan(args, books, _request(args), stored)


def _new_plan(args: argparse.Namespace, books: Books, request: PlanRequest, stored: bytes | None) -> Plan:
    """Return the plan of a question: the last one, if that was interrupted, else a new one."""
    from rightful.backfill import apply_plan

    last = _readable(stored)
    if last is not None and _same_question(last, request) and apply_plan.interrupted(books, last):
        return last
    plan = _planned(args, books, request).plan
    _keep(books, plan)
    return plan


def publish(args: argparse.Namespace, ledger: Ledger, request: PlanRequest) -> tuple[Done, Plan]:
    """Plan and apply in one go, for another command.

    Raises:
        BackfillRefusedError: The plan is refused. Nothing was written.
        TargetError: The file is not one that can be written.
    """
    from rightful.backfill import apply_plan, target_file
    from rightful.backfill.replaced_bytes import ReplacedBytes
    from rightful.log.log import now_us

    options.catch_up(ledger)
    books = _books(ledger)
    stored = ReplacedBytes(books.folder).plan_of(target_file.resolved(request.target, makes_folder=True))
    plan = _new_plan(args, books, request, stored)
    return apply_plan.apply(books, plan, now_us), plan


def _readable(stored: bytes | None) -> Plan | None:
    """Return the last plan; None where there is none that can be read, which a new one replaces."""
    from rightful.backfill import plan_document

    try:
        return None if stored is None else plan_document.plan_from(stored, "the last plan")
    except UsageError:
        return None


def _same_question(plan: Plan, request: PlanRequest) -> bool:
    said = (plan.reader, plan.asked, plan.asked_as_of, plan.asked_decay_at, plan.asked_old, plan.forced)
    return said == (request.reader, request.policy.hash, request.as_of, request.decay_at, request.old, request.force)


def _rollback(args: argparse.Namespace, books: Books) -> int:
    from rightful.backfill import apply_plan, publication_status
    from rightful.backfill.replaced_bytes import ReplacedBytes
    from rightful.cli.show import show_backfill
    from rightful.log.log import now_us

    done = apply_plan.rollback(books, args.target, now_us, publication=args.publication, force=args.force)
    if args.json:
        terminal.print_json({"done": done})
    else:
        found = publication_status.status(books, done.target)
        moved = None if found else publication_status.moved_here(books, done.target)
        earlier = found[0].publication if found else moved and moved.id
        more = ("--publication", earlier) if earlier else ()
        replaced = done.replaced if args.force and done.happened != "already in place" else None
        kept = None if replaced is None else ReplacedBytes(books.folder).path_of(replaced)
        show_backfill.show_rolled_back(done, kept, earlier, rollback_command(args, done.target, *more))
    return terminal.DONE


def rollback_command(args: argparse.Namespace, real: str, *more: str) -> str:
    """Return the rollback as it has to be typed."""
    ledger = () if args.ledger is None else ("--ledger", str(args.ledger))
    return shlex.join(["rightful", *ledger, "backfill", "rollback", "--target", real, *more])


def _status(args: argparse.Namespace, books: Books) -> int:
    from rightful.backfill import publication_status, target_file
    from rightful.cli.show import show_backfill

    found = publication_status.status(books, args.target)
    where = "from this ledger."
    if not found and args.target is not None:
        real = target_file.resolved(args.target, makes_folder=True)
        where = publication_status.published_elsewhere(books, real)
    if args.json:
        targets: list[Any] = list(found)
        terminal.print_json({"targets": targets})
    else:
        show_backfill.show_status(found, where)
    return terminal.DONE
