"""The history that is shown: its view, all its items, and the metadata of its rows, as of one position."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

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
        whole: Everything that was ever in it, in the order of the log, and its compactions.
        entries: The entries of `whole`, by the item's id.
        compactions: The compaction of each item that is its summary.
        rows: The annotations of its rows.
        owed: The compaction that is owed; None if none is.
        requested: The requested session, if its own history is empty and this is the history of another name.
        joined: The names of its run that have a history, where there are several and its own is empty.
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
        """Whether nothing was ever in it."""
        return not self.whole.entries and not self.rows.forks

    def last(self, limit: int) -> list[ItemKey]:
        """Return the ids of the last items that are shown; of all if 0."""
        return self.shown[-limit:] if limit else self.shown

    def row(self, position: int) -> RowAnnotations | None:
        """Return the annotations of the row at a position."""
        return self.rows.at.get(position)

    def token(self, limit: int) -> Token:
        """Return a token of the view, or of its last items; of all if 0."""
        return Token(self.session, self.position, self.ledger, limit or None, commitment=self.commitment)

    def size(self, ids: Iterable[ItemKey]) -> int:
        """Return how long items are together: the characters of their JSON."""
        return sum(length(self.entries[id_].item) for id_ in ids if id_ in self.entries)


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


def length(item: Any) -> int:  # noqa: ANN401 - an item of any form
    """Return how long an item is: the characters of its JSON."""
    return len(msgspec.json.encode(content.escape(item)[0]).decode())
