"""The field types of events: the forms of names and numbers, and the structs inside an event.

msgspec checks a form when a fact enters (`wire.check`), not when a struct is created.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from rightful import limits
from rightful.identity import PRODUCER, SESSION

Producer = Annotated[str, Meta(pattern=PRODUCER)]
Session = Annotated[str, Meta(pattern=SESSION)]
Time = Annotated[datetime, Meta(tz=True)]
Turn = Annotated[str, Meta(min_length=1, max_length=limits.TURN_CHARS)]
Index = Annotated[int, Meta(ge=0, le=limits.SEQ_MAX)]
Count = Annotated[int, Meta(ge=0, le=limits.SEQ_MAX)]
Unit = Annotated[float, Meta(ge=0.0, le=1.0)]
Gamma = Annotated[float, Meta(gt=0.0, le=1.0)]
Positive = Annotated[float, Meta(gt=0.0, le=1e15)]
Arm = Annotated[str, Meta(min_length=1, max_length=limits.ARM_CHARS)]  # `wire.check` refuses control characters
Word = Annotated[str, Meta(min_length=1, max_length=limits.WORD_CHARS)]
Rubric = Annotated[str, Meta(min_length=1, max_length=limits.WORD_CHARS, pattern=r"^[^/\x00-\x1f\x7f-\x9f]+\Z")]
Sha256 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
Uuid = Annotated[str, Meta(pattern=r"^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")]
Uri = Annotated[
    str, Meta(min_length=1, max_length=limits.URI_CHARS, pattern=r"^[A-Za-z][A-Za-z0-9+.-]*:[\x21-\x7e]+\Z")
]
Context = Annotated[tuple[str | None, ...], Meta(max_length=limits.CONTEXT_COUNT)]
Relation = Literal["native", "resume", "retry", "subagent"]
Evidence = Literal["native-id", "sentinel", "pointer", "directory", "cwd-window", "manual"]


class ArmShown(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """An arm shown to a session, or withheld from it.

    Attributes:
        arm: The arm's name as its writer knows it.
        p_inject: The probability with which it would have been injected, 0 to 1; None if it is not known.
    """

    arm: Arm
    p_inject: Unit | None = None


Arms = Annotated[tuple[ArmShown, ...], Meta(max_length=limits.ARMS_COUNT)]


class ArmContext(Struct, frozen=True, forbid_unknown_fields=True):
    """One arm in one context."""

    arm: Arm
    context: Context


class BalanceArm(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An arm's state in a bandit file.

    Attributes:
        alpha: As in the file, prior included.
        beta: As in the file, prior included.
        n: The number of times it was selected.
        rewards: The number of its rewards that the file counted as successes.
        last_updated: The text in the file.
    """

    alpha: Positive
    beta: Positive
    n: Count
    rewards: Count | None = None
    last_updated: str | None = None


class BalanceContext(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An arm's state in one context in a bandit file; see `BalanceArm`."""

    arm: Arm
    context: Context
    alpha: Positive
    beta: Positive
    n: Count
    rewards: Count | None = None
    last_updated: str | None = None


ItemId = tuple[Uuid, Count]
"""The id of one item of a history: the event that contains it, and its place in that event from 0."""


class ItemRange(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """Successive items of a history, both ends included.

    Attributes:
        first: The first item; the beginning of the history if None.
        last: The last item; the last one before the event that names the range if None.
    """

    first: ItemId | None = None
    last: ItemId | None = None


Items = ItemId | ItemRange
"""One item of a history, or a range of them."""

Covers = Annotated[tuple[Items, ...], Meta(max_length=limits.COVERS_COUNT)]
"""Items of a history, as single items and ranges."""


class HistoryRead(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a run had read of a history.

    Attributes:
        position: The position through which its view was folded.
        covered: The items of its view that the model is proven to have seen.
    """

    position: Count
    covered: Covers = ()


class FoundFacts(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Facts about a caller that were found independently of its arguments.

    Attributes:
        run_nonce: The nonce of its run.
        native_id: The id by which its agent tool knows the session.
        cwd: Its working folder; a `file:` URI.
    """

    run_nonce: Word | None = None
    native_id: Word | None = None
    cwd: Uri | None = None
