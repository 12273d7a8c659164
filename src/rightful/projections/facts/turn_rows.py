"""How complete the transcripts of all sessions are, from columns: what `completeness_of` says, without its places.

A page of the log adds a few short rows a turn: which indexes came, as ranges, and how the turn
ended. A ledger without transcripts has none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from hashlib import blake2b
from typing import NamedTuple

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
    End,
    State,
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

_STATES: tuple[State, ...] = ("complete", "unknown", "incomplete")  # from the best to the worst
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
        try:
            is_overwritten = overwrites(row)
        except UpgradeError:  # as with an end
            return
        if is_overwritten:
            self._others.append((OVERWRITTEN, 0, 0, 0, 0))

    def _withdraw(self, row: Stored) -> None:
        try:
            found = withdrawal_of(row)
        except UpgradeError:  # as with an end
            return
        if found is not None:
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
    worst: dict[int, int] = {}
    at: tuple[int, int] | None = None
    of_turns: dict[int, _Turn] = {}
    withdrawn = _withdrawn(turns)
    for name, producer, turn, kind, *values, row in zip(*columns, strict=True):
        if kind == WITHDRAWN or (row and (name, row) in withdrawn and kind != END):
            continue
        if (name, producer) != at:
            _note(worst, at, of_turns)
            at, of_turns = (name, producer), {}
        is_filled = kind == END and (name, row) in withdrawn
        (of_turns.get(turn) or of_turns.setdefault(turn, _Turn())).add(FILLED if is_filled else kind, *values)
    _note(worst, at, of_turns)
    return {name: _STATES[state] for name, state in worst.items()}


def _withdrawn(turns: Table) -> frozenset[tuple[int, int]]:
    """Return which rows of which names are withdrawn by a row that is not withdrawn itself."""
    rows = np.flatnonzero(turns["kind"] == WITHDRAWN)
    names, own, of = (turns[name][rows].tolist() for name in ("name", "last", "row"))
    named = frozenset(zip(names, of, strict=True))
    pairs = zip(names, own, of, strict=True)
    return frozenset((name, row) for name, withdrawal, row in pairs if (name, withdrawal) not in named)


def _note(worst: dict[int, int], at: tuple[int, int] | None, turns: dict[int, _Turn]) -> None:
    """Keep the state of one producer's turns for a name, if it is worse than that of the others."""
    if at is None:
        return
    outside = turns.pop(_NONE, None)
    is_overwritten = outside is not None and outside.is_overwritten
    state = [turn.state(is_overwritten=is_overwritten) for turn in turns.values()]
    found = [_STATES.index(state) for state in state if state is not None]
    if outside is not None and outside.is_turnless:
        found.append(_STATES.index("unknown"))
    if found:
        worst[at[0]] = max([worst.get(at[0], 0), *found])


class _Span(NamedTuple):
    first: int
    last: int
    pos: int


class _Turn:
    """What the rows of one turn say."""

    def __init__(self) -> None:
        self.is_overwritten = self.is_turnless = False
        self._is_transcript = self._is_dropped = self._is_named = self._is_beside = self._is_loose = False
        self._spans: list[_Span] = []
        self._own: list[int] = []
        self._filled: list[int] = []
        self._loose_count = 0
        self._counts: list[int] = []
        self._closed_at = 0

    def add(self, kind: int, first: int, last: int, pos: int) -> None:
        """Add a row."""
        match kind:
            case 0 | 1:  # SEEN, OUTSIDE_TRANSCRIPT
                self._is_transcript = self._is_transcript or kind == SEEN
                self._is_beside = True
                self._spans.append(_Span(first, last, pos))
            case 2:  # LOOSE
                self._is_transcript = self._is_loose = True
                self._loose_count += first
            case 3:  # END
                self._end(first, last, pos)
            case 4:  # DROPPED
                self._is_dropped = True
            case 5:  # PREVIOUS
                self._is_named = True
            case 6:  # TURNLESS
                self.is_turnless = True
            case 7:  # OVERWRITTEN
                self.is_overwritten = True
            case _:  # FILLED
                self._is_transcript = True
                self._filled += [first] * (first != _NONE)

    def _end(self, own: int, count: int, pos: int) -> None:
        self._is_transcript = True
        self._closed_at = min(self._closed_at or pos, pos)
        if own != _NONE:
            self._own.append(own)
        if count != _NONE:
            self._counts.append(count)

    def state(self, *, is_overwritten: bool) -> State | None:
        """Return its state; None if it is not a turn of a transcript."""
        if not self._is_transcript:
            return "incomplete" if self._is_named and not self._is_beside else None
        missing_count = self._missing_count()
        is_lacking = missing_count > self._loose_count and not is_overwritten
        is_open = bool(self._spans or self._own) and not self._closed_at
        if is_lacking or is_open or self._is_dropped or self._is_late():
            return "incomplete"
        has_index = bool(self._spans or self._own or self._counts) and not self._is_loose
        is_known = not is_overwritten and has_index and bool(self._counts or not self._closed_at) and not missing_count
        return "complete" if is_known else "unknown"

    def _missing_count(self) -> int:
        expected = found = 0
        spans = [(span.first, span.last) for span in self._spans] + [(index, index) for index in self._own]
        top = max([*(last for _, last in spans), *(count - 1 for count in self._counts)], default=_NONE)
        for first, last in sorted(spans + [(index, index) for index in self._filled if index < top]):
            if last >= expected:
                found += last - max(first, expected) + 1
                expected = last + 1
        return max([expected, *self._counts]) - found

    def _is_late(self) -> bool:
        if self._counts:
            return any(span.last >= min(self._counts) for span in self._spans)
        return bool(self._closed_at) and any(span.pos > self._closed_at for span in self._spans)
