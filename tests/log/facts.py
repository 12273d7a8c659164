"""Wire objects, as short as a test needs them."""

from __future__ import annotations

from typing import Any

AT = "2026-08-01T10:15:00Z"


def fact(kind: str, key: str = "k", **fields: Any) -> dict[str, Any]:
    return {"type": kind, "producer": "hook", "key": key, "session": "t:a", "at": AT} | fields


def exposure(key: str = "k", **fields: Any) -> dict[str, Any]:
    return fact("exposure.recorded", key, **({"arms": [{"arm": "lessons/git.md"}]} | fields))


def grade(key: str = "k", **fields: Any) -> dict[str, Any]:
    return fact("grade.recorded", key, **({"reward": 0.8, "seq": 1} | fields))


def call(arguments: Any = None, **fields: Any) -> dict[str, Any]:
    return fact(
        "tool_call.snapshotted", **({"call": "c1", "name": "bash", "arguments": arguments, "turn": "1"} | fields)
    )


def result(output: Any = None, **fields: Any) -> dict[str, Any]:
    return fact("tool_result.snapshotted", **({"call": "c1", "output": output, "turn": "1"} | fields))


def message(content: Any = None, **fields: Any) -> dict[str, Any]:
    return fact("message.recorded", **({"role": "assistant", "content": content, "turn": "1"} | fields))
