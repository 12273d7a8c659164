"""What kinds of store there are, and what each says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

import msgspec

from rightful.encoding.merkle import HASH_BYTES
from rightful.storage.tables.row_codec import Codec

FORMAT = 3
"""Version of a store's form, in its own record. The tables are the same in all.

1 has no journal; 2 has one beside the tables; in 3 its records are bound to the store, to a round and to the tables.
"""

ABOUT = b"about"
"""Key of what a store says of itself, in its table `meta`."""

TREE = b"tree"
"""Key of the tree's root and frontier, in the same table."""

ROUND = b"round"
"""Key of the last round of the journal whose rows the tables have, 8 bytes, and the check of its last record."""

META = b"meta"
"""The table that every store has."""


def tree_size(record: bytes) -> int:
    """Return how many rows the tree has of which the record was stored under `TREE`; 0 if there is none."""
    return int.from_bytes(record[HASH_BYTES : HASH_BYTES + 8], "big")


class About(msgspec.Struct, frozen=True):
    """What a store says of itself.

    Attributes:
        format: Version of its form.
        kind: What it holds, such as `ledger` or `plain`.
        id: The store's own UUID; a copy keeps it.
        journal_bytes: Size of its journal; 0 if none is in use.
        key: The random key that binds its journal to it, in hexadecimal; empty where nothing is bound.
        rewriting: Whether its journal is being made again: all rows are in the tables then, and whatever the file
            holds is not read.
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
        """Return what is stored of it, with its check."""
        return msgspec.json.encode(msgspec.structs.replace(self, check=self._digest()))

    def fits(self) -> bool:
        """Return whether it is what was stored; before format 3 it had no check."""
        return (self.format < 3 and not self.check) or self._digest() == self.check  # noqa: PLR2004 - the first format that has it

    def _digest(self) -> str:
        return sha256(msgspec.json.encode(msgspec.structs.replace(self, check=""))).hexdigest()


class Kind(msgspec.Struct, frozen=True):
    """What a store holds, and the tables it needs besides `meta`.

    Attributes:
        name: The word in its own record.
        tables: Name of each table; True when it keeps several sorted 8-byte values a key.
        codec: How its events become records; None if it has no journal, since it holds no events.
    """

    name: str
    tables: Mapping[str, bool]
    codec: Codec | None = None
