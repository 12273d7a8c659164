"""Completeness: whether all that a producer counted of a session is there, and which of it is not.

A producer that counts gives each event of a turn an index, from 0, and closes the turn with a
`turn.ended` that says how many there were: by `event_count`, or by an index of its own, which is
then the last one. Every row that came is counted, whatever its outcome: a stale or quarantined
revision was delivered, and a repeated id with an index of its own fills that index too.

| found | hole |
|---|---|
| an index below the count, or below the highest that came, is not there | `missing`, which ones |
| the turn that another names as `previous` is not there | `missing`, none known |
| the producer says that it lost some | `dropped`, how many |
| nothing closed the turn | `open` |
| an index beyond the count: it came after the turn was closed | `late`, which ones |

What an end says counts for nothing once that row was withdrawn (`event.withdrawn`); that it came still does.

An index out of order is not late: the count says that it belongs to the turn. Only where a
`turn.ended` counts nothing does the place in the log tell what came after it.

`complete` is what is proven to be whole. Without indexes or without a count it is `unknown`, since
a lost tail would not show. So is all that was read from a store that overwrites (Agenta's records): earlier snapshots
are gone there, and the index of a repaired row is never stored, so a gap proves nothing either. A
producer says that its source is one by a `data.recorded` whose name is `OVERWRITING`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

from msgspec import Struct

from rightful.encoding.envelope import body_of
from rightful.errors import IncompleteTranscriptError
from rightful.events.transcript_events import OVERWRITING
from rightful.log.rows import Stored
from rightful.log.withdrawals import Withdrawal, in_force, withdrawal_of

State = Literal["complete", "incomplete", "unknown"]
HoleKind = Literal["missing", "dropped", "open", "late"]

COUNTED = frozenset(
    {
        "message.recorded",
        "thought.recorded",
        "usage.recorded",
        "error.recorded",
        "tool_call.snapshotted",
        "tool_result.snapshotted",
        "interaction.requested",
        "interaction.answered",
    }
)
"""The types that make a transcript: without an index its completeness is unknown."""

HISTORY = frozenset({"history.appended", "history.forked"})
"""The types by which a session has a history of its own. A history has no expected count."""

_OVERWRITTEN = (
    "its records come from a store that overwrites: earlier snapshots are unknown, and their order is that of the last "
    "write"
)

TERMINAL, DATA = "turn.ended", "data.recorded"
ENDED_OR_COUNTED = COUNTED | {TERMINAL}
TRANSCRIPT = COUNTED | {TERMINAL, DATA}
"""The types of which a turn consists. Others fill the index that their producer gave them, and make no turn."""


class Hole(Struct, frozen=True):
    """Something that a transcript lacks, or that came when it was closed.

    Attributes:
        turn: In which turn.
        kind: `missing`, `dropped` (by the producer's own word), `open` (nothing closed the turn)
            or `late` (it came after the turn was closed).
        indexes: Which indexes, as ranges with both ends; empty where they are not known.
        count: How many events; None where that is not known.
    """

    turn: str
    kind: HoleKind
    indexes: tuple[tuple[int, int], ...] = ()
    count: int | None = None


class Completeness(Struct, frozen=True):
    """Whether a session's transcript is whole.

    Attributes:
        state: `complete`, `incomplete` or `unknown`; of several producers the worst counts.
        holes: What it lacks, turn by turn in log order.
        why: Why it is unknown; None otherwise.
        late: The positions of the rows that came after their turn was closed.
    """

    state: State
    holes: tuple[Hole, ...] = ()
    why: str | None = None
    late: frozenset[int] = frozenset()


def completeness_of(rows: Iterable[Stored]) -> Completeness:
    """Return whether the transcript is whole that the rows of one session make.

    Needs all rows of the session, of every outcome, by ascending position.

    Raises:
        UpgradeError: The end of a turn is of a newer version.
    """
    by_producer: dict[str, ProducerRecords] = {}
    withdrawals: list[Withdrawal] = []
    has_history = False
    for row in rows:
        has_history = has_history or row.envelope.type in HISTORY
        if (withdrawal := withdrawal_of(row)) is not None:
            withdrawals.append(withdrawal)
        by_producer.setdefault(row.envelope.producer, ProducerRecords()).add(row)
    withdrawn = {(id_, revision) for id_, found in in_force(withdrawals).items() for revision in found}
    for producer in by_producer.values():
        producer.apply_withdrawals(withdrawn)
    completeness = [producer.completeness() for producer in by_producer.values() if producer.has_transcript()]
    if not completeness:
        why = "its history does not count what was said" if has_history else "no transcript of it is recorded"
        return Completeness("unknown", why=why)
    worst = min(completeness, key=lambda answer: WORST.index(answer.state))
    holes = tuple(hole for answer in completeness for hole in answer.holes)
    return Completeness(worst.state, holes, worst.why, frozenset().union(*(answer.late for answer in completeness)))


def require_complete(session: str, found: Completeness) -> None:
    """Refuse a transcript that is not known to be whole.

    Raises:
        IncompleteTranscriptError: It is incomplete, or its completeness is unknown.
    """
    if found.state != "complete":
        reasons = tuple(words(hole) for hole in found.holes) or (found.why or "",)
        raise IncompleteTranscriptError(session, found.state, reasons)


def words(hole: Hole) -> str:
    """Return a hole as a part of a sentence."""
    listed = ", ".join(str(first) if first == last else f"{first} to {last}" for first, last in hole.indexes)
    which = f"{'index' if hole.count == 1 else 'indexes'} {listed}"
    match hole.kind:
        case "missing" if hole.indexes:
            return f"turn {hole.turn} lacks {which}"
        case "missing" if hole.count is None:
            return f"turn {hole.turn} is not there"
        case "missing":
            return f"turn {hole.turn} lacks {hole.count} of its events"
        case "dropped":
            return f"turn {hole.turn} lost {hole.count} by its producer's word"
        case "open":
            return f"turn {hole.turn} was not closed"
        case "late":
            return f"turn {hole.turn} was closed before {which} came"


WORST: tuple[State, ...] = ("incomplete", "unknown", "complete")
"""The states, from the worst to the best."""


class ProducerRecords:
    """One producer's records of a session.

    Attributes:
        turns: Its turns, by name.
        previous: The turns that its ends name as the one before.
        is_overwritten: Its source overwrites records.
        has_turnless: Something of the transcript has no turn.
    """

    def __init__(self) -> None:
        self.turns: dict[Any, TurnRecords] = {}
        self.previous: dict[Any, None] = {}
        self.is_overwritten = False
        self.has_turnless = False

    def add(self, row: Stored) -> None:
        """Add a row."""
        envelope = row.envelope
        kind, turn = envelope.type, envelope.turn
        if turn is None:
            self.has_turnless = self.has_turnless or kind in COUNTED
            self.is_overwritten = self.is_overwritten or (kind == DATA and overwrites(row))
        elif envelope.index is not None or kind in ENDED_OR_COUNTED:
            self.turns.setdefault(turn, TurnRecords()).add(row)

    def apply_withdrawals(self, withdrawn: set[tuple[str, int]]) -> None:
        """Leave out what withdrawn ends say. Call once, after all rows were added."""
        ends = [end for turn in self.turns.values() for end in turn.close_all(withdrawn)]
        self.previous = {end.previous: None for end in ends if end.previous is not None}

    def has_transcript(self) -> bool:
        """Return whether any of its rows belongs to a transcript."""
        return self.has_turnless or any(turn.is_transcript for turn in self.turns.values())

    def completeness(self) -> Completeness:
        """Return the completeness of this producer's records."""
        turns = {name: turn for name, turn in self.turns.items() if turn.is_transcript}
        some = "some of it was recorded outside of turns" if turns else "it was recorded without turns"
        doubts = [f"{some}, so a gap would not show"] * self.has_turnless
        holes: list[Hole] = []
        for name, turn in turns.items():
            holes += turn.holes(name, gaps=not self.is_overwritten)
            doubts += turn.doubts(gaps=self.is_overwritten)
        if self.is_overwritten:
            doubts.append(_OVERWRITTEN)
        holes += [Hole(name, "missing") for name in self.previous if name not in self.turns]
        state: State = "incomplete" if holes else "unknown" if doubts else "complete"
        closed = [turns[hole.turn] for hole in holes if hole.kind == "late"]
        late = frozenset(position for turn in closed for position in turn.late_positions())
        return Completeness(state, tuple(holes), doubts[0] if state == "unknown" else None, late)


class TurnRecords:
    """One producer's records of one turn.

    Attributes:
        is_transcript: Whether anything of it belongs to a transcript.
        spans: The positions of the rows of each range of indexes, ascending; none for the index of an end.
        filled: The indexes of ends that were withdrawn.
        unindexed_count: How many events have no index; None if all have one.
        dropped_count: How many events its producer says it lost.
    """

    __slots__ = (
        "_closed_at",
        "_counts",
        "_ends",
        "dropped_count",
        "filled",
        "is_transcript",
        "spans",
        "unindexed_count",
    )

    def __init__(self) -> None:
        self.is_transcript = False
        self.spans: dict[tuple[int, int], list[int]] = {}
        self.filled: set[int] = set()
        self.unindexed_count: int | None = None
        self.dropped_count = 0
        self._ends: list[tuple[Stored, End]] = []
        self._closed_at = 0
        self._counts: list[int] = []

    def add(self, row: Stored) -> None:
        """Add a row of the turn."""
        envelope = row.envelope
        self.is_transcript = self.is_transcript or envelope.type in TRANSCRIPT
        if envelope.type == TERMINAL:
            self._ends.append((row, end_of(row)))
        elif envelope.index is not None:
            self.spans.setdefault((envelope.index, envelope.index), []).append(row.position)
        elif envelope.type in COUNTED:
            self.unindexed_count = (self.unindexed_count or 0) + is_first(row)

    def close_all(self, withdrawn: set[tuple[str, int]]) -> Iterator[End]:
        """Apply the added ends and yield those that were not withdrawn; the others only fill their indexes."""
        for row, end in self._ends:
            index = row.envelope.index
            if (row.envelope.id, row.envelope.revision) not in withdrawn:
                self.close(row.position, index, end.count)
                self.dropped_count = max(self.dropped_count, end.dropped_count)
                yield end
            elif index is not None:
                self.filled.add(index)

    def close(self, position: int, index: int | None, count: int | None) -> None:
        """Apply an end: its own index, and how many indexes the turn has."""
        self._closed_at = min(self._closed_at or position, position)
        if index is not None:
            self.spans.setdefault((index, index), [])
        if count is not None:
            self._counts.append(count)

    def holes(self, name: str, *, gaps: bool) -> Iterator[Hole]:
        """Yield what it lacks; whether an index that never came is a hole depends on the source."""
        missing = self._missing() if gaps else ()
        lacking = sum(last - first + 1 for first, last in missing) - (self.unindexed_count or 0)
        if lacking > 0:
            yield Hole(name, "missing", missing if self.unindexed_count is None else (), lacking)
        if self.dropped_count:
            yield Hole(name, "dropped", (), self.dropped_count)
        if self.spans and not self._closed_at:
            yield Hole(name, "open")
        if late := self._late():
            yield Hole(name, "late", ranges(first for first, _ in late), len(late))

    def doubts(self, *, gaps: bool) -> Iterator[str]:
        """Yield why it is not known to be whole."""
        if self.unindexed_count is not None or not (self.spans or self._counts):
            yield "its events are not numbered, so a gap would not show"
        elif self._closed_at and not self._counts:
            yield "its turns end without a count, so a lost tail would not show"
        if gaps and self._missing():
            yield "it comes from a store that overwrites, where a gap proves nothing"

    def late_positions(self) -> Iterator[int]:
        """Yield the positions of what came after the turn was closed."""
        for span in self._late():
            yield from (at for at in self.spans[span] if self._counts or at > self._closed_at)

    def _missing(self) -> tuple[tuple[int, int], ...]:
        count, spans = max(self._counts, default=0), list(self.spans)
        if self.filled:
            top = max(count - 1, max((last for _, last in spans), default=-1))
            spans += [(index, index) for index in self.filled if index < top]
        return gaps_in(sorted(spans), count)

    def _late(self) -> list[tuple[int, int]]:
        """Return what came after the turn was closed: by the count, or by the place in the log where nothing counts."""
        if self._counts:
            count = min(self._counts)
            return sorted([span for span, places in self.spans.items() if span[1] >= count and places])
        if not self._closed_at:
            return []
        return sorted([span for span, places in self.spans.items() if places and places[-1] > self._closed_at])


class End(Struct, frozen=True):
    """What a `turn.ended` says: how many indexes its turn has, how many events were lost, and the turn before it."""

    count: int | None
    dropped_count: int
    previous: str | None


def end_of(row: Stored) -> End:
    """Return what a `turn.ended` says; only its own index once its body is erased.

    Raises:
        UpgradeError: A newer program wrote it.
    """
    index = row.envelope.index
    own = None if index is None else index + 1
    if row.body is None:
        return End(own, 0, None)
    body = body_of(row.envelope, row.body, row.position)
    count = max((number for number in (own, body.event_count) if number is not None), default=None)
    return End(count, body.dropped_count or 0, body.previous)


def is_first(row: Stored) -> bool:
    """Return whether a row is the first of its id, or the first of it in another turn: its states count once."""
    return row.envelope.revision == 1 or row.envelope.outcome == "reemitted"


def overwrites(row: Stored) -> bool:
    """Return whether a `data.recorded` says that its producer's source overwrites records.

    Raises:
        UpgradeError: A newer program wrote it.
    """
    body = row.body
    if body is None or OVERWRITING.encode() not in body:
        return False
    return bool(body_of(row.envelope, body, row.position).name == OVERWRITING)


def gaps_in(spans: Iterable[tuple[int, int]], count: int) -> tuple[tuple[int, int], ...]:
    """Return the ranges that lack below a count, and below the highest index of some sorted ranges."""
    found: list[tuple[int, int]] = []
    expected = 0
    for first, last in spans:
        if first > expected:
            found.append((expected, first - 1))
        expected = max(expected, last + 1)
    if expected < count:
        found.append((expected, count - 1))
    return tuple(found)


def ranges(indexes: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Return ascending indexes as ranges with both ends."""
    found: list[tuple[int, int]] = []
    for index in indexes:
        if found and found[-1][1] == index - 1:
            found[-1] = found[-1][0], index
        else:
            found.append((index, index))
    return tuple(found)
