"""Errors of those who record sessions, ask for what they said, and hand over between them."""

from __future__ import annotations

from typing import ClassVar

from rightful.errors import RightfulError, StorageError


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
