"""What can happen: one frozen struct a fact, one tagged union of all of them.

A tag is never reused and a field never changes its meaning; a new field has a default. `Event`
holds what every fact has. msgspec checks the types and ranges when a fact enters
(`from_wire`), not when a struct is made, so the ledger checks structs too.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct, field

from rightful import limits
from rightful.parts import (
    Arm,
    ArmContext,
    Arms,
    BalanceArm,
    BalanceContext,
    Context,
    Count,
    Evidence,
    Gamma,
    Index,
    Producer,
    Relation,
    Rubric,
    Session,
    Sha256,
    Time,
    Turn,
    Unit,
    Word,
)


class Event(Struct, frozen=True, kw_only=True, tag_field="type", forbid_unknown_fields=True):
    """One immutable fact, in the past tense, written once by a producer.

    Attributes:
        producer: Who wrote it.
        at: When it happened, by the producer's clock; with an offset.
        key: The producer's stable key of the fact; the event id is derived from it.
        id: The event id, for a producer that has a UUID of its own; one of the two is needed.
        at_basis: `file` when `at` is a file's time: only an upper bound, never evidence.
        turn: The turn of the session it belongs to.
        index: Its place in the turn as the producer counts, from 0.
        alias: The session name was read from a sanitised form, so it never matches exactly.
        extra: What this version does not model; content.
    """

    CONTENT: ClassVar[tuple[str, ...]] = ("extra",)

    producer: Producer
    at: Time
    key: str | None = None
    id: str | None = None
    at_basis: Literal["file"] | None = None
    turn: Turn | None = None
    index: Index | None = None
    alias: bool = False
    extra: dict[str, Any] | None = None


class SessionEvent(Event, frozen=True, kw_only=True):
    """A fact of one session.

    Attributes:
        session: The session's name, `namespace:value`, exactly as its writer knows it.
    """

    session: Session


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
        exit_code: What its process returned; negative for a signal.
    """

    turns: Count | None = None
    exit_code: Annotated[int, Meta(ge=-(2**31), le=2**32)] | None = None


class SessionLinked(SessionEvent, frozen=True, kw_only=True, tag="session.linked"):
    """A run's own name (`session`) was joined to a name under which a tool knows it (`other`).

    It may be written before or after what it joins; replay gives the same.

    Attributes:
        other: The tool's name for the run.
        as_: How the two belong together; on the wire `as`.
        evidence: What the claim rests on. `cwd-window` loses to every other evidence.
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
    """Arms were put in front of a session. An empty list is a fact too: nothing was shown.

    Attributes:
        arms: What was shown, in order; an arm listed twice is one exposure, except under the
            `sequential` arithmetic, where it updates twice.
        withheld: What was eligible and held back, for causal estimates; never credited.
        context: The dimensions of a contextual bandit; None for a dimension not known.
    """

    arms: Arms
    withheld: Arms = ()
    context: Context | None = None


class GradeRecorded(SessionEvent, frozen=True, kw_only=True, tag="grade.recorded"):
    """A grader rewarded a session.

    The grade with the highest `seq` of one grader is the effective one, whatever order they
    arrive in. A grade is never changed: a regrade is a new event with a higher `seq`.

    Attributes:
        reward: The reward, 0 to 1, float64 exactly as the grader gave it; never clamped.
        outcome: A word that the policy maps to a reward; `reward` decides where both are given.
        seq: The grader's own revision number; compared only within one grader and run.
        rubric: What was graded. The grader is `producer/rubric`.
        per_arm: A judge's reward for single arms, 0 to 1; the others get `reward`.
        salience: How much each arm mattered, 0 to 1; a weight of evidence, never a reward.
        exposure_session: The session whose exposure earns it, when the grader knows better
            than its own name for the run. If that session shows no exposure, nobody is credited.
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
    """A grader took its grade back. It has a `seq` too; a later grade re-instates."""

    CONTENT: ClassVar[tuple[str, ...]] = ("extra", "reason")

    seq: Count
    rubric: Rubric = "overall"
    reason: str | None = None


class BanditDecayed(SessionEvent, frozen=True, kw_only=True, tag="bandit.decayed"):
    """Another updater decayed every arm toward its prior; for parity replays.

    Attributes:
        gamma: What alpha - 1 and beta - 1 were multiplied with; 0 to 1.
    """

    gamma: Gamma


class BanditPruned(SessionEvent, frozen=True, kw_only=True, tag="bandit.pruned"):
    """Another updater dropped arms from its state; for parity replays."""

    arms: tuple[Arm, ...] = ()
    contexts: tuple[ArmContext, ...] = ()


class BalanceOpened(Event, frozen=True, kw_only=True, tag="balance.opened"):
    """What a bandit file held when the ledger began; its history is not known.

    (alpha - 1, beta - 1, n) are added to the prior, undecayed. Of one source the newest counts.

    Attributes:
        arms: The state by arm.
        contexts: The state by arm and context.
        judge: A judge's counters by arm.
        sessions: The file's session total.
        through: Grades at or before this time are already in it, and are not credited again.
        source: Which file it is, in the importer's words.
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
"""Words in the `extra` of a publication by which its bytes are a tool's own: put back, or as they were opened."""


class PosteriorPublished(Event, frozen=True, kw_only=True, tag="posterior.published"):
    """A posterior was written to a file that a tool reads.

    Attributes:
        policy: The policy's hash.
        through: The position the posterior was computed through.
        decay_at: The time of its decay.
        digest: SHA-256 of its sufficient statistics.
        target: The file.
        new_sha256: SHA-256 of the bytes written.
        previous_sha256: SHA-256 of the bytes that stood there.
        supersedes: The event id of the publication it replaces.
    """

    policy: Sha256
    through: Count
    decay_at: Time | None = None
    digest: Sha256
    target: Annotated[str, Meta(min_length=1, max_length=limits.ARM_CHARS)]
    new_sha256: Sha256
    previous_sha256: Sha256 | None = None
    supersedes: str | None = None


class MessageRecorded(SessionEvent, frozen=True, kw_only=True, tag="message.recorded"):
    """Somebody said something. A longer text under the same id refines it.

    Attributes:
        role: `user`, `assistant`, `system` …
        content: Text, or a list of parts; content.
    """

    CONTENT: ClassVar[tuple[str, ...]] = ("extra", "content")

    role: Word
    content: Any = None


class ThoughtRecorded(SessionEvent, frozen=True, kw_only=True, tag="thought.recorded"):
    """The model thought aloud."""

    CONTENT: ClassVar[tuple[str, ...]] = ("extra", "content")

    content: Any = None


class UsageRecorded(SessionEvent, frozen=True, kw_only=True, tag="usage.recorded"):
    """What a turn used.

    Attributes:
        counts: Numbers by name (`input_tokens` …), in the producer's units; content.
    """

    CONTENT: ClassVar[tuple[str, ...]] = ("extra", "counts")

    counts: dict[str, Any]


class ErrorRecorded(SessionEvent, frozen=True, kw_only=True, tag="error.recorded"):
    """Something went wrong in the session."""

    CONTENT: ClassVar[tuple[str, ...]] = ("extra", "message")

    message: str | None = None


class ToolCallSnapshotted(SessionEvent, frozen=True, kw_only=True, tag="tool_call.snapshotted"):
    """One state of a tool call while it streams.

    Attributes:
        call: The call's own id.
        name: The tool, once it is known.
        arguments: What has arrived of them; content.
        complete: Nothing more will arrive; only an equal or older state may follow.
    """

    CONTENT: ClassVar[tuple[str, ...]] = ("extra", "arguments", "name")

    call: Word
    name: str | None = None
    arguments: Any = None
    complete: bool = False


class ToolResultSnapshotted(SessionEvent, frozen=True, kw_only=True, tag="tool_result.snapshotted"):
    """One state of a tool's result while it streams.

    Attributes:
        call: The id of the call it answers.
        output: What has arrived of it; content.
        is_error: The tool failed.
        complete: Nothing more will arrive.
    """

    CONTENT: ClassVar[tuple[str, ...]] = ("extra", "output")

    call: Word
    output: Any = None
    is_error: bool = False
    complete: bool = False


class TurnEnded(SessionEvent, frozen=True, kw_only=True, tag="turn.ended"):
    """A turn closed; what the producer says it held.

    Attributes:
        event_count: How many events the producer counted in it.
        dropped_count: How many of them it knows it lost.
        previous: The turn before it.
    """

    turn: Turn
    stop_reason: Word | None = None
    event_count: Count | None = None
    dropped_count: Count | None = None
    previous: Turn | None = None


class EventWithdrawn(SessionEvent, frozen=True, kw_only=True, tag="event.withdrawn"):
    """One revision of another event was withdrawn, which settles its conflict.

    The withdrawal's own id comes from its `key`.

    Attributes:
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
)
"""Every kind of event; `match` on it closes with `assert_never`."""

TYPES: dict[str, type[Event]] = {str(kind.__struct_config__.tag): kind for kind in AnyEvent.__args__}
"""The struct of each type name."""
