"""The branches of a gptme conversation, and its checkpoints' labels.

| file | becomes |
|---|---|
| `branches/<name>.jsonl` | its messages; those that are not in the conversation are popped from its history |
| `conv-checkpoints.jsonl` | `data.recorded`, the label and the number of messages of each |

A backup (`main-undo-0`, `main-edit-0`) is a branch with the messages that were undone or edited (`LogManager.undo`
and `edit` in gptme's logmanager).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from rightful.errors import InvalidEventError
from rightful.importers.engine.formats import End, GrowingReader, Origin, Wire
from rightful.importers.gptme.conversation_events import Place
from rightful.importers.gptme.gptme_messages import Messages
from rightful.importers.gptme.neighbour_files import Main
from rightful.importers.shared.foreign_fields import digest, key_of, moment_us, shaped
from rightful.importers.sources.text_files import Found, Problem

ALONE = "its conversation has no `conversation.jsonl`; its messages were imported without comparison"
"""The note on a branch or a view that cannot be compared with its conversation."""


class BranchReader(GrowingReader):
    """Reads a branch.

    Args:
        place: Where its conversation is.
        origin: The file.
        main: The conversation itself.
    """

    def __init__(self, place: Place, origin: Origin, main: Main) -> None:
        self._origin = origin
        self._messages = Messages(place.folder, origin.mtime_us)
        self._main = main

    def state(self) -> dict[str, Any]:
        """Return the state needed to continue after the last message."""
        return self._messages.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue after the last message."""
        self._messages.restore(state)

    def events(self, found: Found) -> Iterator[Wire | Problem]:
        """Yield the events of one message, and its pop if the conversation does not have it.

        Raises:
            InvalidEventError: It is not a message, or its lessons are not valid.
        """
        current = len(self._messages.current)
        wrong: InvalidEventError | None = None
        try:
            yield from self._messages.take(found)
        except InvalidEventError as error:
            wrong = error  # its lessons may be invalid although the message itself is valid
        if self._main.is_known and len(self._messages.current) > current:
            for item in self._main.without(self._messages.current[-1]):
                yield self._messages.popped(item, at_us=self._origin.mtime_us) | {"at_basis": "file"}
        if wrong is not None:
            raise wrong

    def finish(self, end: End) -> Iterator[Wire | Problem]:
        """Yield a note if it could not be compared with its conversation."""
        del end
        if not self._main.is_known:
            yield Problem(None, ALONE, lost=False)


class _Checkpoint(msgspec.Struct):
    index: int
    label: str
    timestamp: str


class CheckpointsReader(GrowingReader):
    """Reads the labels that the user gave to places of a conversation (`/checkpoint`, `/backtrack`).

    Args:
        place: Where its conversation is.
    """

    def __init__(self, place: Place) -> None:
        self._messages = Messages(place.folder, None)
        self._seen: Counter[str] = Counter()

    def state(self) -> dict[str, Any]:
        """Return how often each label occurred."""
        return {"seen": self._seen}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue after the last one."""
        self._seen = Counter(state["seen"])

    def events(self, found: Found) -> Iterator[Wire]:
        """Yield a label unchanged.

        Raises:
            InvalidEventError: It does not have the shape of one.
        """
        checkpoint: _Checkpoint = shaped(found.value, _Checkpoint)
        at_us, _ = moment_us(checkpoint.timestamp, "$.timestamp")
        mark = digest(found.value)
        self._seen[mark] += 1
        key = key_of(self._messages.folder, "conv-checkpoint", mark, self._seen[mark])
        head = self._messages.stamped("data.recorded", key, at_us=at_us)
        yield head | {"name": "conv-checkpoint", "data": found.value}
