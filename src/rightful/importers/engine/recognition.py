"""Which kind a file is of: that of its first object that only one tool writes, however late it comes.

A kind recognises an object only by what no other tool writes (`Kind.recognises`). A file without such an object is of
no kind, whatever it was named to be, so that nobody else's sessions get into the ledger under a wrong name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from rightful import limits
from rightful.importers.engine.formats import is_placed
from rightful.importers.engine.other_tools import shape_of
from rightful.importers.sources.text_files import Found, Problem

if TYPE_CHECKING:
    from rightful.importers.engine.formats import Kind, Origin

ONLY = "only its first"
"""How the sentence begins that the rest of a file was not read."""

_BUFFERED = 32  # objects that are kept until one is recognised; of later ones only a problem is kept


class Recognition(NamedTuple):
    """What the beginning of a file showed.

    Attributes:
        kind: The kind of the file; None where no object proves one.
        items: All items of the file, those that were looked at included.
        refusal: Why a file is not of the kind that it was named to be, where that is known.
    """

    kind: Kind | None
    items: Iterator[Found | Problem]
    refusal: Problem | None = None


def recognise(
    kinds: list[Kind], origin: Origin, items: Iterator[Found | Problem], others: Callable[[], Iterable[Kind]]
) -> Recognition:
    """Return the kind of the file's place, or of the first object that proves one.

    The search ends at the first object that another kind, or a tool that this version does not import, proves its own.
    An object beyond the first few is kept as a problem only, so that the file is never in memory.

    Args:
        kinds: The kinds that may come.
        origin: Where the file is; its place may show its kind.
        items: What it holds.
        others: Returns all kinds; called for each object of a file that was named to be of one kind and is not yet.
    """
    for kind in kinds:
        if is_placed(kind) and kind.knows(origin.path):
            return Recognition(kind, items)
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
                return Recognition(None, iter(()), _of_another(item, kinds[0], rival))
            if count > _BUFFERED:
                head[-1] = Problem(item.line, mismatch_text(item, kinds))
        if count == limits.FOREIGN_OBJECTS:
            what = f"{ONLY} {count:,} objects were examined"
            return Recognition(None, chain(head, [Problem(None, what, lost=False)] * any(True for _ in items)))
    is_alone = origin.is_named and len(kinds) == 1
    return Recognition(kinds[0] if is_alone and _is_emptied(head) else None, iter(head))


def _is_emptied(head: list[Found | Problem]) -> bool:
    """Return whether a file is empty or holds one torn line only, as while its tool writes it over."""
    return len(head) <= 1 and all(isinstance(item, Problem) for item in head)


def _first(kinds: Iterable[Kind], found: Found) -> Kind | None:
    return next((kind for kind in kinds if kind.recognises(found.value)), None)


def _of_another(found: Found, kind: Kind, other: Kind) -> Problem:
    what = f"this looks like a file of kind {other.NAME}, not {kind.NAME}; nothing was imported from it"
    return Problem(found.line, f"{what}. Import it as {other.NAME}, or as auto")


def kinds_text(kinds: list[Kind]) -> str:
    """Return how a message names the accepted kinds."""
    return f"kind {kinds[0].NAME}" if len(kinds) == 1 else "a known kind"


def mismatch_text(found: Found, kinds: list[Kind]) -> str:
    """Return why an object is of none of these kinds."""
    keys = ", ".join(f"`{key[:32]}`" for key in islice(found.value, 5)) or "no keys"
    return f"an object with {keys} is not of {kinds_text(kinds)}"
