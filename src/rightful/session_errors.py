"""Errors of those who record sessions, ask for what they said, and hand over between them."""

from __future__ import annotations

from typing import ClassVar

from rightful.errors import RightfulError, StorageError, UsageError


class IncompleteTranscriptError(RightfulError):
    """A transcript was asked for whole, and it is not known to be. Nothing of it was handed out.

    Read it without asking for all of it: what is there is shown, and each hole is marked.

    Attributes:
        session: Whose transcript.
        state: `incomplete`, or `unknown` where nobody can say.
        why: What it lacks, or why nobody can say; each a part of a sentence.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, session: str, state: str, why: tuple[str, ...]) -> None:
        super().__init__(session, state, why)
        self.session = session
        self.state = state
        self.why = why

    def __str__(self) -> str:
        what = "is incomplete" if self.state == "incomplete" else "may be incomplete"
        return (
            f"the transcript of {self.session} {what}: {'; '.join(self.why)}. Nothing of it was shown. "
            f"Ask without --require-complete to see what is there, or import what is missing and ask again."
        )


class BacklogError(StorageError):
    """Events wait longer to be written than you were willing to. Nothing that was taken is lost.

    Raised by a turn recorder. Try again, or find out what keeps the ledger's disk.

    Attributes:
        path: The ledger.
        waiting: How many events wait.
        waited_s: How long the call waited; seconds.
        what: What it means for the call's own events.
    """

    def __init__(self, path: str, waiting: int, waited_s: float, what: str) -> None:
        RightfulError.__init__(self, path, waiting, waited_s, what)
        self.path = path
        self.waiting = waiting
        self.waited_s = waited_s
        self.what = what

    def __str__(self) -> str:
        return (
            f"{self.waiting} event(s) wait to be written to {self.path}, and {self.waited_s:g} s were not enough; "
            f"{self.what}. Try again."
        )


class HandoffMismatchError(RightfulError):
    """Two runs are behind one handoff, or a key stands for another payload, or an older one. Nothing was handed over.

    Give the session that the step runs in, and the key only to the same handoff again.

    Attributes:
        name: What the handoff is called.
        session: Whose it is.
        why: What disagrees with what.
        advice: What to do next.
    """

    exit_code: ClassVar[int] = 3

    def __init__(self, name: str, session: str, why: str, advice: str) -> None:
        super().__init__(name, session, why, advice)
        self.name = name
        self.session = session
        self.why = why
        self.advice = advice

    def __str__(self) -> str:
        return f"handoff {self.name!r} of {self.session}: {self.why}; nothing was handed over. {self.advice}"


class NothingToTakeError(RightfulError):
    """Nothing is there to be taken under that name. Nothing was handed over.

    Put it first; or give the key of the take that you want to repeat.

    Attributes:
        name: What the handoff is called.
        session: Whose it is.
        why: Why there is none.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, name: str, session: str, why: str) -> None:
        super().__init__(name, session, why)
        self.name = name
        self.session = session
        self.why = why

    def __str__(self) -> str:
        return (
            f"handoff {self.name!r} of {self.session}: {self.why}; nothing was handed over. Put it first, "
            "or repeat the take that got it with the same key."
        )


class NotJsonError(UsageError, TypeError):
    """An item of a session cannot be stored as JSON. Nothing of its batch was written.

    It is a `TypeError` too, which the SDK's own stores raise. Convert the item first (pydantic: `.model_dump()`).

    Attributes:
        at: Which item of the batch, from 0.
        why: Why it cannot, in the words of Python's encoder.
    """

    def __init__(self, at: int, why: str) -> None:
        super().__init__(at, why)
        self.at = at
        self.why = why

    def __str__(self) -> str:
        return (
            f"item {self.at} of the batch is not a JSON value ({self.why}). Nothing of the batch was written. "
            "Convert it first (a pydantic model: `.model_dump()`)."
        )


class StaleTokenError(RightfulError):
    """The history was cleared, popped or compacted after you read it. Nothing was written.

    Raised by `Ledger.compact`. Read the history again and compact what you then see.

    Attributes:
        session: Whose history.
        token_position: Where it was read.
        changed_at: The position of the change; None where it is not known.
    """

    exit_code: ClassVar[int] = 3

    def __init__(self, session: str, token_position: int, changed_at: int | None = None) -> None:
        super().__init__(session, token_position, changed_at)
        self.session = session
        self.token_position = token_position
        self.changed_at = changed_at

    def __str__(self) -> str:
        at = "" if self.changed_at is None else f" at position {self.changed_at},"
        return (
            f"the history of {self.session} changed{at} after your read at {self.token_position}; "
            "nothing was written. Read the history again before compacting it."
        )


class VoidTokenError(RightfulError):
    """Nothing proves what the holder of the token has seen, so nothing can be compacted with it. Nothing was written.

    Read the history, and compact with the token of that.

    Attributes:
        session: Whose history.
        why: Why nothing is proven.
    """

    exit_code: ClassVar[int] = 2

    def __init__(self, session: str, why: str) -> None:
        super().__init__(session, why)
        self.session = session
        self.why = why

    def __str__(self) -> str:
        return (
            f"nothing of {self.session} can be compacted with this token: {self.why}; nothing was written. "
            "Read the history and compact with the token of that."
        )


class RunDiffersError(RightfulError):
    """A run that is repeated under its key does something else than the first time. Nothing was written.

    What the first attempt appended stands. Let the run end, and start another one with a key of its own: it
    sees what this one left.

    Attributes:
        session: Whose history.
        run: The key of the run.
        ordinal: Which of its calls differs, from 0.
        position: Where the first attempt's event stands.
    """

    exit_code: ClassVar[int] = 3

    def __init__(self, session: str, run: str, ordinal: int, position: int) -> None:
        super().__init__(session, run, ordinal, position)
        self.session = session
        self.run = run
        self.ordinal = ordinal
        self.position = position

    def __str__(self) -> str:
        return (
            f"run {self.run!r} of {self.session} was here before, and its call {self.ordinal} did something else "
            f"(position {self.position}); nothing was written. Start again, or resume, with another run key: that "
            "run sees what this one left."
        )


class SessionClosedError(UsageError, RuntimeError):
    """The session object was closed. Nothing was done; what was written is in the ledger.

    Make another one with the same session id. It is a `RuntimeError` too, as the OpenAI Agents SDK's own
    sessions raise one.

    Attributes:
        session: Whose history.
    """

    def __init__(self, session: str) -> None:
        RightfulError.__init__(self, session)
        self.session = session

    def __str__(self) -> str:
        return f"the session object of {self.session} is closed; nothing was done. Make another one to go on."


class CompactionRefusedError(UsageError, ValueError):
    """A compaction cannot be made as it was asked for by hand. Nothing was sent, and nothing was written.

    Ask for mode `input`, which sends what it covers. It is a `ValueError` too, as the OpenAI Agents SDK's own
    session raises one.

    Attributes:
        session: Whose history.
        why: What is missing.
    """

    def __init__(self, session: str, why: str) -> None:
        RightfulError.__init__(self, session, why)
        self.session = session
        self.why = why

    def __str__(self) -> str:
        return (
            f"the history of {self.session} was not compacted: {self.why}; nothing was sent or written. "
            "Compact in the mode `input`, which sends the items that it covers."
        )
