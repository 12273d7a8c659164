"""The items of a history: as they are stored, and what they say of being a call, an answer, or a thought before one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from rightful import content

ItemKey = tuple[str, int]
"""The id of an item: its event's id, and its place in that event."""

Pair = tuple[str, str]
"""What joins a call and its outputs, or a request and its answer: which of the two it is, and their own id."""

ERASED = -1
"""The place of the one ghost that stands for all items of an event whose payload was erased."""

_REQUEST, _RESPONSE = "mcp_approval_request", "mcp_approval_response"
_OUTPUTS = frozenset({"tool_search_output", "program_output"})


class Item(NamedTuple):
    """One item of a history.

    Attributes:
        id: Its id.
        position: Where its event stands.
        raw: The item as stored JSON.
        escaped: Some of it is kept in an escape (`content.restore`).
        opens: The pair that it opens: it is a call, or a request for approval.
        answers: The pair that it answers: it is an output, or the response.
        thinks: It is a reasoning item.
        is_ghost: It keeps a place for ranges, and is never shown: withdrawn, erased, or not for the model.
    """

    id: ItemKey
    position: int
    raw: bytes
    escaped: bool = False
    opens: Pair | None = None
    answers: Pair | None = None
    thinks: bool = False
    is_ghost: bool = False


class _Head(msgspec.Struct, gc=False):
    type: Any = None
    call_id: Any = None
    approval_request_id: Any = None
    id: Any = None


_head = msgspec.json.Decoder(_Head).decode


def item_of(id_: ItemKey, position: int, raw: bytes, *, escaped: bool) -> Item:
    """Return an item of its stored JSON."""
    if raw[:1] != b"{":
        return Item(id_, position, raw, escaped)
    head = _head(raw)
    kind = head.type
    if not isinstance(kind, str):
        return Item(id_, position, raw, escaped)
    if kind == _REQUEST:
        return Item(id_, position, raw, escaped, opens=_pair(kind, head.id))
    if kind == _RESPONSE:
        return Item(id_, position, raw, escaped, answers=_pair(_REQUEST, head.approval_request_id))
    if kind.endswith("_call") or kind == "program":
        return Item(id_, position, raw, escaped, opens=_pair("call", head.call_id))
    if kind.endswith("_call_output") or kind in _OUTPUTS:
        call = head.call_id or (head.id if kind == "local_shell_call_output" else None)
        return Item(id_, position, raw, escaped, answers=_pair("call", call))
    return Item(id_, position, raw, escaped, thinks=kind == "reasoning")


def ghost(id_: ItemKey, position: int) -> Item:
    """Return what keeps the place of an item that is never shown."""
    return Item(id_, position, b"", is_ghost=True)


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
        return [content.restore(one) if item.escaped else one for item, one in zip(items, found, strict=True)]
    return found


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
