"""Many texts by number, compactly: one blob, and a hash table of numbers.

A dict of a million names costs about 180 bytes per name besides its characters: the string's head,
the number's own object, the dict's slot. Here it is about 20. The newest names stand in a small
dict too, since most rows name a session that was named a moment ago.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from itertools import pairwise

RECENT_TEXTS = 1 << 16
_SPARSE = 2  # slots a text at least: fewer make long searches


class Texts:
    """Texts, numbered in the order in which they were added; each once.

    Attributes:
        recent: Numbers of texts that were added or found of late; look here first.
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self.recent: dict[str, int] = {}
        self._blob = bytearray()
        self._ends = array("Q")
        self._slots = array("i", [-1]) * 1_024
        for text in texts:
            self.add(text)

    def __len__(self) -> int:
        return len(self._ends)

    def __iter__(self) -> Iterator[str]:
        return (self[number] for number in range(len(self)))

    def __getitem__(self, number: int) -> str:
        """Return one text by its number."""
        return self._text(number).decode()

    def between(self, first: int, end: int | None = None) -> list[str]:
        """Return the texts from one number to before another; to the last if None."""
        ends = [self._ends[first - 1] if first else 0, *self._ends[first:end]]
        return [self._blob[begin:stop].decode() for begin, stop in pairwise(ends)]

    def add(self, text: str) -> int:
        """Add a text that is not here, and return its number."""
        number = len(self._ends)
        key = text.encode()
        self._blob += key
        self._ends.append(len(self._blob))
        if (number + 1) * _SPARSE > len(self._slots):
            self._widen()
        else:
            self._place(key, number)
        self._remember(text, number)
        return number

    def find(self, text: str) -> int | None:
        """Return a text's number, if it is here."""
        number = self.recent.get(text)
        if number is not None:
            return number
        key, slots = text.encode("utf-8", "surrogatepass"), self._slots
        mask = len(slots) - 1
        at = hash(key) & mask
        while (number := slots[at]) >= 0:
            if self._text(number) == key:
                self._remember(text, number)
                return number
            at = (at + 1) & mask
        return None

    def _text(self, number: int) -> bytearray:
        return self._blob[self._ends[number - 1] if number else 0 : self._ends[number]]

    def _remember(self, text: str, number: int) -> None:
        if len(self.recent) >= RECENT_TEXTS:
            self.recent.clear()
        self.recent[text] = number

    def _place(self, key: bytes, number: int) -> None:
        slots = self._slots
        mask = len(slots) - 1
        at = hash(key) & mask
        while slots[at] >= 0:
            at = (at + 1) & mask
        slots[at] = number

    def _widen(self) -> None:
        self._slots = array("i", [-1]) * (2 * len(self._slots))
        for number in range(len(self._ends)):
            self._place(bytes(self._text(number)), number)
