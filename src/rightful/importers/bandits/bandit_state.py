"""The state files of bandits: each becomes one `balance.opened`, without loss.

`bandit_documents` converts the content. The event id is derived from the file's path and bytes, so an unchanged file
opens nothing again. Bytes that this ledger wrote itself (`posterior.published`) open nothing at all: they are derived
from its own events.

Of the balances of one file, the one with the newest `through` counts; of several with the same time, the one imported
last. So a file that was restored to bytes opened before is opened again if that is needed to make them the last. If
there is a balance with a later time, that one still counts. A note reports either case.

`through` is the newest time in the file, its own or an arm's, never the file's modification time: a copy is newer than
its content. A file without a time continues from what this ledger published to it, if anything, and includes the
grades that were considered then.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rightful import times
from rightful.errors import InvalidEventError
from rightful.events import NOT_OURS, BalanceOpened, PosteriorPublished
from rightful.identity import event_id
from rightful.importers.bandits.bandit_documents import ParsedState
from rightful.importers.bandits.bandit_file import ARM_KEYS
from rightful.importers.engine.formats import End, Origin, Plan, Reader, Wire
from rightful.importers.engine.loop import STDIN
from rightful.importers.shared.foreign_fields import key_of, moment_us
from rightful.importers.shared.stored_rows import rows_of
from rightful.importers.sources.text_files import Problem
from rightful.log.rows import Receipt

if TYPE_CHECKING:
    from rightful.importers.sources.text_files import Found
    from rightful.log.log import Log
    from rightful.log.rows import Recorded

PRODUCER = "bandit-state"
"""The producer of opening balances."""

_PUBLISHER = "backfill"  # publications of other producers say nothing about the bytes of this file
_MARKS = frozenset({"contextual_arms", "total_sessions"})
_EXCLUDE_ONE = "exclude one with the policy's field `balances`"


class BanditState:
    """The kind `bandit-state`."""

    NAME = "bandit-state"

    def recognises(self, value: Mapping[str, Any]) -> bool:
        """Return whether an object is a bandit's state."""
        if "arms" not in value or "type" in value:
            return False
        arms = value["arms"]
        if arms is None or not _MARKS.isdisjoint(value):
            return True
        if not isinstance(arms, dict):
            return False
        return not arms or any(isinstance(entry, dict) and not ARM_KEYS.isdisjoint(entry) for entry in arms.values())

    def reader(self, origin: Origin) -> BanditStateReader:
        """Return the reader of one file."""
        return BanditStateReader(origin)


class BanditStateReader(Reader):
    """Reads one file.

    Args:
        origin: The file; its path identifies the balance.
    """

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._first: Found | None = None
        self._objects = 0

    def events(self, found: Found) -> Iterable[Wire | Problem]:
        """Store the file's object; it can be judged only at the end of the file."""
        self._first = self._first or found
        self._objects += 1
        return ()

    def finish(self, end: End) -> Iterator[Wire | Problem]:
        """Yield the balance that the file opens.

        Raises:
            InvalidEventError: The file is not one bandit's state, or it is torn.
        """
        if self._first is None:
            return
        document = self._first.value
        if "arms" not in document:
            keys = ", ".join(sorted(document)[:5])
            raise InvalidEventError(f"Expected a bandit's state, with `arms`; got an object with {keys[:160]!r}")
        if self._objects > 1 or not end.is_whole:
            what = "Expected exactly one bandit state in the file; it is incomplete, or two programs wrote it at once"
            raise InvalidEventError(f"{what}. No balance was opened")
        opened = ParsedState(document)
        for error in opened.problems:
            yield Problem(self._first.line, str(error))
        if opened.problems and not (opened.arms or opened.contexts or opened.judge):
            return
        yield from self._balance(opened, document, end.sha256)

    def _balance(self, opened: ParsedState, document: Mapping[str, Any], sha256: str) -> Iterator[Wire | Problem]:
        through_us, notes = through(document, opened)
        if opened.uncounted:
            notes.append(f"arms without a selection count: {opened.uncounted}; they count as selected 0 times")
        for note in notes:
            yield Problem(None, note, lost=False)
        source = STDIN if self._origin.path == STDIN else os.path.realpath(self._origin.path)
        facts = {"contexts": opened.contexts, "judge": opened.judge, "sessions": opened.sessions}
        yield {
            "type": "balance.opened",
            "producer": PRODUCER,
            "key": key_of(source, sha256),
            **self._times(through_us),
            "source": source,
            "sha256": sha256,
            "arms": opened.arms,
            **{name: fact for name, fact in facts.items() if fact not in (None, [], {})},
            "extra": opened.extra,
        }

    def _times(self, through_us: int | None) -> Wire:
        if through_us is not None:
            return {"at": times.text_of(through_us), "through": times.text_of(through_us)}
        if self._origin.mtime_us is None:
            raise InvalidEventError("Expected `last_updated`: the state has no time, and stdin has none")
        return {"at": times.text_of(self._origin.mtime_us), "at_basis": "file"}

    def plan(self, log: Log, events: list[Wire]) -> Plan:
        """Return the balance, unless this ledger wrote the file itself, with notes on related balances."""
        rows = list(rows_of(log, "balance.opened", "posterior.published")) if events else []
        published = {
            row.event.new_sha256: row
            for row in rows
            if isinstance(row.event, PosteriorPublished) and NOT_OURS.isdisjoint(row.event.extra or {})
        }
        existing: dict[int, Receipt] = {}
        notes: list[Problem] = []
        planned = list(events)
        for place, event in enumerate(events):
            if "through" not in event:
                event, said = _with_published_time(rows, event)  # noqa: PLW2901 - the event that is planned
                planned[place] = event
                notes += [Problem(None, what, lost=False) for what in said]
            if (own := _stored_row(rows, event)) is not None:
                again, why = _reopening(rows, published, own)
                if why is not None:
                    notes.append(Problem(None, why, lost=False))
                if again is None:
                    existing[place] = Receipt(own.id, "duplicate", own.position, own.first)
                else:
                    planned[place] = event | {"key": again}
            if (ours := published.get(event["sha256"])) is not None:
                existing[place] = Receipt(ours.id, "duplicate", ours.position, ours.first)
                what = f"this ledger published this state itself (`{ours.id}`): no balance is opened"
                notes.append(Problem(None, what, lost=False))
            else:
                notes += (Problem(None, what, lost=False) for what in _related_notes(rows, published, event))
        return Plan(planned, existing=existing, notes=tuple(notes))


def through(document: Mapping[str, Any], opened: ParsedState) -> tuple[int | None, list[str]]:
    """Return the time up to which a state includes the grades, from its own fields, and notes on it.

    Returns:
        Microseconds since 1970, UTC: the newest `last_updated` of the state and its arms. A refused call leaves
        that of an arm newer, since gptme saves its changes with the next call. None if there is no valid time.
    """
    notes: list[str] = []
    of_arms = [entry.get("last_updated") for entry in (*opened.arms.values(), *opened.contexts)]
    read = [_moment(text, notes) for text in (document.get("last_updated"), *of_arms) if text is not None]
    if known := [at_us for at_us in read if at_us is not None]:
        return max(known), list(dict.fromkeys(notes))
    return None, list(dict.fromkeys(notes))


def _published_until(rows: list[Recorded], target: str) -> str | None:
    """Return the time up to which the effective publication to a file includes the grades; None for no grade."""
    mine = [
        (row.id, row.event.extra or {})
        for row in rows
        if isinstance(row.event, PosteriorPublished) and row.event.producer == _PUBLISHER and row.outcome == "appended"
        if row.event.target == target
    ]
    gone = {extra.get("rolled_back") for _, extra in mine}
    left = [extra.get("until") for name, extra in mine if "rolled_back" not in extra and name not in gone]
    return left[-1] if left and isinstance(left[-1], str) else None


def _with_published_time(rows: list[Recorded], event: Wire) -> tuple[Wire, list[str]]:
    """Return the balance of a state without a time, with the time of the publication to its file, and notes."""
    if (until := _published_until(rows, event["source"])) is not None:
        what = f"it continues from posteriors that this ledger published, which include the grades up to {until}"
        return event | {"through": until}, [f"the state has no time: {what}"]
    if not (event["arms"] or event.get("contexts") or event.get("judge")):
        return event, []
    what = "its grades are counted again unless the policy's field `balances` excludes it"
    return event, [f"the state has no time: {what}"]


def _moment(text: object, notes: list[str]) -> int | None:
    try:
        at_us, aware = moment_us(str(text), "$.last_updated")
    except InvalidEventError as error:
        notes.append(f"{error}; it was ignored")
        return None
    if not aware:
        notes.append("`last_updated` has no UTC offset; such times in this file were read as UTC")
    return at_us


def _stored_row(rows: list[Recorded], event: Wire) -> Recorded | None:
    """Return the row of these bytes of this file, whichever version of the program wrote it."""
    own = event_id(PRODUCER, event["key"])
    return next((row for row, other in _balances(rows, ()) if row.id == own and other.sha256 == event["sha256"]), None)


def _balances(rows: list[Recorded], published: Container[str]) -> Iterator[tuple[Recorded, BalanceOpened]]:
    """Yield the opening balances, but for those of bytes that this ledger published."""
    for row in rows:
        if isinstance(row.event, BalanceOpened) and row.event.sha256 not in published:
            yield row, row.event


def _reopening(rows: list[Recorded], published: Container[str], own: Recorded) -> tuple[str | None, str | None]:
    """Decide whether to open bytes again that were opened before, if others of their file were opened since.

    Returns:
        The key under which they are opened again, or None; and a note, or None.
    """
    first: Any = own.event
    counts, last = own, first
    for row, other in _balances(rows, published):
        if other.source == first.source and _through(other) >= _through(last):
            counts, last = row, other
    if last.sha256 == first.sha256:
        return None, None
    if _through(last) > _through(first):
        return None, "the file was restored to a state older than its newest balance: the newest balance counts"
    what = "the file was restored to an earlier state with the same time: it is opened again, since the balance that is"
    return key_of(first.source, first.sha256, counts.id), f"{what} imported last counts"


def _through(event: Any) -> int:  # noqa: ANN401 - a balance, of whichever row
    return -1 if event.through is None else times.us_of(event.through)


def _related_notes(rows: list[Recorded], published: Container[str], event: Wire) -> Iterator[str]:
    """Yield notes on the balances that precede this one."""
    own = event_id(PRODUCER, event["key"])
    newest: dict[str, BalanceOpened] = {}
    for row, other in _balances(rows, published):
        if row.id == own:
            break
        if other.source not in newest or _through(other) >= _through(newest[other.source]):
            newest[other.source] = other
    before = newest.pop(event["source"], None)
    if before is not None:
        yield from _time_note(before, event)
    if before is not None and _selections(event) < sum(arm.n for arm in before.arms.values()):
        what = "it has fewer selections than the balance opened from this file before: a reset, or an older copy."
        yield f"{what} Of one source, the balance with the newest time counts"
    for source, other in newest.items():
        if shared := event["arms"].keys() & other.arms.keys():
            yield f"arms that are also in the balance of {source!r}: {len(shared)}; both count, or {_EXCLUDE_ONE}"


def _time_note(before: BalanceOpened, event: Wire) -> Iterator[str]:
    """Yield a note that compares the time of a balance with the one of the same file that counted before."""
    through_us = times.us_from(event["through"]) if "through" in event else -1
    if through_us < _through(before):
        yield "its time is before that of the balance opened from this file earlier, so that balance counts"
    elif through_us == _through(before):
        what = "it has the time of the balance opened from this file before, but other content"
        yield f"{what}; the balance that is imported last counts"


def _selections(event: Wire) -> int:
    return sum(arm["n"] for arm in event["arms"].values())
