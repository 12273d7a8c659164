"""Texts that a tool's file tells in pieces, told on as states of one event."""

from __future__ import annotations

import msgspec


class Streamed(msgspec.Struct):
    """A text that comes in pieces.

    A state is told once a quarter more has come than was told. So a text of n characters is told in
    some log(n) states, of 6n characters together at most, and which ones they are rests on the
    pieces alone, not on where a reading of the file stopped. The last state is told at its end.

    Attributes:
        name: What it is a text of.
        text: What has come of it.
        told: How many characters of that were told.
    """

    name: str
    text: str = ""
    told: int = 0

    def grow(self, piece: str) -> bool:
        """Take the next piece; say whether a state is to be told."""
        self.text += piece
        return 4 * len(self.text) >= 5 * self.told and self.tell()

    def tell(self) -> bool:
        """Take all that has come as told; say whether there was anything that was not."""
        is_new, self.told = len(self.text) > self.told, len(self.text)
        return is_new
