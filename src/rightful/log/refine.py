"""Decide whether one state of a growing fact refines another: it contains all of the other, and more.

Streams are sent as snapshots: an empty call, then its name, then more and more of its
arguments. The rules are those of *refines* after the table of outcomes in docs/reference/words.md;
each requires the same type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rightful import content
from rightful.encoding.envelope import body_kind
from rightful.events import (
    ErrorRecorded,
    Event,
    MessageRecorded,
    ThoughtRecorded,
    ToolCallSnapshotted,
    ToolResultSnapshotted,
    UsageRecorded,
)

if TYPE_CHECKING:
    from collections.abc import Callable

PLACEHOLDERS = ("DEFERRED_NOT_EXECUTED", "APPROVED_EXECUTION_RESULT_UNKNOWN", "INTERRUPTED_BY_USER")
"""Prefixes of a result that replaces one that is not known yet, if it is also an error (Agenta)."""

GROWING: dict[str, type[Event]] = {
    str(kind.__struct_config__.tag): kind
    for kind in (
        MessageRecorded,
        ThoughtRecorded,
        UsageRecorded,
        ErrorRecorded,
        ToolCallSnapshotted,
        ToolResultSnapshotted,
    )
}
"""The types whose facts grow; of any other type, two contents under one id are a conflict."""

_ESCAPE = "\x1a"
_NOTHING: tuple[object, ...] = (None, "", {})  # in this order; a later value may replace an earlier one


def refines(event_type: str, newer: bytes, older: bytes) -> bool:
    """Return whether one canonical body refines another of the same type. Equal bodies do not.

    Args:
        event_type: The type of both.
        newer: The body that should contain more.
        older: The body that should contain less.
    """
    kind = GROWING.get(event_type)
    if kind is None or newer == older:
        return False
    decode = body_kind(kind).decode
    return _RULES[event_type](decode(newer), decode(older))


def _message(new: Any, old: Any) -> bool:  # noqa: ANN401 - the body struct of its type
    return new.role == old.role and grows(new.content, old.content) and _rest(new, old)


def _thought(new: Any, old: Any) -> bool:  # noqa: ANN401 - as above
    return grows(new.content, old.content) and _rest(new, old)


def _usage(new: Any, old: Any) -> bool:  # noqa: ANN401 - as above
    return grows(new.counts, old.counts) and _rest(new, old)


def _error(new: Any, old: Any) -> bool:  # noqa: ANN401 - as above
    return grows(new.message, old.message) and _rest(new, old)


def _call(new: Any, old: Any) -> bool:  # noqa: ANN401 - as above
    return (
        not old.complete
        and new.call == old.call
        and (new.name == old.name or (not old.name and grows(new.name, old.name)))
        and grows(new.arguments, old.arguments)
        and _rest(new, old)
    )


def _result(new: Any, old: Any) -> bool:  # noqa: ANN401 - as above
    if new.call != old.call or not _rest(new, old):
        return False
    if is_placeholder(old.output, is_error=old.is_error):
        return not is_placeholder(new.output, is_error=new.is_error)
    if is_placeholder(new.output, is_error=new.is_error):
        return False
    return not old.complete and new.is_error >= old.is_error and grows(new.output, old.output)


def is_placeholder(output: object, *, is_error: bool) -> bool:
    """Return whether a tool's output is a placeholder for a result that is not known yet."""
    return is_error and isinstance(output, str) and output.startswith(PLACEHOLDERS)


def _rest(new: Any, old: Any) -> bool:  # noqa: ANN401 - the body struct of its type
    """Compare the common fields of growing facts: an `alias` must stay, an `extra` may grow."""
    return new.alias == old.alias and grows(new.extra, old.extra)


_RULES: dict[str, Callable[[Any, Any], bool]] = {
    "message.recorded": _message,
    "thought.recorded": _thought,
    "usage.recorded": _usage,
    "error.recorded": _error,
    "tool_call.snapshotted": _call,
    "tool_result.snapshotted": _result,
}


def grows(new: object, old: object) -> bool:
    """Return whether a value equals another one or extends it: from empty, from a prefix, or as a superset."""
    if old in _NOTHING:
        return new not in _NOTHING or _NOTHING.index(new) >= _NOTHING.index(old)
    match old:
        case str():
            return isinstance(new, str) and _is_prefix(old, new)
        case list():
            return isinstance(new, list) and len(new) >= len(old) and all(map(grows, new, old))
        case dict():
            return isinstance(new, dict) and all(key in new and grows(new[key], old[key]) for key in old)
        case _:
            return type(new) is type(old) and new == old


def _is_prefix(old: str, new: str) -> bool:
    if new.startswith(old):
        return True
    # A stream cut between the halves of a surrogate pair ends in a lone one, which is stored escaped.
    return old[-5:-4] == _ESCAPE and _utf16(new).startswith(_utf16(old))


def _utf16(text: str) -> bytes:
    return str(content.restore(text)).encode("utf-16-le", "surrogatepass")
