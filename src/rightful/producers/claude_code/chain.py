"""What of a Claude Code session the model still sees: its compactions, and how often the user went back.

Each line names the line before it (`parentUuid`). A user who goes back and asks something else
begins a new branch: the new prompt has the same parent as the prompt that it takes the place of.
That alone does not prove it, since two processes that write one session do the same (#37739). So
what was left behind counts as taken back only if

- both prompts are the user's own, of the main chain, and their common parent is a line of the file;
- the branch left behind was at rest: the model had answered, or was interrupted;
- no branch that was left behind ever went on, as it does where two processes write.

Results of parallel calls, attachments and hooks branch off too, and are no prompts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rightful.identity import event_id
from rightful.producers.claude_code.files import NAMESPACE
from rightful.producers.fields import digest, key_of

_RECENT = 16  # lines before a compaction, among which the last one that it covers is looked for
_PROMPTS = 200  # prompts that a user can go back to
_ASKED = 2_048  # prompts that are known again when a copy of them comes
_MARK_CHARS = 8  # of a prompt's event id; two of these prompts meet in them once in 2,000 sessions of that many
_LEFT = 16  # branches left behind that are watched


class Chain:
    """The chain of one session's lines in one file.

    Args:
        value: The session's name without its namespace.
    """

    def __init__(self, value: str) -> None:
        self._value = value
        self._last: str | None = None
        self._leaf: str | None = None
        self._at_rest = False
        self._is_forked = False
        self._recent: dict[str, str] = {}
        self._prompts: list[tuple[str, str]] = []
        self._asked: dict[str, None] = {}
        self._left: list[str] = []
        self._boundaries: list[str] = []

    def state(self) -> dict[str, Any]:
        """Return what is needed to go on behind a line."""
        return {
            "last": self._last,
            "leaf": self._leaf,
            "rest": self._at_rest,
            "forked": self._is_forked,
            "recent": list(self._recent.items()),
            "prompts": self._prompts,
            "asked": list(self._asked),
            "left": self._left,
            "boundaries": self._boundaries,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on as after that state."""
        self._last, self._leaf = state["last"], state["leaf"]
        self._at_rest, self._is_forked = state["rest"], state["forked"]
        self._recent = dict(state["recent"])
        self._prompts = [(parent, key) for parent, key in state["prompts"]]
        self._asked = dict.fromkeys(state["asked"])
        self._left, self._boundaries = list(state["left"]), list(state["boundaries"])

    def went_back(self, uuid: str, parent: object, prompt: str) -> dict[str, Any] | None:
        """Return what a prompt of the user proves to have been taken back, if it does.

        Args:
            uuid: The line's own id.
            parent: The line that it follows.
            prompt: The key of the prompt.
        """
        if _mark(prompt) in self._asked:
            return None  # a copy of what was read
        sibling = next((at for at, (before, _) in enumerate(self._prompts) if before == parent), None)
        if sibling is None:
            return None
        if self._leaf is not None:
            self._left = [*self._left, self._leaf][-_LEFT:]
        if not self._at_rest or self._is_forked or self._last is None:
            self._prompts = []  # what follows may be of two branches, so no range of it is one
            return None
        first = self._prompts[sibling][1]
        self._prompts = self._prompts[:sibling]
        items = [{"first": _item(first), "last": _item(self._last)}]
        return {"type": "history.popped", "key": key_of(self._value, uuid, "popped", digest(items)), "items": items}

    def compacted(
        self, ident: str, facts: Mapping[str, Any], mode: str | None, logical: object
    ) -> dict[str, Any] | None:
        """Return a compaction, which covers all from the beginning to the line that it names; None for a copy.

        Its key holds what it says, since a stream log says less of the same boundary, and may lack some of what
        that covers. So it says which boundary it is at, by which a transcript shows it once.

        Args:
            ident: The boundary's own id.
            facts: What it says of itself.
            mode: What set it off, in the tool's word.
            logical: The last line that it covers; that which was read last where it names none.
        """
        if ident in self._boundaries:
            return None
        self._boundaries.append(ident)
        last = self._recent.get(logical, self._last) if isinstance(logical, str) else self._last
        covers = [] if last is None else [{"first": None, "last": _item(last)}]
        self._prompts, self._recent = [], {}
        return {
            "type": "history.compacted",
            "key": key_of(self._value, ident, "compacted", digest([covers, mode, facts])),
            "covers": covers,
            "mode": mode,
            "extra": {**facts, "boundary": ident},
        }

    def follow(self, uuid: str | None, parent: object, items: list[str]) -> None:
        """Take a line, whatever it is.

        Args:
            uuid: Its own id.
            parent: The line that it follows.
            items: The keys of the items of the history that it holds, in order.
        """
        if items:
            self._last = items[-1]
        if uuid is None:
            return
        if parent in self._left:
            self._is_forked = True
        before = self._recent.get(parent) if isinstance(parent, str) else None
        ref = items[-1] if items else before or self._last
        if ref is not None:
            self._recent[uuid] = ref
            if len(self._recent) > _RECENT:
                del self._recent[next(iter(self._recent))]
        self._leaf = uuid

    def asked(self, parent: object, prompt: str) -> None:
        """Remember a prompt of the user, to which they may go back; not the beginning, which follows nothing.

        Args:
            parent: The line that it follows.
            prompt: Its key.
        """
        self._at_rest = False
        if (mark := _mark(prompt)) in self._asked:
            return
        self._asked[mark] = None
        if len(self._asked) > _ASKED:
            del self._asked[next(iter(self._asked))]
        if isinstance(parent, str):
            self._prompts = [*self._prompts[1 - _PROMPTS :], (parent, prompt)]

    def rest(self, *, at_rest: bool) -> None:
        """Say whether the model has answered, or still works."""
        self._at_rest = at_rest


def _mark(prompt: str) -> str:
    return event_id(NAMESPACE, prompt)[:_MARK_CHARS]


def _item(key: str) -> list[Any]:
    return [event_id(NAMESPACE, key), 0]
