"""Backfill: what a tool's file will hold when a policy's posterior is written to it, and why.

A *plan* says everything before anything is written: the policy and the position, the bytes that
stand there and those that will, what changes of each arm, what stays uncredited. The new bytes
are computed again when the plan is applied, from what it names, and have to be the same.

The target's own opening balance counts as if it were in the ledger; it is opened when the plan
is applied. Balances of other files do not belong into this one.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
import numpy as np
from msgspec import Struct, structs

from rightful import times, wire
from rightful.errors import InvalidEventError, PolicyError, UsageError
from rightful.events import BalanceOpened
from rightful.policies import Policy, TimeDecay
from rightful.projections.clock import latest_at_us
from rightful.projections.facts import Facts
from rightful.projections.projected import Projected
from rightful.projections.scene import BINS
from rightful.reports import opening, target
from rightful.reports.beliefs import Beliefs, beliefs_of, digest_of, numbers_of, with_opening
from rightful.reports.publications import Published, in_force, publications
from rightful.reports.target import Seen
from rightful.reports.tool_forms import FORMS, NOTHING, Form, State, read

VERSION = 1
"""Version of a plan's form."""

SHARE = 0.1
"""Part of the grades that may end in another bin than `FINE` before a plan is refused."""

FINE = ("credited", "empty", "retracted")
"""The bins that say nothing against writing a posterior."""

_EXAMPLES = 3

Old = Literal["counted", "rebuilt", "kept"]
"""What becomes of the file's old numbers: they count; they are left out, and the log alone
counts; or those that stood before our last publication count, and what the tool did since does not."""


class Books(NamedTuple):
    """The ledger, as a backfill needs it.

    Attributes:
        projected: Its projections, and through them its log.
        folder: Its folder.
        id: Its own UUID.
    """

    projected: Projected
    folder: Path
    id: str


class Asked(NamedTuple):
    """What a plan is asked for.

    Attributes:
        target: The file, as it was named.
        reader: Whose form it takes; a name of `FORMS`.
        policy: The rule.
        as_of: A position or a time; None for the whole ledger.
        decay_at: The time of the decay; None for the latest event's.
        old: What becomes of the file's old numbers.
        force: Apply it though the check says no.
    """

    target: str
    reader: str
    policy: Policy
    as_of: int | str | None = None
    decay_at: str | None = None
    old: Old = "counted"
    force: bool = False


class ArmChange(Struct, frozen=True):
    """What changes of one arm.

    Attributes:
        arm: The arm.
        old: (alpha, beta) that the file has; None for a new arm.
        new: (alpha, beta) that it will have; None for an arm that goes.
        delta_mean: New mean less old mean, an arm without numbers at its prior; reward, -1 to 1.
        n: Credits, undecayed; 0 for an arm that goes.
    """

    arm: str
    old: tuple[float, float] | None
    new: tuple[float, float] | None
    delta_mean: float
    n: int


class Uncredited(Struct, frozen=True):
    """Grades that credit nobody, of one bin.

    Attributes:
        count: How many.
        sessions: A few of their sessions.
    """

    count: int
    sessions: tuple[str, ...]


class Plan(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `apply` will write, and why. A JSON document.

    Attributes:
        version: `VERSION` of the program that made it.
        ledger: The ledger's id.
        target: The file's real path.
        reader: Whose form it takes.
        asked: The hash of the policy that was asked for.
        policy: The policy in force, completed: as asked, but for the balances.
        policy_hash: Its hash.
        through: The position that it is computed through.
        decay_at: The time of the decay; None in an empty ledger.
        digest: SHA-256 of the sufficient statistics.
        previous_sha256: Of the bytes that stand there; None where there is no file.
        new_sha256: Of the bytes that will stand there.
        supersedes: The publication of this target before this one.
        old: What becomes of the file's old numbers.
        opens: The id of the `balance.opened` that apply appends first; None where none is needed.
        forced: Whether it is applied though it is refused.
        refusals: Why it is not applied, unless forced.
        notes: What else there is to know.
        grades: How many grades the policy looked at.
        in_balance: How many of them the file's old numbers contain, so that they are not repaired.
        uncredited: By bin, the grades that credit nobody.
        changes: The arms that change, the largest change of the mean first.
        unchanged: How many arms stay as they are.
    """

    version: int
    ledger: str
    target: str
    reader: str
    asked: str
    policy: Policy
    policy_hash: str
    through: int
    decay_at: str | None
    digest: str
    previous_sha256: str | None
    new_sha256: str
    supersedes: str | None
    old: Old
    opens: str | None
    forced: bool
    refusals: tuple[str, ...]
    notes: tuple[str, ...]
    grades: int
    in_balance: int
    uncredited: dict[str, Uncredited]
    changes: tuple[ArmChange, ...]
    unchanged: int

    def document(self) -> bytes:
        """Return the plan as a JSON document."""
        said = msgspec.to_builtins(self) | {"policy": self.policy.as_dict()}
        return msgspec.json.format(msgspec.json.encode(said), indent=2) + b"\n"


def plan_from(document: bytes, name: str) -> Plan:
    """Return the plan of a document.

    Raises:
        UsageError: It is no plan, or one of another version.
    """
    try:
        found = msgspec.json.decode(document, type=Plan)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{name} is no plan of a backfill ({error}); nothing was written. Plan again.") from None
    if found.version != VERSION or found.reader not in FORMS or found.policy.hash != found.policy_hash:
        raise UsageError(f"{name} is a plan of another program version, or was changed; nothing was written.")
    return found


class Computed(NamedTuple):
    """A plan with the bytes that it is about.

    Attributes:
        plan: The plan.
        data: The new bytes.
        opened: The opening of the target's balance; None where none is needed.
    """

    plan: Plan
    data: bytes
    opened: opening.Wire | None


def planned(books: Books, asked: Asked) -> Computed:
    """Return what a file will hold, and what becomes of what it holds. Nothing is written.

    Raises:
        TargetError: The file is torn, is no bandit state, or its folder does not exist.
        UsageError: There is no such reader, or nothing was published whose opening could be kept.
        PolicyError: The policy names the balances that count, and the old numbers are to be left out.
    """
    if asked.reader not in FORMS:
        raise UsageError(f"there is no reader {asked.reader!r}; there are {', '.join(FORMS)}")
    real = target.resolved(asked.target)
    seen = target.look(real)
    through = books.projected.prefix(asked.as_of)
    facts, log = books.projected.facts, books.projected.log
    at_us = latest_at_us(log, facts, through) if asked.decay_at is None else times.us_from(asked.decay_at)
    chain = publications(log, real)[real]
    opens = _opens(facts, through, real, seen, chain, asked.old)
    return _computed(
        books, asked.reader, real, seen,
        _Rule(_effective(asked, facts, real), asked.policy.hash, through, at_us, asked.old, opens, asked.force,
              chain[-1].id if chain else None),
    )  # fmt: skip


def recomputed(books: Books, plan: Plan, seen: Seen) -> Computed:
    """Return what a plan says once more, from what it names and the bytes that it was made for."""
    books.projected.prefix(plan.through)
    at_us = 0 if plan.decay_at is None else times.us_from(plan.decay_at)
    rule = _Rule(
        plan.policy, plan.asked, plan.through, at_us, plan.old, plan.opens is not None, plan.forced, plan.supersedes
    )
    return _computed(books, plan.reader, plan.target, seen, rule)


class _Rule(NamedTuple):
    """All that decides about the new bytes but the file's own."""

    policy: Policy
    asked: str
    through: int
    decay_at_us: int
    old: Old
    opens: bool
    force: bool
    supersedes: str | None


def _opens(facts: Facts, through: int, real: str, seen: Seen, chain: list[Published], old: Old) -> bool:
    """Say whether the file's bytes are opened as a balance: nobody has, and they are not ours."""
    ours = {one.new for one in chain if one.rolled_back is None and one.position <= through}
    ours |= {sha256 for position, sha256 in facts.published if position <= through}
    if old == "kept" and not in_force(chain):
        raise UsageError(
            f"nothing that was published to {real} is in force, so there are no updates since; nothing was planned. "
            f"Leave --drop-updates out."
        )
    known = {one.sha256 for one in facts.balances if one.source == real and one.position <= through}
    return seen.data is not None and old != "kept" and seen.sha256 not in ours | known


def _effective(asked: Asked, facts: Facts, real: str) -> Policy:
    """Return the policy with the balances that belong into this file."""
    policy = asked.policy
    if asked.old == "rebuilt":
        if policy.balances:
            raise PolicyError("`--rebuild` leaves all balances out, and this policy names some - at `$.balances`")
        return structs.replace(policy, balances=())
    if policy.balances is None and any(one.source != real for one in facts.balances):
        return structs.replace(policy, balances=(glob.escape(real),))
    return policy


def _computed(books: Books, reader: str, real: str, seen: Seen, rule: _Rule) -> Computed:
    form = FORMS[reader]
    state = NOTHING if seen.data is None else read(real, seen.data)
    wired = opening.opening_of(real, seen.data, seen.mtime_us) if seen.data is not None and rule.opens else None
    facts, events = books.projected.facts, _openings(books, rule.through)
    opened_id = None
    if wired is not None:
        try:
            checked = wire.check(wired)
        except InvalidEventError as error:
            raise opening.refused(real, error) from None
        assert isinstance(checked.event, BalanceOpened), "an opening opens a balance"
        facts, events[0], opened_id = with_opening(facts, checked.event), checked.event, checked.id
    found = beliefs_of(facts, rule.policy, rule.through, rule.decay_at_us, events)
    data = _bytes(books, form, state, found, rule)
    said = _said(form, real, state, read(real, data), found, rule, seen)
    plan = Plan(
        version=VERSION, ledger=books.id, target=real, reader=reader,
        asked=rule.asked, policy=rule.policy, policy_hash=rule.policy.hash, through=rule.through,
        decay_at=times.text_of(rule.decay_at_us) if rule.decay_at_us else None, digest=digest_of(found),
        previous_sha256=seen.sha256, new_sha256=target.sha256(data), supersedes=rule.supersedes,
        old=rule.old, opens=opened_id, forced=rule.force, refusals=said.refusals, notes=said.notes,
        grades=len(found.settlement.unit_bin), in_balance=found.posteriors.counters.get("in_balance_grades", 0),
        uncredited=_uncredited(found), changes=said.changes, unchanged=said.unchanged,
    )  # fmt: skip
    return Computed(plan, data, wired)


def _openings(books: Books, through: int) -> dict[int, BalanceOpened]:
    rows = books.projected.log.read(types=["balance.opened"], until=through)
    return {row.position: row.event for row in rows if isinstance(row.event, BalanceOpened)}


def _bytes(books: Books, form: Form, state: State, found: Beliefs, rule: _Rule) -> bytes:
    arms = [arm for arm in found.posteriors.arms if form.takes(arm)]
    counts = rule.old != "rebuilt" and bool(state.top)
    said = (state.top.get("created"), state.top.get("last_updated"))
    created, updated = (text if isinstance(text, str) else None for text in said)
    if created is None:
        first = [row.envelope.at_us for page in books.projected.log.scan(0, min(rule.through, 1)) for row in page]
        created = times.at_of(first[0] if first else 0).isoformat()
    return form.bytes_of(state, numbers_of(found, arms, created=created, updated=updated if counts else None))


class _Said(NamedTuple):
    refusals: tuple[str, ...]
    notes: tuple[str, ...]
    changes: tuple[ArmChange, ...]
    unchanged: int


def _said(form: Form, real: str, state: State, new: State, found: Beliefs, rule: _Rule, seen: Seen) -> _Said:
    changes, unchanged = _changes(state, new, found)
    refusals = tuple(_refusals(form, state, found))
    return _Said(refusals, tuple(_notes(form, real, state, new, found, rule, seen)), changes, unchanged)


def _changes(state: State, new: State, found: Beliefs) -> tuple[tuple[ArmChange, ...], int]:
    prior = found.posteriors.policy.prior
    rows, unchanged = [], 0
    for arm in state.arms | new.arms:
        old_pair, new_pair = state.numbers(arm), new.numbers(arm)
        if old_pair == new_pair:
            unchanged += 1
            continue
        delta = _mean(new_pair or prior) - _mean(old_pair or prior)
        belief = found.posteriors.arms.get(arm)
        n = belief.n if belief is not None and new_pair is not None else 0
        rows.append(ArmChange(arm, old_pair, new_pair, delta, n))
    return tuple(sorted(rows, key=lambda one: (-abs(one.delta_mean), one.arm))), unchanged


def _mean(pair: tuple[float, float]) -> float:
    return pair[0] / (pair[0] + pair[1])


def _uncredited(found: Beliefs) -> dict[str, Uncredited]:
    """Return the grades that credit nobody, by bin, with a few of their sessions."""
    settled, facts = found.settlement, found.facts
    out: dict[str, Uncredited] = {}
    for number, name in enumerate(BINS[1:], 1):
        units = np.flatnonzero(settled.unit_bin == number)
        if len(units):
            rows = settled.unit_grade[units[:_EXAMPLES]]
            sessions = tuple(facts.names.texts[at].lstrip("\0") for at in facts.grades["name"][rows].tolist())
            out[name.replace("_", "-")] = Uncredited(len(units), sessions)
    return out


def _refusals(form: Form, state: State, found: Beliefs) -> Iterator[str]:
    mixed = list(form.mix(state))
    if mixed:
        more = f", and {len(mixed) - _EXAMPLES:,} more" if len(mixed) > _EXAMPLES else ""
        yield (
            f"the file mixes forms: {'; '.join(mixed[:_EXAMPLES])}{more}, which {form.name} does not take; "
            f"forced, that is dropped"
        )
    total = len(found.settlement.unit_bin)
    other = {name: one.count for name, one in _uncredited(found).items() if name not in FINE}
    if sum(other.values()) > SHARE * total:
        bins = ", ".join(f"{count:,} {name}" for name, count in other.items())
        share = f"{sum(other.values()):,} of {total:,} grades"
        yield f"{share} are neither credited nor empty nor retracted ({bins}), and at most {SHARE:.0%} may be"


def _notes(form: Form, real: str, state: State, new: State, found: Beliefs, rule: _Rule, seen: Seen) -> Iterator[str]:
    arms = found.posteriors.arms
    foreign = [arm for arm in arms if not form.takes(arm)]
    if foreign:
        yield f"arms of the ledger that are another tool's stay out: {len(foreign):,}, such as {foreign[0]}"
    written = [arm for arm in arms if form.takes(arm)]
    if written and not any(map(form.looks_up, written)):
        yield (
            f"no arm has the form that {form.name} looks up ({form.asks_for}), so it will find none of them; "
            f"name such arms in the policy's arm_aliases"
        )
    if lost := list(_lost(state, new)):
        yield f"dropped: {'; '.join(lost)}"
    if rule.policy.hash != rule.asked and rule.old != "rebuilt":
        yield "opening balances of other files do not count here: the policy in force names this file's alone"
    held = {one.sha256 for one in found.facts.balances if one.source == real}
    counted = {one.sha256 for one in found.openings if one.source == real}
    if rule.old == "counted" and seen.sha256 in held - counted:
        yield "the file's old numbers do not count: the policy, or a later state of this file that was opened, decides"
    if any(one.through is None for one in found.openings):
        yield "the file gives no time, so grades that its old numbers contain count again; --rebuild leaves those out"
    if isinstance(rule.policy.decay, TimeDecay):
        yield f"decayed as of {times.text_of(rule.decay_at_us)}"


def _lost(state: State, new: State) -> Iterator[str]:
    """Yield what stands in the file and will not: keys of arms that stay, and of the file itself."""
    for arm in state.arms.keys() & new.arms.keys():
        if keys := state.arms[arm].keys() - new.arms[arm].keys() - {"lesson_path"}:
            yield f"{', '.join(sorted(keys))} of {arm}"
    if keys := state.top.keys() - new.top.keys() - {"contextual_arms"}:
        yield f"{', '.join(sorted(keys))} of the file"
