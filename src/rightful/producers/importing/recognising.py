"""Which kind a file is of: told by its first object that any kind recognises, however late it comes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice, product
from typing import TYPE_CHECKING, Any

from rightful import limits
from rightful.producers.importing.files import Found, Problem
from rightful.producers.importing.foreign import described
from rightful.producers.importing.readers import is_placed

if TYPE_CHECKING:
    from rightful.producers.importing.readers import Kind, Origin

ONLY = "only its first"
"""How it begins to be said that the rest of a file was not read."""

_PEEK = 32  # objects that are looked at before a file is known by its shape to be another tool's


def recognised(
    kinds: list[Kind], origin: Origin, items: Iterator[Found | Problem]
) -> tuple[Kind | None, Iterator[Found | Problem]]:
    """Return the kind of the file's place, or of the first object that any kind recognises, and all items.

    A file that is known by its shape to be another tool's is looked at no further than that takes.
    Elsewhere its first objects may be foreign or torn; of those beyond the first few only what is
    wrong with them is kept, so that the file is never in memory.

    Args:
        kinds: The kinds that may come.
        origin: Where the file is; its place may show its kind.
        items: What it holds.
    """
    for kind in kinds:
        if is_placed(kind) and kind.knows(origin.path):
            return kind, items
    head: list[Found | Problem] = []
    for count, item in enumerate(items, 1):
        head.append(item)
        if isinstance(item, Found):
            for kind in kinds:
                if kind.recognises(item.value):
                    return kind, chain(head, items)
            if count > _PEEK:
                head[-1] = Problem(item.line, foreign(item, kinds))
        if count == _PEEK and described(origin.name, _values(head)) is not None:
            return None, iter(head)
        if count == limits.FOREIGN_OBJECTS:
            what = f"{ONLY} {count:,} objects were looked at"
            return None, chain(head, [Problem(None, what, lost=False)] * any(True for _ in items))
    return None, iter(head)


def misnamed(
    kind: Kind, origin: Origin, items: Iterator[Found | Problem], others: Callable[[], Iterable[Kind]]
) -> tuple[Problem | None, Iterator[Found | Problem]]:
    """Return why a file is not of the kind that it was named to be, where it looks like another, and all items.

    A file whose first objects look like nothing that is known is taken for what it was named to be.

    Args:
        kind: What it was named to be.
        origin: Where the file is.
        items: What it holds.
        others: Returns all kinds; called only where the first objects are not of this one.
    """
    if is_placed(kind) and kind.knows(origin.path):
        return None, items
    head: list[Found | Problem] = []
    for item in islice(items, _PEEK):
        head.append(item)
        if isinstance(item, Found) and kind.recognises(item.value):
            return None, chain(head, items)
    found = [item for item in head if isinstance(item, Found)]
    for item, other in product(found, others() if found else ()):
        if other.recognises(item.value):
            what = (
                f"this looks like a file of the kind {other.NAME}, and not of {kind.NAME}; nothing of it was imported"
            )
            return Problem(item.line, f"{what}. Import it as {other.NAME}, or as auto"), iter(())
    return None, chain(head, items)


def _values(items: Iterable[Found | Problem]) -> list[Mapping[str, Any]]:
    return [item.value for item in items if isinstance(item, Found)]


def foreign(found: Found, kinds: list[Kind]) -> str:
    """Return why an object is of none of these kinds."""
    names = ", ".join(kind.NAME for kind in kinds)
    keys = ", ".join(f"`{key[:32]}`" for key in islice(found.value, 5)) or "no keys"
    return f"an object with {keys} is not of {names}"
