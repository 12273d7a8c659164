"""The transcripts of Codex: `rollout-<time>-<id>.jsonl`, of its terminal, its editors and `codex exec`.

| line | events |
|---|---|
| `session_meta` | `session.started`; a link to the thread that spawned it; all of it as data |
| `turn_context` | the turn; the model, as a second `session.started`; data |
| `response_item` | messages, thoughts, calls and results (`items`) |
| `event_msg` | usage, ends of turns, rollbacks, errors (`codex_events`); messages that are missing as items |
| `compacted` | `history.compacted` |
| `inter_agent_communication` | a message from one agent to another |
| any other | data |

Rollouts of 2025 have no `payload`: see `plain_rollout`.

The session is `codex:<thread id>`. Lines that a fork copied from its parent are recorded in the parent's session
(`codex_threads`), under the ids that they have in the parent's own file, so importing both in either order records
nothing twice. A copied line's time is that of the copy, which is only an upper bound. No id depends on a line's number
(`ordinal` repeats, openai/codex issue 35746) or on its time: a key is the thread, the turn, and the call's id or the
content; repeats of a message in a turn are counted.

Messages and thoughts occur twice in a rollout, as item and as event message, in either order. Both forms get the same
id, so the first one is recorded, and one without the other is recorded too.

A compaction covers everything before it in the file. Its replacement is `replacement_history`, or else its summary. A
rollback undoes turns of the user. The items of a compaction are not a turn. A compaction in an undone turn, or after
it, is undone too, as in Codex's own replay: it is withdrawn, which restores the covered items. Items that a child
inherited do not belong to its own session, so a rollback that includes them undoes only the child's own items, with a
note. A subagent may have copied only the last turns of its parent; a compaction or rollback of items that such a copy
does not have is stored as data, since only the parent's own file identifies these items.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from rightful import content, times
from rightful.errors import InvalidEventError
from rightful.identity import event_id
from rightful.importers.codex import plain_rollout
from rightful.importers.codex.codex_events import (
    BEGINS,
    ENDS,
    ROLLED_BACK,
    last_said,
    parts_of_event,
    rolled_back,
    spawned,
)
from rightful.importers.codex.codex_items import again, between_agents, parts_of_item
from rightful.importers.codex.codex_threads import Thread, Threads
from rightful.importers.engine.compacted_files import HeadsReader
from rightful.importers.engine.formats import APPENDED, GrowingKind, GrowingReader, Origin, Wire
from rightful.importers.shared.foreign_fields import below, digest, key_of, moment_us, session_of, shaped
from rightful.importers.shared.line_times import LineTimes
from rightful.importers.shared.record_parts import ITEMS, Part, data, extra, withdrawn, without, word
from rightful.importers.sources.text_files import Found, Problem

NAMESPACE = "codex"
"""The namespace of the sessions."""

_NAME = re.compile(r"rollout-.*-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.jsonl\Z")
_MARKS = {
    "session_meta": frozenset({"id"}),
    "turn_context": frozenset({"turn_id", "cwd", "approval_policy", "sandbox_policy", "model"}),
    "response_item": frozenset({"type"}),
    "event_msg": frozenset({"type"}),
    "compacted": frozenset({"message", "replacement_history"}),
}
"""For the types that prove a rollout, the fields of which the payload has at least one."""

_TOLD = (
    "originator",
    "cli_version",
    "source",
    "thread_source",
    "model_provider",
    "git",
    "agent_nickname",
    "agent_role",
)


class _Meta(msgspec.Struct):
    id: str
    timestamp: str | None = None
    cwd: str | None = None
    forked_from_id: str | None = None
    source: Any = None


class _Compacted(msgspec.Struct):
    message: str = ""
    replacement_history: list[Any] | None = None


class _Turn(msgspec.Struct):
    turn_id: str | None = None
    started_at: Any = None


class Codex(GrowingKind):
    """The kind `codex`."""

    NAME = "codex"
    GROWS = APPENDED
    STATE_VERSION = 2
    READER_VERSION = 3  # 2 dropped the id in a file's name

    def recognises(self, value: Mapping[str, Any]) -> bool:
        """Return whether an object is a line that only Codex writes."""
        kind, payload = value.get("type"), value.get("payload")
        if plain_rollout.proves(value):
            return True
        if not isinstance(payload, dict) or "timestamp" not in value or not isinstance(kind, str):
            return False
        return not _MARKS.get(kind, frozenset()).isdisjoint(payload)

    def reader(self, origin: Origin) -> GrowingReader:
        """Return the reader of one file."""
        named = _NAME.match(origin.name)
        return CodexReader(LineTimes(origin.mtime_us), named[1] if named else None)


class CodexReader(HeadsReader):
    """Reads one rollout.

    Args:
        line_times: Returns the time of each line.
        named: The thread in the file's name.
    """

    def __init__(self, line_times: LineTimes, named: str | None) -> None:
        super().__init__()
        self._times = line_times
        self._threads = Threads(named)

    def state(self) -> dict[str, Any]:
        """Return the state of the file's threads."""
        known: dict[str, Any] = msgspec.to_builtins(self._threads)
        return {"known_us": self._times.known_us, "threads": known, "heads": self.head_ids}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a state."""
        self._times.known_us = state["known_us"]
        self._threads = msgspec.convert(state["threads"], Threads)
        self.head_ids = dict(state["heads"])

    def events(self, found: Found) -> Iterator[Wire | Problem]:
        """Yield the events of one line.

        Raises:
            InvalidEventError: It is of a known type but not valid, or its session is unknown.
        """
        line = plain_rollout.modern(found.value)
        if line is None:
            return
        kind, payload = line.get("type"), line.get("payload")
        at = self._times.of(line.get("timestamp"))
        if not isinstance(payload, dict):
            raise InvalidEventError(f"Expected `object`, got `{content.json_type(payload)}`", "$.payload")
        if kind == "session_meta":
            yield from self._met(payload, at, is_first=found.line == 1)
            return
        turn, started_ms = _turn_of(kind, payload)
        if self._threads.inherits(turn, started_ms, self._times.known_us):
            name = f"forked.{word(kind)}"
            yield _wire(self._threads.known[self._threads.owner or ""], data(name, dict(payload), digest(payload))) | at
            return
        thread = self._whose(kind, turn, started_ms)
        if thread.id != self._threads.owner:
            at |= {"at_basis": "file"}
        try:
            is_head = kind == "compacted" and self._threads.is_head(thread)
            for item in self._said(thread, kind, payload, found.line):
                event = item if isinstance(item, Problem) else item | at
                if is_head and not isinstance(event, Problem):
                    self.add_head(event)
                yield event
        except InvalidEventError as error:
            raise below("$.payload", error) from None

    def _met(self, payload: Mapping[str, Any], at: dict[str, Any], *, is_first: bool) -> Iterator[Wire]:
        """Yield the start of a session, and its link to the parent of a subagent."""
        try:
            read: _Meta = shaped(payload, _Meta)
        except InvalidEventError as error:
            raise below("$.payload", error) from None
        session_of(NAMESPACE, read.id, "$.payload.id")
        began_us = None
        with suppress(InvalidEventError):
            began_us, _ = moment_us(read.timestamp or "", "$.payload.timestamp")
            at = {"at": times.text_of(began_us)}
        created_ms = None if began_us is None else began_us // 1_000
        thread = self._threads.meet(read.id, created_ms, self._times.known_us, is_first=is_first)
        known = without({name: payload.get(name) for name in _TOLD})
        self._threads.inherits_us = None
        if read.forked_from_id:
            if thread.id == self._threads.owner:
                self._threads.inherits_us = self._times.known_us
            known["forked_from"] = f"{NAMESPACE}:{read.forked_from_id}"
        thread.facts = {"harness": "codex", **without({"cwd": read.cwd}), **extra(known)}
        yield self._started(thread, thread.facts) | at
        named = self._threads.named
        if named is not None and thread.id == self._threads.owner != named:
            part = Part("session.started", ("file", named), {"harness": "codex", **extra({"file_id": named})})
            yield _wire(thread, part, scope="") | at
        if (parent := _parent_of(read.source)) is not None and parent != read.id:
            yield _linked(parent, read.id) | at
        yield _wire(thread, data("session_meta", dict(payload), digest(payload)), scope="") | at

    def _started(self, thread: Thread, facts: dict[str, Any]) -> Wire:
        return _wire(thread, Part("session.started", ("session.started", digest(facts)), facts), scope="")

    def _whose(self, kind: object, turn: str | None, started_ms: int | None) -> Thread:
        """Return the thread of a line, after beginning the line's turn, if it begins one."""
        thread = self._threads.of(turn, started_ms, self._times.known_us)
        if thread is None:
            raise InvalidEventError("Expected a `session_meta` before any other line: its session is unknown")
        if turn is not None and not (kind == "turn_context" and turn == thread.scope and thread.turn is None):
            thread.begin(turn)
        return thread

    def _said(self, thread: Thread, kind: object, payload: Mapping[str, Any], line: int) -> Iterator[Wire | Problem]:
        match kind:
            case "response_item":
                yield from self._told(thread, parts_of_item(payload), is_item=True)
            case "inter_agent_communication":
                yield from self._told(thread, iter([between_agents(payload)]), is_item=False)
            case "event_msg" if payload.get("type") == ROLLED_BACK:
                yield from self._rolled_back(thread, payload, line)
            case "event_msg":
                yield from self._messaged(thread, payload)
            case "compacted":
                yield self._compacted(thread, payload)
            case "turn_context":
                yield from self._in_context(thread, payload)
            case _:
                yield _wire(thread, data(word(kind), dict(payload), digest(payload)))

    def _told(self, thread: Thread, parts: Iterator[Part], *, is_item: bool) -> Iterator[Wire]:
        """Yield parts as events; a part that was recorded in the other form is repeated only if it adds to it."""
        for part in parts:
            if part.twin is None:
                count, is_new = 0, True
            else:
                count, is_new = thread.tell(part, is_item=is_item)
            part = part if is_new else again(part)  # noqa: PLW2901 - the same part in the form of its twin
            if is_new or (is_item and "extra" in part.fields):
                if part.twin is not None and "call" in part.fields:  # a call without an id of its own
                    part.fields["call"] += f":{count}"
                wire = _wire(thread, part, *(() if part.twin is None else (part.twin, count)))
                if is_new and part.type in ITEMS:
                    thread.running.has_worked = thread.running.has_worked or _is_of_model(part)
                    thread.add((event_id(Codex.NAME, wire["key"]), 0), part)
                yield wire

    def _messaged(self, thread: Thread, payload: Mapping[str, Any]) -> Iterator[Wire]:
        ends = payload.get("type") in ENDS
        if ends and (part := last_said(payload)) is not None and not thread.was_recorded(part):
            yield from self._told(thread, iter([part]), is_item=False)
        yield from self._told(thread, parts_of_event(payload, thread.turn, thread.running), is_item=False)
        if ends:
            thread.turn = None
        if (agents := spawned(payload)) is not None:
            yield _linked(*agents)

    def _in_context(self, thread: Thread, payload: Mapping[str, Any]) -> Iterator[Wire]:
        """Yield the context of a turn, and the session's model if it was unknown."""
        model = payload.get("model")
        if thread.facts is not None and isinstance(model, str) and model:
            facts, thread.facts = thread.facts | {"model": model}, None
            yield self._started(thread, facts)
        yield _wire(thread, data("turn_context", dict(payload), digest(payload)))

    def _rolled_back(self, thread: Thread, payload: Mapping[str, Any], line: int) -> Iterator[Wire | Problem]:
        count, asked = rolled_back(payload), len(thread.turns)
        is_copy = thread.id != self._threads.owner
        if count > asked and not is_copy:
            what = f"{count} turns were rolled back, but this session has only {asked} of its own; others are unchanged"
            yield Problem(line, what, lost=False)
        part = Part("history.popped", (ROLLED_BACK, count), {}, twin=digest([ROLLED_BACK, count]))
        nth, _ = thread.tell(part, is_item=True)
        popped = None if is_copy and count > asked else thread.pop(count)
        if popped is None:
            yield _wire(thread, data(ROLLED_BACK, dict(payload), nth))
            return
        for undone in popped.compacted:
            yield _wire(thread, withdrawn(undone), scope="")
        fields = {"items": [{"first": list(popped.first), "last": list(popped.last)}]}
        behind = ("behind a compaction",) if popped.compacted else ()
        yield _wire(thread, part._replace(fields=fields), *behind, nth)

    def _compacted(self, thread: Thread, payload: Mapping[str, Any]) -> Wire:
        read: _Compacted = shaped(payload, _Compacted)
        if thread.last is None and thread.id != self._threads.owner:
            return _wire(thread, data("compacted", dict(payload), digest(payload)))
        items = read.replacement_history
        if items is None:
            items = [{"type": "message", "role": "user", "content": read.message}] if read.message else []
        covers = [] if thread.last is None else [{"first": None, "last": list(thread.last)}]
        mark = digest(payload)
        more = extra(without(payload, "replacement_history"))
        part = Part("history.compacted", ("compacted", mark), {"covers": covers, "items": items, **more}, twin=mark)
        nth, _ = thread.tell(part, is_item=True)
        wire = _wire(thread, part, nth)
        thread.compact(event_id(Codex.NAME, wire["key"]), len(items))
        return wire


def _turn_of(kind: object, payload: Mapping[str, Any]) -> tuple[str | None, int | None]:
    """Return the turn that a line begins, and the turn's start; None for those that it does not have.

    Raises:
        InvalidEventError: It does not have the form of such a line.
    """
    if kind == "turn_context" or (kind == "event_msg" and payload.get("type") in BEGINS):
        read: _Turn = shaped(payload, _Turn)
        return read.turn_id, _ms(read.started_at)
    return None, None


def _wire(thread: Thread, part: Part, *more: str | int, scope: str | None = None) -> Wire:
    within = thread.scope if scope is None else scope
    wire: Wire = {
        "type": part.type,
        "producer": Codex.NAME,
        "key": key_of(thread.id, within, *part.key, *more),
        "session": f"{NAMESPACE}:{thread.id}",
    }
    if thread.turn is not None and scope is None:
        wire["turn"] = thread.turn
    return wire | part.fields


def _linked(parent: str, child: str) -> Wire:
    """Return the link of a subagent's thread to its parent; the files of both give it the same id."""
    return {
        "type": "session.linked",
        "producer": Codex.NAME,
        "key": key_of(parent, "session.linked", child),
        "session": session_of(NAMESPACE, parent, "$"),
        "other": session_of(NAMESPACE, child, "$"),
        "as": "subagent",
        "evidence": "native-id",
    }


def _parent_of(source: object) -> str | None:
    match source:
        case {"subagent": {"thread_spawn": {"parent_thread_id": str() as parent}}} if parent:
            return parent
        case _:
            return None


def _is_of_model(part: Part) -> bool:
    return part.type != "tool_result.snapshotted" and part.fields.get("role", "assistant") == "assistant"


def _ms(started_at: object) -> int | None:
    """Return a turn's start as milliseconds since 1970; it is written as seconds."""
    if isinstance(started_at, bool) or not isinstance(started_at, int | float):
        return None
    return round(started_at * 1_000) if 0 < started_at < 10**11 else None
