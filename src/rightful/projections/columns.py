"""Growing tables of numpy columns: what a fold keeps of millions of rows.

A Python object a row would cost hundreds of bytes; a column costs its item size. A row is packed
into a byte buffer as it comes, which is the fastest way in, and the buffer becomes columns when
somebody reads.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Column: TypeAlias = npt.NDArray[Any]
Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]

_CODES = {"u1": "B", "u2": "H", "i4": "i", "u4": "I", "i8": "q", "f8": "d"}
_FLUSH_BYTES = 1 << 21


class Table:
    """Named columns of one length.

    Attributes:
        names: The columns' names.
    """

    def __init__(self, **columns: str) -> None:
        self.names = tuple(columns)
        self._row = np.dtype([(name, f"<{code}") for name, code in columns.items()])
        self._pack = struct.Struct("<" + "".join(_CODES[code] for code in columns.values())).pack
        self._pending = bytearray()
        self._columns = {name: np.empty(0, self._row[name]) for name in columns}
        self._size = 0
        self._rows = 0

    def __len__(self) -> int:
        return self._rows

    def append(self, *values: float) -> int:
        """Add one row, its values in the order of `names`; return its number."""
        pending = self._pending
        pending += self._pack(*values)
        if len(pending) > _FLUSH_BYTES:
            self.flush()
        self._rows += 1
        return self._rows - 1

    def extend(self, values: array[Any]) -> None:
        """Add rows of a table with one column."""
        self._pending += values.tobytes()
        self._rows += len(values)
        if len(self._pending) > _FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Move what is pending into the columns."""
        if not self._pending:
            return
        rows = np.frombuffer(self._pending, self._row)
        grown = self._size + len(rows)
        for name in self.names:
            column = self._columns[name]
            if grown > len(column):
                column = np.empty(max(grown, len(column) * 5 // 4, 1_024), self._row[name])
                column[: self._size] = self._columns[name][: self._size]
                self._columns[name] = column
            column[self._size : grown] = rows[name]
        self._pending = bytearray()
        self._size = grown

    def __getitem__(self, name: str) -> Column:
        """Return a column, whole; a view that stays valid until rows are added."""
        self.flush()
        return self._columns[name][: self._size]

    def get(self, name: str, row: int) -> int:
        """Return one value of a row as a Python number."""
        return int(self[name][row])

    def load(self, columns: Mapping[str, Column]) -> None:
        """Take stored columns in place of what is here."""
        self._columns = {name: np.array(columns[name], self._row[name]) for name in self.names}
        self._pending = bytearray()
        self._size = self._rows = len(self._columns[self.names[0]])

    def dtype(self, name: str) -> np.dtype[Any]:
        """Return a column's type."""
        return self._row[name]
