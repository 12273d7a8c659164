"""What kinds of store there are, and what each says of itself."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

FORMAT = 1
"""Version of the tables' form, in each store's own record."""

ABOUT = b"about"
"""Key of what a store says of itself, in its table `meta`."""

META = b"meta"
"""The table that every store has."""


class About(msgspec.Struct, frozen=True):
    """What a store says of itself.

    Attributes:
        format: Version of the tables' form.
        kind: What it holds, such as `ledger` or `plain`.
        id: The store's own UUID; a copy keeps it.
    """

    format: int
    kind: str
    id: str


class Kind(msgspec.Struct, frozen=True):
    """What a store holds, and the tables it needs besides `meta`.

    Attributes:
        name: The word in its own record.
        tables: Name of each table; True when it keeps several sorted 8-byte values a key.
    """

    name: str
    tables: Mapping[str, bool]
