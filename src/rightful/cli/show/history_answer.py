"""A history as of one position: its view, all its items, and the metadata of its rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from rightful import content
from rightful.histories.annotations import RowAnnotations, Rows, rows_of
from rightful.histories.full_history import full_history
from rightful.histories.history_model import FullHistory, HistoryEntry
from rightful.histories.history_rows import folded
from rightful.ledger import Ledger
from rightful.projections.histories.chronicle import Compaction
from rightful.projections.histories.history_items import ItemKey
from rightful.tokens import Token


class HistoryAnswer(NamedTuple):
    """A history, as it was at one position.

    Attributes:
        ledger: The ledger's id.
        commitment: The commitment of the row at the position.
        shown: The ids of the items that the model would see next, in order.
        left_out: The ids of the outputs that are not shown, since their call was removed.
        whole: All items that were ever in it, in the order of the log, and its compactions.
        entries: The entries of `whole`, by the item's id.
        compactions: The compaction of each item that is its summary.
        rows: The annotations of its rows.
        owed: The deferred compaction; None if there is none.
        requested: The requested session, if its own history is empty and this is the history of another name.
        joined: The names of its run that have a history, if its own is empty and there are several.
        is_past: An earlier position was requested.
    """

    session: str
    position: int
    ledger: str
    commitment: str
    shown: list[ItemKey]
    left_out: list[ItemKey]
    whole: FullHistory
    entries: dict[ItemKey, HistoryEntry]
    compactions: dict[ItemKey, Compaction]
    rows: Rows
    owed: RowAnnotations | None
    is_past: bool
    requested: str | None = None
    joined: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether it never had an item or a fork."""
        return not self.whole.entries and not self.rows.forks

    def last(self, limit: int) -> list[ItemKey]:
        """Return the ids of the last `limit` shown items; of all if 0."""
        return self.shown[-limit:] if limit else self.shown

    def row(self, position: int) -> RowAnnotations | None:
        """Return the annotations of the row at a position."""
        return self.rows.at.get(position)

    def token(self, limit: int) -> Token:
        """Return a token of the last `limit` shown items; of all if 0."""
        return Token(self.session, self.position, self.ledger, limit or None, commitment=self.commitment)

    def size(self, ids: Iterable[ItemKey]) -> int:
        """Return the total number of characters of the JSON of items."""
        items = (content.escape(self.entries[id_].item)[0] for id_ in ids if id_ in self.entries)
        return sum(len(msgspec.json.encode(item).decode()) for item in items)


def answer_of(ledger: Ledger, session: str, at: int | None) -> HistoryAnswer:
    """Return a session's history at a position; at the end of the ledger if None.

    Raises:
        UpgradeError: A row is of a newer version.
    """
    position = ledger.log.head() if at is None else at
    fold = folded(ledger.log, session, position, whole=True)
    items, left_out = fold.view.shown()
    whole, rows = full_history(session, position, fold), rows_of(ledger.log, session, position)
    return HistoryAnswer(
        session=session,
        position=position,
        ledger=ledger.id,
        commitment=ledger.log.commitment(position),
        shown=[item.id for item in items],
        left_out=left_out,
        whole=whole,
        entries={entry.id: entry for entry in whole.entries},
        compactions={id_: compaction for compaction in whole.compactions for id_ in compaction.put},
        rows=rows,
        owed=None if fold.owed is None else rows.deferred,
        is_past=at is not None,
    )
