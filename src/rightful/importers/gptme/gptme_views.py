"""The views of a gptme conversation: its compacted forms (`views/compacted-<n>.jsonl`).

A view is the conversation with some messages omitted, shortened or summarised. While it is used, each new message is
written to both, and the conversation has all messages (`LogManager.append` in gptme's logmanager). Messages that are
in both files are imported from the conversation. The messages between two of them were replaced there:
`history.compacted`, with the covered items listed one by one, and the view's own messages as `items`. A later view is
derived from the one before, so it also covers the items that the earlier view put in the same place.

The end of a view is not recorded before a message follows that both files have: until then the model was not shown
it. gptme itself adds one when it compacts. If a view inserts a message and omits none, the next message of both files
is covered too and repeated among the items, so that the order is that of the view. If a view was rewritten (an undo in
it), items that it no longer has are popped, once their place was passed or another view is used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rightful.identity import event_id
from rightful.importers.engine.formats import End, GrowingReader, Origin, Wire
from rightful.importers.gptme.branches_and_labels import ALONE
from rightful.importers.gptme.conversation_events import Place
from rightful.importers.gptme.gptme_messages import PRODUCER, Messages, read_messages
from rightful.importers.gptme.lesson_messages import exposed, is_lessons
from rightful.importers.gptme.neighbour_files import Main
from rightful.importers.shared.foreign_fields import digest, key_of
from rightful.importers.sources.text_files import Found, Problem, opened

_NAME = re.compile(r"(?P<series>.+)-(?P<number>\d+)\Z")


class _Compacted(NamedTuple):
    """A replacement of messages by a view.

    Attributes:
        first: The index of the first replaced message in the conversation.
        behind: The index after the last one.
        id: The id of the compaction event.
        size: The number of new items.
    """

    first: int
    behind: int
    id: str
    size: int

    @property
    def items(self) -> list[list[Any]]:
        """The ids of the new items."""
        return [[self.id, at] for at in range(self.size)]


class ViewReader(GrowingReader):
    """Reads a view.

    Args:
        place: Where its conversation is.
        origin: The file; its name is the view's.
        main: The conversation itself.
        earlier: The replacements by earlier views; read on demand if None.

    Attributes:
        made: The replacements by this view, as far as it was read.
    """

    def __init__(self, place: Place, origin: Origin, main: Main, *, earlier: list[_Compacted] | None = None) -> None:
        self._name = origin.name.removesuffix(".jsonl")
        self._messages = Messages(place.folder, origin.mtime_us)
        self._main = main
        self._place = place
        self._earlier = None if earlier is None else list(earlier)
        self.made: list[_Compacted] = []
        self._stale: list[_Compacted] = []
        self._behind = 0
        self._between: list[Wire] = []

    def state(self) -> dict[str, Any]:
        """Return the state needed to continue after the last message."""
        own = {"behind": self._behind, "between": self._between, "made": self.made, "stale": self._stale}
        return self._messages.state() | own

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue after the last message."""
        self._messages.restore(state)
        self._behind, self._between = state["behind"], list(state["between"])
        self.made = [_Compacted(*fields) for fields in state["made"]]
        self._stale = [_Compacted(*fields) for fields in state["stale"]]

    def restart(self, state: Mapping[str, Any]) -> None:
        """Keep the earlier replacements until the current ones are known."""
        self._stale = [_Compacted(*fields) for fields in [*state["stale"], *state["made"]]]

    def events(self, found: Found) -> Iterator[Wire | Problem]:
        """Yield the replacement that precedes a message that the conversation has too.

        Raises:
            InvalidEventError: It is not a message, or its lessons are not valid.
        """
        if not self._main.is_known:
            yield from self._messages.take(found)
            return
        for _ in self._messages.take(Found(found.line, {**found.value, "hide": False})):
            pass
        mark = self._messages.current[-1].mark
        occurrence = self._messages.counts[mark]
        shown = {"role": found.value["role"], "content": found.value.get("content")}
        place = self._main.place_of(mark, occurrence)
        if place is None or place < self._behind:
            self._between.append(shown)
        else:
            yield from self._compacted(place, shown)
            yield from self._replaced()
        if is_lessons(found.value):
            yield from exposed(found, self._messages.folder, self._messages.session, occurrence)

    def finish(self, end: End) -> Iterator[Wire | Problem]:
        """Yield pops of stale items if another view is in use, and a note if the conversation is missing."""
        del end
        series = _series(self._place, self._name) if self._stale else []
        if series and series[-1].stem != self._name:
            yield from self._replaced(all_of_it=True)
        if not self._main.is_known:
            yield Problem(None, ALONE, lost=False)

    def _compacted(self, place: int, shown: Wire) -> Iterator[Wire]:
        first, behind = self._behind, place
        items, self._between, self._behind = self._between, [], place + 1
        if items and first == behind:
            items, behind = [*items, shown], place + 1
        if first == behind:
            return
        covers = [[item, 0] for message in self._main.current[first:behind] for item in message.items]
        if self._earlier is None:
            self._earlier = _earlier(self._place, self._name, self._main)
        for compacted in self._earlier:
            if first <= compacted.first and compacted.behind <= behind:
                covers += compacted.items
        key = key_of(self._messages.folder, self._name, "compacted", digest([covers, items]))
        mode = self._name.rpartition("-")[0] or self._name
        self.made.append(_Compacted(first, behind, event_id(PRODUCER, key), len(items)))
        yield self._messages.stamped("history.compacted", key) | {"covers": covers, "mode": mode, "items": items}

    def _replaced(self, *, all_of_it: bool = False) -> Iterator[Wire]:
        """Yield pops of items that the view had before it was rewritten and no longer has."""
        made = {compacted.id for compacted in self.made}
        passed = [compacted for compacted in self._stale if all_of_it or compacted.first < self._behind]
        self._stale = [compacted for compacted in self._stale if compacted not in passed]
        for compacted in passed:
            if compacted.id not in made and compacted.size:
                yield self._messages.popped(compacted.id) | {"items": compacted.items}


def _earlier(place: Place, name: str, main: Main) -> list[_Compacted]:
    """Return the replacements by the views before one."""
    made: list[_Compacted] = []
    for path in _series(place, name):
        if path.stem == name:
            break
        made += _made(ViewReader(place, Origin(str(path), None), main, earlier=made), path)
    return made


def _series(place: Place, name: str) -> list[Path]:
    """Return the views of a view's series, in the order in which they were made."""
    own = _NAME.match(name)
    found: list[tuple[int, Path]] = []
    for path in (place.path / "views").glob("*.jsonl"):
        hit = _NAME.match(path.stem)
        if own is not None and hit is not None and hit["series"] == own["series"]:
            found.append((int(hit["number"]), path))
    return [path for _, path in sorted(found)]


def _made(reader: ViewReader, path: Path) -> list[_Compacted]:
    try:
        with opened(str(path), follow=False) as file:
            for _ in read_messages(file.stream, reader.events):
                pass
    except OSError:
        return []
    return reader.made
