"""The tables of a recorder's store, and how a row, a tag and a position become bytes.

| table | key | value |
|---|---|---|
| `rows` | position, 8 bytes big-endian | leaf hash, 32 bytes; then the record |
| `payloads` | position | salt and body; empty once an erasure took them |
| `tags` | tag | positions, sorted |
| `types` | type | positions, sorted |
| `meta` | `about`, `tree` | what the store says of itself; root and frontier |
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
"""The store of an application that brings its own events."""

KINDS: Final = MappingProxyType({kind.name: kind for kind in (LEDGER, PLAIN)})

_POSITION: Final = struct.Struct(">Q")
_NOT_TEXT: Final = b"\xff"  # begins no UTF-8
_HYPHEN_AT: Final = len("id:00000000-0000-5000")  # one of a UUID's hyphens, about in its middle

pack_position = _POSITION.pack


def unpack_position(key: bytes) -> int:
    """Return the position that a key names."""
    position: int = _POSITION.unpack(key)[0]
    return position


def pack_positions(first: int, count: int) -> list[bytes]:
    """Return the keys of that many positions, from the first on."""
    packed = struct.pack(f">{count}Q", *range(first, first + count))
    return [packed[at : at + 8] for at in range(0, 8 * count, 8)]


def word_key(word: str) -> bytes:
    """Return the index key of a tag or type: itself, or its hash if LMDB cannot hold it.

    Raises:
        UnicodeEncodeError: It is no text: a surrogate stands alone in it.
    """
    key = word.encode()
    if 0 < len(key) <= limits.TAG_KEY_BYTES:
        return key
    return _NOT_TEXT + sha256(key).digest()


def _is_other_id(key: bytes, word: bytes) -> bool:
    """Return whether an index key is of another event id than a word, even if one run of its bytes is damaged.

    Such a run is before the hyphen, or behind it, or changes it. In a sound key of another id both sides differ.
    """
    at = _HYPHEN_AT
    return key[:at] != word[:at] and key[at + 1 :] != word[at + 1 :] and key[at : at + 1] == word[at : at + 1] == b"-"


def tree_record(frontier: Frontier) -> bytes:
    """Return what is stored of the tree: its root, and the frontier with the size."""
    return frontier.root() + frontier.to_bytes()


class Tables:
    """The tables of one open environment."""

    __slots__ = ("_settled", "codec", "env")

    def __init__(self, env: Environment) -> None:
        self.env = env
        self._settled = -1
        self.codec = cast("Codec", env.kind.codec)

    def settle(self, number: int) -> None:
        """Make durable what LMDB shows: whoever wrote it may have been killed in its last sync.

        Args:
            number: That of the last transaction that a read sees; each is synced once.

        Raises:
            OSError: The system failed.
        """
        if self._settled != number:
            store_files.sync_data(self.env.data.parent)
            self._settled = number

    def settled(self, number: int) -> None:
        """Note that a transaction is durable, since this process committed it."""
        self._settled = number

    def frontier(self, record: bytes, *, is_checked: bool = False) -> Frontier:
        """Return the frontier of what is stored of the tree.

        Args:
            record: What is stored.
            is_checked: Whether its bytes are known to be whole, as those of a journal's record are.

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

    def tree(self, txn: lmdb.Transaction[bytes]) -> bytes:
        """Return what is stored of the tree; nothing when there is none."""
        record: bytes | None = txn.get(TREE, db=self.env.tables["meta"])
        return record or b""

    def event(self, txn: lmdb.Transaction[bytes], position: int) -> DCBEvent:
        """Return the event at a position.

        Raises:
            DamagedRowError: It is missing, or does not fit its checksum.
        """
        key = pack_position(position)
        tables = self.env.tables
        record = self.checked(position, txn.get(key, db=tables["rows"]))
        return self.unpack(position, record, txn.get(key, db=tables["payloads"]))

    def tagged(self, txn: lmdb.Transaction[bytes], word: bytes) -> list[int]:
        """Return the positions that the index has under a tag's key, ascending.

        An absent tag may be one whose key was damaged. A search for it ends next to the damaged key, so
        both neighbours are compared with their rows, unless they cannot be that key.

        Raises:
            DamagedRowError: An entry next to the place of an absent tag is not of the row that it leads to.
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
                return  # the row is damaged, and a read of it reports that
        what = f"the index has it under {word.decode(errors='backslashreplace')!r}, which it does not name"
        raise DamagedRowError(str(self.env.root), unpack_position(key), what)

    def present(self, position: int, value: bytes | None) -> bytes:
        """Return a stored row that is there."""
        if value is None:
            raise DamagedRowError(str(self.env.root), position, "it is missing")
        return value

    def checked(self, position: int, value: bytes | None) -> bytes:
        """Return the record of a stored row that fits its leaf hash."""
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
