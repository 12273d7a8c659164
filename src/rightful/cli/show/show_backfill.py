"""Text output of `backfill`: the plan, what was done, and the state of each target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from rightful.backfill.plan_notes import advice_for, removed_arms
from rightful.cli.output import tables, terminal
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
    "known": "count if the ledger has an opening balance of this file",
    "skipped": "do not count: see the note",
    "rebuilt": "are ignored: only the log counts",
    "kept": "count as opened before the last publication; later updates of the tool do not (--drop-updates)",
}
_MADE = {
    "counted": "the old numbers counted",
    "known": "from the log and its opening balances",
    "skipped": "the old numbers did not count",
    "rebuilt": "rebuilt from the log only",
    "kept": "updates of the tool since the last publication dropped",
}
_STATES = {
    "in place": "the file is as it was published",
    "changed since": "a tool has written the file since, which is normal; plan again to repair it again",
    "not in place": "published but not in place: apply again, or roll back",
    "missing": "the file does not exist; if it was moved, run `rightful backfill status --target` with its new path",
    "rolled back": "the last publication was rolled back, and the previous file is restored",
    "rolled back to no file": "the last publication was rolled back, and its new file is removed",
    "not readable": "the file cannot be read",
}


def show_plan(plan: Plan) -> None:
    """Print a plan: what is not repaired first, then whether it may be applied, then what changes."""
    if plan.previous_sha256 is None:
        created = terminal.plural(sum(change.new is not None for change in plan.changes), "arm")
        terminal.wrap_stdout(f"{plan.target} does not exist and would be created with {created}.")
    if plan.in_balance:
        since = ", or with --drop-updates to ignore updates since the last publication" if plan.updated else ""
        terminal.wrap_stdout(
            f"NOT repaired: {plan.in_balance:,} of {terminal.plural(plan.grades, 'grade')}, which the file's old "
            f"numbers contain. Errors in them remain; plan with --rebuild to compute them from the log instead{since}."
        )
    terminal.wrap_stdout(*(f"{'Forced' if plan.forced else 'Refused'}: {refusal}." for refusal in plan.refusals))
    terminal.wrap_stdout(_verdict(plan))
    tables.show_facts(_facts(plan))
    _show_changes(plan)
    _show_uncredited(plan)
    terminal.wrap_stdout(*(f"Note: {note}." for note in plan.notes))


def _verdict(plan: Plan) -> str:
    removed = _removed(plan)
    if plan.refusals and not plan.forced:
        return f"`backfill apply` will refuse this plan{removed}. {advice_for(plan)}"
    if plan.previous_sha256 is None:
        return "Nothing was written."
    if plan.new_sha256 == plan.previous_sha256:
        return f"{plan.target} already has the planned content."
    changed = terminal.plural(len(plan.changes), "arm")
    return f"{changed} of {plan.target} would change{removed}. Nothing was written to it."


def _removed(plan: Plan) -> str:
    removed = removed_arms(plan.changes)
    return f" ({removed})" if removed else ""


def _facts(plan: Plan) -> dict[str, object]:
    decay = {} if plan.decay_at is None or plan.policy.decay is None else {"decayed as of": plan.decay_at}
    return {
        "reader": plan.reader,
        "policy": _policy(plan),
        "through": f"position {plan.through:,}",
        **decay,
        "old numbers": _OLD[_old_numbers(plan)]
        if plan.previous_sha256 is not None or plan.old != "counted"
        else "none: a new file",
        "file now": _digits(plan.previous_sha256),
        "planned file": _digits(plan.new_sha256),
    }


def _old_numbers(plan: Plan) -> str:
    """Return what becomes of the old numbers; `known` if they, or what they were made from, are in the ledger."""
    if not plan.counts:
        return "skipped"
    return "known" if plan.old == "counted" and plan.opens is None else plan.old


def _policy(plan: Plan) -> str:
    """Return the policy as its preset, ignoring balances; the hash if it has none."""
    digits = plan.policy_hash[:_DIGITS]
    without_balances = structs.replace(plan.policy, balances=None)
    name = next((name for name, preset in PRESETS.items() if preset == without_balances), None)
    if name is None:
        return digits
    match plan.policy.balances:
        case None:
            return f"{name} ({digits})"
        case ():
            return f"{name}, without opening balances ({digits})"
        case _:
            return f"{name}, with the balance of this file only ({digits})"


def _digits(sha256: str | None) -> str:
    return "no file" if sha256 is None else f"SHA-256 {sha256[:_DIGITS]}…"


def _show_changes(plan: Plan) -> None:
    delta = "Δ mean" if tables.draws() else "change"
    beliefs = ["Beta, old", "Beta, new"]
    columns = {
        "arm": "", "": "", "mean, old": "reward", "mean, new": "reward", delta: "reward",
        beliefs[0]: "alpha, beta", beliefs[1]: "alpha, beta", "credits": "n",
    }  # fmt: skip
    if plan.changes:
        note = f"{terminal.plural(plan.unchanged, 'arm')} unchanged" if plan.unchanged else None
        tables.show_table(columns, map(_row, plan.changes), note=note, drop=[*beliefs, ""])


def _row(change: ArmChange) -> Sequence[object]:
    what = "goes" if change.new is None else "new" if change.old is None else ""
    means = ("" if pair is None else options.fixed(pair[0] / sum(pair)) for pair in (change.old, change.new))
    beliefs = ("" if pair is None else ", ".join(map(options.number, pair)) for pair in (change.old, change.new))
    return [change.arm, what, *means, options.fixed(change.delta_mean, sign=True), *beliefs, f"{change.n:,}"]


def _show_uncredited(plan: Plan) -> None:
    rows = []
    for name, grades in plan.uncredited.items():
        more = " …" if grades.count > len(grades.sessions) else ""
        rows.append([name, f"{grades.count:,}", ", ".join(grades.sessions) + more])
    if rows:
        tables.show_table({"no credit": "", "grades": "n", "such as": ""}, rows)


def show_applied(done: Done, plan: Plan, rollback: str) -> None:
    """Print what an apply did, and `rollback`, the command that undoes it."""
    is_new = plan.previous_sha256 is None and plan.old == "counted"
    how = f"for {plan.reader}, {'a new file' if is_new else _MADE[_old_numbers(plan)]}"
    if done.happened == "already in place":
        how = f"for {plan.reader}{', as rebuilt from the log only' if plan.old == 'rebuilt' else ''}"
        terminal.wrap_stdout(f"{done.target} already has the planned content ({how}); nothing was written to it.")
        return
    terminal.wrap_stdout(
        f"{done.target} was written ({how}): {terminal.plural(len(plan.changes), 'arm')} changed"
        f"{_removed(plan)}, publication "
        f"{done.publication} at position {done.position:,}. Undo with:"
    )
    terminal.print_stdout(f"  {rollback}")
    terminal.wrap_stdout(*(f"Note: {note}." for note in plan.notes))


def show_rolled_back(done: Done, kept: str | None, earlier: str | None, rollback: str) -> None:
    """Print what a rollback did, and what can still be undone.

    Args:
        done: What was done.
        kept: The file with the bytes of another program that were replaced by force; None if there are none.
        earlier: The publication that is in force now; None if all were undone.
        rollback: The command that undoes that one.
    """
    match done.happened:
        case "written":
            terminal.wrap_stdout(f"{done.target} was restored byte for byte ({_digits(done.sha256)}).")
        case "removed":
            terminal.wrap_stdout(f"{done.target} was removed: there was no file before the publication.")
        case "already in place":
            terminal.wrap_stdout(f"{done.target} is already the previous file; nothing was written to it.")
    if kept is not None:
        terminal.wrap_stdout(f"Its content before the rollback is kept in {kept}.")
    if earlier is not None:
        terminal.wrap_stdout(f"An earlier publication is in force, {earlier}. Undo that one too with:")
        terminal.print_stdout(f"  {rollback}")


def show_status(found: Sequence[TargetStatus], where: str) -> None:
    """Print the state of each target; if there is none, `where` nothing was published."""
    if not found:
        terminal.wrap_stdout(f"Nothing was published {where}")
    for number, status in enumerate(found):
        if number:
            terminal.wrap_stdout("")
        force: dict[str, object] = {"in force": "nothing"}
        if status.publication is not None and status.position is not None and status.at is not None:
            kept = "" if status.kept else "; its bytes are NOT kept"
            restores = status.restores if status.restores == "no file" else _digits(status.restores)
            at = status.at.isoformat(" ", "seconds")
            force = {
                "in force": f"{status.publication}, position {status.position:,}, {at}",
                "reader": status.reader or "not recorded",
                "policy": f"{(status.policy or '')[:_DIGITS]}, through position {status.through:,}",
                "rollback restores": f"{restores}{kept}",
            }
        now = {"file now": _digits(status.sha256), "publications": f"{status.count:,}"}
        to_none = " to no file" if status.standing == "rolled back" and status.sha256 is None else ""
        tables.show_facts({"target": status.target, "state": _STATES[f"{status.standing}{to_none}"], **force, **now})
