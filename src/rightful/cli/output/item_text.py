"""What an item of a history says, and what content of any form says, as text for people. Nothing here is made safe.

Items come from any program that writes events, so no form of them is assumed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec import UNSET

from rightful import content
from rightful.cli.output.terminal import plural
from rightful.projections.transcripts.entry_parts import item_parts, text_of

TAB = 4
"""Columns of a tab."""

EMPTY = "(empty)"
"""What is shown in place of the text of a message that has none."""

_UNREADABLE_CHARS = 200
_ENCODED = re.compile(r"(?:data:(?P<kind>[\w.+-]+/[\w.+-]+)?[^,\s]*,)?[A-Za-z0-9+/_=-]+\Z")
_OURS = frozenset({"type", "role", "id", "status", "content"})


class Display(NamedTuple):
    """The text of an item.

    Attributes:
        who: The speaker, or the kind of item, in words.
        text: Its text; may be empty.
        marks: Further facts, in words.
        is_result: It is a tool's output, so no agent is named.
        is_empty: It is a message without text.
    """

    who: str
    text: str
    marks: tuple[str, ...] = ()
    is_result: bool = False
    is_empty: bool = False

    @property
    def shown(self) -> str:
        """The text, or `EMPTY` for a message without one."""
        return EMPTY if self.is_empty else self.text


def display_of(item: Any, *, full: bool = False) -> Display:  # noqa: ANN401 - an item of any form
    """Return the text of an item.

    Args:
        item: The item.
        full: Include encrypted text and images, which people cannot read.
    """
    parts = [_display_of_part(kind, fields, item, full=full) for kind, fields in item_parts(item)]
    first, *others = parts or [Display("item", "")]
    if not others:
        return first
    more = [f"{other.who}:{_below(other.text)}" if other.text else other.who for other in others]
    marks = tuple(dict.fromkeys(mark for part in (first, *others) for mark in part.marks))
    return Display(first.who, "\n".join([*([first.text] if first.text else []), *more]), marks)


def _display_of_part(kind: str, fields: Mapping[str, Any], item: Any, *, full: bool) -> Display:  # noqa: ANN401 - as above
    match kind:
        case "message":
            text = spoken(fields["content"], full=full)
            return Display(str(fields["role"]) or "message", text, is_empty=not text.strip())
        case "thought":
            return Display("thought", spoken(fields["content"] or None, full=full), _sealed(item))
        case "tool_call":
            given = arguments(fields.get("arguments"), full=full)
            return Display(f"tool {fields.get('name') or 'of unknown name'} (call {fields['call']})", given)
        case "tool_result":
            marks = ("failed",) if fields["is_error"] else ()
            output = fields["output"]
            answer = value(output, full=full) if isinstance(output, str) else spoken(output, full=full)
            return Display(f"result of call {fields['call']}", answer, marks, is_result=True)
        case "interaction_requested" | "interaction_answered":
            word = "asked" if kind == "interaction_requested" else "answered"
            rest = {name: value for name, value in fields["payload"].items() if name not in _OURS}
            return Display(f"{word} {fields['interaction']} ({fields['kind']})", arguments(rest, full=full))
        case _:
            return _data(fields, item, full=full)


def _data(fields: Mapping[str, Any], item: Any, *, full: bool) -> Display:  # noqa: ANN401 - as above
    """Return what an item says that is of no kind which is known here: its members."""
    data = fields.get("data")
    if isinstance(data, Mapping):
        data = {name: value for name, value in data.items() if name != "type"}
        if not full and data.get("encrypted_content") is not None:
            data = {name: value for name, value in data.items() if name not in {"encrypted_content", "id"}}
    return Display(str(fields.get("name") or "item"), arguments(data, full=full) if data != {} else "", _sealed(item))


def _sealed(item: Any) -> tuple[str, ...]:  # noqa: ANN401 - as above
    """Say that some of an item can be read by its provider only, and how long that is."""
    sealed = item.get("encrypted_content") if isinstance(item, Mapping) else None
    return (f"encrypted, {plural(len(sealed), 'character')}",) if isinstance(sealed, str) and sealed else ()


def spoken(parts: Any, *, full: bool = False) -> str:  # noqa: ANN401 - content is any JSON value
    """Return content as text: what a person reads of it, and what else it has by name."""
    if isinstance(parts, str) or parts is None or parts is UNSET:
        return parts if isinstance(parts, str) else ""
    if isinstance(parts, list):
        return "\n".join(_part(part, full=full) for part in parts)
    text = text_of(parts)
    return text if text is not None else arguments(parts, full=full)


def _part(part: Any, *, full: bool) -> str:  # noqa: ANN401 - a part of any form
    """Return one part of content: its text, or its name and what can be read of it."""
    text = text_of(part)
    if text is not None:
        return text
    if not isinstance(part, Mapping):
        return value(part, full=full)
    rest = {name: item for name, item in part.items() if name != "type" and item is not None}
    shown = ", ".join(f"{name} {value(item, full=full)}" for name, item in rest.items())
    name = part.get("type")
    return f"[{name if isinstance(name, str) else 'part'}{': ' if shown else ''}{shown}]"


def others(parts: Any) -> list[str]:  # noqa: ANN401 - content of any form
    """Return the names of the parts of a message that are not text."""
    if not isinstance(parts, list):
        return [] if parts is UNSET or text_of(parts) is not None else [value(parts, full=True)]
    return [
        f"[{part.get('type', 'part') if isinstance(part, dict) else 'part'}]" for part in parts if text_of(part) is None
    ]


def arguments(data: Any, *, full: bool = True) -> str:  # noqa: ANN401 - content is any JSON value
    """Return an object with one member per line, and any other value unchanged."""
    if isinstance(data, Mapping) and data:
        return "\n".join(f"{name}:{after_name(value(item, full=full))}" for name, item in data.items())
    return "" if data is UNSET or data is None else value(data, full=full)


def after_name(text: str) -> str:
    """Return the text after a name: on the same line, or on lines of its own if it has several."""
    return f" {text}" if "\n" not in text else _below(text)


def _below(text: str) -> str:
    return "\n" + "\n".join(f"  {line.expandtabs(TAB)}" for line in text.split("\n"))


def value(data: Any, *, full: bool = True) -> str:  # noqa: ANN401 - content is any JSON value
    """Return any value as text; an encoded one as its length, unless `full`."""
    if isinstance(data, str):
        return data if full else _readable(data)
    return json.dumps(content.escape(data if full else _all_readable(data))[0], ensure_ascii=False)


def _all_readable(data: Any) -> Any:  # noqa: ANN401 - content is any JSON value
    if isinstance(data, Mapping):
        return {name: _all_readable(item) for name, item in data.items()}
    if isinstance(data, list):
        return [_all_readable(part) for part in data]
    return _readable(data) if isinstance(data, str) else data


def _readable(text: str) -> str:
    """Return a text, or what it is where it is an image or what else is encoded."""
    if len(text) < _UNREADABLE_CHARS or (found := _ENCODED.match(text)) is None:
        return text
    return f"[{found['kind'] or 'encoded'}, {plural(len(text), 'character')}]"
