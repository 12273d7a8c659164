"""Recognise the kind of a file by its first object that only one tool writes, however late that object comes.

A kind recognises an object only by fields that no other tool writes (`Kind.recognises`). A file without such an object
has no kind, even if the user named one, so that sessions of another tool cannot enter the ledger under a wrong name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from rightful import limits
from rightful.importers.engine.other_tools import shape_of
from rightful.importers.sources.text_files import Found, Problem

if TYPE_CHECKING:
    from rightful.importers.engine.formats import Kind, Origin

ONLY = "only its first"
"""Prefix of the note that the rest of a file was not examined."""

_BUFFERED = 32  # objects buffered until one is recognised; a later object is replaced by a problem


class Recognition(NamedTuple):
    """The result of examining the beginning of a file.

    Attributes:
        kind: The kind of the file; None if no object proves one.
        items: All items of the file, including those that were examined.
        refusal: Why the file is not of the kind that the user named, if known.
        rival: The kind that a skipped file of a folder has instead, if known.
    """

    kind: Kind | None
    items: Iterator[Found | Problem]
    refusal: Problem | None = None
    rival: Kind | None = None


def recognise(
    kinds: list[Kind], origin: Origin, items: Iterator[Found | Problem], others: Callable[[], Iterable[Kind]]
) -> Recognition:
    """Return the kind of the first object that proves one.

    The search ends at the first object of another kind, or of a tool that this version does not import.
    An object beyond the first few is replaced by a problem, so that the file is never held in memory.

    Args:
        kinds: The accepted kinds.
        origin: Where the file is, and whether the user named it.
        items: The objects and problems of the file.
        others: Returns all kinds. Called for each object of a file for which the user named one kind, until one fits.
            In a folder, they are only compared with the first objects of a file that is skipped.
    """
    rivals = others if origin.is_named and len(kinds) == 1 else list
    head: list[Found | Problem] = []
    for count, item in enumerate(items, 1):
        head.append(item)
        if isinstance(item, Found):
            if (proven := _first(kinds, item)) is not None:
                return Recognition(proven, chain(head, items))
            if shape_of(item.value) is not None:
                return Recognition(None, iter([item]))
            if (rival := _first(rivals(), item)) is not None:
                what = f"this looks like a file of kind {rival.NAME}, not {kinds[0].NAME}; nothing was imported from it"
                problem = Problem(item.line, f"{what}. Import it as {rival.NAME}, or as auto")
                return Recognition(None, iter(()), problem)
            if count > _BUFFERED:
                head[-1] = Problem(item.line, mismatch_text(item, kinds))
        if count == limits.FOREIGN_OBJECTS:
            what = f"{ONLY} {count:,} objects were examined"
            more = [Problem(None, what, lost=False)] * any(True for _ in items)
            return Recognition(None, chain(head, more), rival=_rival(kinds, head, others))
    is_alone = origin.is_named and len(kinds) == 1
    accepted = kinds[0] if is_alone and _is_emptied(head) else None
    return Recognition(accepted, iter(head), rival=_rival(kinds, head, others))


def _rival(kinds: list[Kind], head: list[Found | Problem], others: Callable[[], Iterable[Kind]]) -> Kind | None:
    """Return the kind of a file that is not of the only accepted kind."""
    if len(kinds) != 1:
        return None
    return next((kind for item in head if isinstance(item, Found) and (kind := _first(others(), item))), None)


def _is_emptied(head: list[Found | Problem]) -> bool:
    """Return whether a file is empty or has only one incomplete line, as while its tool rewrites it."""
    return len(head) <= 1 and all(isinstance(item, Problem) for item in head)


def _first(kinds: Iterable[Kind], found: Found) -> Kind | None:
    for kind in kinds:
        if kind.recognises(found.value):
            return kind
    return None


def kinds_text(kinds: list[Kind]) -> str:
    """Return how a message names the accepted kinds."""
    return f"kind {kinds[0].NAME}" if len(kinds) == 1 else "a known kind"


def mismatch_text(found: Found, kinds: list[Kind]) -> str:
    """Return the text that says that an object is of none of these kinds."""
    keys = ", ".join(f"`{key[:32]}`" for key in islice(found.value, 5)) or "no keys"
    return f"an object with {keys} is not of {kinds_text(kinds)}"
