"""A real tool's files, imported beside what its hook recorded, tell one conversation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.transcripts.folding import conversation

import rightful
from rightful.cli import main
from rightful.integrations.claude_code.hook_events import events_of

SAMPLES = Path(__file__).parents[1] / "samples"
VALUE = "7fbe4341-0d57-4016-8374-1ed5e8da4b1b"
NAME = f"claude-code:{VALUE}"

READ = {"file_path": "/home/dev/my.proj/src/io.py"}
RIGHT = [
    ("user", "Fix the path bug"),
    ("thought", "Look first."),
    ("assistant", "Reading the file."),
    ("call", "toolu_01A", "Read", READ, "1\topen(path)", False),
    ("call", "toolu_01B", "Bash", "pytest -q", "1 failed", True),
    ("call", "toolu_01C", "Task", None, "caller is main.py", False),
    ("history_compacted", None),
    ("assistant", "Fixed."),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rightful.open(tmp_path / "ledger", create=True).close()
    return tmp_path / "ledger"


def told(folder: Path) -> list[Any]:
    """The conversation, without what is hidden and beside it, and only the last line of the first prompt."""
    with rightful.open(folder) as ledger:
        document = ledger.transcript(NAME).as_dict()
    kept = [one for one in document["entries"] if one["kind"] not in {"data", "usage"} and not one.get("hidden")]
    return [_short(one) for one in conversation({"entries": kept})]


def _short(one: tuple[Any, ...]) -> tuple[Any, ...]:
    if one[0] == "user":
        return one[0], one[1].splitlines()[-1]
    if one[0] != "call":
        return one
    given = one[3].get("command") if one[2] != "Read" else one[3]
    output = one[4] if isinstance(one[4], str) else one[4][0]["text"]
    return (*one[:3], given, output, one[5])


def imported(folder: Path) -> None:
    words = ["--ledger", str(folder), "import", "claude-code", str(SAMPLES / "claude")]
    assert main(words) == 0


def hooked(folder: Path) -> None:
    """What a hook of Claude Code is told of the first call, as it runs."""
    call = {"session_id": VALUE, "tool_name": "Read", "tool_use_id": "toolu_01A", "tool_input": READ, "cwd": "/tmp"}
    before = call | {"hook_event_name": "PreToolUse"}
    after = call | {"hook_event_name": "PostToolUse", "tool_response": {"file": {"content": "open(path)"}}}
    with rightful.open(folder) as ledger:
        for value in (before, after):
            receipts = ledger.append(events_of(value, 1_785_579_304_000_000, "nonce"))
            assert [one.outcome for one in receipts] == ["appended"]


def test_the_files_of_claude_code_give_the_conversation(folder: Path) -> None:
    imported(folder)

    assert told(folder) == RIGHT


@pytest.mark.parametrize("first", [hooked, imported])
def test_what_the_hook_recorded_changes_no_word_of_it(folder: Path, first: Any) -> None:
    first(folder)
    (imported if first is hooked else hooked)(folder)

    assert told(folder) == RIGHT
