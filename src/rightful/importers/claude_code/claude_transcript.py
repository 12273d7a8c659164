"""The transcripts of Claude Code: its project files, its subagents' files, and its stream logs.

| line | events |
|---|---|
| `assistant` | a message, thought or tool call per block, `usage.recorded`; `error.recorded` if the API failed |
| `user` | one message, and a tool result per block |
| `system`, `compact_boundary` | `history.compacted` |
| `system`, `init` (a stream log) | `session.started`, and the rest as data |
| `result` (a stream log) | `session.ended`, the usage since the start, `error.recorded` |
| `stream_event` (a stream log) | none: other lines have the complete message |
| `progress` of a subagent | `data.recorded`, and the subagent's message, in the subagent's session |
| `attachment` with a prompt that was typed during a turn | a message of the user (`queued`) |
| any other | `data.recorded` |

The key of a line's event is (session, the line's `uuid`, the block's place). So a line that a resumed session copied,
or that is also in a stream log, is the same fact; one that a fork wrote under its own session is the fork's. A line
without a `uuid` is identified by its content and by how often the same content precedes it. `parentUuid` shows rewinds
of the user (`claude_compactions`).

An answer has several lines, each with the usage so far; the last one counts, and their sum would be 1.8 times too high
(claude-code#87303). A stream log is printed before an answer's usage is known, so only a line with the stop reason
counts there.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rightful import limits, times
from rightful.errors import InvalidEventError
from rightful.importers.claude_code.claude_blocks import (
    AT_REST,
    Line,
    is_prompt,
    message_of,
    of_assistant,
    of_user,
    said_by_user,
    text_of,
)
from rightful.importers.claude_code.claude_compactions import Chain, Ref
from rightful.importers.claude_code.claude_facts import Facts, described, error_of, result_of, usage_of
from rightful.importers.claude_code.claude_files import NAMESPACE, Owner, Owners, Place, place_of
from rightful.importers.claude_code.claude_recognition import is_claude_code
from rightful.importers.claude_code.queued_prompts import Queue, prompt_of
from rightful.importers.engine.compacted_files import HeadsReader
from rightful.importers.engine.formats import APPENDED, End, GrowingKind, Origin, Wire
from rightful.importers.shared.file_order import FileOrder
from rightful.importers.shared.foreign_fields import digest, key_of, moment_us
from rightful.importers.shared.record_parts import ITEMS
from rightful.importers.sources.text_files import Found, Problem

if TYPE_CHECKING:
    from rightful.log.log import Log
    from rightful.log.rows import Receipt

_ENVELOPE = frozenset(
    {
        "type",
        "uuid",
        "parentUuid",
        "logicalParentUuid",
        "sessionId",
        "session_id",
        "timestamp",
        "isSidechain",
        "agentId",
    }
    | {"userType", "cwd", "version", "gitBranch", "slug", "entrypoint", "parent_tool_use_id"}
)
_OF_AGENT = ("cwd", "version", "gitBranch")  # fields that a subagent has from its parent
_HELD_LINES = 64  # at the beginning of a file, until one has a session and a time
_NEVER_HELD = frozenset({"user", "assistant", "system", "result", "stream_event"})
_DIGITS = 16  # of a digest, by which repeats of a line are counted


class ClaudeCode(GrowingKind):
    """The kind `claude-code`."""

    NAME = NAMESPACE
    GROWS = APPENDED
    STATE_VERSION = 5
    READER_VERSION = 3

    def recognises(self, value: Mapping[str, Any]) -> bool:
        """Return whether an object has fields that only a transcript, a stream log or a subagent's description has."""
        return is_claude_code(value)

    def reader(self, origin: Origin) -> ClaudeCodeReader:
        """Return the reader of one file."""
        return ClaudeCodeReader(origin)


class ClaudeCodeReader(HeadsReader):
    """Reads one file.

    Args:
        origin: The file; its path may name the session.
    """

    def __init__(self, origin: Origin) -> None:
        super().__init__()
        self._place: Place = place_of(origin)
        self._owners = Owners(self._place)
        self._mtime_us = origin.mtime_us or 0
        self._at_us: int | None = None
        self._facts: dict[str, Facts] = {}
        self._chains: dict[str, Chain] = {}
        self._queues: defaultdict[str, Queue] = defaultdict(Queue)
        self._order = FileOrder(ClaudeCode.READER_VERSION)
        self._seen: Counter[str] = Counter()
        self._used: list[Any] = []
        self._talked = False
        self._parts = 0
        self._held: list[Found] | None = []

    def state(self) -> dict[str, Any]:
        """Return the state needed to continue after the last line."""
        return {
            "owners": self._owners.state(),
            "at_us": self._at_us,
            "facts": {value: facts.told for value, facts in self._facts.items()},
            "chains": {value: chain.state() for value, chain in self._chains.items()},
            "queues": {value: queue.state() for value, queue in self._queues.items()},
            "order": [self._order.last, self._order.compactions, self._order.reached],
            "seen": dict(self._seen),
            "used": self._used,
            "talked": self._talked,
            "held": None if self._held is None else [list(found) for found in self._held],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a state."""
        self._owners.restore(state["owners"])
        self._at_us = state["at_us"]
        self._facts = {value: Facts(facts) for value, facts in state["facts"].items()}
        for value, chain in state["chains"].items():
            self._chains[value] = Chain(value)
            self._chains[value].restore(chain)
        self._queues.update({value: Queue.of(queue) for value, queue in state["queues"].items()})
        self._order.last, self._order.compactions, self._order.reached = state["order"]
        self._seen = Counter(state["seen"])
        self._used = list(state["used"])
        self._talked = state["talked"]
        self._held = None if state["held"] is None else [Found(line, value) for line, value in state["held"]]

    def restart(self, state: Mapping[str, Any]) -> None:
        """Read the file from its beginning; events of its earlier content stay recorded."""

    def events(self, found: Found) -> Iterator[Wire | Problem]:
        """Yield the events of one line, after those of earlier lines that waited for it.

        A file may begin with lines without a session or a time. They are held until a line has both.

        Raises:
            InvalidEventError: Its session is unknown, or it does not have the shape of its type.
        """
        if self._held is None:
            return self._events(found)
        if len(self._held) < _HELD_LINES and self._waits(found.value):
            self._held.append(found)
            return iter(())
        held, self._held = self._held, None
        return self._with_held(held, found) if held else self._events(found)

    def _with_held(self, held: list[Found], found: Found) -> Iterator[Wire | Problem]:
        with suppress(InvalidEventError):
            self._owners.of(found.value)
        self._timed(found.value, found.line)
        for before in held:
            try:
                yield from self._events(before)
            except InvalidEventError as error:
                yield Problem(before.line, str(error))
        yield from self._events(found)

    def _waits(self, value: Mapping[str, Any]) -> bool:
        """Return whether a line at the beginning of a file must wait for a session's name or for a time."""
        kind = value.get("type")
        if not isinstance(kind, str) or kind in _NEVER_HELD:
            return False
        is_named = self._owners.own is not None or "sessionId" in value or "session_id" in value
        return not is_named or ("timestamp" not in value and "session_id" not in value)

    def _events(self, found: Found) -> Iterator[Wire | Problem]:
        value = found.value
        kind = value.get("type")
        if kind is None and "agentType" in value:
            yield from self._described(value)
            return
        if not isinstance(kind, str) or not kind:
            raise InvalidEventError("Expected the type of a line", "$.type")
        if kind == "stream_event":
            self._parts += 1
            return
        owner = self._owners.of(value)
        problem = self._timed(value, found.line)
        if problem is not None:
            yield problem
        line = Line(found.line, value, owner, self._ident(value, owner), self._common(owner))
        if (facts := self._facts.get(owner.value)) is None or not facts.are_whole:
            yield from self._started(line)
        match kind:
            case "user" | "assistant":
                self._talked = True
                yield from self._spoken(line, kind)
            case "system":
                yield from self._system(line)
            case "result":
                yield from result_of(line)
            case "attachment":
                yield from self._attached(line)
            case _:
                yield from self._other(line, kind)

    def after(self, log: Log, events: Sequence[Wire], receipts: Sequence[Receipt]) -> list[Wire]:
        """Return withdrawals of earlier forms of compactions, and the places of items that a log recorded first."""
        return [*super().after(log, events, receipts), *self._order.moves(log, events, receipts)]

    def finish(self, end: End) -> Iterator[Wire | Problem]:
        """Yield notes on the file as a whole."""
        del end
        if self._held:
            what = f"lines at the beginning wait for a line with a session and a time: {len(self._held)}"
            yield Problem(None, what, lost=False)
        if self._parts:
            what = f"{self._parts} partial answers were skipped: other lines have the complete answers"
            yield Problem(None, what, lost=False)
        if (self._seen or self._held) and not self._talked:
            what = "a stub without messages. The messages of a batch run are in its stream log, cc-session-*.log"
            yield Problem(None, what, lost=False)

    def _timed(self, value: Mapping[str, Any], number: int) -> Problem | None:
        text = value.get("timestamp")
        if text is None:
            return None
        try:
            self._at_us = moment_us(text if isinstance(text, str) else json.dumps(text), "$.timestamp")[0]
        except InvalidEventError as error:
            return Problem(number, f"{error}; the time of the previous line was used", lost=False)
        return None

    def _ident(self, value: Mapping[str, Any], owner: Owner) -> str:
        uuid = value.get("uuid")
        if isinstance(uuid, str) and uuid:
            return uuid
        content = digest(value)
        counted = digest([owner.value, content])[:_DIGITS]
        self._seen[counted] += 1
        return f"{content}:{self._seen[counted]}"

    def _common(self, owner: Owner) -> Wire:
        if self._at_us is not None:
            return {"producer": NAMESPACE, "session": owner.session, "at": times.text_of(self._at_us)}
        at = times.text_of(self._mtime_us)
        return {"producer": NAMESPACE, "session": owner.session, "at": at, "at_basis": "file"}

    def _started(self, line: Line) -> Iterator[Wire]:
        owner = line.owner
        facts = self._facts.get(owner.value)
        if facts is None:
            facts = self._facts[owner.value] = Facts()
            if owner.agent is not None:
                yield line.common | {
                    "type": "session.linked",
                    "key": key_of(owner.raw, "subagent", owner.agent),
                    "session": f"{NAMESPACE}:{owner.raw}",
                    "other": owner.session,
                    "as": "subagent",
                    "evidence": "native-id",
                }
        resumed = self._owners.resumed(owner.raw) if owner.agent is None else []
        told = facts.learn(line.value, resumed)
        if told is not None:
            key = key_of(owner.value, "started", digest(told))
            yield line.common | {"type": "session.started", "key": key, "harness": NAMESPACE} | told

    def _spoken(self, line: Line, kind: str) -> Iterator[Wire | Problem]:
        message = message_of(line)
        chain, queue = self._moved(line), self._queues.get(line.owner.value)
        items: list[Wire] = []
        for event in of_user(line, message) if kind == "user" else of_assistant(line, message):
            if isinstance(event, Problem):
                yield event
                continue
            is_of_user = is_prompt(event)
            if is_of_user and queue and queue.repeats(event["content"], line.ident, is_copy=chain is None):
                yield self._data(line, kind)
                continue
            if chain is not None and is_of_user:
                if line.owner.agent is None:
                    yield from self._asked(line, chain, _ref(line, event))
            elif chain is not None and (at_rest := _is_at_rest(kind, message, event)) is not None:
                chain.at_rest = at_rest
                if at_rest and queue is not None:
                    queue.rest()
            if event["type"] in ITEMS:
                items.append(event)
            yield event
        self._follow(line, items, chain)
        if kind == "assistant":
            yield from self._usage(line, message)

    def _reported(self, line: Line) -> Iterator[Wire | Problem]:
        """Yield a subagent's message from its parent's file, where it is a line within `data`.

        Its events have the same keys as from the subagent's own file, if there is one.
        """
        match line.value.get("data"):
            case {
                "agentId": str() as agent,
                "message": {"type": "user" | "assistant" as kind, "message": dict()} as said,
            }:
                outer = {name: line.value[name] for name in _OF_AGENT if name in line.value}
            case _:
                return
        if not agent or line.owner.agent is not None:
            return
        value = {**outer, **said, "sessionId": line.owner.raw, "isSidechain": True, "agentId": agent}
        owner = self._owners.of(value)
        common = line.common | {"session": owner.session}
        with suppress(InvalidEventError):
            at_us, _ = moment_us(str(value.get("timestamp")), "$.data.message.timestamp")
            common = {name: common[name] for name in ("producer", "session")} | {"at": times.text_of(at_us)}
        nested = Line(line.number, value, owner, self._ident(value, owner), common)
        if (facts := self._facts.get(owner.value)) is None or not facts.are_whole:
            yield from self._started(nested)
        yield from self._spoken(nested, kind)

    def _asked(self, line: Line, chain: Chain, prompt: Ref) -> Iterator[Wire]:
        """Yield the items that the user undid by rewinding."""
        parent = line.value.get("parentUuid")
        if (popped := chain.went_back(line.ident, parent)) is not None:
            self._order.keys.add(popped["key"])
            yield line.common | popped
        chain.asked(parent, prompt)

    def _attached(self, line: Line) -> Iterator[Wire]:
        """Yield a prompt that was given to the model during a turn; any other attachment as data."""
        found, chain, queue = prompt_of(line.value), self._moved(line), self._queues[line.owner.value]
        if found is not None and chain is not None and chain.knows(found[1]):  # its own line was read before
            queue.repeat(line.ident)
        if found is None or queue.is_repeat(line.ident):
            yield self._data(line, "attachment")
            self._follow(line, [], chain)
            return
        event = said_by_user(line, 0, found[0])
        if chain is not None:
            queue.give(*found)
            chain.at_rest = False
        self._follow(line, [event], chain)
        yield event

    def _usage(self, line: Line, message: Mapping[str, Any]) -> Iterator[Wire]:
        event = usage_of(line, message)
        if event is None:
            return
        used = [line.owner.value, event["of"], event["counts"], event.get("extra")]
        if used != self._used:
            self._used = used
            yield event

    def _system(self, line: Line) -> Iterator[Wire]:
        subtype = line.value.get("subtype")
        if subtype == "compact_boundary" and (chain := self._chain(line)) is not None:
            facts = line.value.get("compactMetadata", line.value.get("compact_metadata"))
            facts = facts if isinstance(facts, dict) else {}
            mode = facts.get("trigger")
            mode = mode if isinstance(mode, str) and 0 < len(mode) <= limits.WORD_CHARS else None
            is_head = not chain.is_begun
            event = chain.compacted(line.ident, facts, mode, line.value.get("logicalParentUuid"))
            if event is not None:
                event = line.common | event
                if not line.is_of_log:
                    self._order.keys.add(event["key"])
                if is_head:
                    self.add_head(event)
                yield event
        elif subtype == "api_error":
            yield error_of(line)
        else:
            yield self._data(line, f"system.{subtype}" if isinstance(subtype, str) else "system")
        self._follow(line, [], self._moved(line))

    def _other(self, line: Line, kind: str) -> Iterator[Wire | Problem]:
        """Yield a line of another type as data, and the message of a subagent in it."""
        if kind == "queue-operation":
            self._queues[line.owner.value].operation(line.value)
        yield self._data(line, kind)
        yield from self._reported(line)
        self._follow(line, [], self._moved(line))

    def _data(self, line: Line, name: str) -> Wire:
        data = {name: item for name, item in line.value.items() if name not in _ENVELOPE}
        return line.event("data.recorded", "data", digest(data), name=name[: limits.WORD_CHARS], data=data)

    def _chain(self, line: Line) -> Chain | None:
        """Return the chain of a line's session; None for a subagent's lines in its parent's file."""
        if line.owner.agent is not None and not self._owners.is_of_agent:
            return None
        chain = self._chains.get(line.owner.value)
        if chain is None:
            chain = self._chains[line.owner.value] = Chain(line.owner.value)
        return chain

    def _moved(self, line: Line) -> Chain | None:
        """Return the chain that a line changes; None for a copy of an earlier line."""
        chain = self._chain(line)
        return None if chain is None or chain.knows(line.value.get("uuid")) else chain

    def _follow(self, line: Line, items: list[Wire], chain: Chain | None) -> None:
        """Add a line to the chain that it changes; a copy changes nothing, nor does a line that only follows it."""
        uuid = line.value.get("uuid")
        if chain is not None:
            refs: list[Ref] = []
            for event in items:
                refs.append(_ref(line, event))
                if "sessionId" in line.value:  # not in a stream log
                    self._order.keys.add(event["key"])
            chain.follow(uuid if isinstance(uuid, str) else None, line.value.get("parentUuid"), refs)
        elif isinstance(uuid, str) and (chain := self._chain(line)) is not None:
            chain.copied = uuid

    def _described(self, value: Mapping[str, Any]) -> Iterator[Wire]:
        """Yield the start of a subagent from its description."""
        if self._place.own is None or self._place.agent is None:
            what = "Expected a file <session>/subagents/agent-<id>.meta.json: its content does not name a session"
            raise InvalidEventError(what)
        owner = self._owners.of({})
        told = described(value)
        key = key_of(owner.value, "started", digest(told))
        yield self._common(owner) | {"type": "session.started", "key": key, "harness": NAMESPACE} | told


def _ref(line: Line, event: Wire) -> Ref:
    """Return the item of an event: the last part of its key is the block's place."""
    return line.ident, json.loads(event["key"])[-1]


def _is_at_rest(kind: str, message: Mapping[str, Any], event: Wire) -> bool | None:
    """Return whether the model is idle after an event; None if the event does not show it."""
    if kind == "user":
        if event["type"] == "message.recorded":
            return True if text_of(event["content"]).startswith(AT_REST) else None
        return False
    if event["type"] == "message.recorded":
        return message.get("stop_reason") not in ("tool_use", "pause_turn")
    return bool(event["type"] == "error.recorded")
