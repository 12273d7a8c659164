"""Errors of the package, each a sentence with its facts as attributes; those of sessions are in `session_errors`.

A message says what is so, what it means for your data, and what to do next. The facts are its `args`: it pickles.
"""

from __future__ import annotations

from typing import ClassVar


class RightfulError(Exception):
    """The base of every error raised by this package.

    Attributes:
        exit_code: What `rightful` returns to the shell: 2 wrong usage or invalid input, 3 conflict, 4 storage.
    """

    exit_code: ClassVar[int] = 4


class UsageError(RightfulError):
    """The call or the command cannot be carried out as it was asked. Nothing was written."""

    exit_code: ClassVar[int] = 2


class InvalidEventError(RightfulError):
    """One event does not fit its type. It was not written; its neighbours were.

    Attributes:
        what: What was expected and what came, in msgspec's grammar.
        place: Where, as a path such as `$.arms[0].p_inject`; `$` is the event itself.
    """

    exit_code: ClassVar[int] = 2

    def __init__(self, what: str, place: str = "$") -> None:
        super().__init__(what, place)
        self.what = what
        self.place = place

    def __str__(self) -> str:
        return f"{self.what} - at `{self.place}`"


class PolicyError(RightfulError):
    """A policy does not have the form of a policy, or no preset has that name.

    Attributes:
        what: What was expected and what came.
    """

    exit_code: ClassVar[int] = 2

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"this is no policy: {self.what}. Nothing was computed; mend the policy and ask again."


class UpgradeError(RightfulError):
    """A row was written by a newer version of the program. Your data is whole.

    Projections stop here rather than leave the row out; reading shows it raw and appending
    goes on. Upgrade the program and ask again.

    Attributes:
        position: Where the row stands.
        type: The event type as stored.
        schema: The schema version as stored.
    """

    def __init__(self, position: int, type: str, schema: int) -> None:  # noqa: A002 - the field's own name
        super().__init__(position, type, schema)
        self.position = position
        self.type = type
        self.schema = schema

    def __str__(self) -> str:
        return (
            f"the row at position {self.position} is {self.type!r} version {self.schema}, which this program does not "
            "know; nothing was computed from it and nothing is lost. Upgrade rightful and ask again."
        )


class StorageError(RightfulError):
    """The store could not do what was asked. What it had acknowledged is still there.

    Attributes:
        what: What failed.
        advice: What to do next.
    """

    def __init__(self, what: str, advice: str = "Nothing was written; try again.") -> None:
        super().__init__(what, advice)
        self.what = what
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.what}. {self.advice}"


class LedgerNotFoundError(StorageError):
    """There is no ledger there. Nothing was made: only `init` and `demo` make one.

    Raised by `rightful.open`. Name another path, or make one with `create=True` or `rightful init`.
    """

    def __init__(self, path: str) -> None:
        RightfulError.__init__(self, path)
        self.path = path

    def __str__(self) -> str:
        return (
            f"there is no ledger at {self.path}; nothing was made. "
            "Run `rightful init` (in Python: `create=True`), or name one with --ledger."
        )


class ForeignStoreError(StorageError):
    """What stands there is not a whole store of ours. It was not touched.

    Raised when a file is missing, empty, cut short, of another program, or of the other kind
    (a ledger where a plain store was expected). Restore it from a backup, or name another path.

    Attributes:
        path: The folder that was refused.
        why: What is wrong with it.
    """

    def __init__(self, path: str, why: str) -> None:
        RightfulError.__init__(self, path, why)
        self.path = path
        self.why = why

    def __str__(self) -> str:
        return (
            f"{self.path} was refused: {self.why}. It was not changed. "
            f"Restore it from a backup, or name another ledger."
        )


class ReadOnlyStoreError(StorageError):
    """The store cannot be written here. Nothing was written.

    Open it with `readonly=True`, or make the folder writable for you.

    Attributes:
        path: The folder.
    """

    def __init__(self, path: str, why: str = "it is open for reading only") -> None:
        RightfulError.__init__(self, path, why)
        self.path = path
        self.why = why

    def __str__(self) -> str:
        return (
            f"{self.path} cannot be written: {self.why}; nothing was written. "
            f"Make the folder writable, or open it readonly."
        )


class StoreFullError(StorageError):
    """The disk, the quota or the map is full. Nothing of this call was written.

    What stood before is whole and can be read. Make room, then send the same batch again.

    Attributes:
        path: The folder.
        why: What the system said.
    """

    def __init__(self, path: str, why: str) -> None:
        RightfulError.__init__(self, path, why)
        self.path = path
        self.why = why

    def __str__(self) -> str:
        return (
            f"there is no room to write to {self.path} ({self.why}); nothing of this call was written and "
            f"what stood before is whole. Make room and send the same events again."
        )


class BusyError(StorageError):
    """Another writer held the ledger longer than you were willing to wait. Not written.

    Send the same events again: they keep their ids, so nothing can be written twice.

    Attributes:
        path: The folder.
        waited_s: How long the call waited; seconds.
    """

    def __init__(self, path: str, waited_s: float) -> None:
        RightfulError.__init__(self, path, waited_s)
        self.path = path
        self.waited_s = waited_s

    def __str__(self) -> str:
        return (
            f"another writer held {self.path} for more than {self.waited_s:g} s; nothing was written. "
            f"Send the same events again."
        )


class InUseError(StorageError):
    """Somebody has the ledger open, so it cannot be taken for this alone. Nothing was changed.

    Attributes:
        path: The folder.
        holders: What is known of who holds it, such as `pid 4711`.
    """

    def __init__(self, path: str, holders: tuple[str, ...] = ()) -> None:
        RightfulError.__init__(self, path, holders)
        self.path = path
        self.holders = holders

    def __str__(self) -> str:
        who = ", ".join(self.holders) if self.holders else "another process"
        return f"{self.path} is open in {who}; nothing was changed. Close it there and try again."


class ForkedError(StorageError):
    """This handle was opened before a fork and is used in the child. Nothing was written.

    Open the ledger anew in the child.

    Attributes:
        path: The folder.
    """

    def __init__(self, path: str) -> None:
        RightfulError.__init__(self, path)
        self.path = path

    def __str__(self) -> str:
        return (
            f"this handle on {self.path} was opened by the parent process; nothing was done. "
            f"Open the ledger anew in the child."
        )


class ClosedError(StorageError):
    """The handle was closed. Nothing was written. Open the ledger again.

    Attributes:
        path: The folder.
    """

    def __init__(self, path: str) -> None:
        RightfulError.__init__(self, path)
        self.path = path

    def __str__(self) -> str:
        return f"this handle on {self.path} is closed; nothing was done. Open the ledger again."


class DamagedRowError(StorageError):
    """A row does not fit its checksum. It was not used, and nothing was changed.

    Attributes:
        path: The folder.
        position: Where the damage is.
        what: Which part does not fit.
    """

    def __init__(self, path: str, position: int, what: str) -> None:
        RightfulError.__init__(self, path, position, what)
        self.path = path
        self.position = position
        self.what = what

    def __str__(self) -> str:
        return (
            f"the row at position {self.position} of {self.path} is damaged: {self.what}. "
            f"It was not used. Restore the ledger from a backup; rows before it can be read."
        )


class OutcomeUnknownError(StorageError):
    """The store failed while writing and could not be asked afterwards. It may be written or not.

    Send the same events again: what was written answers `duplicate`, what was not is written.

    Attributes:
        path: The folder.
        ids: The event ids whose outcome is not known.
        why: What the system said.
    """

    def __init__(self, path: str, ids: tuple[str, ...], why: str) -> None:
        RightfulError.__init__(self, path, ids, why)
        self.path = path
        self.ids = ids
        self.why = why

    def __str__(self) -> str:
        what = f"{len(self.ids)} event(s) were" if self.ids else "anything was"
        return (
            f"whether {what} written to {self.path} is not known ({self.why}). "
            f"Send the same events again: nothing can be written twice."
        )


class ConditionFailedError(RightfulError):
    """Somebody wrote what your append was conditional on. Nothing was written.

    Raised by a conditional append. Read again what you decided on, and decide anew.

    Attributes:
        after: The position after which nothing was allowed to stand.
    """

    exit_code: ClassVar[int] = 3

    def __init__(self, after: int) -> None:
        super().__init__(after)
        self.after = after

    def __str__(self) -> str:
        return (
            f"a row after position {self.after} fits the condition of this append, so nothing was written. "
            f"Read again and decide anew."
        )


class TargetError(RightfulError):
    """A tool's state file cannot be planned upon. It was not changed, and nothing was written.

    Raised by a backfill. Mend the file, or wait until its tool has written it, and plan again.

    Attributes:
        path: The file.
        why: What is wrong with it.
        advice: What to do next.
    """

    exit_code: ClassVar[int] = 2

    def __init__(self, path: str, why: str, advice: str = "Mend it, or let its tool finish, and plan again.") -> None:
        super().__init__(path, why, advice)
        self.path = path
        self.why = why
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.path} was not touched: {self.why}. {self.advice}"


class TargetChangedError(RightfulError):
    """A tool's state file, or what was published to it, is not what the plan was made for.

    Raised by `apply` and `rollback` of a backfill. What stands there was kept. Plan again.

    Attributes:
        path: The file.
        why: What has changed.
        advice: What to do next.
    """

    exit_code: ClassVar[int] = 3

    def __init__(self, path: str, why: str, advice: str = "What stands there was kept. Plan again.") -> None:
        super().__init__(path, why, advice)
        self.path = path
        self.why = why
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.path}: {self.why}. {self.advice}"


class BackfillRefusedError(RightfulError):
    """The plan says that it should not be applied, and nobody forced it. Nothing was written.

    Attributes:
        path: The file.
        why: Every reason.
        advice: What to do next.
    """

    exit_code: ClassVar[int] = 1

    def __init__(
        self, path: str, why: tuple[str, ...], advice: str = "Mend what is named, or plan with --force."
    ) -> None:
        super().__init__(path, why, advice)
        self.path = path
        self.why = why
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.path} was not written: {'; '.join(self.why)}. {self.advice}"
