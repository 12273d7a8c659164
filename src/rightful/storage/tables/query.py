"""Find the rows that match a query, in ascending order, through the indexes.

A row matches if it matches one item. It matches an item if its type is one of the item's types (or the
item names none) and it has all of the item's tags. A query without items matches every row.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

import lmdb
from eventsourcing.dcb.api import DCBEvent, DCBQuery, DCBQueryItem
from msgspec import Struct

from rightful import limits
from rightful.storage.journal.journal_rows import StoredRow, is_damaged
from rightful.storage.port import size_of
from rightful.storage.tables.snapshot import Snapshot, read_snapshot
from rightful.storage.tables.store_tables import Tables, pack_position, pack_positions, unpack_position, word_key

_LOOKS_PER_PAGE: Final = 16 * limits.PAGE_ROWS
"""Index entries examined in one read transaction, however few of them match."""

_Candidate = tuple[int, bool]
_Pair = tuple[bytes, bytes]


class Page(Struct, frozen=True):
    """The result of one short read transaction.

    Attributes:
        events: Matching positions and events.
        through: The position up to which all matches are known.
    """

    events: list[tuple[int, DCBEvent]]
    through: int


def read_page(tables: Tables, query: DCBQuery | None, after: int, until: int | None, limit: int) -> Page:
    """Return the matches after a position, at most `limit` rows, in one short transaction.

    Args:
        tables: The tables to read.
        query: The query; None matches every row.
        after: The position before the first.
        until: The last position that may be returned; None is the store's last.
        limit: The maximum number of rows, 1 or more; fewer if they fill a page (`limits.PAGE_BYTES`).
    """
    return read_snapshot(tables, lambda snapshot: _page(snapshot, query, after, until, limit))


def _page(snapshot: Snapshot, query: DCBQuery | None, after: int, until: int | None, limit: int) -> Page:
    last = snapshot.head if until is None else min(snapshot.head, until)
    if _fits_all(query):
        return _bulk(snapshot, after, min(last, after + limit))
    wanted = query or DCBQuery()
    if (lost := _first_lost(snapshot, after, last)) is not None:  # it may match, so the result ends before it
        if lost == after + 1:
            snapshot.event(lost)
        last = lost - 1
    found: list[tuple[int, DCBEvent]] = []
    through, left = last, limits.PAGE_BYTES
    for looks, (position, fits) in enumerate(_candidates(snapshot, wanted, after, last), 1):
        if fits:
            event = snapshot.event(position)
            if not _fits_one(event, wanted):
                snapshot.refuse(position, " ".join(wanted.items[0].tags or wanted.items[0].types))
            found.append((position, event))
            left -= size_of(event)
        if len(found) == limit or left <= 0 or looks == _LOOKS_PER_PAGE:
            through = position
            break
    return Page(found, through)


def _first_lost(snapshot: Snapshot, after: int, last: int) -> int | None:
    """Return the first position in (after, last] whose row is missing or damaged; None if none is known.

    The tables show this for a row that came damaged from the journal: it has no type in the index.
    """
    tables = snapshot.tables.env.tables
    if after < snapshot.tables_head and snapshot.txn.stat(tables["types"])["entries"] != snapshot.tables_head:
        for position in range(after + 1, min(last, snapshot.tables_head) + 1):
            row = snapshot.txn.get(pack_position(position), db=tables["rows"])
            if is_damaged(StoredRow(row, None)):
                return position
    return snapshot.tail.unreadable(max(after, snapshot.tables_head), last) if last > snapshot.tables_head else None


def _fits_one(event: DCBEvent, query: DCBQuery) -> bool:
    return any(
        (not item.types or event.type in item.types) and set(item.tags) <= set(event.tags) for item in query.items
    )


def positions(snapshot: Snapshot, query: DCBQuery, after: int, until: int) -> Iterator[int]:
    """Return the matching positions after `after`, through `until`, ascending."""
    if _fits_all(query):
        return iter(range(after + 1, until + 1))
    return (position for position, fits in _candidates(snapshot, query, after, until) if fits)


def words_like(snapshot: Snapshot, start: str, limit: int) -> list[str]:
    """Return the tags that begin with a text, from the index; tags stored as a hash are not found."""
    key, found = start.encode(), list[str]()
    with snapshot.txn.cursor(db=snapshot.tables.env.tables["tags"]) as cursor:
        if key and cursor.set_range(key):
            for word in cursor.iternext_nodup(values=False):
                if not word.startswith(key) or len(found) == limit:
                    break
                found.append(word.decode())
    if not key or snapshot.head == snapshot.tables_head:
        return found
    more = (tag for tag in snapshot.tail.tags_like(start, snapshot.head) if len(tag.encode()) <= limits.TAG_KEY_BYTES)
    return sorted({*found, *more}, key=str.encode)[:limit]


def raw_rows(snapshot: Snapshot, after: int, limit: int) -> tuple[list[bytes], list[bytes | None]]:
    """Return values and payloads of the rows after a position, without a gap; fewer if either fill a page.

    Raises:
        DamagedRowError: A row is missing.
    """
    values, payloads = _of_tables(snapshot, after, limit) if after < snapshot.tables_head else ([], [])
    if after + len(values) < snapshot.tables_head:
        return values, payloads
    value_bytes, payload_bytes = sum(map(len, values)), sum(len(payload or b"") for payload in payloads)
    for position, row in enumerate(
        snapshot.journal_rows_after(after + len(values), limit - len(values)), after + len(values) + 1
    ):
        if max(value_bytes, payload_bytes) >= limits.PAGE_BYTES:
            break
        value = snapshot.tables.present(position, row.value)
        values.append(value)
        payloads.append(row.payload)
        value_bytes, payload_bytes = value_bytes + len(value), payload_bytes + len(row.payload or b"")
    return values, payloads


def _of_tables(snapshot: Snapshot, after: int, limit: int) -> tuple[list[bytes], list[bytes | None]]:
    tables, txn = snapshot.tables, snapshot.txn
    count = max(min(limit, snapshot.tables_head - after), 0)
    start, wanted = pack_position(after + 1), pack_positions(after + 1, count)
    pairs = _run(tables, txn, "rows", start, count)
    if len(pairs) < count and _is_full(pairs):
        wanted = wanted[: len(pairs)]
    if [key for key, _ in pairs] != wanted:
        found = {key for key, _ in pairs}
        tables.checked(after + 1 + next(at for at, key in enumerate(wanted) if key not in found), None)
    payloads = _payloads(tables, txn, start, wanted)
    return [value for _, value in pairs[: len(payloads)]], payloads


def _payloads(tables: Tables, txn: lmdb.Transaction[bytes], start: bytes, wanted: list[bytes]) -> list[bytes | None]:
    """Return the payload of each position; empty if it was erased, None if it is missing."""
    pairs = _run(tables, txn, "payloads", start, len(wanted))
    if [key for key, _ in pairs] == wanted:
        return [payload for _, payload in pairs]
    if len(pairs) < len(wanted) and _is_full(pairs):
        wanted = [key for key in wanted if key <= pairs[-1][0]]
    found = dict(pairs)
    return [found.get(key) for key in wanted]


def _run(tables: Tables, txn: lmdb.Transaction[bytes], name: str, start: bytes, count: int) -> list[_Pair]:
    """Return the entries of a table from a key on, until there are `count` or they fill a page."""
    table = tables.env.tables[name]
    with txn.cursor(db=table) as cursor:
        if not count or not cursor.set_range(start):
            return []
        pairs = islice(cursor.iternext(), count)
        kept = txn.stat(table)
        if (kept["overflow_pages"] + count // 2) * kept["psize"] <= limits.PAGE_BYTES:
            return list(pairs)  # the count of overflow pages covers all long values
        return list(_until_full(pairs))


def _until_full(pairs: Iterable[_Pair]) -> Iterator[_Pair]:
    left = limits.PAGE_BYTES
    for pair in pairs:
        yield pair
        left -= len(pair[1])
        if left <= 0:
            return


def _is_full(pairs: Sequence[_Pair]) -> bool:
    return sum(len(value) for _, value in pairs) >= limits.PAGE_BYTES


def _bulk(snapshot: Snapshot, after: int, last: int) -> Page:
    """Read a range of rows at once."""
    values, payloads = raw_rows(snapshot, after, max(last - after, 0))
    tables = snapshot.tables
    events = [
        (position, tables.unpack(position, tables.checked(position, value), payload))
        for position, (value, payload) in enumerate(zip(values, payloads, strict=True), after + 1)
    ]
    return Page(events, after + len(events))


def _fits_all(query: DCBQuery | None) -> bool:
    return query is None or not query.items or any(not item.types and not item.tags for item in query.items)


def _candidates(snapshot: Snapshot, query: DCBQuery, after: int, until: int) -> Iterator[_Candidate]:
    """Yield each candidate position once, ascending, and whether it matches."""
    if after < snapshot.tables_head:
        yield from _of_index(snapshot, query, after, min(until, snapshot.tables_head))
    for position in snapshot.tail.matching(query, max(after, snapshot.tables_head), until):
        yield position, True


def _of_index(snapshot: Snapshot, query: DCBQuery, after: int, until: int) -> Iterator[_Candidate]:
    each = [_of_item(snapshot.tables, snapshot.txn, item, pack_position(after + 1)) for item in query.items]
    pending: _Candidate | None = None
    for candidate in heapq.merge(*each):
        if candidate[0] > until:
            if candidate[0] > snapshot.tables_head:
                snapshot.refuse(candidate[0], "a tag")
            break
        if pending is not None and pending[0] != candidate[0]:
            yield pending
        pending = candidate  # the last candidate of a position is the one that matches
    if pending is not None:
        yield pending


def _of_item(tables: Tables, txn: lmdb.Transaction[bytes], item: DCBQueryItem, start: bytes) -> Iterator[_Candidate]:
    types = sorted({word_key(kind) for kind in item.types})
    if not item.tags:
        found = (_from(txn, tables.env.tables["types"], kind, start) for kind in types)
        return ((unpack_position(key), True) for key in heapq.merge(*found))
    return _of_tags(tables, txn, sorted({word_key(tag) for tag in item.tags}), types, start)


def _of_tags(
    tables: Tables, txn: lmdb.Transaction[bytes], tags: list[bytes], types: list[bytes], start: bytes
) -> Iterator[_Candidate]:
    """Iterate over the rarest tag, and look up each position under the others."""
    tag_table = tables.env.tables["tags"]
    cursor = txn.cursor(db=tag_table)
    counts = [cursor.count() if cursor.set_key(tag) else 0 for tag in tags]
    if 0 in counts:
        tables.tagged(txn, tags[counts.index(0)])  # raises if the tag is absent only because a key is damaged
        return
    rarest = tags[counts.index(min(counts))]
    others = [tag for tag in tags if tag != rarest]
    kinds = txn.cursor(db=tables.env.tables["types"])
    for key in _from(txn, tag_table, rarest, start):
        fits = all(cursor.set_key_dup(tag, key) for tag in others)
        if fits and types:
            fits = any(kinds.set_key_dup(kind, key) for kind in types)
        yield unpack_position(key), fits


def _from(txn: lmdb.Transaction[bytes], table: Any, word: bytes, start: bytes) -> Iterator[bytes]:  # noqa: ANN401 - lmdb hides the class
    """Yield the positions of an index key, starting at one."""
    cursor = txn.cursor(db=table)
    if cursor.set_range_dup(word, start):
        yield from cursor.iternext_dup()
