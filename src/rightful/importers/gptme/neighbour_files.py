"""What stands beside a file of a gptme conversation: its settings, and the conversation itself.

A backup or a view says what it holds, and not what the conversation has beside it; so the reader of
one looks there. gptme writes `conversation.jsonl` first, and each branch and view behind it
(`LogManager.write` in gptme's logmanager), so what a later file holds stands in it already.

That file is written in place. One that is being written says nothing of what is not in it: it counts
only when it ends with a whole line, and is the same after it was read as before.
"""

from __future__ import annotations

import os
import tomllib
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from rightful import limits
from rightful.errors import InvalidEventError
from rightful.importers.gptme.gptme_messages import MessageItems, Messages
from rightful.importers.sources.growing_files import Lines, is_whole
from rightful.importers.sources.text_files import Found, Problem, opened

MAIN = "conversation.jsonl"
"""The file that holds a conversation."""

_CONFIG = "config.toml"


class _Stamp(NamedTuple):
    """What tells that a file is still the same."""

    inode: int
    size: int
    mtime_ns: int


class Main:
    """The messages of a conversation as its file has them now; read when first asked, and again when it grew.

    Args:
        path: The conversation's folder.
        folder: Its name.

    Attributes:
        current: Its messages, in order.
    """

    def __init__(self, path: Path, folder: str) -> None:
        self._path = path / MAIN
        self._folder = folder
        self._stamp: _Stamp | None = None
        self._tried: _Stamp | None = None
        self.current: list[MessageItems] = []
        self._places: dict[tuple[str, int], int] = {}
        self._items: frozenset[str] = frozenset()

    @property
    def is_known(self) -> bool:
        """Whether the file is there and was whole when it was read."""
        if self._stamp is None:
            self._look()
        return self._stamp is not None

    @property
    def is_torn(self) -> bool:
        """Whether the file is there and cannot be read as a whole now."""
        return not self.is_known and self._tried is not None

    def still_is(self, path: Path) -> bool:
        """Say whether this is the conversation of a folder, and it is as it was when it was read.

        Args:
            path: The folder.
        """
        is_its = self._path == path / MAIN and self._stamp is not None
        return is_its and self._stamp == self._tried == _stamp_of(self._path)

    def place_of(self, mark: str, occurrence: int) -> int | None:
        """Return where a message stands in it; None where it does not, however late it was written."""
        if (mark, occurrence) not in self._places:
            self._look()
        return self._places.get((mark, occurrence))

    def without(self, said: MessageItems) -> list[str]:
        """Return which of a message's items it has not."""
        if not self._items.issuperset(said.items):
            self._look()
        return [item for item in said.items if item not in self._items]

    def _look(self) -> None:
        """Read the file, unless it is what it was when it was last tried; what is not whole changes nothing."""
        before = _stamp_of(self._path)
        if before == self._tried:
            return
        self._tried = before
        messages = self._whole()
        if messages is None or before != _stamp_of(self._path):
            return
        self._stamp, self.current = before, messages.current
        self._items = frozenset(item for said in self.current for item in said.items)
        counts: Counter[str] = Counter()
        self._places = {}
        for place, said in enumerate(self.current):
            counts[said.mark] += 1
            self._places[said.mark, counts[said.mark]] = place

    def _whole(self) -> Messages | None:
        """Return the messages of the file; None where it is not there, is empty, or does not end with a whole line."""
        messages = Messages(self._folder, None)
        try:
            with opened(str(self._path), follow=False) as file:
                if not is_whole(file):
                    return None
                file.stream.seek(0)
                for item in Lines(file.stream):
                    if isinstance(item, Found):
                        with suppress(InvalidEventError):  # its own import says what is wrong with it
                            for _ in messages.take(item):
                                pass
        except OSError:
            return None
        return messages


def _stamp_of(path: Path) -> _Stamp | None:
    try:
        facts = os.stat(path, follow_symlinks=False)  # noqa: PTH116 - a stat that must not follow a link
    except OSError:
        return None
    return _Stamp(facts.st_ino, facts.st_size, facts.st_mtime_ns)


def settings_of(path: Path) -> Iterator[dict[str, Any] | Problem]:
    """Yield the `[chat]` part of a conversation's settings, if it has any, or what is wrong with them.

    Args:
        path: The conversation's folder.
    """
    try:
        with opened(str(path / _CONFIG), follow=False) as file:
            data = file.stream.read(limits.BESIDE_BYTES + 1)
    except OSError:
        return
    if len(data) > limits.BESIDE_BYTES:
        yield Problem(
            None, f"`{_CONFIG}` next to it is larger than {limits.BESIDE_BYTES:,} bytes; not read", lost=False
        )
        return
    try:
        chat = tomllib.loads(data.decode()).get("chat", {})
    except (ValueError, RecursionError) as error:
        yield Problem(None, f"`{_CONFIG}` next to it could not be parsed: {error}", lost=False)
        return
    if isinstance(chat, dict):
        yield chat
