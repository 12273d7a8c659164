"""The transcripts of Copilot CLI: `session-state/<id>/events.jsonl`.

| record | events |
|---|---|
| `session.start`, `session.shutdown` | `session.started`; `session.ended` and the usage |
| `user.message`, `system.*` | a message; marked `meta` if the user did not write it |
| `assistant.message` | a thought, a message, a call per request, its usage |
| `assistant.message_delta`, `assistant.reasoning_delta` | growing states of the message or thought |
| `tool.execution_start` | a call, unless a message requested it with these arguments |
| `tool.execution_complete` | a result |
| `assistant.turn_end` | `turn.ended` |
| `session.compaction_complete`, `.snapshot_rewind`, `.context_cleared` | `history.*` |
| `subagent.started`, `.completed`, `.failed` | start and end of the subagent's session, and its link |
| `….requested`, `….completed` with a `requestId` | an interaction |
| any other (`hook.*`, `skill.invoked`, `session.truncation` …) | data |

The session is `copilot:<sessionId>`; if the file does not begin with its `session.start`, the folder's name is used.
The key is the session, the record's id and the part; for a message its `messageId`. The record's id alone is not
enough, although it is a UUID: a forked or copied session has the same records under another name.

Subagents write into the same file (github/copilot-cli issue 2543). Each is a separate session,
`copilot:<sessionId>/<agent>`: mixed with the main agent's, their messages would not form a conversation. The agent is
the record's `agentId`, in older files the call that started it (`parentToolCallId`).

A turn is `<interactionId>/<turnId>`, since turn ids restart with each request of the user.

A compaction covers everything before its `session.compaction_start`; it runs while the session continues. A rewind
undoes a message of the user and everything after it, including later compactions (they are withdrawn, which restores
the covered items). Copilot also removes their lines from the file, possibly without a record (the SDK calls
`session.snapshot_rewind` ephemeral), so a file that has lost its end since the last import shows a rewind as well.
`session.truncation` says how many messages the model no longer sees, but not which ones, so it is data.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from rightful.content import json_type
from rightful.errors import InvalidEventError
from rightful.identity import event_id
from rightful.importers.copilot.copilot_agents import MAIN, Agent, Item
from rightful.importers.copilot.copilot_records import Record, kept, parts_of, shape_of
from rightful.importers.engine.compacted_files import HeadsReader
from rightful.importers.engine.formats import APPENDED, End, GrowingKind, GrowingReader, Origin, Wire
from rightful.importers.engine.loop import STDIN
from rightful.importers.shared.foreign_fields import digest, key_of, session_of
from rightful.importers.shared.line_times import LineTimes
from rightful.importers.shared.record_parts import ITEMS, Part, extra, withdrawn, without, word
from rightful.importers.sources.growing_files import is_settled
from rightful.importers.sources.text_files import Found, Problem

NAMESPACE = "copilot"
"""The namespace of the sessions."""

_KIND = re.compile(r"(?:session|user|assistant|tool|subagent|hook|skill|system|permission)(?:\.[a-z_]+)+\Z|abort\Z")
_TIMELESS = frozenset(
    {"session.started", "session.ended", "session.linked", "history.cleared", "event.withdrawn"}
)  # of no turn


class _Start(msgspec.Struct):
    sessionId: str  # noqa: N815 - the tool's own name
    selectedModel: str | None = None  # noqa: N815 - as above
    context: dict[str, Any] | None = None


class _Subagent(msgspec.Struct):
    toolCallId: str | None = None  # noqa: N815 - the tool's own name
    model: str | None = None
    parentId: str | None = None  # noqa: N815 - as above
    error: str | None = None


class _Compaction(msgspec.Struct):
    success: bool = True
    summaryContent: str | None = None  # noqa: N815 - the tool's own name
    trigger: str | None = None
    error: str | None = None


class _Rewind(msgspec.Struct):
    upToEventId: str  # noqa: N815 - the tool's own name


class Copilot(GrowingKind):
    """The kind `copilot`."""

    NAME = "copilot"
    GROWS = APPENDED
    STATE_VERSION = 2
    READER_VERSION = 3  # 2 dropped the id in a folder's name

    def recognises(self, value: Mapping[str, Any]) -> bool:
        """Return whether an object is a record that only Copilot CLI writes."""
        kind = value.get("type")
        is_record = isinstance(value.get("data"), dict) and {"id", "parentId", "timestamp"} <= value.keys()
        return isinstance(kind, str) and bool(_KIND.match(kind)) and is_record

    def reader(self, origin: Origin) -> GrowingReader:
        """Return the reader of one file."""
        return CopilotReader(LineTimes(origin.mtime_us), origin)


class CopilotReader(HeadsReader):
    """Reads one session, with its subagents.

    Args:
        line_times: Returns the time of each record.
        origin: The file; its folder may name the session.
    """

    def __init__(self, line_times: LineTimes, origin: Origin) -> None:
        super().__init__()
        self._times = line_times
        self._origin = origin
        self._value = _folder_of(origin)
        self._is_told = False
        self._agents: dict[str, Agent] = {}
        self._spawned: dict[str, str] = {}
        self._before: dict[str, Agent] = {}
        self._met: set[str] = set()

    def state(self) -> dict[str, Any]:
        """Return the state of the session and its agents, and the agents of the earlier content of the file."""
        return {
            "known_us": self._times.known_us,
            "session": self._value,
            "told": self._is_told,
            "agents": msgspec.to_builtins(self._agents),
            "spawned": self._spawned,
            "before": msgspec.to_builtins(self._before),
            "met": sorted(self._met),
            "heads": self.head_ids,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a state."""
        self._times.known_us, self._value = state["known_us"], state["session"]
        self._is_told, self._spawned = state["told"], dict(state["spawned"])
        self._agents = msgspec.convert(state["agents"], dict[str, Agent])
        self._before = msgspec.convert(state["before"], dict[str, Agent])
        self._met = set(state["met"])
        self.head_ids = dict(state["heads"])

    def restart(self, state: Mapping[str, Any]) -> None:
        """Read the file from its beginning, and find the messages of the user that were removed from its end."""
        self._before = msgspec.convert(state["before"] or state["agents"], dict[str, Agent])

    def finish(self, end: End) -> Iterator[Wire | Problem]:
        """Yield the undone items that were removed from the file since the last import, unless it is being written."""
        if self._before and not is_settled(Path(self._origin.path), self._origin.mtime_us):
            what = "it was rewritten and is being written; the next import records what was removed"
            yield Problem(None, what, lost=False)
            return
        before, met, self._before, self._met = self._before, self._met, {}, set()
        for name, old in before.items() if end.is_whole and self._value is not None else ():
            if (now := self._agents.get(name)) is not None and now.is_headed:
                continue  # the compaction covers the items that are no longer in the file
            for part in _vanished(old, met):
                wire = self._wire(Record("vanished", "", {}, name), part) | self._times.of(None)
                yield {field: said for field, said in wire.items() if field != "turn"}

    def events(self, found: Found) -> Iterator[Wire | Problem]:
        """Yield the events of one record.

        Raises:
            InvalidEventError: It is of a known type but not valid, or its session is unknown.
        """
        record = self._record(found)
        at = self._times.of(found.value.get("timestamp"))
        agent = self._agents.get(record.agent)
        is_head = record.kind == "session.compaction_complete" and (agent is None or not agent.is_begun)
        for item in self._said(record, found.line):
            event = item if isinstance(item, Problem) else item | at
            if is_head and not isinstance(event, Problem) and event["type"] == "history.compacted":
                self.add_head(event)
            yield event

    def _record(self, found: Found) -> Record:
        value = found.value
        kind, said, name = value.get("type"), value.get("data"), value.get("id")
        if not isinstance(kind, str):
            raise InvalidEventError("Expected the type of a record", "$.type")
        if not isinstance(said, dict):
            raise InvalidEventError(f"Expected `object`, got `{json_type(said)}`", "$.data")
        own, call = value.get("agentId"), said.get("parentToolCallId")
        agent = own if isinstance(own, str) and own else MAIN
        if agent == MAIN and isinstance(call, str) and call:
            agent = self._spawned.get(call, call)
        if not isinstance(name, str) or not name:
            name = digest(value)
        return Record(word(kind), name, said, agent)

    def _said(self, record: Record, line: int) -> Iterator[Wire | Problem]:
        if record.kind == "session.start":
            yield from self._started(record, line)
            return
        if self._value is None:
            raise InvalidEventError("Expected a `session.start` before any other record: its session is unknown")
        agent = self._agents.setdefault(record.agent, Agent())
        match record.kind:
            case "subagent.started" | "subagent.completed" | "subagent.failed":
                yield from self._subagent(record)
            case "session.compaction_start":
                agent.compact()
                yield self._wire(record, kept(record))
            case "session.compaction_complete":
                yield from self._compacted(record, agent)
            case "session.snapshot_rewind":
                yield from self._rewound(record, agent, line)
            case "session.context_cleared":
                agent.clear()
                yield self._wire(record, Part("history.cleared", (), extra(without(record.data))))
            case _:
                for part in parts_of(record, agent):
                    wire = self._wire(record, part)
                    self._add(agent, wire, part)
                    yield wire

    def _add(self, agent: Agent, wire: Wire, part: Part) -> None:
        """Append an item to its agent's history."""
        if part.type in ITEMS:
            item = _item_of(wire)
            agent.add(item, asks=part.asks)
            if part.asks and self._before:
                self._met.add(item[0])

    def _started(self, record: Record, line: int) -> Iterator[Wire | Problem]:
        read: _Start = shape_of(record, _Start)
        session_of(NAMESPACE, read.sessionId, "$.data.sessionId")
        if self._is_told and read.sessionId != self._value:
            yield Problem(line, f"another session starts in this file; what follows was stored as {self._value}'s")
            yield self._wire(record, kept(record))
            return
        self._value, self._is_told = read.sessionId, True
        where = read.context or {}
        known = without(record.data, "sessionId", "selectedModel", "context") | without(where, "cwd")
        facts = without({"model": read.selectedModel, "cwd": where.get("cwd")})
        yield self._wire(record, Part("session.started", (), {"harness": "copilot", **facts, **extra(known)}))
        named = _folder_of(self._origin)
        if named is not None and named != read.sessionId:
            fields = {"harness": "copilot", **extra({"file_id": named})}
            yield self._wire(record, Part("session.started", ("file", named), fields))

    def _subagent(self, record: Record) -> Iterator[Wire]:
        """Yield the start of a subagent's session with its link, or its end."""
        read: _Subagent = shape_of(record, _Subagent)
        call = read.toolCallId or record.id
        agent = record.agent if record.agent != MAIN else self._spawned.get(call, call)
        of = record._replace(agent=agent)
        known = extra(without(record.data, "model", "error"))
        if record.kind == "subagent.started":
            if agent != call:
                self._spawned[call] = agent
            parent = read.parentId if read.parentId in self._agents and read.parentId != agent else MAIN
            fields = {"harness": "copilot", **without({"model": read.model}), **known}
            yield self._wire(of, Part("session.started", (record.id, "started"), fields))
            link = {"other": self._session(agent), "as": "subagent", "evidence": "native-id"}
            part = Part("session.linked", (record.id, "linked"), link)
            yield self._wire(record._replace(agent=parent or MAIN), part)
            return
        if read.error is not None:
            yield self._wire(of, Part("error.recorded", (record.id, "error"), {"message": read.error}))
        yield self._wire(of, Part("session.ended", (record.id, "ended"), known))

    def _compacted(self, record: Record, agent: Agent) -> Iterator[Wire]:
        read: _Compaction = shape_of(record, _Compaction)
        covered = agent.compact()
        if not read.success:
            agent.failed()
            if read.error is not None:
                yield self._wire(record, Part("error.recorded", (record.id, "error"), {"message": read.error}))
            yield self._wire(record, kept(record))
            return
        items = [] if read.summaryContent is None else [{"role": "user", "content": read.summaryContent}]
        covers = [] if covered is None else [{"first": None, "last": list(covered)}]
        known = extra(without(record.data, "success", "summaryContent", "trigger"))
        mode = without({"mode": read.trigger or None})
        wire = self._wire(record, Part("history.compacted", (), {"covers": covers, "items": items, **mode, **known}))
        item = _item_of(wire)
        agent.compacted(item[0], record.id, item if items else None)
        if self._before:
            self._met.add(record.id)
        yield wire

    def _rewound(self, record: Record, agent: Agent, line: int) -> Iterator[Wire | Problem]:
        read: _Rewind = shape_of(record, _Rewind)
        rewound = agent.rewind(event_id(Copilot.NAME, self._key(read.upToEventId)))
        if rewound is None:
            what = "the target of a rewind is not a user message in this history; the rewind was stored as data"
            yield Problem(line, what, lost=False)
            yield self._wire(record, kept(record))
            return
        for compaction in rewound.compacted:
            yield self._wire(record, withdrawn(compaction.id))
        items = [{"first": list(rewound.first), "last": list(rewound.last)}]
        key = (record.id, "behind a compaction") if rewound.compacted else ()
        yield self._wire(record, Part("history.popped", key, {"items": items, **extra(without(record.data))}))

    def _key(self, record: str) -> str:
        """Return the key of a record that is one event."""
        return key_of(self._value, record, "record")

    def _session(self, agent: str) -> str:
        return session_of(NAMESPACE, f"{self._value}/{agent}" if agent else str(self._value), "$.agentId")

    def _wire(self, record: Record, part: Part) -> Wire:
        """Return a part as an event, without its time."""
        key = key_of(self._value, *part.key) if part.key else self._key(record.id)
        wire: Wire = {"type": part.type, "producer": Copilot.NAME, "key": key, "session": self._session(record.agent)}
        agent = self._agents.get(record.agent)
        turn = None if agent is None or part.type in _TIMELESS else agent.turn_of(record.data)
        return wire | ({} if turn is None else {"turn": turn}) | part.fields


def _vanished(old: Agent, met: set[str]) -> Iterator[Part]:
    """Yield the pops and withdrawals, if the last messages of the user are no longer in the file.

    Args:
        old: The state of the agent at the last import.
        met: The messages of the user, and the records of compactions, that are still in the file.
    """
    names = list(old.asked)
    gone = [name for name in names if name not in met]
    at = len(names) - len(gone)
    covering = {compaction.record for compaction in old.done} - met
    if not gone or gone != names[at:] or (undone := old.behind(at, covering)) is None:
        return
    for compaction in undone.compacted:
        yield withdrawn(compaction.id)
    items = [{"first": list(undone.first), "last": list(undone.last)}]
    yield Part("history.popped", ("vanished", gone[0], undone.last[0]), {"items": items})


def _item_of(wire: Wire) -> Item:
    return event_id(Copilot.NAME, wire["key"]), 0


def _folder_of(origin: Origin) -> str | None:
    """Return the name of a session's folder (`session-state/<id>/events.jsonl`); None for any other file."""
    if origin.path == STDIN:
        return None
    folder = os.path.basename(os.path.realpath(os.path.dirname(origin.path) or "."))  # noqa: PTH119, PTH120 - no path is built
    try:
        uuid.UUID(folder)
    except ValueError:
        return None
    return folder
