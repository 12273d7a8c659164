"""Track the items of a Claude Code session that the model still sees: compactions, and rewinds of the user.

Each line names its predecessor (`parentUuid`). A user who rewinds and sends another prompt starts a new branch: the
new prompt has the same parent as the prompt that it replaces. That alone proves nothing, since two processes that write
one session do the same (#37739). So the abandoned branch counts as undone only if

- both prompts are the user's own, in the main chain, and their common parent is a line of the file: a parent
  that was never written, or is torn, proves nothing (#61188, #53821);
- the abandoned branch was at rest: the model had answered, or was interrupted;
- no abandoned branch was ever continued, as happens if two processes write.

Results of parallel calls, attachments and hooks also branch, but are not prompts.

A line that is in the file a second time is a copy and changes nothing (#5034, #92089): before a second
compaction Claude Code writes earlier lines again, with their own ids.

A compaction covers everything that precedes its boundary in the view, except the messages that it keeps
(`preservedMessages`, `preservedSegment`). The kept ones follow their anchor: the summary, or the boundary itself.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from rightful.identity import event_id
from rightful.importers.claude_code.claude_files import NAMESPACE
from rightful.importers.shared.foreign_fields import digest, key_of

_RECENT = 16  # lines before a compaction that are searched for the last one that it covers
_PROMPTS = 200  # prompts to which a user can rewind
_MARK_BYTES = 6  # of a line's digest; two of 10,000 lines collide in one of 5,000,000 files
_MARK_CHARS = 8
_LEFT = 16  # abandoned branches that are tracked

Ref = tuple[str, int]
"""An item of the history: the line that states it, and the block's place in that line."""


class _Keeps(NamedTuple):
    """The messages that a boundary keeps.

    Attributes:
        anchor: The line that the kept messages follow: the last one of the summary, or the boundary.
        lines: The lines that are kept.
        head: The first of them, if they are not listed.
        tail: The last of them, if they are not listed.
    """

    anchor: str | None
    lines: frozenset[str]
    head: str | None
    tail: str | None

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> _Keeps:
        """Read the facts of a boundary; in camel case from a transcript, in snake case from a log."""
        messages = _either(facts, dict, "preservedMessages", "preserved_messages") or {}
        segment = _either(facts, dict, "preservedSegment", "preserved_segment") or {}
        lines = frozenset(line for line in messages.get("uuids") or () if isinstance(line, str))
        return cls(
            _either(messages, str, *_ANCHOR) or _either(segment, str, *_ANCHOR),
            lines,
            _either(segment, str, "headUuid", "head_uuid"),
            _either(segment, str, "tailUuid", "tail_uuid"),
        )


_ANCHOR = ("anchorUuid", "anchor_uuid")
_Kind = TypeVar("_Kind", dict[str, Any], str)


def _either(value: Mapping[str, Any], kind: type[_Kind], *names: str) -> _Kind | None:
    """Return the first of some fields that is of a kind."""
    return next((value[name] for name in names if isinstance(value.get(name), kind)), None)


class Chain:
    """The chain of one session's lines in one file.

    Args:
        value: The session's name without its namespace.

    Attributes:
        at_rest: Whether the model has answered, and is not working.
        copied: The copy of an earlier line that was read last, or a line without items that follows it.
        is_begun: Whether an item or a compaction was read. If not, a compaction covers other files.
    """

    def __init__(self, value: str) -> None:
        self._value = value
        self._view: list[Ref] = []
        self._shown: dict[str, int] = {}  # the lines of the view, with the number of their items in it
        self._others: set[str] = set()  # marks of the other lines
        self._leaf: str | None = None
        self.at_rest = False
        self._is_forked = False
        self._recent: dict[str, Ref] = {}
        self._prompts: list[tuple[str, Ref]] = []
        self._left: list[str] = []
        self._boundaries: list[str] = []
        self.is_begun = False
        self._anchor: Ref | None = None  # the line of an expected summary, and the number of kept items that follow it
        self.copied: str | None = None
        self._front = (
            0  # number of items at the front of the view that were read in another order: a summary, and kept items
        )

    def state(self) -> dict[str, Any]:
        """Return the state needed to continue after a line."""
        return {
            "view": [line if place == 0 else [line, place] for line, place in self._view],
            "others": "".join(sorted(self._others)),
            "leaf": self._leaf,
            "rest": self.at_rest,
            "forked": self._is_forked,
            "recent": list(self._recent.items()),
            "prompts": self._prompts,
            "left": self._left,
            "boundaries": self._boundaries,
            "begun": self.is_begun,
            "anchor": self._anchor,
            "front": self._front,
            "copied": self.copied,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a state."""
        self._view = [(ref, 0) if isinstance(ref, str) else (ref[0], ref[1]) for ref in state["view"]]
        for line, _ in self._view:
            self._shown[line] = self._shown.get(line, 0) + 1
        marks = state["others"]
        self._others = {marks[at : at + _MARK_CHARS] for at in range(0, len(marks), _MARK_CHARS)}
        self._leaf, self.at_rest, self._is_forked = state["leaf"], state["rest"], state["forked"]
        self._recent = {line: (ref[0], ref[1]) for line, ref in state["recent"]}
        self._prompts = [(parent, (ref[0], ref[1])) for parent, ref in state["prompts"]]
        self._left, self._boundaries = list(state["left"]), list(state["boundaries"])
        self.is_begun, self._front, self.copied = state["begun"], state["front"], state["copied"]
        self._anchor = None if state["anchor"] is None else (state["anchor"][0], state["anchor"][1])

    def knows(self, line: object) -> bool:
        """Return whether a line with this id was already read."""
        return isinstance(line, str) and (line in self._shown or _mark(line) in self._others)

    def went_back(self, uuid: str, parent: object) -> dict[str, Any] | None:
        """Return the range of items that a new prompt of the user proves to be undone, if any.

        Args:
            uuid: The line's own id.
            parent: The line that it follows.
        """
        if not self.knows(parent):
            return None
        sibling = next((at for at, (before, _) in enumerate(self._prompts) if before == parent), None)
        if sibling is None:
            return None
        if self._leaf is not None:
            self._left = [*self._left, self._leaf][-_LEFT:]
        if not self.at_rest or self._is_forked:
            self._prompts = []  # later items may belong to two branches, so no range covers one branch
            return None
        first = self._prompts[sibling][1]
        self._prompts = self._prompts[:sibling]
        items = [{"first": self._item(first), "last": self._item(self._view[-1])}]
        self._hide(self._view.index(first), len(self._view))
        return {"type": "history.popped", "key": key_of(self._value, uuid, "popped", digest(items)), "items": items}

    def compacted(
        self, ident: str, facts: Mapping[str, Any], mode: str | None, logical: object
    ) -> dict[str, Any] | None:
        """Return a compaction, which covers everything before it up to the line that it names; None for a copy.

        Its key contains its content, since a stream log has fewer fields of the same boundary, and may lack some
        covered items. So it also has the boundary's id, by which a transcript shows it once.

        Args:
            ident: The boundary's id.
            facts: Its metadata.
            mode: Its trigger, as the tool names it.
            logical: The last line that it covers; if it names none of the view, the last one of the view.
        """
        if ident in self._boundaries:
            return None
        self._boundaries.append(ident)
        end = self._place(logical)
        end = len(self._view) if end is None else max(end, self._front)
        keeps = _Keeps.of(facts)
        kept = self._kept(keeps, end)
        gaps = list(_gaps(kept, end))
        covers = [self._range(first, last) for first, last in gaps]
        extra = {**facts, "boundary": ident}
        self._anchor, self._front, self._prompts, self._recent, self.is_begun = None, 0, [], {}, True
        if kept and gaps and keeps.anchor not in (None, ident):
            self._anchor = keeps.anchor, len(kept)
            extra["summary"] = self._item((keeps.anchor, 0))
        for first, last in reversed(gaps):
            self._hide(first, last + 1)
        return {
            "type": "history.compacted",
            "key": key_of(self._value, ident, "compacted", digest([covers, mode, facts])),
            "covers": covers,
            "mode": mode,
            "extra": extra,
        }

    def follow(self, uuid: str | None, parent: object, items: Iterable[Ref]) -> None:
        """Add a new line of any type.

        Args:
            uuid: Its own id.
            parent: The line that it follows.
            items: Its items of the history, in order.
        """
        own = list(items)
        for line, _ in own:
            self._shown[line] = self._shown.get(line, 0) + 1
        if self._anchor is not None and own and own[0][0] == self._anchor[0]:
            self._view[:0] = own
            self._front, self._anchor = len(own) + self._anchor[1], None
        else:
            self._view += own
        self.is_begun = self.is_begun or bool(own)
        if uuid is None:
            return
        if not own:
            self._others.add(_mark(uuid))
        is_of_copy = (
            not own and isinstance(parent, str) and parent == self.copied
        )  # a hook's line that follows the copies
        self.copied = uuid if is_of_copy else None
        if parent in self._left and not is_of_copy:
            self._is_forked = True
        before = self._recent.get(parent) if isinstance(parent, str) and not is_of_copy else None
        last = self._view[-1] if self._view else None
        ref = own[-1] if own else before or last
        if ref is not None:
            self._recent[uuid] = ref
            if len(self._recent) > _RECENT:
                del self._recent[next(iter(self._recent))]
        if not is_of_copy:
            self._leaf = uuid

    def asked(self, parent: object, prompt: Ref) -> None:
        """Store a prompt of the user, to which they may rewind; not the first one, which follows nothing.

        Args:
            parent: The line that it follows.
            prompt: Its item.
        """
        self.at_rest = False
        if isinstance(parent, str):
            self._prompts = [*self._prompts[1 - _PROMPTS :], (parent, prompt)]

    # -- the view ----------------------------------------------------------------------------

    def _hide(self, first: int, end: int) -> None:
        """Remove items from the view; their lines stay known."""
        for line, _ in self._view[first:end]:
            self._shown[line] -= 1
            if not self._shown[line]:
                del self._shown[line]
                self._others.add(_mark(line))
        del self._view[first:end]

    def _place(self, line: object) -> int | None:
        """Return the place after a recent line; None if its item, or the item before it, is not in the view."""
        ref = self._recent.get(line) if isinstance(line, str) else None
        return self._view.index(ref) + 1 if ref is not None and ref in self._view else None

    def _kept(self, keeps: _Keeps, end: int) -> set[int]:
        """Return the places of the items that a boundary keeps."""
        view = self._view[:end]
        if keeps.lines:
            return {place for place, (line, _) in enumerate(view) if line in keeps.lines}
        heads = [place for place, (line, _) in enumerate(view) if line == keeps.head]
        tails = [place + 1 for place, (line, _) in enumerate(view) if line == keeps.tail]
        first = heads[0] if heads else self._place(keeps.head)
        behind = tails[-1] if tails else self._place(keeps.tail)
        return set() if first is None else set(range(first, end if behind is None else min(behind, end)))

    def _range(self, first: int, last: int) -> dict[str, Any]:
        return {"first": self._item(self._view[first]) if first else None, "last": self._item(self._view[last])}

    def _item(self, ref: Ref) -> list[Any]:
        return [event_id(NAMESPACE, key_of(self._value, *ref)), 0]


def _gaps(kept: set[int], end: int) -> Iterable[tuple[int, int]]:
    """Yield the first and the last of each run of places before `end` that are not kept."""
    first = None
    for place in range(end + 1):
        is_kept = place == end or place in kept
        if first is None and not is_kept:
            first = place
        elif first is not None and is_kept:
            yield first, place - 1
            first = None


def _mark(line: str) -> str:
    return b64encode(hashlib.sha256(line.encode("utf-8", "surrogatepass")).digest()[:_MARK_BYTES]).decode()
