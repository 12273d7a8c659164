"""Prove which items a model has seen: match digests of its actual input, in order, with the items of a history.

How the input was built does not matter. A filter, a callback, a hand-off, nested history or a sandbox may shorten,
reorder or rewrite it. Only items that are in the actual input, in the order of the history, are proven. Each item
needs its own occurrence: the same text said twice is two items.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from rightful.field_types import Covers, ItemId, ItemRange

_NOT_SENT = ("_agents_tool_description", "_agents_tool_title", "created_by")  # kept by the SDK, not sent to a model
_encoded = json.JSONEncoder(sort_keys=True).encode
_CANDIDATE_PAIRS = (
    100_000  # maximum of candidates for the exact matching (0.25 s); above it, the nearest occurrence is used
)


class Mark(NamedTuple):
    """The digests of one item.

    Attributes:
        full: The digest of the unchanged item.
        bare: The digest of a reasoning item without its id, because a run may omit it. Else the same as `full`.
    """

    full: str
    bare: str

    def fits(self, other: Mark) -> bool:
        """Return whether both may be the same item. Two reasoning items with different ids are not."""
        return self.full in (other.full, other.bare) or self.bare == other.full


Marker = Callable[[Any], Mark | None]
"""Returns the mark of an item; None for a value that is not an item."""


def mark(item: Any) -> Mark | None:  # noqa: ANN401 - content
    """Return the mark of an item. SDK bookkeeping fields are ignored, and equivalent answer encodings are equal."""
    if not isinstance(item, dict):
        return None
    sent = sendable(item)
    if sent.get("role") == "assistant":
        if isinstance(sent.get("content"), str):
            sent["content"] = [{"type": "output_text", "text": sent["content"]}]
        if sent.get("status") in (None, "completed"):
            sent.pop("status", None)
    return mark_by(_digest, sent)


def sendable(item: Any) -> Any:  # noqa: ANN401 - content
    """Return an item without the SDK's bookkeeping fields, which are not sent to a model."""
    if not isinstance(item, dict):
        return item
    return {key: value for key, value in item.items() if key not in _NOT_SENT}


def mark_by(digest: Callable[[Any], str | None], item: Any) -> Mark | None:  # noqa: ANN401 - content
    """Return the mark of an item, computed with a digest function."""
    full = digest(item)
    if full is None:
        return None
    if not isinstance(item, dict) or item.get("type") != "reasoning" or "id" not in item:
        return Mark(full, full)
    return Mark(full, digest(without_id(item)) or full)


def without_id(item: dict[str, Any]) -> dict[str, Any]:
    """Return an item without its id."""
    return {key: value for key, value in item.items() if key != "id"}


def _digest(item: Any) -> str | None:  # noqa: ANN401 - content
    try:
        return hashlib.sha256(_encoded(item).encode()).hexdigest()
    except (TypeError, ValueError, RecursionError):
        return None


class Exchange(NamedTuple):
    """An answered request to a model.

    Attributes:
        seen: The marks of the input items and of the answer's items, in order.
        marker: The function that computes comparable marks.
        response_id: The provider's id of the response; None if it has none, or it is unknown.
        agent: The agent that made the request.
    """

    seen: tuple[Mark | None, ...]
    marker: Marker = mark
    response_id: str | None = None
    agent: str | None = None


def matched(candidates: Sequence[Mark | None], seen: Sequence[Mark | None]) -> dict[int, int]:
    """Return the index in `seen` of each matched candidate: as many as possible, in order, each index used once."""
    found: dict[int, int] = {}
    end, until = len(candidates), len(seen)
    while end and until and _fit(candidates[end - 1], seen[until - 1]):
        end, until = end - 1, until - 1
        found[end] = until
    start = 0
    while start < min(end, until) and _fit(candidates[start], seen[start]):
        found[start] = start
        start += 1
    found.update(_longest_matching(candidates, seen, range(start, end), range(start, until)))
    return found


def _fit(mark: Mark | None, other: Mark | None) -> bool:
    return mark is not None and other is not None and mark.fits(other)


Index = tuple[dict[str, list[int]], dict[str, list[int]]]
"""The indexes of each digest, ascending: of the full digests, and of the bare ones that differ."""


def _longest_matching(
    candidates: Sequence[Mark | None], seen: Sequence[Mark | None], among: range, window: range
) -> Iterator[tuple[int, int]]:
    """Yield the longest matching of two windows, latest occurrences first (Hunt and Szymanski, CACM 20:5, 1977)."""
    index = _index(seen, window)
    if sum(len(places) for at in among for places in _places(candidates[at], index)) > _CANDIDATE_PAIRS:
        yield from _nearest_matching(candidates, among, index, window.stop)
        return
    ends: list[int] = []
    chains: list[tuple[int, int, Any]] = []
    for at in reversed(among):
        for place in sorted({place for places in _places(candidates[at], index) for place in places}):
            depth = bisect_left(ends, -place)
            ends[depth : depth + 1] = [-place]
            chains[depth : depth + 1] = [(at, place, chains[depth - 1] if depth else None)]
    chain: tuple[int, int, Any] | None = chains[-1] if chains else None
    while chain is not None:
        at, place, chain = chain
        yield at, place


def _nearest_matching(
    candidates: Sequence[Mark | None], among: range, index: Index, end: int
) -> Iterator[tuple[int, int]]:
    """Yield a greedy matching with the nearest occurrences. It is a valid proof, but perhaps not the longest."""
    for at in reversed(among):
        before = [places[bisect_left(places, end) - 1] for places in _places(candidates[at], index) if places[0] < end]
        if before:
            end = max(before)
            yield at, end


def _index(seen: Sequence[Mark | None], window: range) -> Index:
    full: dict[str, list[int]] = {}
    bare: dict[str, list[int]] = {}
    for place in window:
        mark = seen[place]
        if mark is not None:
            full.setdefault(mark.full, []).append(place)
            if mark.bare != mark.full:
                bare.setdefault(mark.bare, []).append(place)
    return full, bare


def _places(candidate: Mark | None, index: Index) -> list[list[int]]:
    """Return the possible indexes of a candidate, one list for each matching digest."""
    if candidate is None:
        return []
    own, (full, bare) = candidate, index
    found = [full.get(own.full), bare.get(own.full), full.get(own.bare) if own.bare != own.full else None]
    return [places for places in found if places]


class Proof(NamedTuple):
    """The facts that an exchange proves about a history.

    Attributes:
        seen: The number of the history's items that the model has seen.
        covered: The indexes of those items, whole groups only, ascending.
        bare: The indexes of reasoning items that were sent without their id.
        entire: Whether the model has seen only these items, so that a compaction of its response replaces only them.
        explained: Whether all items of the exchange are known to the run or about to be appended. Then no other
            items were searched.
    """

    seen: int
    covered: tuple[int, ...]
    bare: frozenset[int]
    entire: bool
    explained: bool = True


def prove(
    items: Sequence[Any],
    known: Collection[int],
    exchange: Exchange,
    marks: Sequence[Mark | None] | None = None,
    new: Sequence[Mark | None] = (),
) -> Proof:
    """Prove which of a history's visible items a run's model has seen.

    Args:
        items: The visible items.
        known: The indexes of the items that the run read and appended. If they do not explain the whole exchange, the
            other items are searched too, and unambiguous matches count. So a run that continues in another process
            proves as much.
        exchange: The run's last answered request.
        marks: The mark of each item by the exchange's marker; computed here if None.
        new: The marks of the items about to be appended, so that the answer itself is not searched in the history.
    """
    marks = [exchange.marker(item) for item in items] if marks is None else marks
    found = _matched_among([at for at in range(len(items)) if at in known], marks, exchange.seen)
    places = set(found.values())
    rest = [mark for place, mark in enumerate(exchange.seen) if place not in places]
    explained = len(matched(new, rest)) == len(rest)
    if not explained and len(known) < len(items):
        more = _matched_among(sorted({*known, *_unambiguous(marks, exchange.seen)}), marks, exchange.seen)
        found = more if len(more) > len(found) else found
    covered = whole(items, set(found))
    pairs = ((at, marks[at], exchange.seen[found[at]]) for at in covered)
    bare = frozenset(at for at, own, sent in pairs if own and sent and own.full != sent.full)
    return Proof(len(found), tuple(sorted(covered)), bare, len(covered) == len(exchange.seen), explained)


def _matched_among(indexes: list[int], marks: Sequence[Mark | None], seen: Sequence[Mark | None]) -> dict[int, int]:
    return {indexes[at]: place for at, place in matched([marks[index] for index in indexes], seen).items()}


def _unambiguous(marks: Sequence[Mark | None], seen: Sequence[Mark | None]) -> list[int]:
    """Return the indexes of the items whose content occurs at least as often in the exchange as in the history."""
    in_history = Counter(mark.bare for mark in marks if mark is not None)
    in_exchange = Counter(mark.bare for mark in seen if mark is not None)
    return [at for at, mark in enumerate(marks) if mark and in_history[mark.bare] <= in_exchange[mark.bare]]


def whole(items: Sequence[Any], chosen: set[int]) -> set[int]:
    """Return the chosen items without those of incomplete groups.

    A group is a call with its output, an approval request with its answer, a program with its calls, or reasoning with
    the item that follows it. A call without an output, or an approval request without an answer, is incomplete.
    """
    kept = set(chosen)
    groups = _groups(items)
    while cut := {at for group in groups if not kept.issuperset(group) for at in group if at in kept}:
        kept -= cut
    return kept


_MISSING = -1  # an index that is never chosen: the missing half of a group


def _groups(items: Sequence[Any]) -> list[list[int]]:
    halves: dict[tuple[str, str], tuple[list[int], list[int]]] = {}
    for at, item in enumerate(items):
        for key, half in _groups_of(item):
            halves.setdefault(key, ([], []))[half].append(at)
    groups = [[*(requests or [_MISSING]), *(answers or [_MISSING])] for requests, answers in halves.values()]
    groups += [[at, at + 1] for at, (item, after) in enumerate(pairwise(items)) if _is_reasoning_for(item, after)]
    return groups


def _groups_of(item: Any) -> Iterator[tuple[tuple[str, str], int]]:  # noqa: ANN401 - content
    """Yield the groups that an item belongs to, and whether it is the request (0) or the answer (1)."""
    if not isinstance(item, dict):
        return
    kind, call = str(item.get("type")), item.get("call_id")
    if kind == "local_shell_call_output":
        call = call or item.get("id")  # the provider's own type uses it for the call id
    if isinstance(call, str):
        request = kind.removesuffix("_output")
        yield (request.removesuffix("_call"), call), int(request != kind)
    if item.get("role") == "tool":  # the format of chat completions, which a caller may append
        yield ("chat", str(item.get("tool_call_id"))), 1
    tool_calls = item.get("tool_calls")
    for tool_call in tool_calls if isinstance(tool_calls, list) else ():
        yield ("chat", str(tool_call.get("id") if isinstance(tool_call, dict) else None)), 0
    approval = item.get("provider_data") if kind == "hosted_tool_call" else item
    if isinstance(approval, dict) and approval.get("type") == "mcp_approval_request":
        yield ("mcp_approval_request", str(approval.get("id") or call or item.get("id"))), 0
    if kind == "mcp_approval_response":
        yield ("mcp_approval_request", str(item.get("approval_request_id"))), 1
    caller = item.get("caller")
    if isinstance(caller, dict) and caller.get("type") == "program":
        yield ("program", str(caller.get("caller_id"))), 1


def _is_reasoning_for(item: Any, after: Any) -> bool:  # noqa: ANN401 - content
    if not isinstance(item, dict) or not isinstance(after, dict) or item.get("type") != "reasoning":
        return False
    return after.get("role") != "user" and not str(after.get("type")).endswith("_output")


def ranges(ids: Sequence[ItemId], chosen: Sequence[int]) -> Covers:
    """Return the ids of chosen items as ranges. `chosen` contains indexes in ascending order."""
    found: list[ItemId | ItemRange] = []
    start = 0
    for at in range(1, len(chosen) + 1):
        if at < len(chosen) and chosen[at] == chosen[at - 1] + 1:
            continue
        first, last = ids[chosen[start]], ids[chosen[at - 1]]
        found.append(first if first == last else ItemRange(first, last))
        start = at
    return tuple(found)
