"""Apply and roll back a plan, so that a repeated call completes what a kill interrupted.

The order, under the target's lock: the balance is opened, the old bytes are kept in the
ledger's folder, `posterior.published` is appended, the file is exchanged. After any of these
steps the same call continues where the last one stopped, because each step is visible: ids are
derived from the plan, kept bytes are named by their hash, and the file is either the old or the
new one. A rollback takes the same steps in reverse.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from rightful import times
from rightful.backfill import target_file as target
from rightful.backfill.plan_document import Plan, difference
from rightful.backfill.plan_notes import advice_for
from rightful.backfill.planning import Books, FullPlan, recompute_plan
from rightful.backfill.pm_dispatch_backup import Backup
from rightful.backfill.publication_status import published_elsewhere, published_path
from rightful.backfill.replaced_bytes import ReplacedBytes
from rightful.backfill.target_file import FileState
from rightful.errors import BackfillRefusedError, StorageError, TargetChangedError, UsageError
from rightful.identity import composite_key, event_id
from rightful.importers.bandits.bandit_file import read
from rightful.importers.bandits.bandit_formats import FORMATS
from rightful.log.log import Clock
from rightful.log.rows import Receipt
from rightful.policies import RULES
from rightful.projections.publications import NO_BYTES, PRODUCER, TYPE, Published, in_force, publications

Wire = dict[str, Any]

_BACK_ALL_THE_SAME = (
    "The file was not changed. With --force the earlier bytes are restored anyway, and the present bytes are kept in "
    "the ledger's folder."
)

_LEFTOVER = (
    "It may contain the last write of a tool, which is not in the file. Nothing was published. Check its content, and "
    "repeat the command to continue without it."
)

Happened = Literal["written", "removed", "already in place"]


class Done(Struct, frozen=True, kw_only=True):
    """What an apply or a rollback did.

    Attributes:
        target: The file.
        happened: `written`, `removed`, or `already in place` where nothing was to be done.
        publication: The event id of the publication that says so; None where there is none.
        position: Its position.
        sha256: SHA-256 of the present bytes; None if there is no file.
        replaced: SHA-256 of the replaced bytes, which are kept; None if there was no file.
    """

    target: str
    happened: Happened
    publication: str | None
    position: int | None
    sha256: str | None
    replaced: str | None


def apply(books: Books, plan: Plan, clock: Clock) -> Done:
    """Write what a plan says. `clock` returns the time of publication; microseconds since 1970, UTC.

    Raises:
        BackfillRefusedError: The plan is refused, or the file has hard links, and it is not forced.
            Nothing was written.
        TargetChangedError: The file, or what was published to it, is not what the plan was made
            for. The file was not changed. Plan again.
        StorageError: The system failed. Apply the same plan again: it goes on where it ended.
    """
    if plan.ledger != books.id:
        raise UsageError(f"the plan for {plan.target} was made from another ledger; nothing was written. Plan again.")
    if plan.refusals and not plan.forced:
        raise BackfillRefusedError(plan.target, plan.refusals, advice_for(plan))
    real = target.resolved(plan.target, makes_folder=FORMATS[plan.reader].makes_folder)
    if real != plan.target:
        raise TargetChangedError(real, f"{plan.target} became a link to it after the plan was made")
    target.check_outside(real, books.folder)
    with target.locked(real, "planned", as_tool=FORMATS[plan.reader].keeps_backup):
        chain, seen = _publications_and_file(books, real, real)
        key = _plan_key(plan)
        mine = event_id(PRODUCER, key)
        last = chain[-1] if chain else None
        if last is not None and last.id != mine and _is_in_place(last, seen, plan):
            return _result(real, "already in place", last)
        _check_not_superseded(real, plan, chain, mine)
        if last is not None and last.id == mine and seen.sha256 == plan.new_sha256:
            target.sync(real)
            return _result(real, "already in place", last)
        if seen.sha256 != plan.previous_sha256:
            raise TargetChangedError(real, "its content is neither what the plan was made for nor what the plan writes")
        found = _compute_again(books, plan, seen, [publication for publication in chain if publication.id != mine])
        balances = {balance.sha256 for balance in books.projected.facts.balances if balance.position <= plan.through}
        opened = balances | ({plan.previous_sha256} if found.opened is not None else set())
        event = _publication(plan, key, clock(), opened=plan.new_sha256 in opened)  # if so, the bytes are a tool's own
        if last is None or last.id != mine or "beliefs" in last.said:  # or an earlier version began it
            event["extra"] |= {"beliefs": read(real, found.data).beliefs_sha256}
        event |= _rules(last, mine)
        backup = Backup(ReplacedBytes(books.folder), real, mine) if FORMATS[plan.reader].keeps_backup else None
        if backup is not None and (last is None or last.id != mine):
            backup.keep()
        return _write(books, real, found.data, seen, event, found.opened, backup)


def rollback(books: Books, named: str, clock: Clock, *, publication: str | None = None, force: bool = False) -> Done:
    """Restore the bytes that a file had before a publication.

    A second call does nothing. To go back further, name the publication to roll back.

    Args:
        books: The ledger.
        named: The file.
        clock: As for `apply`.
        publication: The event id of the publication in force; needed after a rollback.
        force: Restore them even if a tool wrote the file since; the present bytes are kept.

    Raises:
        UsageError: Nothing was published to the file, or not that publication is in force. If its workspace was
            moved, `publication` has to name the one of the path that it had.
        BackfillRefusedError: The file has hard links, and it is not forced. Nothing was written.
        TargetChangedError: A tool has written the file since. It was not touched.
        StorageError: The bytes are not kept any more, or the system failed.
    """
    real = target.resolved(named)
    logged = published_path(books, real, publication)
    with target.locked(real, "planned", as_tool=_keeps_backup(publications(books.projected.log, logged)[logged])):
        chain, seen = _publications_and_file(books, real, logged)
        if not chain:
            raise UsageError(f"nothing was published {published_elsewhere(books, real)} Nothing was rolled back.")
        last, force_ids = chain[-1], {publication.id for publication in in_force(chain)[-1:]}
        if last.rolled_back is not None and publication in {None, last.rolled_back}:
            return _complete_rollback(books, real, last, seen, force=force)
        if publication is not None and publication not in force_ids:
            raise UsageError(f"{publication} is not the publication in force of {real}; `backfill status` names it.")
        if not force_ids:
            return _result(real, "already in place", last)
        back = in_force(chain)[-1]
        if seen.sha256 not in {back.new, back.previous} and not force:
            raise TargetChangedError(real, "another program wrote it after it was published", _BACK_ALL_THE_SAME)
        if not force and back.previous != seen.sha256:
            target.check_alone(real, seen)
        data, backup = _kept_bytes(books, real, back.previous), Backup(ReplacedBytes(books.folder), real, back.id)
        backup.before()  # refuses the rollback if it is not kept
        done = _write(books, real, data, seen, _rollback_event(back, last, seen, clock()), None)
        backup.restore()
        return done


def _complete_rollback(books: Books, real: str, last: Published, seen: FileState, *, force: bool) -> Done:
    backup = Backup(ReplacedBytes(books.folder), real, str(last.rolled_back))
    if seen.sha256 == last.new:
        target.sync(real)
        backup.restore()
        return _result(real, "already in place", last)
    if seen.sha256 != last.previous and not force:
        raise TargetChangedError(real, "another program wrote it after it was rolled back", _BACK_ALL_THE_SAME)
    found = _kept_bytes(books, real, last.new)
    if seen.data is not None:
        ReplacedBytes(books.folder).keep(seen.data)
    backup.before()
    target.place(real, found, seen, ReplacedBytes(books.folder).keep_at)
    backup.restore()
    return _result(real, "written" if last.new is not None else "removed", last)


def _kept_bytes(books: Books, real: str, name: str | None) -> bytes | None:
    if name is None:
        return None
    if (found := ReplacedBytes(books.folder).find(name)) is None:
        what = f"the earlier bytes {name} of {real} are missing from this ledger, or damaged; the file was not changed"
        raise StorageError(what, "Restore the ledger's folder `backfill` from a backup and roll back again.")
    return found


def _keeps_backup(chain: list[Published]) -> bool:
    return bool(chain) and any(
        form.keeps_backup for form in FORMATS.values() if form.name == chain[-1].said.get("reader")
    )


def _publications_and_file(books: Books, real: str, logged: str) -> tuple[list[Published], FileState]:
    """Return the publications and the present file, after handling the temporary file of a killed process.

    Raises:
        TargetChangedError: A tool wrote the file at the moment of the kill, and its bytes were
            restored; or the writer of the temporary file is unknown, and its bytes are kept.
    """
    chain, seen = publications(books.projected.log, logged)[logged], target.read_state(real)
    left, replaced = target.read_state(target.temporary_path(real)), ReplacedBytes(books.folder)
    if left.data is None:
        return chain, seen
    last = chain[-1] if chain else None
    known = {seen.sha256} | ({last.new, last.previous} if last else set())
    if last is not None and seen.sha256 == last.new:  # it came out of the file's place
        target.settle(real, last.previous, last.new, replaced.keep_at)
        return chain, seen
    where = None if left.sha256 in known else replaced.keep_at(left.data)
    target.drop(target.temporary_path(real))
    if where is not None and (last is None or seen.sha256 != last.previous):  # else it is a half of what we began
        raise TargetChangedError(
            real, f"an interrupted backfill left a temporary file next to it, which was moved to {where}", _LEFTOVER
        )
    return chain, target.read_state(real)


def _is_in_place(last: Published, seen: FileState, plan: Plan) -> bool:
    """Return whether a publication already put the bytes of a plan in place, by the rules of attribution of now."""
    return last.new == seen.sha256 == plan.new_sha256 and (last.rules == RULES or last.rolled_back is not None)


def _rules(last: Published | None, mine: str) -> Wire:
    """Return the field `rules` of a publication; an interrupted one is repeated unchanged."""
    rules = RULES if last is None or last.id != mine else last.event.rules
    return {} if rules is None else {"rules": rules}


def _compute_again(books: Books, plan: Plan, seen: FileState, chain: list[Published]) -> FullPlan:
    """Compute the plan again and compare it, so that exactly the planned bytes are published."""
    found = recompute_plan(books, plan, seen, chain)
    if found.plan.refusals and not plan.forced:
        raise BackfillRefusedError(plan.target, found.plan.refusals, advice_for(found.plan))
    if (name := difference(plan, found.plan)) is not None:
        what = f"the ledger at position {plan.through} no longer gives what the plan says, or the plan was edited"
        raise TargetChangedError(plan.target, f"{what}: `{name}` differs", "Nothing was written. Plan again.")
    if not plan.forced and plan.new_sha256 != seen.sha256:
        target.check_alone(plan.target, seen)
    return found


def _check_not_superseded(real: str, plan: Plan, chain: list[Published], mine: str) -> None:
    if any(publication.rolled_back == mine for publication in chain):
        raise TargetChangedError(real, "the plan was applied, and its publication was rolled back")
    if (chain[-1].id if chain else None) not in {plan.supersedes, mine}:
        raise TargetChangedError(real, "something else was published to it after the plan was made")


def _plan_key(plan: Plan) -> str:
    return composite_key(
        "publish", plan.target, plan.reader, plan.policy_hash, plan.through, plan.new_sha256,
        plan.previous_sha256, plan.supersedes,
    )  # fmt: skip


def _publication(plan: Plan, key: str, now_us: int, *, opened: bool) -> Wire:
    extra: Wire = {
        "reader": plan.reader,
        "old": plan.old,
        "asked": plan.asked,
        "forced": plan.forced,
        "balance": plan.opens,
        "until": plan.until,
        "retires": list(plan.retires) or None,
    }
    extra |= {"opened": True} if opened else {}
    event = {
        "type": TYPE, "producer": PRODUCER, "key": key, "at": times.text_of(now_us),
        "policy": plan.policy_hash, "through": plan.through, "decay_at": plan.decay_at, "digest": plan.digest,
        "target": plan.target, "new_sha256": plan.new_sha256, "previous_sha256": plan.previous_sha256,
        "supersedes": plan.supersedes, "extra": {name: value for name, value in extra.items() if value is not None},
    }  # fmt: skip
    return {name: value for name, value in event.items() if value is not None}


def _rollback_event(back: Published, last: Published, seen: FileState, now_us: int) -> Wire:
    extra: Wire = {"rollback": True, "rolled_back": back.id}
    extra |= {"reader": back.said["reader"]} if "reader" in back.said else {}
    extra |= {"removed": True} if back.previous is None else {}
    event = {
        "type": TYPE, "producer": PRODUCER, "key": composite_key("rollback", back.event.target, back.id, last.id),
        "at": times.text_of(now_us), "policy": back.event.policy, "through": back.event.through,
        "digest": back.event.digest, "target": back.event.target, "new_sha256": back.previous or NO_BYTES,
        "previous_sha256": seen.sha256, "supersedes": last.id, "extra": extra,
    }  # fmt: skip
    return {name: value for name, value in event.items() if value is not None}


def _write(
    books: Books, real: str, data: bytes | None, seen: FileState, event: Wire, opened: Wire | None,
    backup: Backup | None = None,
) -> Done:  # fmt: skip
    """Open the balance, keep the old bytes, publish, put the new bytes in place."""
    new = None if data is None else target.sha256(data)
    if new != seen.sha256:
        target.check_writable(real, seen)
    if opened is not None:
        _append(books, opened)
    if seen.data is not None:
        ReplacedBytes(books.folder).keep(seen.data)
    receipt = _append(books, event)
    if new != seen.sha256:
        if backup is not None:
            backup.write(seen)
        target.place(real, data, seen, ReplacedBytes(books.folder).keep_at)
    happened: Happened = "already in place" if new == seen.sha256 else "removed" if new is None else "written"
    return Done(
        target=real, happened=happened, publication=receipt.id, position=receipt.position, sha256=new,
        replaced=seen.sha256,
    )  # fmt: skip


def _append(books: Books, event: Wire) -> Receipt:
    """Append one event; raise TargetChangedError if its id already has another fact."""
    [receipt] = books.projected.log.append([event])
    if receipt.outcome not in {"appended", "duplicate"}:
        real = str(event.get("target", event.get("source")))
        raise TargetChangedError(real, f"its {event['type']} was {receipt.outcome}: {receipt.reason}")
    return receipt


def _result(real: str, happened: Happened, published: Published) -> Done:
    return Done(
        target=real, happened=happened, publication=published.id, position=published.position,
        sha256=published.new, replaced=published.previous,
    )  # fmt: skip


def interrupted(books: Books, plan: Plan) -> bool:
    """Return whether a plan was published and is not in place yet; applying it again completes it."""
    chain = publications(books.projected.log, plan.target)[plan.target]
    mine = bool(chain) and chain[-1].id == event_id(PRODUCER, _plan_key(plan))
    return mine and plan.new_sha256 != plan.previous_sha256 == target.read_state(plan.target).sha256
