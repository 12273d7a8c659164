"""Growing tables of numpy columns for the facts of millions of rows.

A Python object per row would cost hundreds of bytes; a column costs its item size. Each row is packed
into a byte buffer, which is the fastest way to append, and `freeze` makes columns of the buffer.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Column: TypeAlias = npt.NDArray[Any]
Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]

_CODES = {"u1": "B", "u2": "H", "i4": "i", "u4": "I", "i8": "q", "f8": "d"}
_FLUSH_BYTES = 1 << 21


def expanded(start: Ints, count: Ints) -> tuple[Ints, Ints]:
    """Return the members of many ranges: for each the number of its range, and its own place."""
    number = np.repeat(np.arange(len(count)), count)
    return number, np.arange(len(number)) + np.repeat(start - np.cumsum(count) + count, count)


class Table:
    """Named columns of one length.

    Attributes:
        names: The columns' names.
        columns: The columns up to the last `freeze`, by name; views that stay valid until rows are added.
    """

    def __init__(self, **columns: str) -> None:
        self.names = tuple(columns)
        self._row = np.dtype([(name, f"<{code}") for name, code in columns.items()])
        self._pack = struct.Struct("<" + "".join(_CODES[code] for code in columns.values())).pack
        self._pending = bytearray()
        self._buffers = {name: np.empty(0, self._row[name]) for name in columns}
        self.columns = dict(self._buffers)
        self._size = 0
        self._rows = 0

    def __len__(self) -> int:
        return self._rows

    def append(self, *values: float) -> int:
        """Add one row, its values in the order of `names`; return its number."""
        pending = self._pending
        pending += self._pack(*values)
        self._rows += 1
        if len(pending) > _FLUSH_BYTES:
            self.freeze()
        return self._rows - 1

    def extend(self, values: array[Any]) -> None:
        """Add rows of a table with one column."""
        self._pending += values.tobytes()
        self._rows += len(values)
        if len(self._pending) > _FLUSH_BYTES:
            self.freeze()

    def extend_columns(self, **columns: Sequence[float] | Column) -> None:
        """Add many rows, given by column."""
        self.freeze()
        self._store({name: np.asarray(columns[name], self._row[name]) for name in self.names})
        self._rows = self._size

    def order_from(self, start: int, name: str) -> None:
        """Put the rows from a number on in the order of a column."""
        self.freeze()
        order = np.argsort(self.columns[name][start:], kind="stable")
        for column in self.columns.values():
            column[start:] = column[start:][order]

    def freeze(self) -> None:
        """Move the appended rows into the columns."""
        if self._pending:
            rows = np.frombuffer(self._pending, self._row)
            self._store({name: rows[name] for name in self.names})
            self._pending = bytearray()

    def _store(self, rows: Mapping[str, Column]) -> None:
        grown = self._size + len(rows[self.names[0]])
        for name, values in rows.items():
            buffer = self._buffers[name]
            if grown > len(buffer):
                buffer = np.empty(max(grown, len(buffer) * 5 // 4, 1_024), self._row[name])
                buffer[: self._size] = self.columns[name]
                self._buffers[name] = buffer
            buffer[self._size : grown] = values
            self.columns[name] = buffer[:grown]
        self._size = grown

    def __getitem__(self, name: str) -> Column:
        """Return a column, as `columns` does."""
        return self.columns[name]

    def load(self, columns: Mapping[str, Column]) -> None:
        """Replace the columns by stored ones."""
        self._buffers = {name: np.array(columns[name], self._row[name]) for name in self.names}
        self.columns = dict(self._buffers)
        self._pending = bytearray()
        self._size = self._rows = len(self.columns[self.names[0]])

    def dtype(self, name: str) -> np.dtype[Any]:
        """Return a column's type."""
        return self._row[name]


class Places:
    """Where each value of a column stands: found by an index, and by a dict for the newest rows."""

    _TAIL_ROWS = 50_000

    def __init__(self, table: Table, name: str) -> None:
        self._table = table
        self._name = name
        self._values: Ints = np.empty(0, np.int64)
        self._order: Ints = np.empty(0, np.int64)
        self._tail: dict[int, list[int]] = {}
        self._seen = 0

    def rows(self, values: list[int]) -> Ints:
        """Return the rows that have one of the values, ascending."""
        self._catch_up()
        wanted = np.array(values, np.int64)
        low, high = np.searchsorted(self._values, wanted, "left"), np.searchsorted(self._values, wanted, "right")
        found = [self._order[start:end] for start, end in zip(low.tolist(), high.tolist(), strict=True)]
        found.append(np.array([row for value in values for row in self._tail.get(value, ())], np.int64))
        return np.sort(np.concatenate(found))

    def _catch_up(self) -> None:
        column = self._table.columns[self._name]
        if len(column) - len(self._values) > self._TAIL_ROWS:
            order = np.argsort(column, kind="stable")
            self._order, self._values, self._tail, self._seen = order, column[order], {}, len(column)
        if len(column) > self._seen:
            seen, self._seen = self._seen, len(self._values)  # after an exception the tail is made again
            tail = self._tail if seen > len(self._values) else {}
            for row, value in enumerate(column[seen:].tolist(), seen):
                tail.setdefault(value, []).append(row)
            self._tail, self._seen = tail, len(column)
