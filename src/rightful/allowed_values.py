"""Add the allowed values to an error message, since msgspec only says that a value is not allowed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

# Compiled when an error is explained: a hook loads this module and has no error.
_NONE_OF_THESE = r"(?s)(?P<what>Invalid (enum )?value .*) - at `\$(?P<place>[^`]*)`\Z"
_STEP = r"\.(?P<field>[^.\[\]]+)|\["


def explained(text: str, kind: Any) -> str:  # noqa: ANN401 - any type that msgspec converts to
    """Return the message of a `msgspec.ValidationError` with the allowed values, if it is about a choice of values.

    Args:
        text: The message.
        kind: The type that was converted to.
    """
    found = re.match(_NONE_OF_THESE, text)
    if found is None:
        return text
    allowed = ", ".join(f"`{value}`" for value in _allowed(kind, found["place"]))
    return f"{found['what']}; there are {allowed} - at `${found['place']}`" if allowed else text


def _allowed(kind: Any, place: str) -> Iterator[Any]:  # noqa: ANN401 - as above
    from msgspec import inspect  # slow to load, and only an error needs it

    nodes: list[Any] = [inspect.type_info(kind)]
    for step in re.finditer(_STEP, place):
        nodes = [inner for node in _members(nodes) for inner in _inside(node, step["field"])]
    for node in _members(nodes):
        if isinstance(node, inspect.LiteralType):
            yield from node.values
        elif isinstance(node, str):
            yield node


def _members(nodes: Iterable[Any]) -> Iterator[Any]:
    """Yield the types that a value may have: each member of a union, and annotated types without their annotations."""
    for node in nodes:
        if hasattr(node, "types"):
            yield from _members(node.types)
        elif hasattr(node, "extra_json_schema"):
            yield from _members([node.type])
        else:
            yield node


def _inside(node: Any, field: str | None) -> Iterator[Any]:  # noqa: ANN401 - msgspec's own description of a type
    """Yield the types, and the tags, of a field or an item of a type."""
    if field is not None:
        yield from (value.type for value in getattr(node, "fields", ()) if value.encode_name == field)
        if getattr(node, "tag_field", None) == field:
            yield node.tag
        return
    yield from (getattr(node, name) for name in ("item_type", "value_type") if hasattr(node, name))
    yield from getattr(node, "item_types", ())
