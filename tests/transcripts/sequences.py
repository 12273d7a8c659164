"""Every way in which a store of session records says a fact twice: the sequences, and what was really said.

The numbers are those of section 2 of the notes on session records that this project rests on. A sequence is a
list of records in that store's own words; `bodies` gives them as its ingest endpoint takes them, `wires` as
events of ours.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import NAMESPACE_DNS, UUID, uuid5

SESSION = "s1"
NAME = f"agenta:{SESSION}"
T1, T2 = "turn-1", "turn-2"
NAMED = frozenset({"tool_call", "tool_result", "interaction_request", "interaction_response"})
"""The record types that have a stable id; of any other type a retry has none."""

_NAMESPACE = uuid5(uuid5(NAMESPACE_DNS, "agenta"), "records")

Told = tuple[Any, ...]


class Record(NamedTuple):
    """One record as the runner sends it: its record_index, who says it, and the event itself."""

    place: int
    type: str
    turn: str
    source: str
    attributes: dict[str, Any]
    second: float

    @property
    def id(self) -> UUID | None:
        if self.type not in NAMED:
            return None
        return uuid5(_NAMESPACE, f"{SESSION}:{self.attributes['id']}:{self.type}:{self.turn}")

    @property
    def at(self) -> str:
        return f"2026-08-01T10:00:{self.second:06.3f}Z"


@dataclass(frozen=True)
class Case:
    """One sequence.

    Attributes:
        number: Which one of section 2.
        records: The records in the order in which they arrive.
        right: What was really said, in the form of `folding.conversation`.
        missing: The indexes of each turn that never arrived.
        late: The indexes of each turn that arrived after its end.
        ordered: The order of arrival within a turn decides, because two contents contradict each other.
    """

    number: str
    records: list[Record]
    right: list[Told]
    missing: dict[str, list[int]] = field(default_factory=dict)
    late: dict[str, list[int]] = field(default_factory=dict)
    ordered: bool = False


def said(index: int, text: str, turn: str = T1, *, by: str = "agent", second: float = 1.0) -> Record:
    return Record(index, "message", turn, by, {"type": "message", "text": text}, second)


def called(index: int, call: str, name: str, given: Any, turn: str = T1, *, second: float = 1.0) -> Record:
    return Record(
        index, "tool_call", turn, "agent", {"type": "tool_call", "id": call, "name": name, "input": given}, second
    )


def gave(index: int, call: str, output: str, turn: str = T1, **more: Any) -> Record:
    return Record(
        index, "tool_result", turn, "agent", {"type": "tool_result", "id": call, "output": output, **more}, 1.0
    )


def asked(index: int, gate: str, call: str, turn: str = T1) -> Record:
    payload = {"toolCallId": call, "availableReplies": ["once", "reject"]}
    a = {"type": "interaction_request", "id": gate, "kind": "user_approval", "payload": payload}
    return Record(index, "interaction_request", turn, "agent", a, 1.0)


def answered(index: int, gate: str, call: str, turn: str = T1) -> Record:
    payload = {"toolCallId": call, "approved": True}
    a = {"type": "interaction_response", "id": gate, "kind": "user_approval", "payload": payload}
    return Record(index, "interaction_response", turn, "agent", a, 1.0)


def used(index: int, turn: str = T1, **counts: float) -> Record:
    return Record(index, "usage", turn, "agent", {"type": "usage", **counts}, 1.0)


def done(index: int, turn: str = T1, stop_reason: str | None = None, *, second: float = 1.0) -> Record:
    a = {"type": "done"} | ({"stopReason": stop_reason} if stop_reason else {})
    return Record(index, "done", turn, "agent", a, second)


LS = {"command": "ls"}
DEFERRED = "DEFERRED_NOT_EXECUTED: waits for an approval"

CASES: list[Case] = [
    Case(
        "2.1",
        [
            said(0, "list", by="user"),
            called(1, "a", "bash", LS),
            called(1, "a", "bash", LS, second=1.41),
            gave(2, "a", "x\ny"),
            done(3),
        ],
        [("user", "list"), ("call", "a", "bash", LS, "x\ny", False), ("ended", T1, None)],
    ),
    Case(
        "2.2",
        [said(0, "hi", by="user"), said(1, "hello"), said(1, "hello", second=2.0), done(2), done(2, second=3.0)],
        [("user", "hi"), ("assistant", "hello"), ("ended", T1, None)],
    ),
    Case(
        "2.3",
        [called(0, "a", "bash", {"command": "find ."}), gave(1, "a", "./x"), done(2)],
        [("call", "a", "bash", {"command": "find ."}, "./x", False), ("ended", T1, None)],
    ),
    Case(
        "2.4",
        [
            called(0, "a", "bash", {}),
            called(1, "b", "read", {"path": "/y"}),
            called(2, "a", "bash", {"command": "ls -la"}),
        ],
        [
            ("call", "a", "bash", {"command": "ls -la"}, None, False),
            ("call", "b", "read", {"path": "/y"}, None, False),
        ],
    ),
    Case(
        "2.5",
        [called(0, "s", "bash", {}), called(1, "s", "bash", {"command": "rg p"}, second=4.0), gave(2, "s", "p:1")],
        [("call", "s", "bash", {"command": "rg p"}, "p:1", False)],
    ),
    Case(
        "2.6",
        [called(0, "a", "bash", {"command": "sleep 1"}), gave(1, "a", ""), gave(2, "a", "exit 0\n42 files")],
        [("call", "a", "bash", {"command": "sleep 1"}, "exit 0\n42 files", False)],
    ),
    Case(
        "2.7",
        [asked(0, "gate", "a"), answered(1, "gate", "a"), answered(2, "gate", "a")],
        [("asked", "gate"), ("answered", "gate", True)],
    ),
    Case(
        "2.8",
        [
            said(0, "delete the file", by="user"),
            called(1, "rm", "bash", {"command": "rm f"}),
            asked(2, "gate", "rm"),
            done(3, stop_reason="paused"),
            answered(0, "gate", "rm", T2),
            gave(1, "rm", "removed", T2),
            done(2, T2),
        ],
        [
            ("user", "delete the file"),
            ("call", "rm", "bash", {"command": "rm f"}, "removed", False),
            ("asked", "gate"),
            ("ended", T1, "paused"),
            ("answered", "gate", True),
            ("ended", T2, None),
        ],
    ),
    Case(
        "2.9",
        [
            said(0, "clean up", by="user"),
            called(1, "g", "bash", {"command": "rm -r tmp"}),
            asked(2, "gate-9", "g"),
            answered(3, "gate-9", "g"),
            done(4, stop_reason="paused"),
            answered(0, "gate-9", "g", T2),
            called(1, "g", "bash", {"command": "rm -r tmp"}, T2),
            gave(2, "g", "gone", T2),
            done(3, T2),
        ],
        [
            ("user", "clean up"),
            ("call", "g", "bash", {"command": "rm -r tmp"}, "gone", False),
            ("asked", "gate-9"),
            ("answered", "gate-9", True),
            ("ended", T1, "paused"),
            ("ended", T2, None),
        ],
    ),
    Case(
        "2.9 cold",
        [
            said(0, "clean up", by="user"),
            called(1, "g", "bash", {"command": "rm -r tmp"}),
            asked(2, "gate-9", "g"),
            done(3, stop_reason="paused"),
            called(0, "g-again", "bash", {"command": "rm -r tmp"}, T2),
            answered(1, "gate-9", "g-again", T2),
            gave(2, "g-again", "gone", T2),
            done(3, T2),
        ],
        [
            ("user", "clean up"),
            ("call", "g", "bash", {"command": "rm -r tmp"}, "gone", False),
            ("asked", "gate-9"),
            ("ended", T1, "paused"),
            ("answered", "gate-9", True),
            ("ended", T2, None),
        ],
    ),
    Case(
        "2.9 cold, asked again",
        [
            said(0, "clean up", by="user"),
            called(1, "g", "bash", {"command": "rm -r tmp"}),
            asked(2, "gate-9", "g"),
            done(3, stop_reason="paused"),
            asked(0, "gate-9", "g-again", T2),
            answered(1, "gate-9", "g-again", T2),
            called(2, "g-again", "bash", {"command": "rm -r tmp"}, T2),
            gave(3, "g-again", "gone", T2),
            done(4, T2),
        ],
        [
            ("user", "clean up"),
            ("call", "g", "bash", {"command": "rm -r tmp"}, "gone", False),
            ("asked", "gate-9"),
            ("ended", T1, "paused"),
            ("answered", "gate-9", True),
            ("ended", T2, None),
        ],
    ),
    Case(
        "2.10",
        [
            called(0, "h", "write", {"path": "/z"}),
            gave(1, "h", DEFERRED, isError=True),
            done(2, stop_reason="paused"),
            called(0, "h", "write", {"path": "/z"}, T2),
            gave(1, "h", "Y", T2),
            done(2, T2),
        ],
        [("call", "h", "write", {"path": "/z"}, "Y", False), ("ended", T1, "paused"), ("ended", T2, None)],
    ),
    Case(
        "2.11",
        [said(0, "hi", by="user"), said(1, "bye"), done(2), done(3)],
        [("user", "hi"), ("assistant", "bye"), ("ended", T1, None)],
    ),
    Case(
        "2.12",
        [called(1, "a", "bash", LS), called(0, "a", "bash", {}), gave(2, "a", "x")],
        [("call", "a", "bash", LS, "x", False)],
    ),
    Case(
        "2.13",
        [called(0, "a", "bash", {}), called(1, "a", "bash", {"command": "pwd"}), gave(2, "a", "/")],
        [("call", "a", "bash", {"command": "pwd"}, "/", False)],
    ),
    Case(
        "2.14",
        [said(0, "go", by="user"), said(2, "done with both"), done(3)],
        [("user", "go"), ("assistant", "done with both"), ("ended", T1, None)],
        missing={T1: [1]},
    ),
    Case(
        "2.15",
        [called(0, "a", "bash", LS), done(1, stop_reason="watchdog"), said(2, "I am still here")],
        [
            ("call", "a", "bash", LS, None, False),
            ("ended", T1, "watchdog"),
            ("assistant", "I am still here", "late"),
        ],
        late={T1: [2]},
    ),
    Case(
        "2.16",
        [
            said(0, "delete the file", by="user"),
            called(1, "rm", "bash", {"command": "rm f"}),
            done(2, stop_reason="paused"),
            gave(0, "rm", "removed", T2),
            said(1, "It is gone.", T2),
            done(2, T2),
        ],
        [
            ("user", "delete the file"),
            ("call", "rm", "bash", {"command": "rm f"}, "removed", False),
            ("ended", T1, "paused"),
            ("assistant", "It is gone."),
            ("ended", T2, None),
        ],
    ),
    Case(
        "2.17",
        [said(0, "hi", by="user"), used(1, input=10, total=10), used(2, input=10, output=5, total=15), done(3)],
        [("user", "hi"), ("usage", {"input": 10, "output": 5, "total": 15}), ("ended", T1, None)],
    ),
    Case(
        "2.17 reused id",
        [
            called(0, "call_0", "bash", LS),
            gave(1, "call_0", "x"),
            called(2, "call_0", "read", {"path": "/y"}),
            gave(3, "call_0", "why"),
        ],
        [("call", "call_0", "bash", LS, "x", False, "conflicts")],
        ordered=True,
    ),
]
"""Each sequence of section 2, with what was really said."""


def bodies(records: Iterable[Record]) -> list[dict[str, Any]]:
    """Return records as the store's ingest endpoint takes them."""
    return [
        ({"record_id": str(one.id)} if one.id else {})
        | {
            "session_id": SESSION,
            "record_index": one.place,
            "timestamp": one.at,
            "record_type": one.type,
            "record_source": one.source,
            "attributes": one.attributes,
            "turn_id": one.turn,
        }
        for one in records
    ]


def wires(records: Iterable[Record], producer: str = "runner") -> list[dict[str, Any]]:
    """Return records as a runner of ours would send them; an id that is not theirs is made of turn, index and type."""
    return [_wire(one, producer) for one in records]


def _wire(one: Record, producer: str) -> dict[str, Any]:
    a = one.attributes
    key = [SESSION, one.type, one.turn, a["id"]] if one.id else [SESSION, one.type, one.turn, one.place]
    common = {"producer": producer, "key": str(key), "session": NAME, "at": one.at, "index": one.place}
    return common | {"turn": one.turn} | _fields(one.type, one.source, one.turn, a)


def _fields(kind: str, source: str, turn: str, a: Mapping[str, Any]) -> dict[str, Any]:
    match kind:
        case "message":
            role = "user" if source == "user" else "assistant"
            return {"type": "message.recorded", "role": role, "content": a["text"]}
        case "tool_call":
            return {"type": "tool_call.snapshotted", "call": a["id"], "name": a["name"], "arguments": a["input"]}
        case "tool_result":
            failed = a.get("isError", False)
            return {"type": "tool_result.snapshotted", "call": a["id"], "output": a["output"], "is_error": failed}
        case "interaction_request" | "interaction_response":
            word = "requested" if kind == "interaction_request" else "answered"
            told = {"interaction": a["id"], "kind": a["kind"], "payload": a["payload"]}
            return {"type": f"interaction.{word}"} | told
        case "usage":
            return {"type": "usage.recorded", "counts": {name: value for name, value in a.items() if name != "type"}}
        case _:
            reason = {"stop_reason": a["stopReason"]} if "stopReason" in a else {}
            return {"type": "turn.ended", "turn": turn} | reason


def shuffled(records: Sequence[Record], random_: random.Random) -> list[Record]:
    """Return records in another order of arrival within each turn; the turns keep their places."""
    turns: dict[str, list[Record]] = {}
    for one in records:
        turns.setdefault(one.turn, []).append(one)
    for of_turn in turns.values():
        random_.shuffle(of_turn)
    return [turns[one.turn].pop() for one in records]
