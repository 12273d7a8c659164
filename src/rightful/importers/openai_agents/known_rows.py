"""What of a database the ledger has: the rows as they were when the database was imported last.

It is folded from the events of the importer alone. What others did to the history since (a session that goes on in
the ledger is popped, cleared and compacted there) is no part of it, so it is never taken for a change of the database.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rightful.events import Event, HistoryAppended, HistoryForked, HistoryPopped, SessionStarted
from rightful.importers.openai_agents.sdk_tables import Row
from rightful.log.classify import ACCEPTED

if TYPE_CHECKING:
    from rightful.log.log import Log
    from rightful.log.rows import Recorded

NAMESPACE = "openai-agents"
"""The namespace of the sessions, and the harness that their starts tell."""

PRODUCER = "openai-agents-import"
"""The producer of what a database says."""

HISTORY = ("history.appended", "history.compacted", "history.popped", "history.cleared", "history.forked")
"""The event types that a history is made of."""

ItemKey = tuple[str, int]


class Step(NamedTuple):
    """One event of an import: where it stands, the rows that it put behind the others, and the items that it took."""

    position: int
    put: tuple[tuple[ItemKey, Row], ...]
    took: frozenset[ItemKey]


class StoredSession:
    """What the ledger has of one session.

    Attributes:
        head: The position through which it was folded.
        alive: The rows that the database had when it was imported last, in order, by their items.
        times: How often each row was imported; more than once where it had vanished meanwhile.
        inherited: The items that stand in the session that this one was forked from.
        steps: What the imports did, up to the first event of anybody else.
        sources: The databases that it was imported from, by their paths; one each time it became the one that the
            view follows, so the last is the one that it follows now.
        erased: The ids of the events that were erased; nobody can say any more which rows they had.
        is_ours: Whether an import wrote to it, which none does to a history that others began.
        is_continued: Whether others wrote to it.
    """

    def __init__(self, head: int) -> None:
        self.head = head
        self.alive: dict[ItemKey, Row] = {}
        self.times: Counter[Row] = Counter()
        self.inherited: frozenset[ItemKey] = frozenset()
        self.steps: list[Step] = []
        self.sources: list[str] = []
        self.erased: set[str] = set()
        self.is_ours = self.is_continued = False

    def _step(self, step: Step) -> None:
        for item in step.took:
            self.alive.pop(item, None)
        for item, row in step.put:
            self.alive[item] = row
            self.times[row] += 1
        if not self.is_continued:
            self.steps.append(step)

    def fold(self, log: Log, recorded: Recorded) -> None:
        """Fold one event of the session."""
        event, position = recorded.event, recorded.position
        if isinstance(event, SessionStarted):
            if event.producer == PRODUCER and isinstance(source := (event.extra or {}).get("source"), str):
                self.sources.append(source)
            return
        if not isinstance(event, Event) or event.producer != PRODUCER:
            self.is_continued = True
            return
        self.is_ours = True
        match event:
            case HistoryForked():
                rows = stored_session(log, event.of, event.through).alive
                self.inherited = frozenset(rows)
                self._step(Step(position, tuple(rows.items()), frozenset()))
            case HistoryAppended():
                self._step(Step(position, tuple(_rows(recorded.id, event)), frozenset()))
            case HistoryPopped():
                took = (item for item in event.items if isinstance(item, tuple))
                self._step(Step(position, (), frozenset(took)))
            case _:
                pass


def _rows(event_id: str, event: HistoryAppended) -> Iterator[tuple[ItemKey, Row]]:
    said = event.extra or {}
    row, sha256 = said.get("row"), said.get("sha256")
    if isinstance(row, int) and isinstance(sha256, str):
        yield (event_id, 0), Row(row, sha256)


def stored_session(log: Log, session: str, until: int | None = None) -> StoredSession:
    """Return what the ledger has of a session.

    Args:
        log: The ledger's log.
        session: Its name in full.
        until: The position through which it is folded; the end of the log if None.
    """
    head = log.head() if until is None else until
    found = StoredSession(head)
    for recorded in log.read(session=session, types=[*HISTORY, "session.started"], until=head):
        if recorded.event is None:
            found.erased.add(recorded.id)
        elif recorded.outcome in ACCEPTED:
            found.fold(log, recorded)
    return found


def fork_of(parents: Iterable[tuple[str, StoredSession]], rows: Sequence[Row]) -> tuple[str, int, int] | None:
    """Return where a branch leaves another: of whom, through which position, and how many rows they share.

    Args:
        parents: The sessions that it may have left, with what the ledger has of them.
        rows: The branch's rows.
    """
    best: tuple[str, int, int] | None = None
    for name, parent in parents:
        for position, count in _shared(parent.steps, rows):
            if count > (best[2] if best else 0):
                best = name, position, count
    return best


def _shared(steps: Iterable[Step], rows: Sequence[Row]) -> Iterator[tuple[int, int]]:
    """Yield each position at which a history was just the beginning of these rows, and of how many."""
    alive: dict[ItemKey, Row] = {}
    fits = True
    for step in steps:
        for item in step.took:
            alive.pop(item, None)
        start = len(alive)
        alive.update(step.put)
        if step.took:
            fits = list(alive.values()) == list(rows[: len(alive)])
        else:
            fits = fits and [row for _, row in step.put] == list(rows[start : len(alive)])
        if fits and alive:
            yield step.position, len(alive)
