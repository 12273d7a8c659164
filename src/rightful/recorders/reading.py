"""A short read transaction of an open environment."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

import lmdb

from rightful.recorders.faults import storage_error

if TYPE_CHECKING:
    from rightful.recorders.environment import Environment


class Reading:
    """One short read transaction, as a context."""

    __slots__ = ("_env", "_txn")

    def __init__(self, env: Environment) -> None:
        self._env = env

    def __enter__(self) -> lmdb.Transaction[bytes]:
        self._txn = self._env.enter_read()
        return self._txn

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._txn.abort()
        finally:
            self._env.leave_read()
        if isinstance(error, lmdb.Error):
            raise storage_error(self._env.root, error) from error
