"""Growing tables of numpy columns: what a fold keeps of millions of rows.

A Python object a row would cost hundreds of bytes; a column costs its item size. Rows are
appended one at a time to small typed arrays and moved into numpy when somebody reads.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Column: TypeAlias = npt.NDArray[Any]
Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]

_CODES = {"u1": "B", "u2": "H", "i2": "h", "i4": "i", "u4": "I", "i8": "q", "f8": "d"}
_FLUSH_ROWS = 65_536


class Table:
    """Named columns of one length.

    Attributes:
        names: The columns' names, in the order in which `pending` holds them.
        pending: For each column, the `append` of its array of rows not yet moved; a fold calls
            them directly, since it does so for every event.
    """

    def __init__(self, **columns: str) -> None:
        self.names = tuple(columns)
        self._dtypes = {name: np.dtype(f"<{code}") for name, code in columns.items()}
        self._pending: dict[str, array[Any]] = {name: array(_CODES[code]) for name, code in columns.items()}
        self._columns = {name: np.empty(0, dtype) for name, dtype in self._dtypes.items()}
        self._size = 0

    def __len__(self) -> int:
        return self._size + len(self._pending[self.names[0]])

    def append(self, *values: float) -> None:
        """Add one row, its values in the order of `names`."""
        for pending, value in zip(self._pending.values(), values, strict=True):
            pending.append(value)
        if len(pending) >= _FLUSH_ROWS:
            self.flush()

    def flush(self) -> None:
        """Move what is pending into the numpy columns."""
        first = self._pending[self.names[0]]
        grown = self._size + len(first)
        if not len(first):
            return
        for name, pending in self._pending.items():
            column = self._columns[name]
            if grown > len(column):
                column = np.empty(max(grown, len(column) * 5 // 4, 1_024), self._dtypes[name])
                column[: self._size] = self._columns[name][: self._size]
                self._columns[name] = column
            column[self._size : grown] = np.frombuffer(pending, self._dtypes[name])
            self._pending[name] = array(pending.typecode)
        self._size = grown

    def __getitem__(self, name: str) -> Column:
        """Return a column, whole; a view that stays valid until rows are added."""
        self.flush()
        return self._columns[name][: self._size]

    def put(self, name: str, row: int, value: float) -> None:
        """Change one value of a row."""
        if row >= self._size:
            self._pending[name][row - self._size] = value
        else:
            self._columns[name][row] = value

    def get(self, name: str, row: int) -> int:
        """Return one value of a row as a Python number."""
        if row >= self._size:
            return int(self._pending[name][row - self._size])
        return int(self._columns[name][row])

    def load(self, columns: Mapping[str, Column]) -> None:
        """Take stored columns in place of what is here."""
        for name, column in columns.items():
            self._columns[name] = np.array(column, self._dtypes[name])
            self._pending[name] = array(self._pending[name].typecode)
        self._size = len(self._columns[self.names[0]])

    def dtype(self, name: str) -> np.dtype[Any]:
        """Return a column's type."""
        return self._dtypes[name]
