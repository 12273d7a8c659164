"""Events of a transcript: what a session said and did, and where its transcript file is."""

from __future__ import annotations

from typing import Any, ClassVar

from rightful.events.base import SessionEvent
from rightful.field_types import Count, Evidence, Sha256, Time, Turn, Uri, Word

OVERWRITING = "overwriting-store"
"""The name of a `data.recorded` by which a producer declares that its source overwrites records by their id.

The indexes of overwritten records are missing then, so a gap does not prove a loss."""

REPEATED = "repeated"
"""The name of a `data.recorded` at the place of a repeat, which the ledger does not store twice."""


class MessageRecorded(SessionEvent, frozen=True, kw_only=True, tag="message.recorded"):
    """A participant of the session said something. A longer text under the same id refines it.

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
    """What a turn or one response used.

    Attributes:
        counts: Numbers by name (`input_tokens` …), in the producer's units; content.
        of: What it counts: the id of a response or a message. Of several events with the same `of`, the last number
            of each name counts, by index; without an index the largest. Without `of` the turn is counted.
        cumulative: It counts since the session began, so it is not added up.
    """

    CONTENT: ClassVar[tuple[str, ...]] = ("extra", "counts")

    counts: dict[str, Any]
    of: Word | None = None
    cumulative: bool = False


class ErrorRecorded(SessionEvent, frozen=True, kw_only=True, tag="error.recorded"):
    """Something went wrong in the session."""

    CONTENT: ClassVar[tuple[str, ...]] = ("extra", "message")

    message: str | None = None


class ToolCallSnapshotted(SessionEvent, frozen=True, kw_only=True, tag="tool_call.snapshotted"):
    """One state of a tool call while it streams.

    Attributes:
        call: The call's own id.
        name: The tool, once it is known.
        arguments: The part that has arrived; content.
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
        output: The part that has arrived; content.
        is_error: The tool failed.
        complete: Nothing more will arrive.
    """

    CONTENT: ClassVar[tuple[str, ...]] = ("extra", "output")

    call: Word
    output: Any = None
    is_error: bool = False
    complete: bool = False


class TurnEnded(SessionEvent, frozen=True, kw_only=True, tag="turn.ended"):
    """A turn closed, with the producer's closing counts.

    Attributes:
        event_count: How many events the producer counted in it: their indexes are 0 to one less.
            This event itself counts only if it has an index.
        dropped_count: How many of them it knows it lost.
        previous: The turn before it.
    """

    turn: Turn
    stop_reason: Word | None = None
    event_count: Count | None = None
    dropped_count: Count | None = None
    previous: Turn | None = None


class InteractionRequested(SessionEvent, frozen=True, kw_only=True, tag="interaction.requested"):
    """The session requested an approval, an input, or that a client runs a tool.

    Attributes:
        interaction: The request's own id.
        kind: The kind of request, in the producer's term (`user_approval` …).
        payload: The request; content.
    """

    CONTENT: ClassVar[tuple[str, ...]] = ("extra", "payload")

    interaction: Word
    kind: Word | None = None
    payload: Any = None


class InteractionAnswered(SessionEvent, frozen=True, kw_only=True, tag="interaction.answered"):
    """A request of the session was answered.

    Attributes:
        interaction: The id of the request that it answers.
        kind: The kind of request, in the producer's term.
        payload: The answer; content.
    """

    CONTENT: ClassVar[tuple[str, ...]] = ("extra", "payload")

    interaction: Word
    kind: Word | None = None
    payload: Any = None


class DataRecorded(SessionEvent, frozen=True, kw_only=True, tag="data.recorded"):
    """Data of a tool's record that does not belong to the conversation.

    Attributes:
        name: What it is, in the tool's term (`ai-title`, `file`, `turn_context` …).
        data: Its content; content.
    """

    CONTENT: ClassVar[tuple[str, ...]] = ("extra", "data")

    name: Word
    data: Any = None


class TranscriptBound(SessionEvent, frozen=True, kw_only=True, tag="transcript.bound"):
    """A transcript was found to belong to this session, with the evidence.

    Attributes:
        uri: Its place: a `file:` URI of its absolute path.
        bytes: How long it was.
        sha256: SHA-256 of those first `bytes` bytes, in hexadecimal.
        evidence: The evidence for the claim.
        started_at: The start, according to the transcript itself.
    """

    uri: Uri
    bytes: Count
    sha256: Sha256
    evidence: Evidence
    started_at: Time | None = None


class TranscriptUnbound(SessionEvent, frozen=True, kw_only=True, tag="transcript.unbound"):
    """The earlier bindings of this session to a transcript were withdrawn. A later one may bind it again.

    Attributes:
        uri: The place of the transcript.
    """

    uri: Uri
