"""A history as JSON documents: the view, the whole, and its compactions."""

from __future__ import annotations

from typing import Any

from rightful import content, times
from rightful.cli.show.history_answer import HistoryAnswer
from rightful.histories.annotations import RowAnnotations
from rightful.histories.history_model import HistoryEntry
from rightful.projections.histories.chronicle import Compaction

Document = dict[str, Any]


def view(seen: HistoryAnswer, limit: int) -> Document:
    """Return what the model would see next, its last items only if there is a limit."""
    items = [_item(seen, seen.entries[id_]) for id_ in seen.last(limit)]
    token = {"token": seen.token(limit).text()}
    return _head(seen) | token | {"items": items, "left_out": seen.left_out, "owed": _owed(seen)} | _names(seen)


def full(seen: HistoryAnswer, limit: int) -> Document:
    """Return everything that was ever in it, and what became of each item."""
    entries = [
        _item(seen, entry) | _fate(entry) for entry in (seen.whole.entries[-limit:] if limit else seen.whole.entries)
    ]
    ignored = [{"position": position, "why": why} for position, why in seen.whole.ignored]
    return _head(seen) | {"entries": entries, "ignored": ignored, "owed": _owed(seen)} | _names(seen)


def diff(seen: HistoryAnswer, limit: int) -> Document:
    """Return the compactions, each with the covered items and their summary."""
    found = seen.whole.compactions
    return (
        _head(seen) | {"compactions": [_compaction(seen, compaction) for compaction in found[-limit:]]} | _names(seen)
    )


def _head(seen: HistoryAnswer) -> Document:
    return {"session": seen.session, "position": seen.position}


def _names(seen: HistoryAnswer) -> Document:
    """Return whose history it is, and what it was begun with, where that is to be said."""
    found: Document = {"asked": seen.requested} if seen.requested is not None else {}
    found |= {"joined": list(seen.joined)} if seen.joined else {}
    continued = [
        {"session": continued.session, "how": continued.how, "of": continued.of} for continued in seen.rows.continued
    ]
    found |= {"continues": continued} if continued else {}
    begun = [{"session": fork.of, "through": fork.through, "position": fork.position} for fork in seen.rows.forks]
    return found | ({"begun_with": begun} if begun else {})


def _item(seen: HistoryAnswer, entry: HistoryEntry) -> Document:
    said, is_escaped = content.escape(entry.item)
    found: Document = {"id": list(entry.id), "position": entry.position, "item": said}
    beside = seen.metadata(entry.position)
    found |= {} if beside is None else _beside(beside, seen.session)
    if entry.summary and (compaction := seen.stands_for.get(entry.id)) is not None:
        found |= {"summary": True, "stands_for": len(compaction.covered)}
    return found | ({"escaped": True} if is_escaped else {})


def _fate(entry: HistoryEntry) -> Document:
    return {"fate": entry.fate} | ({} if entry.by is None else {"by": entry.by})


def _beside(row: RowAnnotations, session: str) -> Document:
    """Return the metadata of a row; members that do not apply are absent."""
    found: Document = {"at": times.text_of(row.at_us), "producer": row.producer}
    found |= {"at_basis": "file"} if row.is_bound else {}
    found |= {"of": row.session} if row.session != session else {}
    optional: Document = {"agent": row.agent, "run": row.run, "ordinal": row.ordinal, "response_id": row.response_id}
    kept = {name: content.escape(value)[0] for name, value in optional.items() if value is not None}
    found |= kept | ({} if row.extra is None else {"extra": content.escape(row.extra)[0]})
    return found | ({"is_error": True} if row.is_error else {}) | ({"erased": True} if row.erased else {})


def _owed(seen: HistoryAnswer) -> Document | None:
    if (owed := seen.owed) is None:
        return None
    return {"position": owed.position, "response_id": owed.response_id, "run": owed.run, "reason": owed.reason}


def _compaction(seen: HistoryAnswer, compaction: Compaction) -> Document:
    beside = seen.metadata(compaction.position)
    found: Document = {
        "position": compaction.position,
        "mode": compaction.mode,
        "response_id": compaction.response_id,
        "run": compaction.run,
    }
    if beside is not None:
        found |= {"at": times.text_of(beside.at_us), "producer": beside.producer}
        found |= {"of": beside.session} if beside.session != seen.session else {}
        found |= {} if beside.usage is None else {"usage": content.escape(beside.usage)[0]}
    return found | {
        "after": compaction.after,
        "inert": compaction.inert,
        "covered": [_item(seen, seen.entries[id_]) for id_ in compaction.covered if id_ in seen.entries],
        "put": [_item(seen, seen.entries[id_]) for id_ in compaction.put if id_ in seen.entries],
        "covered_chars": seen.size(compaction.covered),
        "put_chars": seen.size(compaction.put),
    }
