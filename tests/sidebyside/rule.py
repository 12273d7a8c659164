"""What a history must show after any order of steps: a second, plain statement of the rule, made from the design alone.

Items are names (`saying`): `c1` is a call, `c1=` the answer to it, `t1` a thought.
"""

from __future__ import annotations

import itertools
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

    def replace(self, read: Read, summary: str) -> None:
        """Let what was read give way to a summary, unless the history was changed since."""
        if read.changes != self.changes:
            return
        self.changes += 1
        at = min(self._held.index(one) for one in read.covers)
        self._held = [one for one in self._held if one not in read.covers]
        self._held.insert(at, summary)

    def _whole(self, window: list[str]) -> tuple[str, ...]:
        """Return what is left of a choice without the parts of groups that are not whole in it."""
        left = set(window)
        groups = self._groups()
        while cut := [one for group in groups if not group <= left for one in group & left]:
            left -= set(cut)
        return tuple(one for one in window if one in left)

    def _groups(self) -> list[set[str]]:
        """Return what goes together: a call and its answer, even one to come; a thought and what it led to."""
        shown = self.visible()
        calls = [one for one in shown if one.startswith("c") and not one.endswith("=")]
        led = [
            {one, after}
            for one, after in itertools.pairwise(shown)
            if one.startswith("t") and not after.startswith("u") and not after.endswith("=")
        ]
        return [*({one, f"{one}="} for one in calls), *led]

    def _take(self, names: list[str]) -> None:
        self.changes += 1
        self.taken |= told(names)
