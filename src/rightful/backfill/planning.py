"""Backfill: what a tool's file will hold when a policy's posterior is written to it, and why.

A *plan* says everything before anything is written: the policy and the position, the present
and the new bytes, the change of each arm, the grades that stay uncredited. The new bytes
are computed again when the plan is applied, from what it names, and have to be the same.

The target's own opening balance counts as if it were in the ledger; it is opened when the plan
is applied. Balances of other files do not belong into this one.
"""

from __future__ import annotations

import glob
import json
import os
import shlex
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import structs

from rightful import times
from rightful.backfill import target_file as target
from rightful.backfill.file_beliefs import BeliefInputs, belief_inputs, beliefs_of, digest_of, numbers_of, until_of
from rightful.backfill.plan_document import VERSION, Old, Plan, PlanRequest, Rule
from rightful.backfill.plan_notes import notes_of, uncredited_of
from rightful.backfill.target_file import FileState
from rightful.encoding import wire
from rightful.errors import InvalidEventError, PolicyError, TargetError, UsageError
from rightful.events import NOT_OURS, BalanceOpened
from rightful.importers.bandits.bandit_file import NOTHING, read
from rightful.importers.bandits.bandit_formats import FORMATS
from rightful.importers.bandits.bandit_state import BanditState
from rightful.importers.engine.formats import End, Origin
from rightful.importers.sources.text_files import Found, Problem
from rightful.policies import Policy
from rightful.projections.facts.facts import Facts
from rightful.projections.facts.log_clock import latest_at_us
from rightful.projections.projected import Projected
from rightful.projections.publications import Published, in_force, publications

Wire = dict[str, Any]


class Books(NamedTuple):
    """The ledger, as a backfill needs it: its projections (and through them its log), its folder and its UUID."""

    projected: Projected
    folder: Path
    id: str


class FullPlan(NamedTuple):
    """A plan, the new bytes, and the opening of the target's balance if one is needed."""

    plan: Plan
    data: bytes
    opened: Wire | None


def real_target(asked: PlanRequest) -> str:
    """Return the real path of the file that a plan is asked for.

    Raises:
        UsageError: There is no such reader.
        TargetError: The file cannot be a target.
    """
    if asked.reader not in FORMATS:
        raise UsageError(f"there is no reader {asked.reader!r}; there are {', '.join(FORMATS)}")
    return target.resolved(asked.target, makes_folder=FORMATS[asked.reader].makes_folder)


def make_plan(books: Books, asked: PlanRequest) -> FullPlan:
    """Return what a file will hold, and what becomes of what it holds. Nothing is written.

    Raises:
        TargetError: The file is incomplete, is not a bandit state, or was published to another place; or its folder
            does not exist.
        UsageError: There is no such reader, or nothing was published that --drop-updates could keep.
        PolicyError: The policy names the balances that count, and the old numbers are to be left out; or
            its prior is not that of the tools.
    """
    real = real_target(asked)
    target.check_outside(real, books.folder)
    seen = target.read_plannable(real)
    every = publications(books.projected.log)
    rule = _rule(books, asked, real, seen, every.get(real, []))
    if rule.old == "counted" and seen.sha256 is not None:
        _check_ours(every, real, seen.sha256, asked.policy)
    return _compute(books, asked.reader, real, seen, rule, in_force(every.get(real, [])))


def recompute_plan(books: Books, plan: Plan, seen: FileState, chain: list[Published]) -> FullPlan:
    """Compute a plan again, from what it was asked for and its position, after the publications before it."""
    through = min(plan.through, books.projected.prefix(plan.asked_as_of))
    without_balances = structs.replace(plan.policy, balances=None)
    asked_policy = without_balances if without_balances.hash == plan.asked else plan.policy
    asked = PlanRequest(
        plan.target, plan.reader, asked_policy, through, plan.asked_decay_at, plan.asked_old, plan.forced
    )
    rule = _rule(books, asked, plan.target, seen, chain)
    opened = any(
        balance.id == plan.opens for balance in books.projected.facts.balances
    )  # by this plan, interrupted since
    policy = rule.policy
    if rule.old != "rebuilt":  # a balance of another file may have come or gone since
        policy = plan.policy if plan.policy in (asked.policy, _with_balance_of(asked.policy, plan.target)) else policy
    rule = rule._replace(policy=policy, asked=asked._replace(as_of=plan.asked_as_of), opens=rule.opens or opened)
    return _compute(books, plan.reader, plan.target, seen, rule, in_force(chain))


def _rule(books: Books, asked: PlanRequest, real: str, seen: FileState, chain: list[Published]) -> Rule:
    through = books.projected.prefix(asked.as_of)
    facts, log = books.projected.facts, books.projected.log
    at_us = latest_at_us(log, facts, through) if asked.decay_at is None else times.us_from(asked.decay_at)
    in_place = in_force(chain)
    is_ours = _is_ours(real, seen, in_place)
    old = _treatment_of_old(asked, in_place, is_ours=is_ours)
    return Rule(
        asked=asked, policy=_policy_in_force(asked.policy, old, facts, real), through=through, decay_at_us=at_us,
        old=old, opens=not is_ours and _needs_opening(facts, real, seen, chain, asked.old),
        updated=bool(in_place) and not is_ours and seen.sha256 != in_place[-1].previous, is_ours=is_ours,
        supersedes=chain[-1].id if chain else None, first_published=in_place[0].position if in_place else None,
    )  # fmt: skip


def _check_ours(every: dict[str, list[Published]], real: str, sha256: str, policy: Policy) -> None:
    """Refuse bytes that we published to another file alone: what is in them was opened there, and counts there."""
    here = {publication.new for publication in every.get(real, []) if publication.rolled_back is None}
    to = [
        name
        for name, chain in every.items()
        if any(
            publication.new == sha256 and publication.rolled_back is None and NOT_OURS.isdisjoint(publication.said)
            for publication in chain
        )
    ]
    if sha256 in here or not to or any(fnmatchcase(name, pattern) for name in to for pattern in policy.balances or ()):
        return
    there, advice = to[-1], "Plan with --rebuild, which uses only the log."
    if os.path.lexists(there):
        advice = f"{advice[:-1]}, or with --target {shlex.quote(there)} if that is the file."
    elif in_place := in_force(every[there]):
        command = ["rightful", "backfill", "rollback", "--target", real, "--publication", in_place[-1].id]
        advice += (
            f" Or `{shlex.join(command)}` restores the content from before the publication, and a new plan opens it."
        )
    raise TargetError(
        real,
        f"these bytes were published to {there}, so the file was moved or copied from there, and the numbers "
        f"opened there would be lost here",
        advice,
    )


def _is_ours(real: str, seen: FileState, in_place: list[Published]) -> bool:
    """Return whether the file holds the beliefs that were published to it last, whatever else was written into it.

    gptme's lesson matcher adds a judge's counts to the file; the belief is still ours then.
    """
    if not in_place or seen.data is None or seen.sha256 == in_place[-1].new:
        return bool(in_place) and seen.sha256 == in_place[-1].new
    published = in_place[-1].said.get("beliefs")
    return isinstance(published, str) and read(real, seen.data).beliefs_sha256 == published


def _needs_opening(facts: Facts, real: str, seen: FileState, chain: list[Published], old: Old) -> bool:
    """Return whether the file's bytes are to be opened as a balance: they are new, and not ours.

    That does not depend on the position of the plan.
    """
    ours = {publication.new for publication in chain if publication.rolled_back is None} | {
        sha256 for _, sha256 in facts.published
    }
    if old == "kept" and not in_force(chain):
        raise UsageError(
            f"nothing that was published to {real} is in force, so there are no updates to drop. Nothing was planned. "
            f"Plan without --drop-updates."
        )
    known = {balance.sha256 for balance in facts.balances if balance.source == real}
    return seen.data is not None and old != "kept" and seen.sha256 not in ours | known


def _treatment_of_old(asked: PlanRequest, in_place: list[Published], *, is_ours: bool) -> Old:
    """Return what becomes of the old numbers.

    Where what we rebuilt from the log is gone on from, nothing that it left out comes back.
    """
    if asked.old == "rebuilt" and asked.policy.balances:
        raise PolicyError("`--rebuild` excludes all balances, and this policy names some - at `$.balances`")
    goes_on = bool(in_place) and (asked.old == "kept" or is_ours)
    if goes_on and asked.policy.balances is None and in_place[-1].said.get("old") == "rebuilt":
        return "rebuilt"
    return asked.old


def _policy_in_force(policy: Policy, old: Old, facts: Facts, real: str) -> Policy:
    if old == "rebuilt":
        return structs.replace(policy, balances=())
    if policy.balances is None and any(balance.source != real for balance in facts.balances):
        return _with_balance_of(policy, real)
    return policy


def _with_balance_of(policy: Policy, real: str) -> Policy:
    """Return a policy that counts the balance of one file, unless it says itself which ones count."""
    return policy if policy.balances is not None else structs.replace(policy, balances=(glob.escape(real),))


def _compute(books: Books, reader: str, real: str, seen: FileState, rule: Rule, in_place: list[Published]) -> FullPlan:
    if (prior := rule.policy.prior) != (1.0, 1.0):
        what = "Expected [1.0, 1.0], the prior that the tools use"
        raise PolicyError(f"{what}, got {list(prior)} - at `$.prior`")
    form = FORMATS[reader]
    state = NOTHING if seen.data is None else read(real, seen.data)
    until = in_place[-1].said.get("until") if in_place else None
    wired, opened, opened_id = None, None, None
    if seen.data is not None and rule.opens:
        wired, opened, opened_id = _opening(real, seen.data, seen.mtime_us, until)
    facts, events = books.projected.facts, _opening_events(books)
    before = in_place[-1].position if rule.old == "kept" else None
    ground = belief_inputs(facts, events, real, rule.policy, opened=opened, before=before)
    found = beliefs_of(ground, rule.policy, rule.through, rule.decay_at_us)
    data = form.bytes_of(state, numbers_of(found, form.takes, state))
    target.check_size(real, data)
    said = notes_of(form, real, state, read(real, data), found, rule, seen)
    plan = Plan(
        version=VERSION, ledger=books.id, target=real, reader=reader, asked=rule.asked.policy.hash,
        policy=rule.policy, policy_hash=rule.policy.hash, through=rule.through,
        decay_at=times.text_of(rule.decay_at_us) if rule.decay_at_us else None, digest=digest_of(found),
        previous_sha256=seen.sha256, new_sha256=target.sha256(data), supersedes=rule.supersedes,
        asked_as_of=rule.asked.as_of, asked_decay_at=rule.asked.decay_at,
        asked_old=rule.asked.old, old=rule.old, opens=opened_id,
        retires=_retired_balances(ground, rule, before, opened_id), until=until_of(found),
        counts=said.counts, updated=rule.updated, forced=rule.asked.force, refusals=said.refusals, notes=said.notes,
        grades=len(found.settlement.unit_bin), in_balance=found.posteriors.counters.get("in_balance_grades", 0),
        uncredited=uncredited_of(found), changes=said.changes, unchanged=said.unchanged,
    )  # fmt: skip
    return FullPlan(plan, data, wired)


def _opening(source: str, data: bytes, mtime_us: int, until: str | None) -> tuple[Wire, BalanceOpened, str]:
    """Return the `balance.opened` of a bandit file, the same that importing the file gives, and its id.

    Args:
        source: The file's real path.
        data: Its bytes, which are one JSON object.
        mtime_us: When it was last written; microseconds since 1970, UTC.
        until: Up to when the grades go that were published to it; for a file that gives no time.

    Raises:
        TargetError: Not all of it can be opened.
    """
    reader = BanditState().reader(Origin(source, mtime_us))
    try:
        reader.events(Found(1, json.loads(data)))
        found = list(reader.finish(End(target.sha256(data), is_whole=True)))
        lost = [result.what for result in found if isinstance(result, Problem) and result.lost]
        if lost:
            raise TargetError(source, f"its balance cannot be opened ({lost[0]})")
        event = next(result for result in found if not isinstance(result, Problem))
        wired = event if until is None else {"through": until, **event}
        checked = wire.check(wired)
    except InvalidEventError as error:
        raise TargetError(source, f"its balance cannot be opened ({error})") from None
    assert isinstance(checked.event, BalanceOpened), "an opening opens a balance"
    return wired, checked.event, checked.id


def _retired_balances(ground: BeliefInputs, rule: Rule, before: int | None, opened: str | None) -> tuple[str, ...]:
    """Return the event ids of the balances whose numbers the file will not contain any more."""
    if rule.old == "counted":
        return ()
    held = {balance.id for balance in ground.own if balance.id and (before is None or balance.position >= before)}
    return tuple(sorted(held | ({opened} if opened is not None else set())))


def _opening_events(books: Books) -> dict[int, BalanceOpened]:
    rows = books.projected.log.read(types=["balance.opened"], until=books.projected.facts.watermark)
    return {row.position: row.event for row in rows if isinstance(row.event, BalanceOpened)}
