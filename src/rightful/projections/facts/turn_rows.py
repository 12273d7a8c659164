"""How complete the transcripts of all sessions are, from columns: what `completeness_of` says, without its places.

A page of the log adds a few short rows a turn: which indexes came, as ranges, and how the turn
ended. A ledger without transcripts has none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from hashlib import blake2b

import numpy as np

from rightful.errors import UpgradeError
from rightful.log.rows import Page, Stored
from rightful.log.withdrawals import WITHDRAWAL, withdrawal_of
from rightful.projections.facts.columns import Table
from rightful.projections.facts.completeness import (
    COUNTED,
    DATA,
    TERMINAL,
    TRANSCRIPT,
    WORST,
    End,
    ProducerRecords,
    State,
    TurnRecords,
    end_of,
    is_first,
    overwrites,
    ranges,
)

SEEN, OUTSIDE_TRANSCRIPT, LOOSE, END, DROPPED, PREVIOUS, TURNLESS, OVERWRITTEN, WITHDRAWN, FILLED = range(10)
"""What a row says of its turn: indexes of its transcript that came, or of other rows; how many came
without an index; how it ended; that some were dropped; that another turn names it as the one before; and, of a
session, that something has no turn, that it comes from a store that overwrites, or that a row of it was withdrawn.
An end that was withdrawn only fills its index: no row says that, it is found when the states are."""

_NONE = -1
_CONCERNED = TRANSCRIPT | {WITHDRAWAL}


def table() -> Table:
    """Return an empty table of turns: indexes `first` to `last`, the last of whose rows stands at `pos`.

    `row` tells which row says it, where that can be withdrawn, or which one was; then `last` tells by which row.
    """
    return Table(name="i4", producer="i4", turn="i8", kind="u1", first="i8", last="i8", pos="u4", row="i8")


def collect(turns: Table, page: Page, name: Callable[[str], int], producer: Callable[[str], int]) -> None:
    """Add what a page says of turns."""
    groups: dict[tuple[str | None, str, str | None], _Group] = {}
    for place, envelope in enumerate(page.envelopes):
        kind, index, turn = envelope.type, envelope.index, envelope.turn
        if kind not in _CONCERNED and (index is None or turn is None):
            continue
        key = (envelope.session, envelope.producer, turn)
        group = groups.get(key)
        if group is None:
            group = groups[key] = _Group()
        position = page.after + 1 + place
        if index is not None and turn is not None and kind in COUNTED:
            group.seen[index] = position
        else:
            group.add(Stored(position, envelope, page.payloads[place]))
    for (session, producer_, turn), group in groups.items():
        group.write(turns, name(session or ""), producer(producer_), _hashed(turn))


def concerns(page: Page, kinds: Collection[str] | None = None) -> bool:
    """Return whether a page may say anything of turns."""
    if not _CONCERNED.isdisjoint([envelope.type for envelope in page.envelopes] if kinds is None else kinds):
        return True
    return [envelope.index for envelope in page.envelopes].count(None) < len(page.envelopes)


class _Group:
    """What a page says of one turn, or of what a session has outside of turns.

    Attributes:
        seen: Where the last row of each index stands.
    """

    def __init__(self) -> None:
        self.seen: dict[int, int] = {}
        self._outside: dict[int, int] = {}
        self._loose_count: int | None = None
        self._others: list[tuple[int, int, int, int, int]] = []
        self._previous: set[tuple[str, int]] = set()

    def add(self, row: Stored) -> None:
        """Add a row."""
        position, envelope, _ = row
        kind, index = envelope.type, envelope.index
        if kind == WITHDRAWAL:
            self._withdraw(row)
        if envelope.turn is None:
            if kind in COUNTED:
                self._others.append((TURNLESS, 0, 0, 0, 0))
            elif kind == DATA:
                self._overwrite(row)
        elif kind == TERMINAL:
            self._end(row)
        elif index is not None:
            seen = self.seen if kind in TRANSCRIPT else self._outside
            seen[index] = position
        elif kind in COUNTED:
            self._loose_count = (self._loose_count or 0) + is_first(row)

    def _overwrite(self, row: Stored) -> None:
        with suppress(UpgradeError):  # as with an end
            if overwrites(row):
                self._others.append((OVERWRITTEN, 0, 0, 0, 0))

    def _withdraw(self, row: Stored) -> None:
        with suppress(UpgradeError):  # as with an end
            if (found := withdrawal_of(row)) is not None:
                own = _row_hashed(found.id, 1)
                self._others.append((WITHDRAWN, 0, own, 0, _row_hashed(found.of, found.revision)))

    def _end(self, row: Stored) -> None:
        try:
            end = end_of(row)
        except UpgradeError:  # what a newer program wrote counts nothing here, and stops no other question
            end = End(None, 0, None)
        own = _NONE if row.envelope.index is None else row.envelope.index
        hashed = _row_hashed(row.envelope.id, row.envelope.revision)
        self._others.append((END, own, _NONE if end.count is None else end.count, row.position, hashed))
        if end.dropped_count:
            self._others.append((DROPPED, 0, 0, 0, hashed))
        if end.previous is not None:
            self._previous.add((end.previous, hashed))

    def write(self, turns: Table, name: int, producer: int, turn: int) -> None:
        """Add its rows to the table."""
        for kind, seen in ((SEEN, self.seen), (OUTSIDE_TRANSCRIPT, self._outside)):
            for first, last in ranges(sorted(seen)):
                pos = max(seen[index] for index in range(first, last + 1))
                turns.append(name, producer, turn, kind, first, last, pos, 0)
        if self._loose_count is not None:
            turns.append(name, producer, turn, LOOSE, self._loose_count, 0, 0, 0)
        for kind, first, last, pos, row in dict.fromkeys(self._others):
            turns.append(name, producer, turn, kind, first, last, pos, row)
        for previous, row in self._previous:
            turns.append(name, producer, _hashed(previous), PREVIOUS, 0, 0, 0, row)


def _hashed(turn: str | None) -> int:
    """Return 63 bits that tell the turns of one session apart."""
    if turn is None:
        return _NONE
    return int.from_bytes(blake2b(turn.encode(), digest_size=8).digest(), "big") >> 1


def _row_hashed(id_: str, revision: int) -> int:
    """Return 63 bits that tell a session's rows apart, by their id and revision."""
    return _hashed(f"{id_} {revision}")


def transcript_states(turns: Table, names: Collection[int] | None = None) -> dict[int, State]:
    """Return the state of each name that has a transcript, by the name's number; of some names, or of all."""
    rows = np.arange(len(turns)) if names is None else np.flatnonzero(np.isin(turns["name"], list(names)))
    order = rows[np.lexsort((turns["turn"][rows], turns["producer"][rows], turns["name"][rows]))]
    columns = (turns[name][order].tolist() for name in turns.names)
    found: dict[int, State] = {}
    of: tuple[int, int] | None = None
    records = ProducerRecords()
    withdrawn = _withdrawn(turns)
    for name, producer, turn, kind, *values, row in zip(*columns, strict=True):
        is_withdrawn = bool(row) and (name, row) in withdrawn
        if kind == WITHDRAWN or (is_withdrawn and kind != END):
            continue
        if of != (name, producer):
            _note(found, of, records)
            of, records = (name, producer), ProducerRecords()
        _add(records, turn, FILLED if is_withdrawn else kind, *values)
    _note(found, of, records)
    return found


def _note(found: dict[int, State], of: tuple[int, int] | None, records: ProducerRecords) -> None:
    """Keep the state of one producer's records of a name, if it is worse than that of the others."""
    if of is not None and records.has_transcript():
        state = records.completeness().state
        found[of[0]] = min(state, found.get(of[0], state), key=WORST.index)


def _add(records: ProducerRecords, turn: int, kind: int, first: int, last: int, pos: int) -> None:
    if kind == TURNLESS:
        records.has_turnless = True
    elif kind == OVERWRITTEN:
        records.is_overwritten = True
    elif kind == PREVIOUS:
        records.previous[turn] = None
    else:
        of_turn = records.turns.get(turn) or records.turns.setdefault(turn, TurnRecords())
        of_turn.is_transcript = of_turn.is_transcript or kind != OUTSIDE_TRANSCRIPT
        if kind in {SEEN, OUTSIDE_TRANSCRIPT}:
            of_turn.spans.setdefault((first, last), []).append(pos)
        elif kind == LOOSE:
            of_turn.unindexed_count = (of_turn.unindexed_count or 0) + first
        elif kind == END:
            of_turn.close(pos, None if first == _NONE else first, None if last == _NONE else last)
        elif kind == DROPPED:
            of_turn.dropped_count = 1
        elif first != _NONE:
            of_turn.filled.add(first)


def _withdrawn(turns: Table) -> frozenset[tuple[int, int]]:
    """Return which rows of which names are withdrawn by a row that is not withdrawn itself."""
    rows = np.flatnonzero(turns["kind"] == WITHDRAWN)
    names, own, of = (turns[name][rows].tolist() for name in ("name", "last", "row"))
    named = frozenset(zip(names, of, strict=True))
    pairs = zip(names, own, of, strict=True)
    return frozenset((name, row) for name, withdrawal, row in pairs if (name, withdrawal) not in named)
