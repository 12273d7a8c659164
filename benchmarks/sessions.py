"""Transcripts as Claude Code writes them: from a seed, one file a session, lines of 0.5 to 12 KB.

A turn is a prompt, and two to nine rounds of a thought, a text, a tool call and its result, each a line
of its own. A result's output stands in the line twice, as the tool writes it: for the model and for
the program. The text is words, quotes, paths and newlines, with some letters that take two bytes.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

FILE_BYTES = 4_000_000
"""How long a session's file is; bytes."""

_START = datetime(2026, 8, 1, 10, tzinfo=UTC)
_TEXT = (
    "the path is relative; def open(path: str) -> File: return self._files[path] if path in self._files else None "
    'raise ValueError(f"no such file: {path!r}") # the größe of a naïve reader ... assert found == expected, "why" '
    "tests/importers/test_files.py::test_a_line_is_read PASSED src/rightful/content.py:112: error: Expected str "
    "+ 1,024 rows - 17 rows | 0x7ffe | https://example.org/a?b=c&d=e | $HOME/.cache/tool | 'quoted' | \\back\\slash"
)
_WORDS = _TEXT.split(" ")
_TOOLS = ("Bash", "Read", "Edit", "Grep", "Write")


def write(folder: Path, megabytes: float, seed: int = 1) -> int:
    """Write sessions' files into a folder; return how many bytes they are, that many megabytes or a little more."""
    rng = random.Random(seed)
    left, written = megabytes * 1e6, 0
    folder.mkdir(parents=True)
    while left > written:
        session = str(uuid.UUID(int=rng.getrandbits(128), version=4))
        size = 0
        with (folder / f"{session}.jsonl").open("wb") as file:
            for line in _Session(rng, session).lines():
                size += file.write(msgspec.json.encode(line) + b"\n")
                if size >= min(FILE_BYTES, left - written):
                    break
        written += size
    return written


class _Session:
    """One session, without end."""

    def __init__(self, rng: random.Random, session: str) -> None:
        self._rng = rng
        self._session = session
        self._parent: str | None = None
        self._at = _START

    def lines(self) -> Iterator[dict[str, Any]]:
        rng = self._rng
        while True:
            yield self._line("user", {"role": "user", "content": self._text(300)})
            for _ in range(rng.randrange(2, 10)):
                yield from self._round()

    def _round(self) -> Iterator[dict[str, Any]]:
        rng = self._rng
        message, call = f"msg_{rng.getrandbits(64):x}", f"toolu_{rng.getrandbits(64):x}"
        thought = {"type": "thinking", "thinking": self._text(1_500), "signature": f"{rng.getrandbits(2_400):x}"}
        tool = rng.choice(_TOOLS)
        given: dict[str, Any] = {"command": self._text(200), "description": self._text(60)}
        if tool in {"Edit", "Write"}:
            given = {"file_path": "/w/src/io.py", "old_string": self._text(700), "new_string": self._text(1_200)}
        yield self._line("assistant", self._answer(message, thought))
        if rng.random() < 0.5:
            yield self._line("assistant", self._answer(message, {"type": "text", "text": self._text(500)}))
        used = {"type": "tool_use", "id": call, "name": tool, "input": given}
        yield self._line("assistant", self._answer(message, used))
        output = self._text(int(rng.expovariate(1 / 5_000)) + 40)
        result = {"tool_use_id": call, "type": "tool_result", "content": output, "is_error": False}
        kept = {"stdout": output, "stderr": "", "interrupted": False, "isImage": False}
        yield self._line("user", {"role": "user", "content": [result]}) | {"toolUseResult": kept}

    def _answer(self, message: str, block: dict[str, Any]) -> dict[str, Any]:
        usage = {"input_tokens": 4, "cache_creation_input_tokens": 1_200, "cache_read_input_tokens": 90_000}
        return {
            "id": message,
            "type": "message",
            "role": "assistant",
            "model": "claude-opus-x",
            "content": [block],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage | {"output_tokens": self._rng.randrange(1, 900), "service_tier": "standard"},
        }

    def _line(self, kind: str, message: dict[str, Any]) -> dict[str, Any]:
        self._at += timedelta(milliseconds=self._rng.randrange(20, 9_000))
        line = {
            "parentUuid": self._parent,
            "isSidechain": False,
            "userType": "external",
            "cwd": "/home/dev/my.proj",
            "sessionId": self._session,
            "version": "2.1.30",
            "gitBranch": "main",
            "type": kind,
            "message": message,
            "uuid": str(uuid.UUID(int=self._rng.getrandbits(128), version=4)),
            "timestamp": f"{self._at:%Y-%m-%dT%H:%M:%S}.{self._at.microsecond // 1_000:03}Z",
        }
        self._parent = str(line["uuid"])
        return line

    def _text(self, size: int) -> str:
        words = self._rng.choices(_WORDS, k=max(size // 8, 1))
        return "".join(f"{word}\n" if place % 9 == 8 else f"{word} " for place, word in enumerate(words))
