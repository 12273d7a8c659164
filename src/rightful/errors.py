"""Errors: each is a sentence with its facts as attributes.

A message gives the problem, its effect on your data, and the fix. The facts are also the error's `args`, so that it
can be pickled.
"""

from __future__ import annotations

from typing import ClassVar, dataclass_transform


@dataclass_transform()
class RightfulError(Exception):
    """The base of every error raised by this package.

    A subclass declares its facts as annotations, with defaults, in the order of its arguments.

    Attributes:
        exit_code: The exit code of `rightful`: 1 a check failed, 2 wrong usage or invalid input, 3 conflict, 4 storage.
    """

    exit_code: ClassVar[int] = 4
    _facts: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        own = cls.__dict__.get("__annotations__", {})  # noqa: RUF063 - inspect is slow to import, and hooks run this
        own_facts = tuple(name for name, kind in own.items() if not kind.startswith("ClassVar"))
        if own_facts:
            cls._facts = own_facts
            cls.__init__ = RightfulError.__init__  # type: ignore[method-assign] # of a base with a text only

    def __init__(self, *values: object, **named: object) -> None:
        if self._facts:
            given = dict(zip(self._facts, values, strict=False)) | named
            values = tuple(given[name] if name in given else getattr(type(self), name) for name in self._facts)
            for name, value in zip(self._facts, values, strict=True):
                setattr(self, name, value)
        super().__init__(*values)


class UsageError(RightfulError):
    """The call or the command is not valid. Nothing was written."""

    exit_code: ClassVar[int] = 2

    def __init__(self, *values: object, **named: object) -> None:  # for type checkers: it has a text, and no facts
        super().__init__(*values, **named)


class InvalidEventError(RightfulError):
    """One event does not fit its type. It was not written. The other events of the batch were.

    Attributes:
        what: The expected and the actual value, in msgspec's grammar.
        place: The place in the event, such as `$.arms[0].p_inject`; `$` is the event itself.
    """

    exit_code: ClassVar[int] = 2
    what: str
    place: str = "$"

    def __str__(self) -> str:
        return f"{self.what} - at `{self.place}`"


class PolicyError(RightfulError):
    """A policy is not valid, or no preset has that name. Nothing was computed.

    Attributes:
        what: The expected and the actual value.
    """

    exit_code: ClassVar[int] = 2
    what: str

    def __str__(self) -> str:
        return f"Invalid policy: {self.what}. Nothing was computed. Fix the policy and run the command again."


class UpgradeError(RightfulError):
    """A row was written by a newer version of the program. The ledger is intact.

    Projections stop here instead of skipping the row. Reading returns it raw, and appending works. Upgrade the
    program and repeat the call.

    Attributes:
        position: The position of the row.
        type: The event type as stored.
        schema: The schema version as stored.
    """

    position: int
    type: str
    schema: int

    def __str__(self) -> str:
        return (
            f"The row at position {self.position} is {self.type!r} version {self.schema}, which this version of the "
            "program does not know. Nothing was computed from it, and nothing is lost. "
            "Upgrade rightful and run the command again."
        )


class StorageError(RightfulError):
    """The store failed. Acknowledged events are still in it.

    Attributes:
        what: What failed.
        advice: What to do next.
    """

    def __init__(self, what: str, advice: str = "Nothing was written. Try again.") -> None:
        super().__init__(what, advice)
        self.what = what
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.what}. {self.advice}"


class LedgerNotFoundError(StorageError):
    """The path has no ledger. Nothing was created: only `init` and `demo` create one.

    Raised by `rightful.open`. Give another `path`, or create the ledger with `create=True` or `rightful init`.
    """

    path: str

    def __str__(self) -> str:
        return (
            f"No ledger at {self.path}. Nothing was created. "
            "Run `rightful init` (in Python: `create=True`), or name a ledger with --ledger."
        )


class ForeignStoreError(StorageError):
    """The folder does not hold a complete ledger of this program. It was not changed.

    Raised when a file is missing, empty, truncated, of another program, or of the other kind
    (a ledger where a plain store was expected). Restore it from a backup, or give another path.

    Attributes:
        path: The folder that was refused.
        why: What is wrong with it.
    """

    path: str
    why: str

    def __str__(self) -> str:
        return f"Cannot open {self.path}: {self.why}. It was not changed. Restore a backup, or name another ledger."


class ReadOnlyStoreError(StorageError):
    """The store cannot be written. Nothing was written.

    Open it with `readonly=True`, or make the folder writable.

    Attributes:
        path: The folder.
        why: Why it cannot be written.
    """

    path: str
    why: str = "it is open for reading only"

    def __str__(self) -> str:
        return (
            f"Cannot write to {self.path}: {self.why}. Nothing was written. "
            "Make the folder writable, or open the ledger with readonly=True."
        )


class StoreFullError(StorageError):
    """The disk, the quota or the map is full. Nothing of this call was written.

    Earlier events are intact and readable. Free some space, then send the same batch again.

    Attributes:
        path: The folder.
        why: The error of the operating system.
    """

    path: str
    why: str

    def __str__(self) -> str:
        return (
            f"No space left to write to {self.path} ({self.why}). Nothing of this call was written, and earlier events "
            "are intact. Free some space and send the same events again."
        )


class BusyError(StorageError):
    """Another writer held the write lock for longer than the timeout. Nothing was written.

    Send the same events again: they keep their ids, so nothing is written twice.

    Attributes:
        path: The folder.
        waited_s: How long the call waited, in seconds.
    """

    path: str
    waited_s: float

    def __str__(self) -> str:
        return (
            f"Another writer held the write lock of {self.path} for more than {self.waited_s:g} s. "
            "Nothing was written. Send the same events again."
        )


class InUseError(StorageError):
    """Another process has the ledger open, and this command needs it exclusively. Nothing was changed.

    Attributes:
        path: The folder.
        holders: The processes that have it open, such as `pid 4711`, as far as they are known.
    """

    path: str
    holders: tuple[str, ...] = ()

    def __str__(self) -> str:
        who = ", ".join(self.holders) if self.holders else "another process"
        return f"{self.path} is open in {who}. Nothing was changed. Close it there and run the command again."


class ForkedError(StorageError):
    """The handle was opened before a fork and is used in the child. Nothing was written.

    Open the ledger at `path` in the child.
    """

    path: str

    def __str__(self) -> str:
        return (
            f"This handle on {self.path} was opened by the parent process and does not work after a fork. "
            "Nothing was written. Open the ledger in the child process."
        )


class ClosedError(StorageError):
    """The handle is closed. Nothing was written. Open the ledger again.

    Attributes:
        path: The folder.
    """

    path: str

    def __str__(self) -> str:
        return f"This handle on {self.path} is closed. Nothing was written. Open the ledger again."


class DamagedRowError(StorageError):
    """A row does not match its checksum. It was not used, and nothing was changed.

    Rows before it and after it can be read. Restore the ledger from a backup.

    Attributes:
        path: The folder.
        position: The position of the damaged row.
        what: Which part is damaged.
    """

    path: str
    position: int
    what: str

    def __str__(self) -> str:
        return (
            f"The row at position {self.position} of {self.path} is damaged: {self.what}. It was not used. Rows up to "
            f"position {self.position - 1} and after {self.position} can be read. Restore the ledger from a backup."
        )


class OutcomeUnknownError(StorageError):
    """The outcome of a commit is not known: its sync failed, or the time limit passed while it ran.

    It is also raised if LMDB's commit failed and the store could not be read afterwards. The events may be written
    or not. Send the same events again: a stored event gets the receipt `duplicate`, a missing one is written.

    Attributes:
        path: The folder.
        ids: The event ids whose outcome is not known.
        why: The failure, or the time limit that passed.
    """

    path: str
    ids: tuple[str, ...]
    why: str

    def __str__(self) -> str:
        what = f"{len(self.ids)} event(s) were" if self.ids else "anything was"
        return (
            f"It is not known whether {what} written to {self.path} ({self.why}). "
            "Send the same events again: nothing is written twice."
        )


class ConditionFailedError(RightfulError):
    """Another writer added a row that the append condition excludes. Nothing was written.

    Raised by a conditional append. Read the new rows and retry.

    Attributes:
        after: The position after which the condition allows no matching row.
    """

    exit_code: ClassVar[int] = 3
    after: int

    def __str__(self) -> str:
        return (
            f"The append condition failed: a matching row was written after position {self.after}. "
            "Nothing was written. Read the new rows and retry."
        )


class TargetError(RightfulError):
    """A backfill cannot use a tool's state file. The file was not changed, and nothing was written.

    Fix the file, or wait until its tool has written it, and plan again.

    Attributes:
        path: The file.
        why: What is wrong with it.
        advice: What to do next.
    """

    exit_code: ClassVar[int] = 2
    path: str
    why: str
    advice: str = "Fix the file, or wait for its tool to finish, and plan again."

    def __str__(self) -> str:
        return f"{self.path} was not changed: {self.why}. {self.advice}"


class TargetChangedError(RightfulError):
    """A tool's state file, or what was published to it, changed after the plan was made.

    Raised by `apply` and `rollback` of a backfill. The file was not changed. Plan again.

    Attributes:
        path: The file.
        why: What has changed.
        advice: What to do next.
    """

    exit_code: ClassVar[int] = 3
    path: str
    why: str
    advice: str = "The file was not changed. Plan again."

    def __str__(self) -> str:
        return f"{self.path}: {self.why}. {self.advice}"


class BackfillRefusedError(RightfulError):
    """The plan has reasons against applying it, and `--force` was not given. Nothing was written.

    Attributes:
        path: The file.
        why: Every reason.
        advice: What to do next.
    """

    exit_code: ClassVar[int] = 1
    path: str
    why: tuple[str, ...]
    advice: str = "Fix these, or plan with --force."

    def __str__(self) -> str:
        return f"{self.path} was not written: {'; '.join(self.why)}. {self.advice}"


class IncompleteTranscriptError(RightfulError):
    """A complete transcript was required, and this one is not known to be complete. Nothing of it was returned.

    Read it without `--require-complete`: what is there is shown, and each hole is marked.

    Attributes:
        session: The session of the transcript.
        state: `incomplete`, or `unknown` if its completeness cannot be determined.
        why: What is missing, or why it cannot be determined; each a part of a sentence.
    """

    exit_code: ClassVar[int] = 1
    session: str
    state: str
    why: tuple[str, ...]

    def __str__(self) -> str:
        what = "is incomplete" if self.state == "incomplete" else "may be incomplete"
        return (
            f"The transcript of {self.session} {what}: {'; '.join(self.why)}. Nothing of it was shown. "
            "Omit --require-complete to see what is there, or import what is missing and try again."
        )


class BacklogError(StorageError):
    """Events waited to be written for longer than the timeout. Accepted events are not lost.

    Raised by a turn recorder. Try again, or find out what blocks the ledger's disk.

    Attributes:
        path: The ledger.
        waiting: The number of events that wait.
        waited_s: How long the call waited, in seconds.
        what: What this means for the call's own events.
    """

    path: str
    waiting: int
    waited_s: float
    what: str

    def __str__(self) -> str:
        return (
            f"{self.waiting} event(s) are still waiting to be written to {self.path} after {self.waited_s:g} s: "
            f"{self.what}. Try again."
        )


class HandoffMismatchError(RightfulError):
    """A handoff belongs to two runs, or its key was used for another or an older payload. Nothing was handed over.

    Give the session that the step runs in. Use a key again only for the same handoff.

    Attributes:
        name: The name of the handoff.
        session: The session of the handoff.
        why: What disagrees.
        advice: What to do next.
    """

    exit_code: ClassVar[int] = 3
    name: str
    session: str
    why: str
    advice: str

    def __str__(self) -> str:
        return f"Handoff {self.name!r} of {self.session}: {self.why}. Nothing was handed over. {self.advice}"


class NothingToTakeError(RightfulError):
    """No handoff with that name is waiting. Nothing was handed over.

    Put it first, or give the key of the take that you want to repeat.

    Attributes:
        name: The name of the handoff.
        session: The session of the handoff.
        why: Why there is none.
    """

    exit_code: ClassVar[int] = 1
    name: str
    session: str
    why: str

    def __str__(self) -> str:
        return (
            f"Handoff {self.name!r} of {self.session}: {self.why}. Nothing was handed over. Put it first, "
            "or repeat an earlier take with its key."
        )


class NotJsonError(UsageError, TypeError):
    """An item of a session cannot be stored as JSON. Nothing of its batch was written.

    It is also a `TypeError`, which the SDK's own stores raise. Convert the item first (pydantic: `.model_dump()`).

    Attributes:
        at: The index of the item in the batch, from 0.
        why: The message of Python's encoder.
    """

    at: int
    why: str

    def __str__(self) -> str:
        return (
            f"Item {self.at} of the batch is not a JSON value ({self.why}). Nothing of the batch was written. "
            "Convert it first (a pydantic model: `.model_dump()`)."
        )


class StaleTokenError(RightfulError):
    """The history was cleared, popped or compacted after it was read. Nothing was written.

    Raised by `Ledger.compact`. Read the history again and pass the token it returns.

    Attributes:
        session: The session of the history.
        token_position: The position of the read.
        changed_at: The position of the change; None if it is not known.
    """

    exit_code: ClassVar[int] = 3
    session: str
    token_position: int
    changed_at: int | None = None

    def __str__(self) -> str:
        at = "" if self.changed_at is None else f" at position {self.changed_at},"
        return (
            f"The history of {self.session} changed{at} after your read at {self.token_position}. "
            "Nothing was written. Read the history again before compacting it."
        )


class VoidTokenError(RightfulError):
    """The token does not prove which items its caller has seen, so it cannot compact. Nothing was written.

    Read the history again and pass the token it returns.

    Attributes:
        session: The session of the history.
        why: Why nothing is proven.
    """

    exit_code: ClassVar[int] = 2
    session: str
    why: str

    def __str__(self) -> str:
        return (
            f"This token cannot compact {self.session}: {self.why}. Nothing was written. "
            "Read the history again and pass the token it returns."
        )


class RunDiffersError(RightfulError):
    """A run was repeated under its key and did something else than the first time. Nothing was written.

    The items of the first attempt are stored. Use a new run key: the new run sees the items stored so far.

    Attributes:
        session: The session of the history.
        run: The key of the run.
        ordinal: Which call of the run differs, from 0.
        position: The position of the first attempt's event.
    """

    exit_code: ClassVar[int] = 3
    session: str
    run: str
    ordinal: int
    position: int

    def __str__(self) -> str:
        return (
            f"Run key {self.run!r} was already used in session {self.session}, and call {self.ordinal} differs from "
            f"the first attempt (position {self.position}). Nothing was written. Use a new run key; the new run sees "
            "the items stored so far."
        )


class SessionClosedError(UsageError, RuntimeError):
    """The session object is closed. Nothing was written by this call; earlier items are in the ledger.

    Create a new one with the same session id. It is also a `RuntimeError`, as the OpenAI Agents SDK's own
    sessions raise one.

    Attributes:
        session: The session of the history.
    """

    session: str

    def __str__(self) -> str:
        return f"The session object of {self.session} is closed. Nothing was written. Create a new one to continue."


class CompactionRefusedError(UsageError, ValueError):
    """A compaction called by hand is not possible. Nothing was sent, and nothing was written.

    Use mode `input`, which sends the items it covers. It is also a `ValueError`, as the OpenAI Agents SDK's own
    session raises one.

    Attributes:
        session: The session of the history.
        why: What is missing.
    """

    session: str
    why: str

    def __str__(self) -> str:
        return (
            f"The history of {self.session} was not compacted: {self.why}. Nothing was sent or written. "
            "Use mode `input`, which sends the items that it covers."
        )
