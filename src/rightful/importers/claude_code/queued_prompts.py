"""Prompts that the user typed while the model worked.

Claude Code puts them into a queue (`queue-operation` lines) and passes them to the model during its turn, as an
`attachment` of the type `queued_command`; those left at the end of the turn become the next line of the user.
A prompt may occur in both forms, and is recorded once, from the attachment. The queue also has entries that no user
typed, such as the notification that a background task ended (its `commandMode` is not `prompt`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from rightful.importers.shared.foreign_fields import digest

_MARK_CHARS = 16  # of a digest of a prompt, or of the id of its line
_NOTIFICATION = "<task-notification>"


def prompt_of(value: Mapping[str, Any]) -> tuple[object, object] | None:
    """Return the prompt that an attachment passes to the model, and the id that its own line would have.

    Return None if it has no prompt of the user.
    """
    held = value.get("attachment")
    if not isinstance(held, dict) or held.get("type") != "queued_command":
        return None
    prompt = held.get("prompt")
    if not isinstance(prompt, str | list) or not prompt:
        return None
    origin = held.get("origin")
    kind = origin.get("kind") if isinstance(origin, dict) else None
    if held.get("commandMode", "prompt") != "prompt" or held.get("isMeta") is True or kind not in (None, "human"):
        return None
    if isinstance(prompt, str) and prompt.lstrip().startswith(_NOTIFICATION):
        return None
    return prompt, held.get("source_uuid")


class Queue:
    """The state of the queue of one session after a line.

    A line of the user repeats a prompt of an attachment in three cases: it has the id that the attachment names; or
    the model was not idle since then, so that nothing could be typed; or it was removed from the queue and no other
    entry with the same text was added.
    """

    def __init__(self) -> None:
        self._waiting: Counter[str] = Counter()
        self._given: Counter[str] = Counter()
        self._lines: list[str] = []
        self._repeats: list[str] = []
        self._in_turn: list[str] = []
        self._is_taken = False

    def state(self) -> dict[str, Any]:
        """Return the state needed to continue after a line."""
        return {
            "waiting": dict(+self._waiting),
            "given": dict(+self._given),
            "lines": self._lines,
            "repeats": self._repeats,
            "turn": self._in_turn,
            "taken": self._is_taken,
        }

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> Queue:
        """Return the queue of a state."""
        queue = cls()
        queue._waiting, queue._given = Counter(state["waiting"]), Counter(state["given"])
        queue._lines, queue._repeats = list(state["lines"]), list(state["repeats"])
        queue._in_turn = list(state["turn"])
        queue._is_taken = state["taken"]
        return queue

    def operation(self, value: Mapping[str, Any]) -> None:
        """Apply a `queue-operation`."""
        match value:
            case {"operation": "enqueue", "content": str() | list() as content}:
                self._waiting[_mark(content)] += 1
            case {"operation": "dequeue"}:
                self._is_taken = True
            case _:
                pass

    def give(self, prompt: object, line: object) -> None:
        """Add a prompt that an attachment passes to the model.

        Args:
            prompt: Its text.
            line: The id that its own line would have.
        """
        mark = _mark(prompt)
        self._waiting[mark] -= 1
        self._given[mark] += 1
        self._in_turn.append(mark)
        if isinstance(line, str):
            self._lines.append(_mark(line))

    def repeats(self, prompt: object, line: str, *, is_copy: bool) -> bool:
        """Add a line of the user; return whether it repeats an earlier prompt of an attachment.

        Args:
            prompt: Its text.
            line: Its id.
            is_copy: Whether it is a copy of an earlier line.
        """
        if is_copy:
            return self.is_repeat(line)
        mark, is_taken, self._is_taken = _mark(prompt), self._is_taken, False
        named, is_in_turn = _mark(line) in self._lines, mark in self._in_turn
        is_repeated = named or is_in_turn or (is_taken and self._given[mark] > 0 and self._waiting[mark] <= 0)
        if is_repeated:
            self._given[mark] -= 1
            self.repeat(line)
        else:
            self._waiting[mark] -= 1
        return is_repeated

    def repeat(self, line: str) -> None:
        """Record that a line repeats a prompt, so that a copy of the line does too."""
        self._repeats.append(_mark(line))

    def is_repeat(self, line: str) -> bool:
        """Return whether a line, or its original, repeats a prompt."""
        return bool(self._repeats) and _mark(line) in self._repeats

    def rest(self) -> None:
        """Record that the model has answered, so that the user can type again."""
        self._in_turn = []


def _mark(value: object) -> str:
    match value:
        case [{"type": "text", "text": str() as text}]:
            value = text
        case _:
            pass
    return digest(value)[:_MARK_CHARS]
