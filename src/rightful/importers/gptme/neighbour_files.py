"""The other files in the folder of a gptme conversation: its settings, and the conversation itself.

A backup or a view has only its own messages. Its reader compares them with the conversation. gptme writes
`conversation.jsonl` first, and then each branch and view (`LogManager.write` in gptme's logmanager), so the messages
of a later file are already in it.

That file is written in place. While it is being written, a missing message proves nothing: the file counts only if it
ends with a complete line and did not change while it was read.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rightful import limits
from rightful.importers.gptme.gptme_messages import MessageItems, Messages, read_messages
from rightful.importers.sources.growing_files import is_whole
from rightful.importers.sources.text_files import FileStamp, Problem, opened, stamp_of

MAIN = "conversation.jsonl"
"""The file that holds a conversation."""

_CONFIG = "config.toml"


class Main:
    """The current messages of a conversation's file; read on first use, and again after it changed.

    Args:
        path: The conversation's folder.
        folder: Its name.

    Attributes:
        current: Its messages, in order.
    """

    def __init__(self, path: Path, folder: str) -> None:
        self._path = path / MAIN
        self._folder = folder
        self._stamp: FileStamp | None = None
        self._tried: FileStamp | None = None
        self.current: list[MessageItems] = []
        self._places: dict[tuple[str, int], int] = {}
        self._items: frozenset[str] = frozenset()

    @property
    def is_known(self) -> bool:
        """Whether the file exists and was complete when it was read."""
        if self._stamp is None:
            self._read_if_changed()
        return self._stamp is not None

    @property
    def is_torn(self) -> bool:
        """Whether the file exists and is incomplete now."""
        return not self.is_known and self._tried is not None

    def still_is(self, path: Path) -> bool:
        """Return whether this is the conversation of a folder, unchanged since it was read."""
        is_its = self._path == path / MAIN and self._stamp is not None
        return is_its and self._stamp == self._tried == stamp_of(str(self._path), follow=False)

    def place_of(self, mark: str, occurrence: int) -> int | None:
        """Return the index of a message; None if the file does not have it, even after reading it again."""
        if (mark, occurrence) not in self._places:
            self._read_if_changed()
        return self._places.get((mark, occurrence))

    def without(self, message: MessageItems) -> list[str]:
        """Return the items of a message that the conversation does not have."""
        if not self._items.issuperset(message.items):
            self._read_if_changed()
        return [item for item in message.items if item not in self._items]

    def _read_if_changed(self) -> None:
        """Read the file, if it changed since the last attempt; an incomplete file changes nothing."""
        before = stamp_of(str(self._path), follow=False)
        if before == self._tried:
            return
        self._tried = before
        messages = self._whole()
        if messages is None or before != stamp_of(str(self._path), follow=False):
            return
        self._stamp, self.current = before, messages.current
        self._items = frozenset(item for message in self.current for item in message.items)
        counts: Counter[str] = Counter()
        self._places = {}
        for place, message in enumerate(self.current):
            counts[message.mark] += 1
            self._places[message.mark, counts[message.mark]] = place

    def _whole(self) -> Messages | None:
        """Return the messages of the file; None if it is missing, empty, or does not end with a complete line."""
        messages = Messages(self._folder, None)
        try:
            with opened(str(self._path), follow=False) as file:
                if not is_whole(file):
                    return None
                file.stream.seek(0)
                for _ in read_messages(file.stream, messages.take):
                    pass
        except OSError:
            return None
        return messages


def settings_of(path: Path) -> Iterator[dict[str, Any] | Problem]:
    """Yield the `[chat]` part of the settings in a conversation's folder, if it has any, or a problem."""
    try:
        with opened(str(path / _CONFIG), follow=False) as file:
            data = file.stream.read(limits.BESIDE_BYTES + 1)
    except OSError:
        return
    if len(data) > limits.BESIDE_BYTES:
        what = f"`{_CONFIG}` next to it is larger than {limits.BESIDE_BYTES:,} bytes; not read"
        yield Problem(None, what, lost=False)
        return
    try:
        chat = tomllib.loads(data.decode()).get("chat", {})
    except (ValueError, RecursionError) as error:
        yield Problem(None, f"`{_CONFIG}` next to it could not be parsed: {error}", lost=False)
        return
    if isinstance(chat, dict):
        yield chat
