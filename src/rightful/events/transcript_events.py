"""What a session said and did, and where the file that tells of it stands."""

from __future__ import annotations

from typing import Any, ClassVar

from rightful.events.base import SessionEvent
from rightful.field_types import Count, Evidence, Sha256, Time, Turn, Uri, Word

OVERWRITING = "overwriting-store"
"""The name of a `data.recorded` by which a producer says that its source overwrites records by their id.

The index of what was overwritten is nowhere then, so a gap proves no loss."""

REPEATED = "repeated"
"""The name of a `data.recorded` that stands at the place of a repeat, which the ledger does not store twice."""


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
    """What a turn or one response used.

    Attributes:
        counts: Numbers by name (`input_tokens` …), in the producer's units; content.
        of: What it counts: the id of a response or a message. Of several events of the same the last
            number of each name counts by their index, and without an index the largest. None for the turn.
        cumulative: It counts since the session began, so it is no part of a sum.
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
    """The session asked somebody: for an approval, an input, or that a client runs a tool.

    Attributes:
        interaction: The request's own id.
        kind: What was asked for, in the producer's word (`user_approval` …).
        payload: What was asked; content.
    """

    CONTENT: ClassVar[tuple[str, ...]] = ("extra", "payload")

    interaction: Word
    kind: Word | None = None
    payload: Any = None


class InteractionAnswered(SessionEvent, frozen=True, kw_only=True, tag="interaction.answered"):
    """Somebody answered what the session had asked.

    Attributes:
        interaction: The id of the request it answers.
        kind: What was asked for, in the producer's word.
        payload: The answer; content.
    """

    CONTENT: ClassVar[tuple[str, ...]] = ("extra", "payload")

    interaction: Word
    kind: Word | None = None
    payload: Any = None


class DataRecorded(SessionEvent, frozen=True, kw_only=True, tag="data.recorded"):
    """Something that a tool's record holds and that is no part of the conversation.

    Attributes:
        name: What it is, in the tool's word (`ai-title`, `file`, `turn_context` …).
        data: What it says; content.
    """

    CONTENT: ClassVar[tuple[str, ...]] = ("extra", "data")

    name: Word
    data: Any = None


class TranscriptBound(SessionEvent, frozen=True, kw_only=True, tag="transcript.bound"):
    """A transcript was found to be this session's, and what it was found by.

    Attributes:
        uri: Where it stands; a `file:` URI of its absolute path.
        bytes: How long it was.
        sha256: SHA-256 of those first `bytes` bytes, in hexadecimal.
        evidence: What the claim rests on.
        started_at: When the transcript itself says that it began.
    """

    uri: Uri
    bytes: Count
    sha256: Sha256
    evidence: Evidence
    started_at: Time | None = None


class TranscriptUnbound(SessionEvent, frozen=True, kw_only=True, tag="transcript.unbound"):
    """The earlier bindings of this session to a transcript were withdrawn; a later one may bind it again.

    Attributes:
        uri: Where the transcript stood.
    """

    uri: Uri
