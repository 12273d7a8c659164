"""The fold of a history: rows of one session in, the items that the model would see next out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from rightful.encoding.envelope import SCHEMAS, VERSION, body_of
from rightful.log.classify import ACCEPTED
from rightful.log.rows import Stored
from rightful.projections.histories.chronicle import Chronicle, Compaction
from rightful.projections.histories.from_transcript import ITEM_TYPES, TranscriptItems
from rightful.projections.histories.history_items import ERASED, Item, ItemKey, ghost, item_of
from rightful.projections.histories.history_view import Change, ChangeEffect, View, summary_of
from rightful.tokens import Without

HISTORY = frozenset({"history.appended", "history.compacted", "history.popped", "history.cleared", "history.forked"})
"""The event types that make a history."""

CHANGES = (HISTORY - {"history.appended"}) | {"event.withdrawn"}
"""The event types after which a token is stale: all but appends."""

ASIDE = frozenset({"compaction.deferred", "event.withdrawn"})
"""The event types that say something about a history."""


class Shown(Struct, frozen=True):
    """Which rows of a session count, beyond their outcome.

    Attributes:
        settled: Of each event of which a revision was withdrawn, the revisions that still say something.
        forked_at: The position of the fork that the history begins with; 0 if there is none.
        is_appended: Items were appended in this session, so its transcript adds no items.
        without: What is to count as never done; None for nothing.
        placed: The ids of the events that have the place of a withdrawn event, by the id of that.
    """

    settled: dict[str, frozenset[int]] = {}
    forked_at: int = 0
    is_appended: bool = False
    without: Without | None = None
    placed: dict[str, tuple[str, ...]] = {}

    def counts(self, row: Stored) -> bool:
        """Whether a row counts: the newest revision of a recorded message, the first of a change."""
        envelope = row.envelope
        live = self.settled.get(envelope.id) if self.settled else None
        if envelope.type in ITEM_TYPES:
            return envelope.outcome in ACCEPTED if live is None else envelope.revision in live
        return envelope.outcome == "appended" if live is None else envelope.revision == min(live, default=0)

    def is_gone(self, row: Stored) -> bool:
        """Whether a row is the first of an event of which nothing counts any more."""
        return row.envelope.outcome == "appended" and self.settled.get(row.envelope.id) == frozenset()


class _ItemsBody(Struct, gc=False):
    items: list[msgspec.Raw] = []
    run: str | None = None
    ordinal: int | None = None


_decode_items = msgspec.json.Decoder(_ItemsBody).decode


class Fold:
    """The history of one session, as far as its rows were folded.

    Attributes:
        view: What it shows, in order.
        owed: The response id of a compaction that is owed (empty if it has none); None if none is.
        changed_at: The position of the last change after which a token is stale; 0 if there was none.
        telling: Makes items from a transcript, if none were appended.
        runs: The highest ordinal of each run that appended.
        compactions: Per run, the ids of the items that each of its compactions left, by its ordinal (None in rows of
            before it was noted).
        ignored: Events that could not be followed: the position and why.
        chronicle: Every item it ever had; None if not requested.

    Args:
        shown: Which rows count.
        whole: Keep everything that it ever held.
    """

    def __init__(self, shown: Shown | None = None, *, whole: bool = False) -> None:
        self.view = View()
        self.chronicle = Chronicle() if whole else None
        self.ignored: list[tuple[int, str]] = []
        self._begin(shown or Shown())

    def _begin(self, shown: Shown) -> None:
        self.shown = shown
        self.owed: str | None = None
        self.changed_at = 0
        self.runs: dict[str, int] = {}
        self.compactions: dict[str, dict[int | None, list[list[ItemKey]]]] = {}
        self.transcript_items = TranscriptItems()

    def fork(self, shown: Shown) -> None:
        """Go on as the history of another session, which begins with what this one shows."""
        self.view.begin()
        self._begin(shown)

    def step(self, row: Stored) -> None:
        """Fold one row of the session; rows come by ascending position.

        Raises:
            UpgradeError: It is of a newer version.
        """
        kind = row.envelope.type
        if kind in CHANGES and row.envelope.outcome in ACCEPTED:
            self.changed_at = row.position
        if not self.shown.counts(row):
            if kind == "history.appended" and self.shown.is_gone(row):
                self._keep_places(row)
            return
        if kind in ITEM_TYPES:
            if not self.shown.is_appended:
                self._add_transcript_item(row)
        else:
            self._take_event(row)

    def _take_event(self, row: Stored) -> None:
        match row.envelope.type:
            case "history.appended":
                self._appended(row)
            case "history.compacted":
                self._compacted(row)
            case "history.popped":
                self._popped(row)
            case "history.cleared":
                self._cleared(row)
            case "history.forked":
                self._forked(row)
            case "compaction.deferred":
                self._deferred(row)
            case _:  # a withdrawal: which rows count was decided before
                pass

    def _appended(self, row: Stored) -> None:
        if row.body is None:
            self._keep_places(row)
            return
        body = self._read(row)
        if body.run is not None and body.ordinal is not None:
            if self._is_undone(body.run, body.ordinal):
                return
            self.runs[body.run] = max(self.runs.get(body.run, 0), body.ordinal)
        self._add(row.envelope.id, list(self._items(row, body.items)))

    def _add(self, id_: str, items: list[Item]) -> None:
        if self.chronicle is not None:
            self.chronicle.add(item for item in items if not item.is_ghost)
        for effect in self.view.append(id_, items):
            self._note(effect)

    def _keep_places(self, row: Stored) -> None:
        """Keep the places of items that are not shown, since a range may end with one of them."""
        if row.body is None:
            self.ignored.append((row.position, "its items were erased"))
            ghosts = [ghost((row.envelope.id, ERASED), row.position)]
        else:
            count = len(self._read(row).items)
            ghosts = [ghost((row.envelope.id, at), row.position) for at in range(count)]
        self._add(row.envelope.id, ghosts)

    def _read(self, row: Stored) -> _ItemsBody:
        envelope, body = row.envelope, row.body or b""
        if envelope.schema == SCHEMAS.get(envelope.type) and envelope.v <= VERSION:
            return _decode_items(body)
        body = body_of(envelope, body, row.position)
        raws = [msgspec.Raw(msgspec.json.encode(item, order="deterministic")) for item in body.items]
        return _ItemsBody(raws, body.run, getattr(body, "ordinal", None))

    def _items(self, row: Stored, raws: Sequence[msgspec.Raw]) -> Iterator[Item]:
        id_, position, escaped = row.envelope.id, row.position, row.envelope.escaped
        for at, raw in enumerate(raws):
            yield item_of((id_, at), position, bytes(raw), escaped=escaped)

    def _is_undone(self, run: str, ordinal: int) -> bool:
        without = self.shown.without
        return without is not None and run == without.run and ordinal >= without.ordinal

    def _is_later(self, run: str, ordinal: int | None) -> bool:
        """Return whether a compaction came later in its run than this view; `None` is a row without its ordinal."""
        without = self.shown.without
        if without is None or run != without.run:
            return False
        if ordinal != without.ordinal:
            return ordinal is None or ordinal > without.ordinal
        return len(self.compactions.get(run, {}).get(ordinal, ())) >= without.compactions

    def _compacted(self, row: Stored) -> None:
        self.owed = None
        if row.body is None:
            self.ignored.append((row.position, "what it covers was erased"))
            return
        body = body_of(row.envelope, row.body, row.position)
        put = list(self._items(row, self._read(row).items))
        if body.run is not None:
            if self._is_later(body.run, body.ordinal):
                return
            of_run = self.compactions.setdefault(body.run, {})
            of_run.setdefault(body.ordinal, []).append([item.id for item in put])
        if not self.view.meets(row.envelope.producer, body.extra):
            return
        record = Compaction(
            position=row.position,
            covered=[],
            put=[item.id for item in put],
            after=body.after,
            mode=body.mode,
            response_id=body.response_id,
            run=body.run,
        )
        if self.chronicle is not None:
            self.chronicle.add(put)
            self.chronicle.summaries.update(record.put)
            self.chronicle.compactions.append(record)
        change = Change(row.position, "compacted", record, body.after, summary_of(body.extra))
        self._note(self.view.replace(body.covers, put, change))

    def _popped(self, row: Stored) -> None:
        if row.body is None:
            self.ignored.append((row.position, "the list of items that it removes was erased"))
            return
        body = body_of(row.envelope, row.body, row.position)
        self._note(self.view.replace(body.items, [], Change(row.position, "popped")))

    def _note(self, effect: ChangeEffect) -> None:
        """Record the effect of a change."""
        change, put = effect.change, effect.put
        gone = [item for item in effect.gone if not item.is_ghost]
        if change.record is not None:
            change.record.covered += [item.id for item in gone]
            change.record.inert = not effect.is_put if put else change.record.inert
        if self.chronicle is not None:
            self.chronicle.end(gone, change.fate, change.position)
            if change.record is not None and change.summary is not None:
                self.chronicle.name_summary(change.record, change.summary)
            if put:
                self._end_put(put, change.position, is_put=effect.is_put)

    def _end_put(self, put: list[Item], position: int, *, is_put: bool) -> None:
        assert self.chronicle is not None
        if is_put:
            for item in put:
                self.chronicle.fates.pop(item.id, None)
        else:
            self.chronicle.end(put, "inert", position)

    def _cleared(self, row: Stored) -> None:
        self.owed = None
        gone = self.view.clear()
        if self.chronicle is not None:
            self.chronicle.end([item for item in gone if not item.is_ghost], "cleared", row.position)

    def _forked(self, row: Stored) -> None:
        if row.position != self.shown.forked_at:
            self.ignored.append((row.position, "a history can only start from one that came before it"))

    def _deferred(self, row: Stored) -> None:
        body = None if row.body is None else body_of(row.envelope, row.body, row.position)
        self.owed = (body.response_id if body is not None else None) or ""

    def _add_transcript_item(self, row: Stored) -> None:
        """Add an item from a transcript; a later revision replaces it in place."""
        id_ = row.envelope.id
        is_known = id_ in self.transcript_items.event_ids
        item = self.transcript_items.item(row)
        if is_known:
            if item is not None:
                self.view.renew(item)
                if self.chronicle is not None:
                    known = self.chronicle.items.get(item.id, item)
                    self.chronicle.add([item._replace(position=known.position)])
        elif item is not None:
            self._add(id_, [item])
            if self.chronicle is not None and self.transcript_items.is_summary:
                self.chronicle.sum_up(item)
        else:
            self._add(id_, [ghost((id_, 0), row.position)])
