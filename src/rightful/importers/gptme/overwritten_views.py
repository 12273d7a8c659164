"""Conversations that gptme overwrote with a compacted view, as versions before February 2026 did (gptme issue 1389).

The user did not undo the messages that are missing then: they were replaced by the messages that the file has in
their place, if a view in the same folder has these too.

An upgraded ledger has only the current file, the ledger's rows and the views. A message of the file that precedes one
with a lower position was inserted. The other messages and the popped items, ordered by position, are the earlier
content. A view made after a user's edit has the edited message too. So in this case a view is evidence only if it and
the file agree up to the end of the shorter one: if a tool keeps the conversation next to a view, they differ.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rightful import times
from rightful.importers.engine.formats import OlderReading, Wire
from rightful.importers.gptme.gptme_messages import MessageItems, Messages, read_messages
from rightful.importers.shared.foreign_fields import digest, key_of
from rightful.importers.sources.text_files import opened


def before_overwritten(current: Sequence[MessageItems], former: OlderReading) -> list[MessageItems]:
    """Return the messages of a file before a view overwrote it, as the ledger's rows show.

    Args:
        current: The messages that it has now.
        former: The events that an older reader appended for it.
    """
    kept: list[tuple[int, MessageItems]] = []
    lowest = math.inf
    for message in reversed(current):
        position = min((former.positions[item] for item in message.items if item in former.positions), default=None)
        if position is not None and position < lowest:
            lowest = position
            kept.append((position, message))
    gone = [(former.positions[item], MessageItems("", (item,))) for item in former.popped if item in former.positions]
    return [message for _, message in sorted([*kept, *gone])] if gone else []


def overwritten(
    folder: Path, before: Sequence[MessageItems], messages: Messages, mtime_us: int | None, *, is_past: bool = False
) -> Iterator[Wire]:
    """Yield a compaction for each place at which messages were replaced by those of a view.

    Args:
        folder: The conversation's folder.
        before: The messages that the file had.
        messages: Those that it has now.
        mtime_us: When it was last written; microseconds since 1970.
        is_past: Whether the views may be newer than the change. If so, only views that agree with the file are used.
    """
    shown = _of_views(folder, messages.folder, messages.current if is_past else None)
    if not shown:
        return
    places = {message: at for at, message in enumerate(before)}
    place, new = 0, list[MessageItems]()
    for message in messages.current:
        if message not in places:
            new.append(message)
            continue
        gone = before[place : places[message]]
        if new and gone and all(fresh.mark in shown for fresh in new):
            covers = [[item, 0] for old in (*gone, *new) for item in old.items]
            items = [shown[fresh.mark] for fresh in new]
            key = key_of(messages.folder, "overwritten", digest([covers, items]))
            head = messages.stamped("history.compacted", key) | {"at": times.text_of(mtime_us or 0), "at_basis": "file"}
            yield head | {"covers": covers, "mode": "overwritten", "items": items}
        place, new = places[message] + 1, []


def _of_views(folder: Path, name: str, current: Sequence[MessageItems] | None) -> dict[str, Any]:
    """Return the messages of all views of a conversation by their marks, as items of a history.

    Args:
        folder: The conversation's folder.
        name: Its name.
        current: Use only views that agree with these messages, up to the end of the shorter one; all if None.
    """
    of_all: dict[str, Any] = {}
    for path in sorted((folder / "views").glob("*.jsonl")):
        messages = Messages(name, None)
        items: dict[str, Any] = {}
        try:
            with opened(str(path), follow=False) as file:
                for found in read_messages(file.stream, messages.take):
                    text = {"role": found.value["role"], "content": found.value.get("content")}
                    items[messages.current[-1].mark] = text
        except OSError:
            continue  # its own import reports the problem
        pairs = zip(messages.current, current or (), strict=False)
        if all(viewed.mark == message.mark for viewed, message in pairs):
            of_all |= items
    return of_all
