"""The rows of a session gathered by event id: what each fact says now, and where it stands.

What a fact says is its newest accepted revision. A stale row says nothing, but its index counts for
the place: the snapshot that came late and was first made is where the call began.
"""

from __future__ import annotations

from typing import Any

from msgspec import structs

from rightful import content
from rightful.encoding.envelope import Envelope, body_of
from rightful.errors import UpgradeError
from rightful.events import TYPES
from rightful.events.transcript_events import OVERWRITING, REPEATED
from rightful.log.classify import ACCEPTED
from rightful.log.rows import Stored
from rightful.log.withdrawals import Withdrawal, in_force, replacements, withdrawal_of

ENTRY_KINDS = {
    "message.recorded": "message",
    "thought.recorded": "thought",
    "usage.recorded": "usage",
    "error.recorded": "error",
    "tool_call.snapshotted": "tool_call",
    "tool_result.snapshotted": "tool_result",
    "interaction.requested": "interaction_requested",
    "interaction.answered": "interaction_answered",
    "data.recorded": "data",
    "turn.ended": "turn_ended",
    "history.appended": "history_appended",
    "history.compacted": "history_compacted",
    "history.popped": "history_popped",
    "history.cleared": "history_cleared",
    "history.forked": "history_forked",
    "compaction.deferred": "compaction_deferred",
}
"""The event types that a transcript tells, with the kind of their entries."""

ANNOTATING = frozenset({"session.started", "session.ended", "session.linked", "session.unlinked"})
"""The types that annotate the session and are not entries."""


class Fact:
    """One event id with all its rows in one session.

    Attributes:
        id: The event id.
        kind: The kind of its entry.
        producer: Its producer.
        turn: The turn of its first row.
        index: The lowest index of its rows in that turn; None where they have none.
        position: The position of its first row.
        place: Its place among the facts of its session: its position, or the place of the event that it follows by a
            withdrawal (`rightful.log.withdrawals`) and which one it is, from 1.
        row: The row whose content is shown.
        body: What that row says; None once it is erased, and where nothing can be shown.
        conflicts: The rows in quarantine.
        states: How many rows tell it, quarantined ones not counted.
        withdrawn: Every row of it was withdrawn.

    With `keeps`, what every row says is kept, and not only what is shown and what is in quarantine.
    """

    __slots__ = (
        "body", "conflicts", "id", "index", "kind", "place", "position", "producer", "row", "rows", "states", "turn",
        "withdrawn",
    )  # fmt: skip

    def __init__(self, rows: list[Stored], withdrawn: frozenset[int] | set[int], *, keeps: bool) -> None:
        leading = next((row for row in rows if row.envelope.outcome in ACCEPTED), rows[0])
        envelope = leading.envelope
        self.rows = rows
        self.id = envelope.id
        self.kind = ENTRY_KINDS.get(envelope.type, envelope.type)
        self.producer = envelope.producer
        self.turn = envelope.turn
        self.position = rows[0].position
        self.place: tuple[int, ...] = (self.position,)
        indexes = [row.envelope.index for row in rows if row.envelope.turn == envelope.turn]
        self.index = min([index for index in indexes if index is not None], default=None)
        self.row = leading
        self.conflicts: list[Stored] = []
        self._settle(withdrawn)
        if not keeps:
            rows[:] = [row if row in self.conflicts else _emptied(row) for row in rows]
            self.row = _emptied(self.row)

    def _settle(self, withdrawn: frozenset[int] | set[int]) -> None:
        rows = self.rows
        live = [row for row in rows if row.envelope.revision not in withdrawn] if withdrawn else rows
        accepted = [row for row in live if row.envelope.outcome in ACCEPTED]
        conflicts = [row for row in live if row.envelope.outcome == "conflict"]
        had_accepted = rows[0].envelope.outcome in ACCEPTED
        self.withdrawn = bool(withdrawn) and not accepted and not conflicts
        self.row = accepted[-1] if accepted else rows[0]
        shown = bool(accepted) or self.withdrawn
        if not accepted and had_accepted and len(conflicts) == 1:  # a withdrawal settled it
            self.row, conflicts, shown = conflicts[0], [], True
            self.kind = ENTRY_KINDS.get(self.row.envelope.type, self.row.envelope.type)
        self.conflicts = conflicts
        self.states = sum(row.envelope.outcome != "conflict" for row in rows) or 1
        self.body = restored_body(self.row) if shown else None

    @property
    def erased(self) -> bool:
        """Whether what is shown was erased."""
        return self.row.payload is None


def _emptied(row: Stored) -> Stored:
    """Return a row of whose payload only is left whether it was erased."""
    return row if row.payload is None else row._replace(payload=b"")


def _place_behind(id_: str, placed: dict[str, tuple[str, ...]], found: dict[str, Fact]) -> None:
    """Place facts behind the one that they follow, and those that follow them."""
    known = [found[new] for new in placed.get(id_, ()) if id_ in found and new in found]
    for number, fact in enumerate(known, 1):
        fact.place = (*found[id_].place, number)
        _place_behind(fact.id, placed, found)


def _place_again(found: dict[str, Fact], repeat: Fact) -> None:
    """Use the index of an unstored repeat for the place of its fact, if it is lower."""
    data = getattr(repeat.body, "data", None)
    fact = found.get(data["id"]) if isinstance(data, dict) and "id" in data else None
    if fact is not None and fact.turn == repeat.turn and None not in {fact.index, repeat.index}:
        fact.index = min(index for index in (fact.index, repeat.index) if index is not None)


def _is_ours(fact: Fact) -> bool:
    """Return whether a `data.recorded` describes records of the importer, and not the session."""
    body = fact.body
    if body is None or body.name not in {REPEATED, OVERWRITING}:
        return False
    return body.name == OVERWRITING or (isinstance(body.data, dict) and isinstance(body.data.get("id"), str))


def restored_body(row: Stored) -> Any:  # noqa: ANN401 - the body's struct
    """Return what a row says, its content as it was recorded; None once it is erased.

    Raises:
        UpgradeError: Its type or version is newer than this program.
    """
    if row.body is None:
        return None
    body = body_of(row.envelope, row.body, row.position)
    if not row.envelope.escaped:
        return body
    kept = {name: content.restore(getattr(body, name)) for name in TYPES[row.envelope.type].CONTENT}
    return structs.replace(body, **kept)


class SessionRows:
    """The rows of one session as they come, by ascending position.

    Attributes:
        annotations: The accepted rows of `ANNOTATING`.
        turns: The position of each turn's first row.
        is_overwritten: Records come from a store that overwrites; known once the facts are.
    """

    def __init__(self, *, keeps: bool) -> None:
        self._keeps = keeps
        self.annotations: list[Stored] = []
        self.turns: dict[str, int] = {}
        self.is_overwritten = False
        self._rows: dict[str, list[Stored]] = {}
        self._withdrawals: list[Withdrawal] = []
        self._texts: dict[str | None, str | None] = {}

    def take(self, row: Stored) -> Stored:
        """Add a row of any type, and return it.

        Raises:
            UpgradeError: It is of a type that is newer than this program.
        """
        envelope = row.envelope
        if envelope.type in ENTRY_KINDS:
            self._rows.setdefault(envelope.id, []).append(row._replace(envelope=self._lightened(envelope)))
            if envelope.turn is not None:
                self.turns.setdefault(envelope.turn, row.position)
        elif envelope.type not in TYPES:
            raise UpgradeError(row.position, envelope.type, envelope.schema)
        elif envelope.type in ANNOTATING and envelope.outcome in ACCEPTED:
            self.annotations.append(row)
        elif (withdrawal := withdrawal_of(row)) is not None:
            self._withdrawals.append(withdrawal)
        return row

    def annotating_rows(self) -> list[Stored]:
        """Return the rows of `annotations` that were not withdrawn."""
        gone = in_force(self._withdrawals)
        return [row for row in self.annotations if row.envelope.revision not in gone.get(row.envelope.id, ())]

    def _lightened(self, envelope: Envelope) -> Envelope:
        """Return an envelope without its commitment, and with texts that all rows share: a session's rows are many."""
        shared = self._texts.setdefault
        return structs.replace(
            envelope,
            type=shared(envelope.type, envelope.type),
            producer=shared(envelope.producer, envelope.producer),
            session=shared(envelope.session, envelope.session),
            turn=shared(envelope.turn, envelope.turn),
            outcome=shared(envelope.outcome, envelope.outcome),
            commitment="",
        )

    def facts(self) -> list[Fact]:
        """Return the facts in the order of the conversation."""
        nothing: frozenset[int] = frozenset()
        withdrawn = in_force(self._withdrawals)
        found = {id_: Fact(rows, withdrawn.get(id_, nothing), keeps=self._keeps) for id_, rows in self._rows.items()}
        placed = replacements(self._withdrawals)
        for id_ in placed.keys() - {new for ids in placed.values() for new in ids}:
            _place_behind(id_, placed, found)
        for fact in [fact for fact in found.values() if fact.kind == "data" and _is_ours(fact)]:
            del found[fact.id]
            self.is_overwritten = self.is_overwritten or getattr(fact.body, "name", None) == OVERWRITING
            _place_again(found, fact)
        return self._ordered(list(found.values()))

    def _ordered(self, facts: list[Fact]) -> list[Fact]:
        """Turns by their first row; within one by index, and what has none behind what came before it."""
        highest: dict[str, int] = {}
        starts: dict[str, tuple[int, ...]] = {turn: (position,) for turn, position in self.turns.items()}
        keys: dict[str, tuple[tuple[int, ...], int, int, tuple[int, ...]]] = {}
        known = sorted(facts, key=lambda fact: fact.place)
        for fact in known:
            if fact.turn is not None:
                starts[fact.turn] = min(starts[fact.turn], fact.place)
        for fact in known:
            if fact.turn is None:
                keys[fact.id] = (fact.place, 0, 0, fact.place)
                continue
            start = starts[fact.turn]
            if fact.index is None:
                keys[fact.id] = (start, highest.get(fact.turn, -1), 1, fact.place)
            else:
                highest[fact.turn] = max(highest.get(fact.turn, -1), fact.index)
                keys[fact.id] = (start, fact.index, 0, fact.place)
        return sorted(facts, key=lambda fact: keys[fact.id])
