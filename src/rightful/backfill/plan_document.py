"""A plan of a backfill: the document that says what `apply` will write, and why."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec
from msgspec import Struct

from rightful.errors import UsageError
from rightful.importers.bandits.bandit_formats import FORMATS
from rightful.policies import Policy

VERSION = 2
"""Version of a plan's form."""

Old = Literal["counted", "rebuilt", "kept"]
"""What becomes of the file's old numbers: they count; they are left out, and the log alone
counts; or those that stood before our last publication count, and what the tool did since does not."""


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
    """Grades of one bin that credit no arm: how many, and a few of their sessions."""

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
        previous_sha256: SHA-256 of the present bytes; None if there is no file.
        new_sha256: SHA-256 of the new bytes.
        supersedes: The publication of this target before this one.
        asked_as_of: The position or time that was asked for; None for the whole ledger.
        asked_decay_at: The time of the decay that was asked for; None for the latest event's.
        asked_old: What was asked for of the file's old numbers.
        old: What becomes of them: as asked, but `rebuilt` if the publication in place was.
        opens: The id of the `balance.opened` that apply appends first; None where none is needed.
        retires: The ids of the balances of the file whose numbers it will not contain any more: all where
            it is rebuilt, and those opened since the last publication where the tool's updates are dropped.
        until: Up to when the grades go that it will hold: the time of the latest; None where it holds none.
        counts: Whether the present numbers count, if old numbers count at all.
        updated: Whether a tool has written the file since the publication in force.
        forced: Whether it is applied though it is refused.
        refusals: Why it is not applied, unless forced.
        notes: What else there is to know.
        grades: How many grades the policy looked at.
        in_balance: How many of them the file's old numbers contain, so that they are not repaired.
        uncredited: By bin, the grades that credit no arm.
        changes: The arms that change, the largest change of the mean first.
        unchanged: How many arms do not change.
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
    asked_as_of: int | str | None
    asked_decay_at: str | None
    asked_old: Old
    old: Old
    opens: str | None
    retires: tuple[str, ...]
    until: str | None
    counts: bool = True
    updated: bool = False
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


class _Versioned(Struct, frozen=True):
    version: int | None = None


def plan_from(document: bytes, name: str) -> Plan:
    """Return the plan of a document.

    Raises:
        UsageError: It is not a plan, or has another version.
    """
    try:
        version = msgspec.json.decode(document, type=_Versioned).version
        if version not in {None, VERSION}:
            raise UsageError(f"{name} is a plan of another program version; nothing was written. Plan again.")
        found = msgspec.json.decode(document, type=Plan)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{name} is not a plan of a backfill ({error}); nothing was written. Plan again.") from None
    if found.reader not in FORMATS or found.policy.hash != found.policy_hash:
        raise UsageError(f"{name} was not made by this program, or was changed; nothing was written. Plan again.")
    return found


def difference(plan: Plan, found: Plan) -> str | None:
    """Return the first field in which two plans differ, if any; notes are not compared, as nothing depends on them."""
    names = (name for name in plan.__struct_fields__ if name != "notes")
    return next((name for name in names if getattr(plan, name) != getattr(found, name)), None)


class PlanRequest(NamedTuple):
    """What a plan is asked for.

    Attributes:
        target: The file, as it was named.
        reader: Whose form it takes; a name of `FORMATS`.
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


class Rule(NamedTuple):
    """All that decides about the new bytes but the file's own; the fields that `Plan` has too mean the same.

    Attributes:
        asked: What was asked for.
        decay_at_us: The time of the decay; microseconds since 1970, UTC.
        opens: Whether the file's balance is opened by it.
        is_ours: Whether the file holds the beliefs of the publication in force.
        first_published: The position of the target's first publication in force; None if there is none.
    """

    asked: PlanRequest
    policy: Policy
    through: int
    decay_at_us: int
    old: Old
    opens: bool
    updated: bool
    is_ours: bool
    supersedes: str | None
    first_published: int | None
