"""The tables of a recorder's store, and the bytes of rows, tags and positions.

| table | key | value |
|---|---|---|
| `rows` | position, 8 bytes big-endian | leaf hash, 32 bytes; then the record |
| `payloads` | position | salt and body; empty after an erasure |
| `tags` | tag | positions, sorted |
| `types` | type | positions, sorted |
| `meta` | `about`, `tree` | the store's own record; root and frontier |
"""

from __future__ import annotations

import struct
from hashlib import sha256
from types import MappingProxyType
from typing import Final, cast

import lmdb
import msgspec
from eventsourcing.dcb.api import DCBEvent

from rightful import limits
from rightful.encoding.merkle import HASH_BYTES, LEAF, Frontier
from rightful.errors import DamagedRowError, ForeignStoreError
from rightful.storage.environment import store_files
from rightful.storage.environment.lmdb_environment import Environment
from rightful.storage.tables.row_codec import Codec, LedgerCodec, PlainCodec
from rightful.storage.tables.store_kinds import TREE, Kind

_TABLES: Final = MappingProxyType({"rows": False, "payloads": False, "tags": True, "types": True})

LEDGER: Final = Kind("ledger", _TABLES, LedgerCodec())
"""A ledger's store: each record is an envelope."""

PLAIN: Final = Kind("plain", _TABLES, PlainCodec())
"""The store of an application with its own events."""

KINDS: Final = MappingProxyType({kind.name: kind for kind in (LEDGER, PLAIN)})

_POSITION: Final = struct.Struct(">Q")
_NOT_TEXT: Final = b"\xff"  # never occurs at the start of UTF-8
_HYPHEN_AT: Final = len("id:00000000-0000-5000")  # one of a UUID's hyphens, near its middle

pack_position = _POSITION.pack


def unpack_position(key: bytes) -> int:
    """Return the position of a key."""
    position: int = _POSITION.unpack(key)[0]
    return position


def pack_positions(first: int, count: int) -> list[bytes]:
    """Return the keys of `count` consecutive positions, starting at `first`."""
    packed = struct.pack(f">{count}Q", *range(first, first + count))
    return [packed[at : at + 8] for at in range(0, 8 * count, 8)]


def word_key(word: str) -> bytes:
    """Return the index key of a tag or type: the text itself, or its hash if it is too long for LMDB.

    Raises:
        UnicodeEncodeError: It contains a lone surrogate.
    """
    key = word.encode()
    if 0 < len(key) <= limits.TAG_KEY_BYTES:
        return key
    return _NOT_TEXT + sha256(key).digest()


def _is_other_id(key: bytes, word: bytes) -> bool:
    """Return whether an index key belongs to another event id than a word, even if one run of its bytes is damaged.

    Such a run is before the hyphen, after it, or changes it. In an intact key of another id both sides differ.
    """
    at = _HYPHEN_AT
    return key[:at] != word[:at] and key[at + 1 :] != word[at + 1 :] and key[at : at + 1] == word[at : at + 1] == b"-"


class Tables:
    """The tables of one open environment."""

    __slots__ = ("_synced", "codec", "env")

    def __init__(self, env: Environment) -> None:
        self.env = env
        self._synced = -1
        self.codec = cast("Codec", env.kind.codec)

    def sync(self, number: int) -> None:
        """Sync what LMDB shows, since the process that wrote it may have been killed during its last sync.

        Args:
            number: The number of the last transaction that a read sees; each is synced once.

        Raises:
            OSError: The system failed.
        """
        if self._synced != number:
            store_files.sync_data(self.env.data.parent)
            self._synced = number

    def note_synced(self, number: int) -> None:
        """Note that a transaction is durable because this process committed it."""
        self._synced = number

    def frontier(self, record: bytes, *, is_checked: bool = False) -> Frontier:
        """Return the frontier of a stored tree record.

        Args:
            record: The record.
            is_checked: Whether its bytes are known to be intact, as those of a journal record are.

        Raises:
            ForeignStoreError: It is damaged.
        """
        try:
            frontier = Frontier.from_bytes(record[HASH_BYTES:])
        except ValueError as error:
            raise ForeignStoreError(str(self.env.root), f"its tree is damaged ({error})") from error
        if not is_checked and frontier.root() != record[:HASH_BYTES]:
            raise ForeignStoreError(str(self.env.root), "its root does not fit its frontier")
        return frontier

    def write_tree(self, txn: lmdb.Transaction[bytes], record: bytes) -> None:
        """Store the root and the frontier."""
        txn.put(TREE, record, db=self.env.tables["meta"])

    def event(self, txn: lmdb.Transaction[bytes], position: int) -> DCBEvent:
        """Return the event at a position.

        Raises:
            DamagedRowError: It is missing, or does not match its checksum.
        """
        key = pack_position(position)
        tables = self.env.tables
        record = self.checked(position, txn.get(key, db=tables["rows"]))
        return self.unpack(position, record, txn.get(key, db=tables["payloads"]))

    def tagged(self, txn: lmdb.Transaction[bytes], word: bytes) -> list[int]:
        """Return the positions that the index lists for a tag's key, ascending.

        A tag may be absent only because its key was damaged. A search for it then ends next to the damaged key. So
        both neighbours are compared with their rows, unless neither can be that key.

        Raises:
            DamagedRowError: An entry next to the absent tag does not belong to the row that it refers to.
        """
        with txn.cursor(db=self.env.tables["tags"]) as cursor:
            if cursor.set_range(word):
                key = cursor.key()
                if key == word:
                    return [unpack_position(position) for position in cursor.iternext_dup()]
                if key < word or not _is_other_id(key, word):
                    self._see_entry(txn, key, cursor.value(), is_in_order=key > word)
                has_entry = cursor.prev_nodup()
            else:
                has_entry = cursor.last()
            if has_entry:
                key = cursor.key()
                if key > word or not _is_other_id(key, word):
                    self._see_entry(txn, key, cursor.value(), is_in_order=key < word)
        return []

    def _see_entry(self, txn: lmdb.Transaction[bytes], word: bytes, key: bytes, *, is_in_order: bool) -> None:
        record = (txn.get(key, db=self.env.tables["rows"]) or b"")[HASH_BYTES:]
        if is_in_order and record:
            try:
                if word in map(word_key, self.codec.words(record)[1]):
                    return
            except msgspec.DecodeError:
                return  # the row is damaged; reading it reports that
        listed = word.decode(errors="backslashreplace")
        what = f"the index lists it under {listed!r}, but the row does not have that tag or type"
        raise DamagedRowError(str(self.env.root), unpack_position(key), what)

    def present(self, position: int, value: bytes | None) -> bytes:
        """Return a stored row, or raise if it is missing."""
        if value is None:
            raise DamagedRowError(str(self.env.root), position, "it is missing")
        return value

    def checked(self, position: int, value: bytes | None) -> bytes:
        """Return the record of a stored row after checking its leaf hash."""
        value = self.present(position, value)
        record = value[HASH_BYTES:]
        if sha256(LEAF + record).digest() != value[:HASH_BYTES]:
            raise DamagedRowError(str(self.env.root), position, "its bytes do not fit its leaf hash")
        return record

    def unpack(self, position: int, record: bytes, payload: bytes | None) -> DCBEvent:
        """Return the event of a checked record."""
        try:
            return self.codec.unpack(record, payload)
        except msgspec.DecodeError as error:
            raise DamagedRowError(str(self.env.root), position, f"its record cannot be read ({error})") from error
