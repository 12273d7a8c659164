"""The event messages of Codex, which it sends to its user interface.

They repeat the messages of the user and the model and its reasoning (`user_message`, `agent_message`,
`agent_reasoning`); these get the same id as from the response items. Other event messages have facts that no response
item has: usage, ends of turns, rollbacks and errors. The rest is stored as data, such as `exec_command_end` with its
exit code and time. Which of them are in a rollout is defined in openai/codex (codex-rs/rollout/src/policy.rs).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from rightful.importers.codex.codex_items import message, thought
from rightful.importers.shared.foreign_fields import digest, shaped
from rightful.importers.shared.record_parts import Part, data, extra, numbers, without, word

BEGINS = ("task_started", "turn_started")  # a tuple: a value from a file may not be hashable
"""The messages that begin a turn."""

ENDS = ("task_complete", "turn_complete", "turn_aborted")
"""The messages that end one."""

ROLLED_BACK = "thread_rolled_back"
"""The message that undoes turns."""

_ASKED = ("exec_approval_request", "apply_patch_approval_request", "request_user_input", "request_permissions")


class _Said(msgspec.Struct):
    message: str
    images: list[Any] | None = None
    kind: str | None = None
    phase: str | None = None


class _Thought(msgspec.Struct):
    text: str


class _Usage(msgspec.Struct):
    total_token_usage: dict[str, Any]
    last_token_usage: dict[str, Any] | None = None
    model_context_window: int | None = None


class Running(msgspec.Struct):
    """The running total of a thread, which restarts if a new process does not know the old total.

    Attributes:
        total: The last total that was read.
        stretch: How often it has restarted.
        has_worked: Whether the model has answered since that total.
    """

    total: dict[str, Any] | None = None
    stretch: int = 0
    has_worked: bool = False

    def take(self, total: Mapping[str, Any], last: Mapping[str, Any] | None) -> int:
        """Add the next total; return its stretch, from 0.

        A total lower than the one before has restarted. So has a total that equals the usage of the last response
        although there was usage before, unless it repeats the previous total and the model has not answered since:
        Codex repeats it with each new rate limit.

        Args:
            total: The usage of the stretch so far.
            last: The usage of the last response.
        """
        counts = numbers(total)
        if self.total is not None and any(self.total.values()):
            is_repeated = counts == self.total and not self.has_worked
            is_lower = any(count < self.total.get(name, 0) for name, count in counts.items())
            is_first = last is not None and any(counts.values()) and numbers(last) == counts
            self.stretch += is_lower or (is_first and not is_repeated)
        self.total, self.has_worked = counts, False
        return self.stretch


class _Tokens(msgspec.Struct):
    info: _Usage | None = None
    rate_limits: dict[str, Any] | None = None


class _End(msgspec.Struct):
    turn_id: str | None = None
    reason: str | None = None
    last_agent_message: str | None = None  # handled by `last_said`; only validated here


class _Error(msgspec.Struct):
    message: str


class _RolledBack(msgspec.Struct):
    num_turns: int


def parts_of_event(payload: Mapping[str, Any], turn: str | None, running: Running) -> Iterator[Part]:
    """Yield the parts of one event message, except for rollbacks.

    Args:
        payload: The message.
        turn: The open turn.
        running: The running total of its thread.

    Raises:
        InvalidEventError: It is of a known type but not valid.
    """
    match payload.get("type"):
        case "user_message":
            yield _asked(payload)
        case "agent_message":
            said: _Said = shaped(payload, _Said)
            yield message("assistant", said.message, phase=said.phase)
        case "agent_reasoning" | "agent_reasoning_raw_content":
            yield thought(shaped(payload, _Thought).text)
        case "token_count":
            yield from _tokens(payload, running)
        case kind if kind in ENDS:
            yield _ended(payload, turn)
        case "error" | "stream_error" as kind:
            fields = {"message": shaped(payload, _Error).message, **extra(without(payload, "type", "message"))}
            yield Part("error.recorded", (kind, digest(payload)), fields)
        case kind if kind in _ASKED:
            yield _requested(payload)
        case kind:
            yield data(word(kind, "event_msg"), dict(payload), digest(payload))


def rolled_back(payload: Mapping[str, Any]) -> int:
    """Return how many turns a message undoes.

    Raises:
        InvalidEventError: It has no valid number.
    """
    read: _RolledBack = shaped(payload, _RolledBack)
    return read.num_turns


def last_said(payload: Mapping[str, Any]) -> Part | None:
    """Return the model's last message, which the end of a turn repeats; a failed turn has it only there."""
    text = payload.get("last_agent_message")
    return message("assistant", text) if isinstance(text, str) and text else None


def spawned(payload: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the threads of an agent and of the agent that it spawned, if a message names both."""
    if payload.get("type") != "collab_agent_spawn_end":
        return None
    parent, child = payload.get("sender_thread_id"), payload.get("new_thread_id")
    return (parent, child) if isinstance(parent, str) and isinstance(child, str) and parent != child else None


def _asked(payload: Mapping[str, Any]) -> Part:
    said: _Said = shaped(payload, _Said)
    shown = [{"type": "input_image", "image_url": image} for image in said.images or ()]
    whole = [{"type": "input_text", "text": said.message}, *shown] if shown else said.message
    return message("user", whole, is_context=said.kind in {"user_instructions", "environment_context"})


def _tokens(payload: Mapping[str, Any], running: Running) -> Iterator[Part]:
    """Yield the usage of the session, the usage of the last response, and the rate limits.

    The last response has no id in the file; the total of its stretch identifies it.
    """
    read: _Tokens = shaped(payload, _Tokens)
    if read.info is not None:
        total, last = digest(read.info.total_token_usage), read.info.last_token_usage
        number = running.take(read.info.total_token_usage, last)
        stretch = (number,) if number else ()  # the first one has no number, for the same keys as in earlier versions
        known = {"model_context_window": read.info.model_context_window, "stretch": f"{number}" if number else None}
        counts = numbers(read.info.total_token_usage)
        fields = {"counts": counts, "cumulative": True, **extra(without(known))}
        yield Part("usage.recorded", ("token_count", total, *stretch), fields)
        if last is not None:
            of = ":".join(["response", total[:32], *map(str, stretch)])
            key = ("token_count", total, digest(last), *stretch)
            yield Part("usage.recorded", key, {"counts": numbers(last), "of": of})
    if read.rate_limits is not None:
        yield data("rate_limits", read.rate_limits, digest(read.rate_limits))


def _ended(payload: Mapping[str, Any], turn: str | None) -> Part:
    read: _End = shaped(payload, _End)
    kind = payload["type"]
    if (ended := read.turn_id or turn) is None:
        return data(kind, dict(payload), digest(payload))
    more = extra(without(payload, "type", "turn_id", "reason", "last_agent_message"))
    return Part("turn.ended", (kind, ended), {"turn": ended, "stop_reason": word(read.reason, kind), **more})


def _requested(payload: Mapping[str, Any]) -> Part:
    kind = payload["type"]
    asked = word(payload.get("call_id"), f"{kind}:{digest(payload)[:32]}")
    fields = {"interaction": asked, "kind": kind, "payload": without(payload, "type")}
    return Part("interaction.requested", (kind, asked, digest(payload)), fields)
