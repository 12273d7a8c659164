"""Words that every command uses in one way: short ids, plain dates, one start a session, no blank entries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run

OUTSIDE = Path(__file__).parents[1] / "outside"
ID = "7fbe4341-0d57-4016-8374-1ed5e8da4b1b"
SESSION = f"claude-code:{ID}"


def line(uuid: str, parent: str | None, role: str, content: Any, **fields: Any) -> dict[str, Any]:
    at = f"2026-08-01T10:00:0{uuid[-1]}Z"
    row = {"type": role, "uuid": uuid, "parentUuid": parent, "isSidechain": False, "sessionId": ID, "timestamp": at}
    return row | {"cwd": "/p", "message": {"role": role, "content": content} | fields}


@pytest.fixture
def imported(ledger: Path, run: Run, here: Path) -> Path:
    rows = [line("u1", None, "user", "Fix it"), line("u2", "u1", "assistant", [{"type": "text", "text": "Done"}],
            id="m", model="opus")]  # fmt: skip
    path = here / "p" / f"{ID}.jsonl"
    path.parent.mkdir()
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = run("import", "claude-code", path)
    assert done.out.endswith("1 file: 4 appended (1 start, 1 start detail, 2 messages); 0 problems.\n")
    return path


@pytest.mark.parametrize("short", [ID, ID[:8], ID[:4], f"claude-code:{ID[:6]}"])
@pytest.mark.parametrize("command", [("transcript",), ("history",), ("explain",), ("locate", "--root", ".")])
def test_each_command_takes_the_same_short_ids(imported: Path, run: Run, command: tuple[str, ...], short: str) -> None:
    done = run(*command, short)

    assert SESSION in done.out, done.err
    assert done.code == 0


@pytest.mark.parametrize("command", [("transcript",), ("history",), ("explain",), ("locate", "--root", ".")])
def test_each_command_refuses_an_id_that_is_too_short(imported: Path, run: Run, command: tuple[str, ...]) -> None:
    done = run(*command, ID[:3])

    assert (done.code, done.out) == (2, "")


@pytest.mark.parametrize(
    "words",
    [
        ("history", ID, "--at", "2026-08-01"),
        ("posteriors", "--as-of", "2999-08-01"),
        ("posteriors", "--decay-at", "2026-08-01"),
    ],
)
def test_a_plain_date_is_midnight_in_utc(imported: Path, run: Run, words: tuple[str, ...]) -> None:
    done = run(*words)
    exact = run(*words[:-1], f"{words[-1]}T00:00:00Z")

    assert "expects a position or a time" not in done.err
    assert done.code == 0
    assert done.code == exact.code


def test_a_blank_message_is_not_shown_and_is_counted(ledger: Path, run: Run) -> None:
    run("import", "claude-code", OUTSIDE / "09-empty-assistant-and-two-blocks")

    done = run("transcript", "claude-code:00000000-0000-4000-8000-000000000001")

    assert "assistant" not in done.out
    assert "2 entries not shown (1 blank, 1 usage); --all shows them." in done.out
    shown = run("transcript", "claude-code:00000000-0000-4000-8000-000000000001", "--all").out
    assert "assistant" in shown
