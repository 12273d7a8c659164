"""Many texts by number, compactly: one blob, and a hash table of numbers.

A dict of a million names costs about 180 bytes per name besides its characters: the string's head,
the number's own object, the dict's slot. Here it is about 20. The newest names stand in a small
dict, since most rows name a session that was named a moment ago; a full dict is moved into the table.
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
        recent: Numbers of texts that were added or found of late.
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self.recent: dict[str, int] = {}
        self._blob = bytearray()
        self._ends = array("Q")
        self._slots = array("i", [-1])
        self._placed = 0  # how many of the texts are in `_slots`; the others are in `recent`
        for text in texts:
            self.find_or_add(text)

    def __len__(self) -> int:
        return len(self._ends)

    def __iter__(self) -> Iterator[str]:
        return (self[number] for number in range(len(self)))

    def __getitem__(self, number: int) -> str:
        """Return one text by its number."""
        return self._blob[self._ends[number - 1] if number else 0 : self._ends[number]].decode()

    def between(self, first: int, end: int | None = None) -> list[str]:
        """Return the texts from one number to before another; to the last if None."""
        ends = [self._ends[first - 1] if first else 0, *self._ends[first:end]]
        return [self._blob[begin:stop].decode() for begin, stop in pairwise(ends)]

    def find(self, text: str) -> int | None:
        """Return a text's number, if it is here."""
        number = self.recent.get(text)
        if number is None and self._placed:
            number = self._search(text.encode("utf-8", "surrogatepass"))
            if number is not None:
                self._remember(text, number)
        return number

    def find_or_add(self, text: str) -> int:
        """Return a text's number; the next one if it is not here."""
        number = self.find(text)
        if number is None:
            number = len(self._ends)
            self._blob += text.encode()
            self._ends.append(len(self._blob))
            self._remember(text, number)
        return number

    def _search(self, key: bytes) -> int | None:
        slots, ends, blob = self._slots, self._ends, self._blob
        mask = len(slots) - 1
        at = hash(key) & mask
        while (number := slots[at]) >= 0:
            if blob[ends[number - 1] if number else 0 : ends[number]] == key:
                return number
            at = (at + 1) & mask
        return None

    def _remember(self, text: str, number: int) -> None:
        if len(self.recent) >= RECENT_TEXTS:
            self._place_recent()
            self.recent.clear()
        self.recent[text] = number

    def _place_recent(self) -> None:
        """Add the texts to the hash table that are only in `recent`; all at once, since that is cheaper."""
        count, slots = len(self._ends), self._slots
        if count * _SPARSE > len(slots):
            slots, self._placed = array("i", [-1]) * (1 << (count * _SPARSE).bit_length()), 0
        mask, begin = len(slots) - 1, self._ends[self._placed - 1] if self._placed else 0
        for number in range(self._placed, count):
            end = self._ends[number]
            at = hash(bytes(self._blob[begin:end])) & mask
            while slots[at] >= 0:
                at = (at + 1) & mask
            slots[at], begin = number, end
        self._slots, self._placed = slots, count
