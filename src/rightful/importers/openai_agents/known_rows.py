"""The ledger's state of a database: its rows at the last import.

It is folded only from the events of the importer. Later changes of the history by others (a session that continues in
the ledger is popped, cleared and compacted there) are ignored, so they never look like a change of the database.
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
"""The namespace of the sessions, and the harness in their starts."""

PRODUCER = "openai-agents-import"
"""The producer of the events."""

HISTORY = ("history.appended", "history.compacted", "history.popped", "history.cleared", "history.forked")
"""The event types that a history is made of."""

ItemKey = tuple[str, int]


class Step(NamedTuple):
    """One event of an import: its position, the rows that it appended, and the items that it popped."""

    position: int
    appended: tuple[tuple[ItemKey, Row], ...]
    popped: frozenset[ItemKey]


class StoredSession:
    """The ledger's state of one session.

    Attributes:
        head: The position through which it was folded.
        alive: The rows of the database at its last import, in order, by their items.
        times: How often each row was imported; more than once if it was deleted meanwhile.
        inherited: The items of the session that this one was forked from.
        steps: The events of the imports, up to the first event of another producer.
        sources: The paths of its databases, in the order in which the view began to follow them; the view follows
            the last one now.
        row_sources: Those of them from which it has rows.
        erased: The ids of the erased events, whose rows are unknown.
        is_ours: Whether an import wrote to it; an import never writes to a history that another producer began.
        is_continued: Whether another producer wrote to it.
    """

    def __init__(self, head: int) -> None:
        self.head = head
        self.alive: dict[ItemKey, Row] = {}
        self.times: Counter[Row] = Counter()
        self.inherited: frozenset[ItemKey] = frozenset()
        self.steps: list[Step] = []
        self.sources: list[str] = []
        self.row_sources: set[str] = set()
        self.erased: set[str] = set()
        self.is_ours = self.is_continued = False

    def _step(self, step: Step) -> None:
        for item in step.popped:
            self.alive.pop(item, None)
        for item, row in step.appended:
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
                self.row_sources.update([source] if self.times or self.erased else ())
            return
        if not isinstance(event, Event) or event.producer != PRODUCER:
            self.is_continued = True
            return
        self.is_ours = True
        self.row_sources.update(self.sources[-1:])
        match event:
            case HistoryForked():
                rows = stored_session(log, event.of, event.through).alive
                self.inherited = frozenset(rows)
                self._step(Step(position, tuple(rows.items()), frozenset()))
            case HistoryAppended(extra={"row": int() as row, "sha256": str() as sha256}):
                self._step(Step(position, (((recorded.id, 0), Row(row, sha256)),), frozenset()))
            case HistoryPopped():
                popped = (item for item in event.items if isinstance(item, tuple))
                self._step(Step(position, (), frozenset(popped)))
            case _:
                pass


def stored_session(log: Log, session: str, until: int | None = None) -> StoredSession:
    """Return the ledger's state of a session through a position; None is the end of the log."""
    head = log.head() if until is None else until
    found = StoredSession(head)
    for recorded in log.read(session=session, types=[*HISTORY, "session.started"], until=head):
        if recorded.event is None:
            found.erased.add(recorded.id)
            found.row_sources.update(found.sources[-1:])
        elif recorded.outcome in ACCEPTED:
            found.fold(log, recorded)
    return found


def fork_of(parents: Iterable[tuple[str, StoredSession]], rows: Sequence[Row]) -> tuple[str, int] | None:
    """Return the parent, and the position in it, with the most first rows of a branch; None if it shares none."""
    shared = ((count, name, position) for name, parent in parents for position, count in _shared(parent.steps, rows))
    best = max(shared, key=lambda found: found[0], default=None)
    return None if best is None else best[1:]


def _shared(steps: Iterable[Step], rows: Sequence[Row]) -> Iterator[tuple[int, int]]:
    """Yield each position at which a history equalled the first rows of these, and the number of rows."""
    alive: dict[ItemKey, Row] = {}
    fits = True
    for step in steps:
        for item in step.popped:
            alive.pop(item, None)
        start = len(alive)
        alive.update(step.appended)
        if step.popped:
            fits = list(alive.values()) == list(rows[: len(alive)])
        else:
            fits = fits and [row for _, row in step.appended] == list(rows[start : len(alive)])
        if fits and alive:
            yield step.position, len(alive)
