"""What a history must show after any order of steps: a second, plain statement of the rule, made from the design alone.

Items are names (`saying`): `c1` is a call, `c1=` the answer to it, `t1` a thought.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from tests.sidebyside.saying import told


class Read(NamedTuple):
    """What a compaction will cover, and what the history was when it read that."""

    changes: int
    covers: tuple[str, ...]


@dataclass
class Rule:
    """A history by the rule.

    Attributes:
        record: Everything ever appended.
        taken: What was cleared or popped, whether it stood there itself or a summary told of it.
        changes: How many times it was cleared, popped or compacted.
    """

    record: list[str] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)
    changes: int = 0
    _held: list[str] = field(default_factory=list)

    def visible(self) -> list[str]:
        """Return what the model would see: all that is held, but no answer to a call that is gone."""
        return [one for one in self._held if not one.endswith("=") or one[:-1] in self._held]

    def append(self, *said: str) -> None:
        """Append; nothing else changes by it."""
        self.record += said
        self._held += said

    def pop(self) -> str | None:
        """Take back the last item that is visible."""
        shown = self.visible()
        if not shown:
            return None
        self._held.remove(shown[-1])
        self._take([shown[-1]])
        return shown[-1]

    def clear(self) -> None:
        """Take out everything."""
        self._take(self._held)
        self._held = []

    def read(self, limit: int | None = None) -> Read:
        """Read for a compaction: of what the window shows, a call and its answer together or neither."""
        shown = self.visible()
        window = shown if limit is None else shown[max(len(shown) - limit, 0) :]
        return Read(self.changes, self._whole(window))

    def read_by(self, known: set[str], seen: list[str], changes: int) -> Read:
        """Read for the compaction of a run: what it had read or appended itself, and its model has seen.

        Args:
            known: What it had read and appended.
            seen: What its model was sent last, and answered.
            changes: What `changes` was when it read; after another change nothing is covered.
        """
        both = [one for one in self.visible() if one in known and one in seen]
        return Read(changes, self._whole(both) if changes == self.changes else ())

    def _whole(self, window: list[str]) -> tuple[str, ...]:
        whole = [one for one in window if self._partner(one) in {None, *window}]
        return tuple(one for one in whole if not self._leads(one, self.visible(), whole))

    def replace(self, read: Read, summary: str) -> bool:
        """Let what was read give way to a summary; tell whether that was done, or the history had changed."""
        if read.changes != self.changes:
            return False
        self.changes += 1
        at = min(self._held.index(one) for one in read.covers)
        self._held = [one for one in self._held if one not in read.covers]
        self._held.insert(at, summary)
        return True

    def _leads(self, one: str, shown: list[str], whole: list[str]) -> bool:
        """Tell whether it is a thought whose call stays: the next that is no thought is a call that is not covered."""
        if not one.startswith("t"):
            return False
        after = [other for other in shown[shown.index(one) :] if not other.startswith("t")][:1]
        return any(_calls(other) and other not in whole for other in after)

    def _partner(self, one: str) -> str | None:
        """Return the other half of a call or an answer; None for a message or a summary."""
        if one.endswith("="):
            return one[:-1]
        return f"{one}=" if _calls(one) else None

    def _take(self, names: list[str]) -> None:
        self.changes += 1
        self.taken |= told(names)


def _calls(one: str) -> bool:
    return one.startswith("c") and not one.endswith("=")
