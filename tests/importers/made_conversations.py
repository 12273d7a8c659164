"""Conversations that are made up line by line, each with what the model sees at its end.

What is seen is kept as a plain list next to the lines, by the rules of `tests/outside/*/expect.md`. It shares no code
with the importers and the folds. Ids, depth, order and missing parents come from the given `Random`.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any, NamedTuple

Row = dict[str, Any]
Line = Row | bytes
CALL, OUTPUT = "function_call", "function_call_output"


class Made(NamedTuple):
    """A conversation.

    Attributes:
        kind: The kind of its file.
        name: The file's path.
        session: Its session.
        steps: What the file holds at each import.
        history: What the model sees at the end.
        undone: The messages that were taken back; None where nothing is said of that.
        messages: The messages of the user and the model; None where nothing is said of them.
    """

    kind: str
    name: str
    session: str
    steps: list[bytes]
    history: list[str]
    undone: list[str] | None = None
    messages: list[str] | None = None


def text_of(lines: list[Line]) -> bytes:
    return b"".join((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in lines)


def new_id(random: Random) -> str:
    return str(uuid.UUID(int=random.getrandbits(128), version=4))


def stamp(n: int) -> str:
    return f"2026-08-01T{10 + n // 3600:02d}:{n // 60 % 60:02d}:{n % 60:02d}.000Z"


class ClaudeCode:
    """A file of Claude Code."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.session = new_id(random)
        self.lines: list[Line] = []
        self.seen: list[tuple[str, str]] = []  # what is said, and the line that says it
        self.said: list[str] = []
        self.undone: list[str] = []
        self.prompts: list[tuple[str, int]] = []  # the line that each follows, and its place in what is seen
        self.leaf: str | None = None
        self.behind_copy: str | None = None
        self.from_step = 0
        self.n = 0

    def put(self, kind: str, parent: str | None, ident: str | None = None, **fields: Any) -> str:
        self.n += 1
        ident = ident or new_id(self.random)
        row = {"parentUuid": parent, "isSidechain": False, "sessionId": self.session, "type": kind, "uuid": ident}
        self.lines.append(row | {"timestamp": stamp(self.n), "cwd": "/w", "version": "2.1.230"} | fields)
        return ident

    def hook(self) -> None:
        self.leaf = self.put("system", self.leaf, subtype="stop_hook_summary", hookCount=1)

    def prompt(self, parent: str | None, text: str | None = None) -> None:
        text = text or f"ask {self.n}"
        self.behind_copy = None
        if parent is not None:
            self.prompts.append((parent, len(self.seen)))
        self.leaf = self.put("user", parent, message={"role": "user", "content": text})
        self.seen.append((text, self.leaf))
        self.said.append(text)

    def answer(self, *, stop: str = "end_turn") -> None:
        texts = [f"answer {self.n}.{at}" for at in range(self.random.choice([1, 1, 2]))]
        blocks = [{"type": "text", "text": text} for text in texts]
        self._model(blocks, stop)
        self.seen += [(text, str(self.leaf)) for text in texts]
        self.said += texts

    def _model(self, blocks: list[Row], stop: str) -> None:
        message = {"id": f"msg_{self.n}", "role": "assistant", "model": "m", "content": blocks, "stop_reason": stop}
        self.leaf = self.put("assistant", self.leaf, message=message)

    def call(self) -> None:
        name = f"toolu_{self.n}"
        self._model([{"type": "tool_use", "id": name, "name": "Bash", "input": {}}], "tool_use")
        self.seen.append((CALL, str(self.leaf)))
        result = {"type": "tool_result", "tool_use_id": name, "content": f"ran {self.n}"}
        self.leaf = self.put("user", self.leaf, message={"role": "user", "content": [result]})
        self.seen.append((OUTPUT, self.leaf))

    def turn(self, parent: str | None = None) -> None:
        self.prompt(parent or self.leaf)
        self.work()

    def work(self) -> None:
        if self.random.random() < 0.3:
            self.call()
        if self.random.random() < 0.2:
            self.hook()
        self.answer()

    def back(self) -> None:
        """The user goes back to a prompt and asks something else."""
        if not self.prompts:
            return
        at = self.random.randrange(len(self.prompts))
        parent, place = self.prompts[at]
        self.undone += [text for text, _ in self.seen[place:] if text not in (CALL, OUTPUT)]
        del self.prompts[at:], self.seen[place:]
        self.turn(parent)

    def phantom(self) -> None:
        """Prompts that follow a line that was never written, or is torn."""
        absent = new_id(self.random)
        if self.random.random() < 0.4:
            torn = json.dumps({"parentUuid": self.leaf, "uuid": absent, "type": "system", "sessionId": self.session})
            self.lines.append(torn[: self.random.randrange(20, len(torn) - 1)].encode())
        for _ in range(self.random.randint(2, 3)):
            prompts = list(self.prompts)
            self.turn(absent)
            self.prompts = prompts
            if self.random.random() < 0.3:
                self.turn()

    def copy(self) -> None:
        """Earlier lines are written again."""
        rows = [row for row in self.lines[self.from_step :] if isinstance(row, dict) and "uuid" in row]
        if not rows:
            return
        first = self.random.randrange(len(rows))
        self.lines += rows[first : self.random.randint(first + 1, len(rows))]
        if self.random.random() < 0.4:
            last = self.lines[-1]
            assert isinstance(last, dict)
            self.behind_copy = self.put("system", last["uuid"], subtype="stop_hook_summary", hookCount=1)

    def compact(self, *, keeps: bool = False) -> None:
        if not self.seen:
            return
        boundary, summary = new_id(self.random), new_id(self.random)
        facts: Row = {"trigger": self.random.choice(["auto", "manual"]), "preTokens": self.n}
        kept, is_behind = self._kept() if keeps else ([], True)
        if kept:
            facts |= self._keeping([line for _, line in kept], summary if is_behind else boundary)
        logical: Row = self.random.choice([{"logicalParentUuid": self.leaf}, {"logicalParentUuid": None}, {}])
        if self.random.random() < 0.4:
            logical = {"logicalParentUuid": self.behind_copy or new_id(self.random)}
        self.put("system", None, boundary, subtype="compact_boundary", compactMetadata=facts, **logical)
        text = f"SUMMARY {self.n}"
        message = {"role": "user", "content": text}
        self.put("user", boundary, summary, message=message, isCompactSummary=True, isVisibleInTranscriptOnly=True)
        own = [(text, summary)]
        self.seen, self.prompts, self.leaf = ([*own, *kept] if is_behind else [*kept, *own]), [], summary

    def _kept(self) -> tuple[list[tuple[str, str]], bool]:
        starts = [at for at, (text, _) in enumerate(self.seen) if text.startswith("ask") and at]
        if not starts:
            return [], True
        at, is_behind = self.random.choice(starts), self.random.random() < 0.7
        return (self.seen[at:] if is_behind else self.seen[:at]), is_behind

    def _keeping(self, lines: list[str], anchor: str) -> Row:
        named = list(dict.fromkeys(lines))
        messages = {"preservedMessages": {"anchorUuid": anchor, "uuids": named}}
        segment = {"preservedSegment": {"headUuid": named[0], "anchorUuid": anchor, "tailUuid": named[-1]}}
        return self.random.choice([messages, segment, messages | segment])

    def queued(self) -> None:
        """A prompt is typed while the model works; its words may come again as a line of the user."""
        self.prompt(self.leaf)
        self.call()
        words = self.random.choice([f"also {self.n}", "go on"])
        source = new_id(self.random) if self.random.random() < 0.5 else None
        self._queue("enqueue", content=words)
        self._queue("remove")
        prompt: Any = self.random.choice([words, [{"type": "text", "text": words}]])
        self._attach(prompt, self.random.choice([{"commandMode": "prompt"}, {}]), source)
        self.seen.append((words, str(self.leaf)))
        self.said.append(words)
        how = self.random.choice(["once", "once", "in turn", "named", "from the queue", "typed"])
        if how == "in turn":
            self._again(words)
        if self.random.random() < 0.3:
            self._attach("<task-notification>\nx\n</task-notification>", {"commandMode": "task-notification"}, None)
        self.answer()
        if how == "named" and source is not None:
            self._again(words, source)
            self.answer()
        elif how == "from the queue":
            self._queue("dequeue")
            self._again(words)
            self.answer()
        elif how == "typed":
            self.prompt(self.leaf, words)
            self.work()

    def _again(self, words: str, ident: str | None = None) -> None:
        self.leaf = self.put("user", self.leaf, ident, message={"role": "user", "content": words})

    def _queue(self, operation: str, **fields: Any) -> None:
        self.n += 1
        row = {"type": "queue-operation", "operation": operation, "timestamp": stamp(self.n), "sessionId": self.session}
        self.lines.append(row | fields)

    def _attach(self, prompt: Any, more: Row, source: str | None) -> None:
        held = {"type": "queued_command", "prompt": prompt} | more | ({} if source is None else {"source_uuid": source})
        self.leaf = self.put("attachment", self.leaf, attachment=held)

    def made(self, *steps: bytes) -> Made:
        name, session = f"projects/-w/{self.session}.jsonl", f"claude-code:{self.session}"
        history = [text for text, _ in self.seen]
        return Made("claude-code", name, session, [*steps, text_of(self.lines)], history, self.undone, self.said)


def log_of(data: bytes, *, has_prompts: bool) -> bytes:
    """The stream log of the run that wrote these lines of a transcript."""
    first: dict[str, Row] = {}
    for line in data.splitlines():
        with suppress(ValueError):
            row = json.loads(line)
            first.setdefault(row.get("uuid", ""), row)
    session = next(row["sessionId"] for row in first.values())
    lines: list[Line] = [{"type": "system", "subtype": "init", "cwd": "/w", "session_id": session, "model": "m"}]
    for row in first.values():
        more: Row = {}
        match row:
            case {"type": "assistant"}:
                more = {"message": row["message"]}
            case {"type": "user", "message": {"content": content}} if has_prompts or isinstance(content, list):
                more = {"message": row["message"], "parent_tool_use_id": None}
            case {"subtype": "compact_boundary", "compactMetadata": facts}:
                more = {"subtype": "compact_boundary", "compact_metadata": facts}
            case _:
                continue
        lines.append({"type": row["type"], "uuid": row["uuid"], "session_id": session} | more)
    return text_of(lines)


def claude(*operations: str) -> Callable[[Random], Made]:
    """Return what makes files of Claude Code of some operations, and of turns, compactions and rewinds."""

    def make(random: Random) -> Made:
        file = ClaudeCode(random)
        file.turn()
        for _ in range(random.randint(2, 12)):
            match random.choices([*operations, "turn", "compact", "back"], [3] * len(operations) + [3, 1, 1])[0]:
                case "keep":
                    file.compact(keeps=True)
                case operation:
                    getattr(file, operation)()
        return file.made()

    return make


def claude_rewritten(random: Random) -> Made:
    """The file is written again from a boundary on, with or without an import in between."""
    file = ClaudeCode(random)
    file.turn()
    for _ in range(random.randint(0, 5)):
        getattr(file, random.choice(["turn", "turn", "back", "copy", "compact"]))()
    before, at = text_of(file.lines), len(file.lines)
    file.compact()
    if random.random() < 0.4:
        file.turn()
        before = text_of(file.lines)
    del file.lines[:at]
    file.from_step = 0
    for _ in range(random.randint(0, 5)):
        getattr(file, random.choice(["turn", "turn", "back", "copy", "compact", "phantom"]))()
    return file.made(before)._replace(undone=None)


class Codex:
    """A rollout of Codex."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.thread = new_id(random)
        self.n = 0
        self.lines: list[Line] = []
        self.seen: list[str] = []
        self.turns: list[list[str]] = []  # what was seen before each turn that a person began
        self.has_ids = random.random() < 0.8
        self.line("session_meta", {"id": self.thread, "timestamp": stamp(0), "cwd": "/w", "originator": "codex_cli"})

    def line(self, kind: str, payload: Row) -> None:
        self.n += 1
        self.lines.append({"timestamp": stamp(self.n), "type": kind, "payload": payload})

    def event(self, kind: str, **fields: Any) -> None:
        self.line("event_msg", {"type": kind} | fields)

    def message(self, role: str, text: str) -> None:
        part = {"type": "output_text" if role == "assistant" else "input_text", "text": text}
        self.line("response_item", {"type": "message", "role": role, "content": [part]})
        self.seen.append(text)

    def turn(self) -> None:
        turn, before = new_id(self.random), list(self.seen)
        if self.has_ids:
            self.event("task_started", turn_id=turn)
        if self.has_ids and self.seen and self.random.random() < 0.15:
            self.compact()
        if self.random.random() < 0.3:
            self.message("user", f"<environment_context>{self.n}</environment_context>")
            before = before if self.turns else [*before, self.seen[-1]]  # what precedes the first prompt stays
        self.turns.append(before)
        text = f"ask {self.n}"
        is_first = self.random.random() < 0.5
        if is_first:
            self.event("user_message", message=text)
        self.message("user", text)
        if not is_first:
            self.event("user_message", message=text)
        if self.random.random() < 0.2:
            self.compact()
        if self.random.random() < 0.3:
            self.line("response_item", {"type": CALL, "name": "x", "arguments": "{}", "call_id": f"c{self.n}"})
            self.line("response_item", {"type": OUTPUT, "call_id": f"c{self.n - 1}", "output": "ran"})
            self.seen += [CALL, OUTPUT]
        self.message("assistant", f"answer {self.n}")
        if self.has_ids:
            self.event("task_complete", turn_id=turn)

    def compact(self) -> None:
        replacement = [f"kept {self.n}.{at}" for at in range(self.random.randint(0, 3))]
        items: list[Row] = [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
            for text in replacement
        ]
        match self.random.choice(["messages", "encrypted", "summary"]):
            case "messages" if items:
                self.line("compacted", {"message": "", "replacement_history": items})
                self.seen = replacement
            case "summary":
                self.line("compacted", {"message": f"SUMMARY {self.n}"})
                self.seen = [f"SUMMARY {self.n - 1}"]
            case _:
                items.append({"type": "compaction", "encrypted_content": str(self.n)})
                self.line("compacted", {"message": "", "replacement_history": items})
                self.seen = [*replacement, "compaction"]

    def back(self) -> None:
        if not self.turns:
            return
        count = self.random.randint(1, len(self.turns) + (self.random.random() < 0.1))
        self.event("thread_rolled_back", num_turns=count)
        self.seen = list(self.turns[-count] if count <= len(self.turns) else self.turns[0])
        del self.turns[-count:]

    def made(self, *steps: bytes) -> Made:
        name = f"codex/sessions/2026/08/01/rollout-2026-08-01T10-00-00-{self.thread}.jsonl"
        return Made("codex", name, f"codex:{self.thread}", [*steps, text_of(self.lines)], self.seen)


def codex(random: Random) -> Made:
    file = Codex(random)
    for _ in range(random.randint(2, 12)):
        operation = random.choice(["turn", "turn", "compact", "back"])
        if operation != "compact" or file.seen:
            getattr(file, operation)()
    return file.made()


def codex_rewritten(random: Random) -> Made:
    """A compaction writes the rollout again, from itself on; versions that do so give their turns ids."""
    file = Codex(random)
    file.has_ids = True
    for _ in range(random.randint(1, 5)):
        getattr(file, random.choice(["turn", "turn", "back"]))()
    if not file.seen:
        file.turn()
    before, at = text_of(file.lines), len(file.lines)
    file.compact()
    file.turns = []
    if random.random() < 0.4:
        file.turn()
        before = text_of(file.lines)
    del file.lines[1:at]
    for _ in range(random.randint(0, 5)):
        getattr(file, random.choice(["turn", "turn", "back"]))()
    return file.made(before)


class Copilot:
    """The records of a session of Copilot CLI."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.session = new_id(random)
        self.lines: list[Line] = []
        self.seen: list[str] = []
        self.asked: dict[str, list[str]] = {}  # the record in which a person asked, and what was seen before it
        self.n = 0
        self.record("session.start", sessionId=self.session, version=1, producer="copilot-agent")

    def record(self, kind: str, **fields: Any) -> str:
        self.n += 1
        ident = new_id(self.random)
        self.lines.append({"type": kind, "data": fields, "id": ident, "timestamp": stamp(self.n), "parentId": None})
        return ident

    def turn(self) -> None:
        text = f"ask {self.n}"
        before = list(self.seen)
        self.asked[self.record("user.message", content=text)] = before
        self.record("assistant.message", messageId=new_id(self.random), content=f"answer {self.n}")
        self.seen += [text, f"answer {self.n - 1}"]

    def compact(self) -> None:
        if not self.seen:
            return
        self.record("session.compaction_start")
        count, later = len(self.seen), dict(self.asked)
        if self.random.random() < 0.3:
            self.turn()
        text = f"SUMMARY {self.n}"
        self.record("session.compaction_complete", success=True, summaryContent=text)
        for name in self.asked.keys() - later.keys():
            self.asked[name] = [text, *self.asked[name][count:]]
        self.seen = [text, *self.seen[count:]]

    def back(self) -> None:
        if not self.asked:
            return
        to = self.random.choice(list(self.asked))
        self.record("session.snapshot_rewind", upToEventId=to, eventsRemoved=1)
        names = list(self.asked)
        self.seen = list(self.asked[to])
        self.asked = {name: self.asked[name] for name in names[: names.index(to)]}

    def made(self, *steps: bytes) -> Made:
        name = f"session-state/{self.session}/events.jsonl"
        return Made("copilot", name, f"copilot:{self.session}", [*steps, text_of(self.lines)], self.seen)


def copilot(random: Random) -> Made:
    file = Copilot(random)
    for _ in range(random.randint(2, 14)):
        getattr(file, random.choice(["turn", "turn", "compact", "back"]))()
    return file.made()


def copilot_rewritten(random: Random) -> Made:
    """The records are written again from a compaction on."""
    file = Copilot(random)
    for _ in range(random.randint(1, 4)):
        file.turn()
    before, at = text_of(file.lines), len(file.lines)
    text = f"SUMMARY {file.n}"
    file.record("session.compaction_complete", success=True, summaryContent=text)
    file.seen, file.asked = [text], {}
    if random.random() < 0.4:
        file.turn()
        before = text_of(file.lines)
    del file.lines[1:at]
    for _ in range(random.randint(0, 5)):
        getattr(file, random.choice(["turn", "turn", "back"]))()
    return file.made(before)


ROWS = {
    "B4": claude("phantom"),
    "B5": claude("queued"),
    "B6-codex": codex,
    "B6-copilot": copilot,
    "B7": claude("copy", "copy"),
    "B8": claude("keep"),
    "B9-claude": claude_rewritten,
    "B9-codex": codex_rewritten,
    "B9-copilot": copilot_rewritten,
    "all": claude("phantom", "queued", "copy", "keep"),
}
"""What makes the conversations of each row of the list of faults."""
