"""Errors of those who ask for a transcript."""

from __future__ import annotations

from typing import ClassVar

from rightful.errors import RightfulError


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
