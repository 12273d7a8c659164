"""Tokens: what a reader of a history had in front of it, in a form that can be written down and used elsewhere.

A token is a position, so it is good in another thread, process or machine, and after a restart. Nothing is held
while it is kept: whoever uses it is told if the history has changed in a way that matters.
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
    """A batch of items that the holder of a token appended.

    Attributes:
        id: The event id of the batch.
        count: How many items it has; their ids are (id, 0) to (id, count - 1).
    """

    id: Uuid
    count: Annotated[int, Meta(ge=1, le=limits.SEQ_MAX)]


class Without(NamedTuple):
    """What counts as never done: the calls of a run from an ordinal on, and its compactions after a number of them.

    Attributes:
        run: The key of the run.
        ordinal: The first call that counts as never done.
        compactions: How many compactions count that the run made after the call before that one.
    """

    run: str
    ordinal: int
    compactions: int = 0


class Token(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a view of a history showed: all of it, or its last items, and what its holder has appended since.

    Attributes:
        session: Whose history.
        position: The position through which the view was folded.
        ledger: The id of the ledger; a token of another one is refused.
        limit: How many items the view was limited to; None if it was not.
        wrote: What its holder has appended since, in order.
        void: Why nothing can be compacted with it; None if it can.
        without: A run and an ordinal: what that run did from there on was not in the view.
        compactions: How many compactions at that ordinal the view counted.
        commitment: That of the row at `position`, in hexadecimal; empty at position 0, and in tokens of version 1.
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
        """Set the version of the written form by what the token holds."""
        msgspec.structs.force_setattr(self, "v", 2 if self.commitment else 1)

    def key(self) -> str:
        """Return the text from which event ids are derived: the same for one read, with its commitment or without."""
        return msgspec.structs.replace(self, commitment="").text()

    def text(self) -> str:
        """Return the token written down: JSON on one line, which `of` reads."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def of(cls, text: str) -> Self:
        """Return a token that was written down.

        Raises:
            UsageError: It is no token, or one of a newer version.
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
    """Return the version that a token says it has, whatever else it holds; 1 if it says none."""
    try:
        return msgspec.json.decode(text, type=_Versioned).v
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError, TypeError):
        return 1


class Batch(Struct, frozen=True, kw_only=True):
    """What is known of a batch of items beside the items.

    Attributes:
        run: The key of the run that appends. With `ordinal`, the call can be repeated, in any process.
        ordinal: Which call of that run it is, from 0.
        response_id: The provider's id of the response that they came with.
        agent: Which agent spoke.
        usage: What the response used.
        covered: Which items of the view the model is proven to have seen when it gave that response.
    """

    run: Word | None = None
    ordinal: Count | None = None
    response_id: Word | None = None
    agent: str | None = None
    usage: dict[str, Any] | None = None
    covered: Covers = ()
