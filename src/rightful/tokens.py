"""Tokens: a reader's view of a history, in a form that can be stored and used elsewhere.

A token contains a position, so it is valid in another thread, process or machine, and after a restart. It locks
nothing. Its use fails if the history has changed in a way that matters.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple, Self

import msgspec
from msgspec import Meta, Struct

from rightful import limits
from rightful.errors import UsageError
from rightful.field_types import Count, Covers, Session, Uuid, Word

VERSION = 2
"""Newest version of the written form. Version 1 has no commitment."""


class Wrote(Struct, frozen=True, array_like=True, gc=False):
    """A batch of items that the reader appended after reading.

    Attributes:
        id: The event id of the batch.
        count: How many items it has; their ids are (id, 0) to (id, count - 1).
    """

    id: Uuid
    count: Annotated[int, Meta(ge=1, le=limits.SEQ_MAX)]


class Without(NamedTuple):
    """Calls to treat as never made: those of a run from an ordinal on, and its compactions after a number of them.

    Attributes:
        run: The key of the run.
        ordinal: The first call to treat as never made.
        compactions: How many of the compactions count that the run made after the last call that counts.
    """

    run: str
    ordinal: int
    compactions: int = 0


class Token(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A view of a history: all of it or its last items, and the batches that the reader has appended since.

    Attributes:
        session: The session of the history.
        position: The position through which the view was folded.
        ledger: The id of the ledger; a token of another one is refused.
        limit: The maximum number of items of the view; None if there was no limit.
        wrote: The batches that the reader has appended since, in order.
        void: Why nothing can be compacted with this token; None if it can.
        without: A run and an ordinal: the view omitted that run's calls from that ordinal on.
        compactions: How many compactions at that ordinal the view included.
        commitment: The commitment of the row at `position`, in hexadecimal; empty at position 0, and in version 1.
            Another row at that position (after a power cut, or a restored backup) makes the token stale.
        v: The version of the written form: 2 with a commitment, else 1.
    """

    session: Session
    position: Count
    ledger: str = ""
    limit: Count | None = None
    wrote: tuple[Wrote, ...] = ()
    void: Word | None = None
    without: tuple[Word, Count] | None = None
    compactions: Count = 0
    commitment: str = ""
    v: Annotated[int, Meta(ge=1, le=VERSION)] = 1

    def __post_init__(self) -> None:
        """Set the version of the written form, which depends on the commitment."""
        msgspec.structs.force_setattr(self, "v", 2 if self.commitment else 1)

    def key(self) -> str:
        """Return the text from which event ids are derived: equal for one view, with or without the commitment."""
        return msgspec.structs.replace(self, commitment="").text()

    def text(self) -> str:
        """Return the written form: JSON on one line, which `of` parses."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def of(cls, text: str) -> Self:
        """Parse the written form of a token.

        Raises:
            UsageError: It is not a token, or its version is newer than this program.
        """
        try:
            return msgspec.json.decode(text, type=cls)
        except (msgspec.DecodeError, UnicodeEncodeError, TypeError):
            version = _version(text)
            if version > VERSION:
                why = f"This token has version {version}, newer than this program. Upgrade, or read the history again."
                raise UsageError(why) from None
            raise UsageError(
                "Invalid token. Pass the text that `Token.text()` returned, or read the history again to get one."
            ) from None


class _Versioned(Struct):
    v: int = 1


def _version(text: str) -> int:
    """Return the version field of a token, whatever else it contains; 1 if there is none."""
    try:
        return msgspec.json.decode(text, type=_Versioned).v
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError, TypeError):
        return 1


class Batch(Struct, frozen=True, kw_only=True):
    """Optional metadata of a batch of items.

    Attributes:
        run: The key of the run that appends. Together with `ordinal` it makes the call repeatable, in any process.
        ordinal: Which call of that run it is, from 0.
        response_id: The provider's id of the response that they came with.
        agent: Which agent spoke.
        usage: What the response used.
        covered: The items of the view that the model is proven to have seen when it gave that response.
    """

    run: Word | None = None
    ordinal: Count | None = None
    response_id: Word | None = None
    agent: str | None = None
    usage: dict[str, Any] | None = None
    covered: Covers = ()
