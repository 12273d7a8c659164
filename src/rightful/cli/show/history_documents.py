"""A history as JSON documents: the view, the whole, and its compactions."""

from __future__ import annotations

from typing import Any

from rightful import content, times
from rightful.cli.show.history_answer import HistoryAnswer
from rightful.histories.annotations import RowAnnotations
from rightful.histories.history_model import HistoryEntry
from rightful.projections.histories.chronicle import Compaction

Document = dict[str, Any]


def view(answer: HistoryAnswer, limit: int) -> Document:
    """Return what the model would see next, its last items only if there is a limit."""
    items = [_item(answer, answer.entries[id_]) for id_ in answer.last(limit)]
    token = {"token": answer.token(limit).text()}
    return _head(answer) | token | {"items": items, "left_out": answer.left_out, "owed": _owed(answer)} | _names(answer)


def full(answer: HistoryAnswer, limit: int) -> Document:
    """Return everything that was ever in it, and what became of each item."""
    entries = [
        _item(answer, entry) | {"fate": entry.fate} | ({} if entry.by is None else {"by": entry.by})
        for entry in (answer.whole.entries[-limit:] if limit else answer.whole.entries)
    ]
    ignored = [{"position": position, "why": why} for position, why in answer.whole.ignored]
    return _head(answer) | {"entries": entries, "ignored": ignored, "owed": _owed(answer)} | _names(answer)


def diff(answer: HistoryAnswer, limit: int) -> Document:
    """Return the compactions, each with the covered items and their summary."""
    compactions = [_compaction(answer, compaction) for compaction in answer.whole.compactions[-limit:]]
    return _head(answer) | {"compactions": compactions} | _names(answer)


def _head(answer: HistoryAnswer) -> Document:
    return {"session": answer.session, "position": answer.position}


def _names(answer: HistoryAnswer) -> Document:
    """Return how the history is related to other sessions; members that do not apply are absent."""
    found: Document = {"asked": answer.requested} if answer.requested is not None else {}
    found |= {"joined": list(answer.joined)} if answer.joined else {}
    found |= {"continues": [part._asdict() for part in answer.rows.continued]} if answer.rows.continued else {}
    begun = [{"session": fork.of, "through": fork.through, "position": fork.position} for fork in answer.rows.forks]
    return found | ({"begun_with": begun} if begun else {})


def _item(answer: HistoryAnswer, entry: HistoryEntry) -> Document:
    stored, is_escaped = content.escape(entry.item)
    found: Document = {"id": list(entry.id), "position": entry.position, "item": stored}
    row = answer.row(entry.position)
    found |= {} if row is None else _annotations(row, answer.session)
    if entry.summary and (compaction := answer.compactions.get(entry.id)) is not None:
        found |= {"summary": True, "stands_for": len(compaction.covered)}
    return found | ({"escaped": True} if is_escaped else {})


def _annotations(row: RowAnnotations, session: str) -> Document:
    """Return the metadata of a row; members that do not apply are absent."""
    found: Document = {"at": times.text_of(row.at_us), "producer": row.producer}
    found |= {"at_basis": "file"} if row.is_bound else {}
    found |= {"of": row.session} if row.session != session else {}
    optional: Document = {"agent": row.agent, "run": row.run, "ordinal": row.ordinal, "response_id": row.response_id}
    kept = {name: content.escape(value)[0] for name, value in optional.items() if value is not None}
    found |= kept | ({} if row.extra is None else {"extra": content.escape(row.extra)[0]})
    return found | ({"is_error": True} if row.is_error else {}) | ({"erased": True} if row.erased else {})


def _owed(answer: HistoryAnswer) -> Document | None:
    members = ("position", "response_id", "run", "reason")
    return None if answer.owed is None else {name: getattr(answer.owed, name) for name in members}


def _compaction(answer: HistoryAnswer, compaction: Compaction) -> Document:
    row = answer.row(compaction.position)
    found: Document = {name: getattr(compaction, name) for name in ("position", "mode", "response_id", "run")}
    if row is not None:
        found |= {"at": times.text_of(row.at_us), "producer": row.producer}
        found |= {"of": row.session} if row.session != answer.session else {}
        found |= {} if row.usage is None else {"usage": content.escape(row.usage)[0]}
    return found | {
        "after": compaction.after,
        "inert": compaction.inert,
        "covered": [_item(answer, answer.entries[id_]) for id_ in compaction.covered if id_ in answer.entries],
        "put": [_item(answer, answer.entries[id_]) for id_ in compaction.put if id_ in answer.entries],
        "covered_chars": answer.size(compaction.covered),
        "put_chars": answer.size(compaction.put),
    }
