"""The events: one frozen struct for each kind of fact, and one tagged union of all of them.

A tag is never reused and a field never changes its meaning; a new field has a default. `Event`
has the fields that every fact has. msgspec checks the types and ranges when a fact enters
(`from_wire`), not when a struct is created, so the ledger checks structs too.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta, field

from rightful import limits
from rightful.events.base import Event, SessionEvent
from rightful.events.history_events import (
    CompactionDeferred,
    HandoffTaken,
    HandoffWritten,
    HistoryAppended,
    HistoryCleared,
    HistoryCompacted,
    HistoryForked,
    HistoryPopped,
)
from rightful.events.transcript_events import (
    DataRecorded,
    ErrorRecorded,
    InteractionAnswered,
    InteractionRequested,
    MessageRecorded,
    ThoughtRecorded,
    ToolCallSnapshotted,
    ToolResultSnapshotted,
    TranscriptBound,
    TranscriptUnbound,
    TurnEnded,
    UsageRecorded,
)
from rightful.field_types import (
    Arm,
    ArmContext,
    Arms,
    BalanceArm,
    BalanceContext,
    Context,
    Count,
    Evidence,
    Gamma,
    Relation,
    Rubric,
    Session,
    Sha256,
    Time,
    Unit,
    Word,
)

__all__ = [
    "NOT_OURS",
    "TYPES",
    "AnyEvent",
    "BalanceOpened",
    "BanditDecayed",
    "BanditPruned",
    "CompactionDeferred",
    "DataRecorded",
    "ErrorRecorded",
    "Event",
    "EventWithdrawn",
    "ExposureRecorded",
    "GradeRecorded",
    "GradeRetracted",
    "HandoffTaken",
    "HandoffWritten",
    "HistoryAppended",
    "HistoryCleared",
    "HistoryCompacted",
    "HistoryForked",
    "HistoryPopped",
    "InteractionAnswered",
    "InteractionRequested",
    "MessageRecorded",
    "PosteriorPublished",
    "SessionEnded",
    "SessionEvent",
    "SessionLinked",
    "SessionStarted",
    "SessionUnlinked",
    "ThoughtRecorded",
    "ToolCallSnapshotted",
    "ToolResultSnapshotted",
    "TranscriptBound",
    "TranscriptUnbound",
    "TurnEnded",
    "UsageRecorded",
]


class SessionStarted(SessionEvent, frozen=True, kw_only=True, tag="session.started"):
    """A session began.

    Attributes:
        run_nonce: A value drawn once per run. Two starts of one name with different nonces make
            its run ambiguous.
    """

    CONTENT: ClassVar[tuple[str, ...]] = ("extra", "harness", "model", "cwd", "work_item")

    harness: str | None = None
    model: str | None = None
    cwd: str | None = None
    work_item: str | None = None
    run_nonce: Word | None = None


class SessionEnded(SessionEvent, frozen=True, kw_only=True, tag="session.ended"):
    """A session ended.

    Attributes:
        turns: How many turns it had.
        exit_code: The exit code of its process; negative for a signal.
    """

    turns: Count | None = None
    exit_code: Annotated[int, Meta(ge=-(2**31), le=2**32)] | None = None


class SessionLinked(SessionEvent, frozen=True, kw_only=True, tag="session.linked"):
    """A run's own name (`session`) was joined to a name under which a tool knows it (`other`).

    It may be written before or after what it joins; replay gives the same.

    Attributes:
        other: The tool's name for the run.
        as_: How the two belong together; on the wire `as`.
        evidence: The evidence for the claim. `cwd-window` loses to every other evidence.
        note: For people.
    """

    CONTENT: ClassVar[tuple[str, ...]] = ("extra", "note")

    other: Session
    as_: Relation = field(name="as")
    evidence: Evidence
    note: str | None = None


class SessionUnlinked(SessionEvent, frozen=True, kw_only=True, tag="session.unlinked"):
    """The earlier links of this pair were withdrawn; a later link may join it again."""

    CONTENT: ClassVar[tuple[str, ...]] = ("extra", "note")

    other: Session
    as_: Relation | None = field(name="as", default=None)
    evidence: Evidence | None = None
    note: str | None = None


class ExposureRecorded(SessionEvent, frozen=True, kw_only=True, tag="exposure.recorded"):
    """Arms were shown to a session. An empty list is a fact too: nothing was shown.

    Attributes:
        arms: What was shown, in order; an arm listed twice is one exposure, except under the
            `sequential` arithmetic, where it updates twice.
        withheld: Arms that were eligible and withheld, for causal estimates; never credited.
        context: The dimensions of a contextual bandit; None for a dimension that is not known.
    """

    arms: Arms
    withheld: Arms = ()
    context: Context | None = None


class GradeRecorded(SessionEvent, frozen=True, kw_only=True, tag="grade.recorded"):
    """A grader rewarded a session.

    The grade with the highest `seq` of one grader is the effective one, in whatever order the grades
    arrive. A grade is never changed: a regrade is a new event with a higher `seq`.

    Attributes:
        reward: The reward, 0 to 1, float64 exactly as the grader gave it; never clamped.
        outcome: A word that the policy maps to a reward; `reward` has precedence if both are given.
        seq: The grader's own revision number; compared only within one grader and run.
        rubric: The criterion. The grader is `producer/rubric`.
        per_arm: A judge's reward for single arms, 0 to 1; the others get `reward`.
        salience: How much each arm mattered, 0 to 1; a weight of evidence, never a reward.
        exposure_session: The session whose exposure earns it, if the grader knows it better
            than its own name for the run. If that session has no exposure, no arm is credited.
        decay_rate: The global decay that another updater applied with this call; 0 to 1.
    """

    reward: Unit | None = None
    outcome: Word | None = None
    seq: Count
    rubric: Rubric = "overall"
    per_arm: dict[Arm, Unit] | None = None
    salience: dict[Arm, Unit] | None = None
    exposure_session: Session | None = None
    decay_rate: Gamma | None = None


class GradeRetracted(SessionEvent, frozen=True, kw_only=True, tag="grade.retracted"):
    """A grader retracted its grade. It has a `seq` too; a later grade reinstates."""

    CONTENT: ClassVar[tuple[str, ...]] = ("extra", "reason")

    seq: Count
    rubric: Rubric = "overall"
    reason: str | None = None


class BanditDecayed(SessionEvent, frozen=True, kw_only=True, tag="bandit.decayed"):
    """Another updater decayed every arm toward its prior; for parity replays.

    Attributes:
        gamma: The factor of alpha - 1 and beta - 1; 0 to 1.
    """

    gamma: Gamma


class BanditPruned(SessionEvent, frozen=True, kw_only=True, tag="bandit.pruned"):
    """Another updater dropped arms from its state; for parity replays."""

    arms: tuple[Arm, ...] = ()
    contexts: tuple[ArmContext, ...] = ()


class BalanceOpened(Event, frozen=True, kw_only=True, tag="balance.opened"):
    """The state of a bandit file when the ledger began; its history is not known.

    (alpha - 1, beta - 1, n) are added to the prior, undecayed. Of several balances of one source the newest counts.

    Attributes:
        arms: The state by arm.
        contexts: The state by arm and context.
        judge: A judge's counters by arm.
        sessions: The file's session total.
        through: Grades at or before it are already in the file, and are not credited again.
        source: Which file it is, named by the importer.
        sha256: SHA-256 of the file's bytes, in hexadecimal.
    """

    arms: dict[Arm, BalanceArm]
    contexts: tuple[BalanceContext, ...] = ()
    judge: dict[Arm, dict[str, Count]] | None = None
    sessions: Count | None = None
    through: Time | None = None
    source: Word
    sha256: Sha256


NOT_OURS = frozenset({"rollback", "opened"})
"""Keys in the `extra` of a publication whose bytes are a tool's own: rolled back, or as they were opened."""


class PosteriorPublished(Event, frozen=True, kw_only=True, tag="posterior.published"):
    """A posterior was written to a file that a tool reads.

    Attributes:
        policy: The policy's hash.
        through: The position the posterior was computed through.
        decay_at: The time of its decay.
        digest: SHA-256 of its sufficient statistics.
        target: The file.
        new_sha256: SHA-256 of the bytes written.
        previous_sha256: SHA-256 of the bytes before.
        supersedes: The event id of the publication it replaces.
        rules: Version of the rules of attribution that it was computed by; 1 if absent.
    """

    policy: Sha256
    through: Count
    decay_at: Time | None = None
    digest: Sha256
    target: Annotated[str, Meta(min_length=1, max_length=limits.ARM_CHARS)]
    new_sha256: Sha256
    previous_sha256: Sha256 | None = None
    supersedes: str | None = None
    rules: Annotated[int, Meta(ge=1, le=limits.SEQ_MAX)] | None = None


class EventWithdrawn(SessionEvent, frozen=True, kw_only=True, tag="event.withdrawn"):
    """One revision of another event was withdrawn, which settles its conflict.

    Attributes:
        key: The withdrawal's own id comes from it.
        id: The event whose revision is withdrawn.
        revision: Which revision, from 1.
    """

    key: str
    id: str
    revision: Annotated[int, Meta(ge=1, le=limits.SEQ_MAX)]


AnyEvent = (
    SessionStarted
    | SessionEnded
    | SessionLinked
    | SessionUnlinked
    | ExposureRecorded
    | GradeRecorded
    | GradeRetracted
    | BanditDecayed
    | BanditPruned
    | BalanceOpened
    | PosteriorPublished
    | MessageRecorded
    | ThoughtRecorded
    | UsageRecorded
    | ErrorRecorded
    | ToolCallSnapshotted
    | ToolResultSnapshotted
    | TurnEnded
    | EventWithdrawn
    | InteractionRequested
    | InteractionAnswered
    | DataRecorded
    | TranscriptBound
    | TranscriptUnbound
    | HistoryAppended
    | HistoryCompacted
    | HistoryPopped
    | HistoryCleared
    | HistoryForked
    | CompactionDeferred
    | HandoffWritten
    | HandoffTaken
)
"""Every kind of event; a `match` on it ends with `assert_never`."""

TYPES: dict[str, type[Event]] = {str(kind.__struct_config__.tag): kind for kind in AnyEvent.__args__}
"""The struct of each type name."""
