"""What kinds of store there are, and what each says of itself."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from rightful.recorders.codec import Codec
from rightful.tree import HASH_BYTES

FORMAT = 2
"""Version of a store's form, in its own record: 2 has a journal beside the tables. The tables of 1 are the same."""

ABOUT = b"about"
"""Key of what a store says of itself, in its table `meta`."""

TREE = b"tree"
"""Key of the tree's root and frontier, in the same table."""

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
        journal_bytes: Size of its journal; 0 if it has none.
    """

    format: int
    kind: str
    id: str
    journal_bytes: int = 0


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
