"""The items of a history: as they are stored, and what they say of being a call, an answer, or a thought before one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from rightful import content
from rightful.field_types import ItemRange

ItemKey = tuple[str, int]
"""The id of an item: its event's id, and its place in that event."""

Pair = tuple[str, str]
"""What joins a call and its outputs, or a request and its answer: which of the two it is, and their own id."""

ERASED = -1
"""The place of the one ghost that represents all items of an event with an erased payload."""

_CALLS, _ANSWERS = ("_call", "program"), ("_output", "_call_result")
"""How the types end of what calls, and of what answers it; only what has a call id belongs to another one."""

_LOCAL_SHELL = "local_shell_call_output"  # the API has the id of its call as the item's own
_REQUEST, _RESPONSE = "mcp_approval_request", "mcp_approval_response"


class Item(NamedTuple):
    """One item of a history.

    Attributes:
        id: Its id.
        position: Where its event stands.
        raw: The item as stored JSON.
        escaped: Some of it is kept in an escape (`content.restore`).
        opens: The pairs that it opens: it is a call, holds calls, or is a request for approval.
        answers: The pair that it answers: it is an output, or the response.
        thinks: It is a reasoning item.
        is_ghost: It keeps a place for ranges, and is never shown: withdrawn, erased, or not for the model.
    """

    id: ItemKey
    position: int
    raw: bytes
    escaped: bool = False
    opens: tuple[Pair, ...] = ()
    answers: Pair | None = None
    thinks: bool = False
    is_ghost: bool = False


class _Head(msgspec.Struct, gc=False):
    type: Any = None
    call_id: Any = None
    approval_request_id: Any = None
    id: Any = None
    role: Any = None
    tool_calls: Any = None
    tool_call_id: Any = None


_head = msgspec.json.Decoder(_Head).decode


def item_of(id_: ItemKey, position: int, raw: bytes, *, escaped: bool) -> Item:
    """Return an item of its stored JSON."""
    if raw[:1] != b"{":
        return Item(id_, position, raw, escaped)
    head = _head(raw)
    kind = head.type
    if kind is None or kind == "message":
        return _spoken(Item(id_, position, raw, escaped), head)
    if not isinstance(kind, str):
        return Item(id_, position, raw, escaped)
    if kind == _REQUEST:
        return Item(id_, position, raw, escaped, opens=_pairs(kind, head.id))
    if kind == _RESPONSE:
        return Item(id_, position, raw, escaped, answers=_pair(_REQUEST, head.approval_request_id))
    if kind.endswith(_CALLS):
        return Item(id_, position, raw, escaped, opens=_pairs("call", head.call_id))
    if kind.endswith(_ANSWERS):
        of = head.id if head.call_id is None and kind == _LOCAL_SHELL else head.call_id
        return Item(id_, position, raw, escaped, answers=_pair("call", of))
    return Item(id_, position, raw, escaped, thinks=kind == "reasoning")


def _spoken(item: Item, head: _Head) -> Item:
    """Return a message; of the chat shape one holds calls, and an output has a role of its own."""
    if head.role == "tool":
        return item._replace(answers=_pair("call", head.tool_call_id))
    if not isinstance(head.tool_calls, list):
        return item
    ids = [call.get("id") for call in head.tool_calls if isinstance(call, dict)]
    return item._replace(opens=tuple(dict.fromkeys(pair for id_ in ids for pair in _pairs("call", id_))))


def ghost(id_: ItemKey, position: int) -> Item:
    """Return what keeps the place of an item that is never shown."""
    return Item(id_, position, b"", is_ghost=True)


def _pairs(kind: str, value: object) -> tuple[Pair, ...]:
    pair = _pair(kind, value)
    return () if pair is None else (pair,)


def _pair(kind: str, value: object) -> Pair | None:
    return (kind, value) if isinstance(value, str) and value else None


def objects(items: Sequence[Item]) -> list[Any]:
    """Return what items say, all read at once; objects of the caller's own."""
    if not items:
        return []
    parts = [item.raw for item in items]
    parts[0] = b"[" + parts[0]
    parts[-1] += b"]"  # all is copied once, and there may be megabytes
    found: list[Any] = msgspec.json.decode(b",".join(parts))
    if any([item.escaped for item in items]):  # noqa: C419 - a list is twice as fast, and there are thousands
        return [content.restore(value) if item.escaped else value for item, value in zip(items, found, strict=True)]
    return found


def ends(name: Any, place: Callable[[Any], int | None], count: int) -> tuple[int, int] | None:  # noqa: ANN401 - an item or a range
    """Return the places in a view of the first and the last item that a name means; None where one is not there.

    Args:
        name: An item's id, or a range.
        place: Gives the place of an item by its id; None if it is not there.
        count: How many items the view has.
    """
    if not isinstance(name, ItemRange):
        at = place(name)
        return None if at is None else (at, at)
    first = 0 if name.first is None else place(name.first)
    last = count - 1 if name.last is None else place(name.last)
    return None if first is None or last is None else (first, last)


def ranges(ids: Iterable[ItemKey]) -> list[Any]:
    """Return ids as they are written down: what stands one after the other in one event is one range.

    A range never spans events, so that it stays what it was when one of them is withdrawn or erased.
    """
    runs: list[list[ItemKey]] = []
    for id_ in ids:
        if runs and runs[-1][-1] == (id_[0], id_[1] - 1):
            runs[-1].append(id_)
        else:
            runs.append([id_])
    return [run[0] if len(run) == 1 else {"first": run[0], "last": run[-1]} for run in runs]
