"""What a person is shown of a backfill: the plan, what was done, how a target stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from rightful.cli.output import terminal
from rightful.cli.support import options
from rightful.policies import PRESETS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rightful.backfill.apply_plan import Done
    from rightful.backfill.plan_document import ArmChange, Plan
    from rightful.backfill.publication_status import TargetStatus

_DIGITS = 12
_OLD = {
    "counted": "count, as the opening balance of this file",
    "passed over": "do not count, though they were to: a note says why",
    "rebuilt": "are left out: the log alone counts",
    "kept": "count as they were opened before the last publication; what the tool did since does not (--drop-updates)",
}
_MADE = {
    "counted": "the old numbers counted",
    "passed over": "a later state of it counted",
    "rebuilt": "rebuilt from the log alone",
    "kept": "what the tool did since the last publication dropped",
}
_STANDING = {
    "in place": "it stands there as it was published",
    "changed since": "a tool has written the file since, which is how it goes on; plan again to repair it again",
    "not in place": "published but not in place: apply again, or roll back",
    "missing": "there is no file now",
    "rolled back": "the last publication was taken back, and what stood there before it is back",
    "not readable": "the file cannot be read",
}


def show_plan(plan: Plan) -> None:
    """Print a plan: what is not repaired first, then whether it may be applied, then what changes."""
    from rightful.cli.output import tables

    if plan.in_balance:
        since = ", or with --drop-updates to leave out what came since the last publication" if plan.updated else ""
        terminal.wrap_stdout(
            f"NOT repaired: {plan.in_balance:,} of {terminal.plural(plan.grades, 'grade')}, which the file's old "
            f"numbers contain. What was wrong in them stays wrong; plan with --rebuild to take them from the log "
            f"instead{since}."
        )
    for one in plan.refusals:
        terminal.wrap_stdout(f"{'Forced' if plan.forced else 'Refused'}: {one}.")
    terminal.wrap_stdout(_verdict(plan))
    tables.show_facts(_facts(plan))
    _show_changes(plan)
    _show_uncredited(plan)
    for one in plan.notes:
        terminal.wrap_stdout(f"Note: {one}.")


def _verdict(plan: Plan) -> str:
    if plan.refusals and not plan.forced:
        from rightful.backfill.plan_notes import way_out

        return f"Apply will refuse it. {way_out(plan)}"
    if plan.new_sha256 == plan.previous_sha256:
        return f"{plan.target} is already what it should be."
    return f"{terminal.plural(len(plan.changes), 'arm')} of {plan.target} would change. Nothing was written to it."


def _facts(plan: Plan) -> dict[str, object]:
    decay = {} if plan.decay_at is None or plan.policy.decay is None else {"decayed as of": plan.decay_at}
    return {
        "reader": plan.reader,
        "policy": _policy(plan),
        "through": f"position {plan.through:,}",
        **decay,
        "old numbers": _OLD[plan.old if plan.counts else "passed over"]
        if plan.previous_sha256 is not None or plan.old != "counted"
        else "none: a new file",
        "stands there": _digits(plan.previous_sha256),
        "will stand there": _digits(plan.new_sha256),
    }


def _policy(plan: Plan) -> str:
    """Return the policy in force as the preset that it is but for its balances, else by its hash."""
    digits = plan.policy_hash[:_DIGITS]
    asked = structs.replace(plan.policy, balances=None)
    name = next((name for name, preset in PRESETS.items() if preset == asked), None)
    if name is None:
        return digits
    match plan.policy.balances:
        case None:
            return f"{name} ({digits})"
        case ():
            return f"{name}, without opening balances ({digits})"
        case _:
            return f"{name}, with the balance of this file alone ({digits})"


def _digits(sha256: str | None) -> str:
    return "no file" if sha256 is None else f"SHA-256 {sha256[:_DIGITS]}…"


def _show_changes(plan: Plan) -> None:
    from rightful.cli.output import tables

    delta = "Δ mean" if tables.draws() else "change"
    beliefs = ["Beta, old", "Beta, new"]
    columns = {
        "arm": "", "": "", "mean, old": "reward", "mean, new": "reward", delta: "reward",
        beliefs[0]: "alpha, beta", beliefs[1]: "alpha, beta", "credits": "n",
    }  # fmt: skip
    if plan.changes:
        note = f"{terminal.plural(plan.unchanged, 'arm')} unchanged"
        tables.show_table(columns, map(_row, plan.changes), note=note, drop=[*beliefs, ""])


def _row(one: ArmChange) -> Sequence[object]:
    what = "goes" if one.new is None else "new" if one.old is None else ""
    means = ("" if pair is None else options.fixed(pair[0] / sum(pair)) for pair in (one.old, one.new))
    beliefs = ("" if pair is None else ", ".join(map(options.number, pair)) for pair in (one.old, one.new))
    return [one.arm, what, *means, options.fixed(one.delta_mean, sign=True), *beliefs, f"{one.n:,}"]


def _show_uncredited(plan: Plan) -> None:
    from rightful.cli.output import tables

    rows = [
        [name, f"{one.count:,}", ", ".join(one.sessions) + (" …" if one.count > len(one.sessions) else "")]
        for name, one in plan.uncredited.items()
    ]
    if rows:
        tables.show_table({"credits nobody": "", "grades": "n", "such as": ""}, rows)


def show_applied(done: Done, plan: Plan, take_back: str) -> None:
    """Print what an apply did: to whose file, and what became of its old numbers.

    Args:
        done: What was done.
        plan: The plan.
        take_back: The command that takes it back.
    """
    how = f"for {plan.reader}, {_MADE[plan.old if plan.counts else 'passed over']}"
    if plan.previous_sha256 is None and plan.old == "counted":
        how = f"for {plan.reader}, a new file"
    if done.happened == "already in place":
        terminal.wrap_stdout(f"{done.target} already stands as planned ({how}); nothing was written to it.")
        return
    terminal.wrap_stdout(
        f"{done.target} was written ({how}): {terminal.plural(len(plan.changes), 'arm')} changed, publication "
        f"{done.publication} at position {done.position:,}. Take it back with:"
    )
    terminal.print_stdout(f"  {take_back}")


def show_rolled_back(done: Done, earlier: str | None, take_back: str) -> None:
    """Print what a rollback did, and what can still be taken back.

    Args:
        done: What was done.
        earlier: The publication that is in force now; None where all were taken back.
        take_back: The command that takes that one back.
    """
    match done.happened:
        case "written":
            terminal.wrap_stdout(f"{done.target} is again what it was before ({_digits(done.sha256)}), byte for byte.")
        case "removed":
            terminal.wrap_stdout(f"{done.target} was removed: there was no file before.")
        case "already in place":
            terminal.wrap_stdout(f"{done.target} is what it was before already; nothing was written to it.")
    if earlier is not None:
        terminal.wrap_stdout(f"An earlier publication is in force, {earlier}. Take that one back too with:")
        terminal.print_stdout(f"  {take_back}")


def show_status(found: Sequence[TargetStatus], named: str | None) -> None:
    """Print how each target stands."""
    from rightful.cli.output import tables

    if not found:
        where = f" to {named}" if named else ""
        terminal.wrap_stdout(f"Nothing was published{where} from this ledger.")
    for number, one in enumerate(found):
        if number:
            terminal.wrap_stdout("")
        force: dict[str, object] = {"in force": "nothing"}
        if one.publication is not None and one.position is not None and one.at is not None:
            kept = "" if one.kept else "; its bytes are NOT kept"
            restores = one.restores if one.restores == "no file" else _digits(one.restores)
            force = {
                "in force": f"{one.publication}, position {one.position:,}, {one.at.isoformat(' ', 'seconds')}",
                "reader": one.reader or "not said",
                "policy": f"{(one.policy or '')[:_DIGITS]}, through position {one.through:,}",
                "rollback restores": f"{restores}{kept}",
            }
        stands = {"stands there": _digits(one.sha256), "publications": f"{one.count:,}"}
        tables.show_facts({"target": one.target, "state": _STANDING[one.standing], **force, **stands})
