"""Texts that a tool's file has in pieces, recorded as growing states of one event."""

from __future__ import annotations

import msgspec


class Streamed(msgspec.Struct):
    """A text that comes in pieces.

    A state is recorded once the text is a quarter longer than the last recorded state. So a text of n characters gives
    about log(n) states with at most 6n characters in total. The states depend only on the pieces, not on where a
    reading of the file stopped. The last state is recorded at the end of the text.

    Attributes:
        name: The id of the message or thought.
        text: The text so far.
        told: The number of characters in the last recorded state.
    """

    name: str
    text: str = ""
    told: int = 0

    def grow(self, piece: str) -> bool:
        """Add the next piece; return whether to record a state."""
        self.text += piece
        return 4 * len(self.text) >= 5 * self.told and self.tell()

    def tell(self) -> bool:
        """Mark the whole text as recorded; return whether any of it was new."""
        is_new, self.told = len(self.text) > self.told, len(self.text)
        return is_new
