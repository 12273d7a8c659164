"""Fold the rows of one history: select the sessions, the last position of each, and the rows that count."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import structs

from rightful.encoding.envelope import body_of
from rightful.errors import UpgradeError
from rightful.events import TYPES
from rightful.log.classify import ACCEPTED
from rightful.log.log import Log
from rightful.log.rows import Stored
from rightful.log.withdrawals import WITHDRAWAL, in_force, replacements, withdrawal_of
from rightful.projections.histories.from_transcript import ITEM_TYPES
from rightful.projections.histories.history_fold import ASIDE, HISTORY, Fold, Shown
from rightful.tokens import Without

_FOLDED = HISTORY | ASIDE | ITEM_TYPES


class RefoldError(Exception):
    """A new row requires a fold from the start. This error never leaves the package."""


def folded(log: Log, session: str, until: int, *, whole: bool = False, without: Without | None = None) -> Fold:
    """Return the fold of a history through a position, computed from its rows only.

    Args:
        log: The ledger's log.
        session: The session of the history.
        until: The position.
        whole: Keep all items that were ever in the history.
        without: The calls of a run to ignore.

    Raises:
        UpgradeError: A row is of a newer version.
        DamagedRowError: A row does not match its checksum.
    """
    fold = Fold(Shown(without=without), whole=whole)
    try:
        follow(log, fold, session, 0, until)
    except RefoldError:
        return _folded_in_steps(log, session, until, whole=whole, without=without)
    return fold


def _folded_in_steps(log: Log, session: str, until: int, *, whole: bool, without: Without | None) -> Fold:
    """Return the fold of a history with withdrawn events, or that was forked from another one."""
    is_appended: set[str] = set()
    while True:
        fold = Fold(whole=whole)
        for name, end, shown in chain(log, session, until):
            ignored = without if name == session else None
            fold.fork(Shown(shown.settled, shown.forked_at, name in is_appended, ignored, shown.placed))
            try:
                follow(log, fold, name, 0, end, is_new=True)
            except RefoldError:
                is_appended.add(name)
                break
        else:
            return fold


def follow(log: Log, fold: Fold, session: str, after: int, until: int, *, is_new: bool = False) -> None:
    """Fold the rows of a session after a position.

    Args:
        log: The ledger's log.
        fold: The fold through that position.
        session: The session of the rows.
        after: The position.
        until: The last position to fold.
        is_new: Whether `fold` already knows the forks and withdrawals through `until`.

    Raises:
        RefoldError: A row requires a fold from the start.
        UpgradeError: A row is of a type that this program does not know, and may change the history.
    """
    placed = fold.shown.placed if is_new else {}
    for page in log.of_session(session, None, after, until):
        fold_rows(fold, _with_replacements(log, placed, page, until) if placed else page, is_new=is_new)


def _with_replacements(
    log: Log, placed: Mapping[str, Sequence[str]], rows: Iterable[Stored], until: int
) -> Iterator[Stored]:
    """Yield rows. Those that have the place of another event follow it, and are omitted at their own position."""
    moved = {id_ for ids in placed.values() for id_ in ids}

    def with_followers(row: Stored) -> Iterator[Stored]:
        yield row
        for id_ in placed.get(row.envelope.id, ()) if row.envelope.revision == 1 else ():
            for new in log.of_id(id_):
                if new.position <= until and new.envelope.session == row.envelope.session:
                    yield from with_followers(new)

    for row in rows:
        if row.envelope.id not in moved:
            yield from with_followers(row)


def fold_rows(fold: Fold, rows: Iterable[Stored], *, is_new: bool = False) -> None:
    """Fold the next rows of a session, which the caller has read. Arguments and errors are those of `follow`."""
    for row in rows:
        kind = row.envelope.type
        if kind not in _FOLDED:
            if kind not in TYPES:
                raise UpgradeError(row.position, kind, row.envelope.schema)
            continue
        if kind == "history.appended" and not fold.shown.is_appended and fold.shown.counts(row):
            if fold.transcript_items.event_ids:
                raise RefoldError
            fold.shown = structs.replace(fold.shown, is_appended=True)
        elif kind in {"event.withdrawn", "history.forked"} and not is_new and row.envelope.outcome in ACCEPTED:
            raise RefoldError
        fold.step(row)


def chain(log: Log, session: str, until: int) -> list[tuple[str, int, Shown]]:
    """Return the sessions whose rows form a history, with the last position of each; the forked ones come first.

    Each fork refers to an earlier position, so the loop always ends.
    """
    found: list[tuple[str, int, Shown]] = []
    while True:
        rows = (row for page in log.of_session(session, [WITHDRAWAL], until=until) for row in page)
        withdrawals = [withdrawal for row in rows if (withdrawal := withdrawal_of(row)) is not None]
        settled = {id_: _live(log, session, id_, gone, until) for id_, gone in in_force(withdrawals).items()}
        fork = _fork(log, session, until, settled)
        placed = replacements(withdrawals)
        found.insert(0, (session, until, Shown(settled, 0 if fork is None else fork.position, placed=placed)))
        if fork is None:
            return found
        event = body_of(fork.envelope, fork.body or b"", fork.position)
        session, until = event.of, event.through


def _fork(log: Log, session: str, until: int, settled: dict[str, frozenset[int]]) -> Stored | None:
    """Return the row of the fork that a history begins with; None if it does not begin with a fork."""
    shown = Shown(settled)
    for page in log.of_session(session, ["history.forked"], until=until):
        for row in page:
            if row.body is None or not shown.counts(row):
                continue
            event = body_of(row.envelope, row.body, row.position)
            if event.through >= row.position:
                continue
            before = log.of_session(session, HISTORY - {"history.forked"}, until=row.position - 1)
            return None if any(shown.counts(earlier) for found in before for earlier in found) else row
    return None


def _live(log: Log, session: str, id_: str, gone: set[int], until: int) -> frozenset[int]:
    """Return the revisions of an event that still count: the accepted ones, or else the only one in quarantine."""
    rows = [row.envelope for row in log.of_id(id_) if row.position <= until and row.envelope.session == session]
    live = [envelope for envelope in rows if envelope.revision not in gone]
    accepted = frozenset(envelope.revision for envelope in live if envelope.outcome in ACCEPTED)
    quarantined = [envelope.revision for envelope in live if envelope.outcome == "conflict"]
    return accepted or frozenset(quarantined if len(quarantined) == 1 else ())
