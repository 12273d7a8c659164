"""JSON text changed in place: what is not asked for keeps every byte, its order and its spacing.

A settings file belongs to the one who wrote it. So nothing is parsed and written anew: a member is put
behind the last one, or cut out together with its comma.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()
_FIRST_LINE = re.compile(r"[\[{][ \t]*\r?\n(?P<indent>[ \t]+)\S")


class Item(NamedTuple):
    """A member of an object, or an element of an array, and where it stands.

    Attributes:
        key: The member's name; its number, of an element.
        start: Where it begins, a member with its name.
        value_at: Where its value begins.
        end: Behind its value.
        value: What it is.
    """

    key: str | int
    start: int
    value_at: int
    end: int
    value: Any


def items(text: str, at: int) -> list[Item]:
    """Return what stands in the object or array that begins at a place of valid JSON text."""
    found: list[Item] = []
    is_object = text[at] == "{"
    here = _skip(text, at + 1)
    while text[here] not in "}]":
        start, key = here, len(found)
        if is_object:
            key, here = _DECODER.raw_decode(text, here)
            here = _skip(text, _skip(text, here) + 1)
        value, end = _DECODER.raw_decode(text, here)
        found.append(Item(key, start, here, end, value))
        here = _skip(text, end)
        if text[here] == ",":
            here = _skip(text, here + 1)
    return found


def member(text: str, at: int, key: str) -> Item | None:
    """Return the member of that name, of the object that begins there."""
    return next((item for item in items(text, at) if item.key == key), None)


def put(text: str, at: int, key: str | None, value: object, depth: int) -> str:
    """Return the text with a member, or an element where `key` is None, at the end of the container that begins there.

    Args:
        text: Valid JSON text.
        at: Where the object or array begins.
        key: The member's name.
        value: What it is.
        depth: How deep the new item stands; its indentation, if nothing stands beside it.
    """
    before = items(text, at)
    newline, unit = _style(text)
    if newline is None:
        new = ("" if key is None else json.dumps(key, ensure_ascii=False) + ": ") + json.dumps(
            value, ensure_ascii=False
        )
        where = before[-1].end if before else at + 1
        return text[:where] + (", " if before else "") + new + text[where:]
    indent = _indent_of(text, before[-1].start) if before else None
    if indent is None:
        indent = unit * depth
    body = json.dumps(value, ensure_ascii=False, indent=unit).replace("\n", newline + indent)
    new = newline + indent + ("" if key is None else json.dumps(key, ensure_ascii=False) + ": ") + body
    if before:
        return text[: before[-1].end] + "," + new + text[before[-1].end :]
    closing = _skip(text, at + 1)
    between = text[at + 1 : closing]
    return text[: at + 1] + new + (between if "\n" in between else newline + unit * (depth - 1)) + text[closing:]


def cut(text: str, at: int, number: int) -> str:
    """Return the text without one item of the container that begins there, counted from 0."""
    all_items = items(text, at)
    if number:
        return text[: all_items[number - 1].end] + text[all_items[number].end :]
    if len(all_items) > 1:
        return text[: all_items[0].start] + text[all_items[1].start :]
    closing = _skip(text, all_items[0].end)
    return text[: at + 1] + text[closing:]


def begin(text: str) -> int:
    """Return where the document's value begins."""
    return _skip(text, 0)


def place(text: str, at: int) -> tuple[int, int]:
    """Return the line and the column of a place, both from 1."""
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def _skip(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return at if space is None else space.end()


def _style(text: str) -> tuple[str | None, str]:
    """Return how lines end, None where all stands on one, and one step of indentation."""
    start = begin(text)
    first = _FIRST_LINE.match(text, start)
    if first is None and items(text, start) and "\n" not in text[start:].rstrip():
        return None, ""
    newline = "\r\n" if "\r\n" in text else "\n"
    return newline, first["indent"] if first else "  "


def _indent_of(text: str, start: int) -> str | None:
    """Return the spaces before an item that begins its line; None if it does not."""
    before = text[text.rfind("\n", 0, start) + 1 : start]
    return before if not before.strip(" \t") and "\n" in text[:start] else None
