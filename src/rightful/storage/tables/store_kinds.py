"""The kinds of store, and the record that each store keeps about itself."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

import msgspec

from rightful.encoding.merkle import HASH_BYTES
from rightful.storage.tables.row_codec import Codec

FORMAT = 3
"""Version of a store's format, in its own record. The tables are the same in all versions.

1 has no journal; 2 adds one; 3 binds the journal's records to the store, to a round and to the tables.
"""

ABOUT = b"about"
"""Key of the store's own record, in its table `meta`."""

TREE = b"tree"
"""Key of the tree's root and frontier, in the same table."""

ROUND = b"round"
"""Key of the last journal round whose rows the tables have: 8 bytes, then the check of its last record."""

META = b"meta"
"""The table that every store has."""


def tree_size(record: bytes) -> int:
    """Return the number of rows of the tree whose record was stored under `TREE`; 0 if there is none."""
    return int.from_bytes(record[HASH_BYTES : HASH_BYTES + 8], "big")


class About(msgspec.Struct, frozen=True):
    """A store's own record.

    Attributes:
        format: Version of its format.
        kind: The kind of store, such as `ledger` or `plain`.
        id: The store's own UUID; a copy keeps it.
        journal_bytes: Size of its journal; 0 if none is in use.
        key: The random key that binds its journal to it, in hexadecimal; empty if nothing is bound.
        rewriting: Whether its journal is being recreated. All rows are in the tables then, and the file
            is not read.
        check: SHA-256 of this record without it, in hexadecimal; empty before format 3.
    """

    format: int
    kind: str
    id: str
    journal_bytes: int = 0
    key: str = ""
    rewriting: bool = False
    check: str = ""

    def to_bytes(self) -> bytes:
        """Return its stored bytes, with its check."""
        return msgspec.json.encode(msgspec.structs.replace(self, check=self._digest()))

    def fits(self) -> bool:
        """Return whether its check matches; always True before format 3, which had no check."""
        return (self.format < 3 and not self.check) or self._digest() == self.check  # noqa: PLR2004 - the first format with a check

    def _digest(self) -> str:
        return sha256(msgspec.json.encode(msgspec.structs.replace(self, check=""))).hexdigest()


class Kind(msgspec.Struct, frozen=True):
    """A kind of store, and the tables it needs besides `meta`.

    Attributes:
        name: The kind in the store's own record.
        tables: Name of each table; True if it stores several sorted 8-byte values a key.
        codec: Converts its events to records; None if it stores no events and so has no journal.
    """

    name: str
    tables: Mapping[str, bool]
    codec: Codec | None = None
