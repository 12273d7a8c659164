"""From parts to entries: what is shown once, where it stands, and what is marked on it."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET

from rightful import limits
from rightful.log.refine import grows
from rightful.log.rows import Stored
from rightful.projections.transcripts.entries import Entry, Row
from rightful.projections.transcripts.entry_parts import FIELDS, Part, text_of
from rightful.projections.transcripts.session_facts import ENTRY_KINDS, Fact, restored_body
from rightful.projections.transcripts.tool_calls import Call, named_call, place_of, versions_by_rank
from rightful.projections.transcripts.usage_totals import UsageGroup

NO_AGENTS = frozenset({"user", "system", "developer"})
"""The roles whose messages a batch may contain besides an agent's."""

_MARKS = ("hidden", "meta", "summary")
_CALL_NAMES = frozenset({"toolCallId", "toolCall"})


class EntryBuilder:
    """Makes the entries of one session."""

    def __init__(self, shows_messages: Callable[[str], bool], late: frozenset[int], *, rows: bool) -> None:
        self._shows_messages = shows_messages
        self._late = late
        self._rows = rows

    def entries(
        self, parts: Iterable[Part], calls: list[Call], groups: Iterable[UsageGroup]
    ) -> list[tuple[Entry, list[Part]]]:
        """Return the entries in order, each with its parts."""
        placed = [(place_of(call, self._shows_messages).at, self._call(call), _parts(call)) for call in calls]
        placed += [(group.part.at, self._usage(group), group.parts) for group in groups]
        others = (part for part in parts if part.kind not in {"tool_call", "tool_result", "usage"})
        placed += [(group[0].at, self._entry(group), group) for group in _once(others, calls)]
        placed.sort(key=lambda placed_entry: placed_entry[0])
        return [(entry, group) for _, entry, group in placed]

    def _entry(self, group: list[Part]) -> Entry:
        part = group[0]
        entry = self._begun(part.kind, group)
        fields = (
            part.fields
            if part.kind != "turn_ended"
            else {name: value for part in group for name, value in part.fields.items() if value is not None}
        )
        shown = group[-1].fields if part.kind in {"message", "thought"} else fields
        match part.kind:
            case "message" | "thought":
                entry.role = shown.get("role", UNSET)
                _put_text(entry, shown)
            case "error":
                entry.text = fields.get("message") or ("" if fields else UNSET)
            case "interaction_requested" | "interaction_answered":
                entry.interaction, entry.payload = fields.get("interaction", UNSET), fields.get("payload", UNSET)
                entry.asked = _or_unset(fields.get("kind"))
            case "data":
                entry.name, entry.data = fields.get("name", UNSET), fields.get("data", UNSET)
            case "history_compacted" | "history_popped":
                _put_covers(entry, part)
            case "turn_ended" | "history_forked" | "compaction_deferred":
                for name in FIELDS[part.kind]:
                    setattr(entry, name, _or_unset(fields.get(name)))
            case _:
                pass
        return entry

    def _usage(self, group: UsageGroup) -> Entry:
        entry = self._begun("usage", group.parts)
        if group.part.fields:
            entry.counts, entry.of = group.counts, _or_unset(group.part.fields["of"])
            entry.cumulative = True if group.cumulative else UNSET
        return entry

    def _call(self, call: Call) -> Entry:
        versions = versions_by_rank(call, self._shows_messages)
        all_calls = sorted(
            (part for version in call.versions for part in version.calls), key=lambda part: part.fact.position
        )
        results = [part for version in versions for part in version.results]
        given = next((version.shown for version in versions if version.shown is not None), None)
        entry = self._begun("tool_call", all_calls or results, [*all_calls, *results], given)
        ids = list(dict.fromkeys(part.fields["call"] for part in all_calls or results if part.fields))
        entry.call, entry.calls = (ids[0] if ids else UNSET), (ids if len(ids) > 1 else UNSET)
        if given is not None and given.fields:
            entry.arguments = given.fields["arguments"]
            names = (version.name for version in versions)
            entry.name = _or_unset(next((name for name in names if name), None))
        if not all_calls:
            entry.unpaired = True
        entry.revisions = sum(part.states for part in all_calls) or sum(part.states for part in results)
        if results:
            self._put_result(
                entry, next((version.real for version in versions if version.real is not None), results[-1]), results
            )
        return entry

    def _put_result(self, entry: Entry, shown: Part, results: list[Part]) -> None:
        entry.result_position, entry.result_id = shown.fact.position, shown.fact.id
        entry.result_item = UNSET if shown.ordinal is None else [shown.fact.id, shown.ordinal]
        entry.result_revisions = sum(part.states for part in results)
        if shown.fields:
            entry.output, entry.is_error = shown.fields["output"], bool(shown.fields["is_error"])
            entry.placeholder = True if shown.is_placeholder else UNSET
            entry.result_extra = (_extra(shown.fact) if shown.ordinal is None else None) or UNSET
        else:
            entry.result_erased = True if shown.fact.erased else UNSET
        entry.result_late = True if shown.fact.row.position in self._late else UNSET

    def _begun(
        self, kind: str, group: list[Part], behind: list[Part] | None = None, shown: Part | None = None
    ) -> Entry:
        part = group[0]
        fact = part.fact
        envelope = fact.rows[0].envelope
        entry = Entry(kind=kind, id=fact.id, position=fact.position, at_us=envelope.at_us, producer=fact.producer)
        entry.turn = _or_unset(next((part.turn for part in group if part.turn is not None), None))
        entry.at_basis = _or_unset(envelope.at_basis)
        entry.revisions = sum(part.states for part in group)
        if part.ordinal is not None:
            entry.item = [fact.id, part.ordinal]
            entry.response_id = _or_unset(getattr(fact.body, "response_id", None))
            is_agents = part.fields.get("role") not in NO_AGENTS
            entry.agent = _or_unset(getattr(fact.body, "agent", None) if is_agents else None)
        self._mark(entry, shown or part)
        whole = [part for part in behind or group if part.kind != "usage" or part.fact.kind == "usage"]
        facts = list(dict.fromkeys(part.fact for part in whole if not part.ordinal))
        if conflicts := [row for fact in facts for row in fact.conflicts]:
            entry.conflicts = [_row(row) for row in conflicts]
        if self._rows:
            all_rows = {row.position: row for fact in facts for row in fact.rows if row not in fact.conflicts}
            entry.rows = [_row(all_rows[position]) for position in sorted(all_rows)]
        return entry

    def _mark(self, entry: Entry, shown: Part) -> None:
        fact = shown.fact
        extra = _extra(fact) if shown.ordinal is None else None
        if extra:
            for mark in _MARKS:
                if extra.get(mark) is True:
                    setattr(entry, mark, True)
            entry.extra = {
                name: value for name, value in extra.items() if name not in _MARKS or value is not True
            } or UNSET
        if fact.row.position in self._late:
            entry.late = True
        if fact.withdrawn:
            entry.withdrawn = entry.hidden = True
        if fact.erased:
            entry.erased = True


def _parts(call: Call) -> list[Part]:
    return [part for version in call.versions for part in (*version.calls, *version.results)]


def _or_unset(value: Any) -> Any:  # noqa: ANN401 - a field of any type
    return UNSET if value is None else value


def _put_covers(entry: Entry, part: Part) -> None:
    """Set the items that a compaction or an undo names, and those that replace them."""
    fields, is_compaction = part.fields, part.kind == "history_compacted"
    covers = fields.get("covers" if is_compaction else "items", UNSET)
    entry.covers = UNSET if covers is UNSET else msgspec.to_builtins(covers)
    entry.mode, entry.response_id = _or_unset(fields.get("mode")), _or_unset(fields.get("response_id"))
    if is_compaction:
        summary = (_extra(part.fact) or {}).get("message")
        entry.items, entry.text = fields.get("items", UNSET), summary if summary and isinstance(summary, str) else UNSET


def _put_text(entry: Entry, fields: Mapping[str, Any]) -> None:
    if not fields:
        return
    found = fields["content"]
    text = text_of(found)
    entry.text = text if text is not None else ""
    if "sealed" in fields:
        entry.extra = {"encrypted_content": fields["sealed"]}
    if found is not None and not isinstance(found, str):
        entry.content = found


def _row(row: Stored) -> Row:
    body, kind = restored_body(row), ENTRY_KINDS.get(row.envelope.type, "")
    fields = None if body is None else {name: msgspec.to_builtins(getattr(body, name)) for name in FIELDS.get(kind, ())}
    envelope = row.envelope
    return Row(
        position=row.position,
        outcome=envelope.outcome,
        at_us=envelope.at_us,
        producer=envelope.producer,
        said=fields,
    )


def _once(parts: Iterable[Part], calls: list[Call]) -> list[list[Part]]:
    """Return groups of parts with the same content, in order of the first of each.

    A turn ends once, and a history is compacted once at each `boundary`. Repeats of one request or
    answer are one group; so are two parts of one producer at one index of one turn, and a history's items of one id.
    """
    finder = _CallFinder(calls)
    found: list[list[Part]] = []
    of_key: defaultdict[object, deque[list[Part]]] = defaultdict(lambda: deque(maxlen=limits.TOLD_APART))
    for part in parts:
        groups = of_key[_key(part, finder)]
        group = next((group for group in groups if _says_again(part, group[-1])), None)
        if group is None:
            group = []
            groups.append(group)
            found.append(group)
        group.append(part)
    return found


def _key(part: Part, finder: _CallFinder) -> object:
    fact, fields = part.fact, part.fields
    if not fields or fact.withdrawn:
        return part.at
    if part.kind == "turn_ended":
        return part.kind, fact.turn
    if (boundary := _boundary(part)) is not None:
        return part.kind, fact.producer, boundary
    if "interaction" in fields:
        about = finder.call_of(fields.get("payload"), part.at)
        return part.kind, fields["interaction"], about
    if part.ordinal is not None:
        return (part.kind, fields["id"], _hashed(part)) if "id" in fields else part.at
    if fact.turn is not None and fact.index is not None:
        return part.kind, fact.producer, fact.turn, fact.index, _hashed(part)
    return part.at


def _hashed(part: Part) -> int:
    """Return what differs where parts do: a producer may give one index to all that it says."""
    return hash(repr((part.fields, None if part.ordinal is not None else _extra(part.fact))))


def _says_again(part: Part, before: Part) -> bool:
    if part.kind == "turn_ended" or _boundary(part) is not None:
        return True
    if "interaction" in part.fields:
        new, old = _unnamed(part.fields["payload"]), _unnamed(before.fields["payload"])
        return grows(new, old) or grows(old, new)
    if part.ordinal is not None:
        return bool(part.fields == before.fields)
    return part.fields == before.fields and _extra(part.fact) == _extra(before.fact)


def _boundary(part: Part) -> str | None:
    """Return which boundary a compaction is at, as its producer says it."""
    found = (_extra(part.fact) or {}).get("boundary") if part.kind == "history_compacted" else None
    return found if isinstance(found, str) else None


def _extra(fact: Fact) -> dict[str, Any] | None:
    found: dict[str, Any] | None = getattr(fact.body, "extra", None)
    return found


def _unnamed(payload: object) -> object:
    """Return a payload without its call id, since a resume uses a new one."""
    if not isinstance(payload, Mapping):
        return payload
    return {name: value for name, value in payload.items() if name not in _CALL_NAMES}


class _CallFinder:
    """Finds the call that an interaction names."""

    def __init__(self, calls: list[Call]) -> None:
        self._found: dict[str, list[tuple[int, int]]] = {}
        for number, call in enumerate(calls):
            for version in call.versions:
                for part in version.calls:
                    if part.fields:
                        self._found.setdefault(part.fields["call"], []).append((part.at, number))
        for places in self._found.values():
            places.sort()

    def call_of(self, payload: object, at: int) -> object:
        """Return which call it is: the last of that id up to a place, else the first; the id where there is none."""
        name = named_call(payload)
        places = self._found.get(name or "", [])
        if not places:
            return name
        return places[max(bisect_right(places, (at, len(places))) - 1, 0)][1]
