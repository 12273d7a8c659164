"""gptme's files in pieces, and imports that die: the same rows in the same order."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.importers.gptme_files import appended, event, said
from tests.importers.growing import (
    APART,
    STEPS,
    Rows,
    dying,
    import_once,
    put,
    rows_of,
    same_after_kills,
    same_by_prefixes,
)
from tests.importers.test_gptme import zone  # noqa: F401 - the machine's time is UTC

from rightful import ledger as app
from rightful.importers.gptme.conversation import Gptme
from rightful.importers.gptme_records.receipts import GptmeReceipts
from rightful.importers.sources.growing_files import WAITS

SAMPLES = Path(__file__).parents[1] / "samples" / "gptme"
FOX = SAMPLES / "logs" / "2026-08-01-running-blue-fox"
RECEIPTS = (SAMPLES / "receipts.jsonl").read_bytes()
KIND, RECEIPTS_KIND = (
    "rightful.importers.gptme.conversation:Gptme",
    "rightful.importers.gptme_records.receipts:GptmeReceipts",
)


def lines(*rows: object) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


A = said(1, "user", "a")
CALLS = said(
    2, "assistant", "```shell\nls\n```\n\n```py\n1\n```", metadata={"model": "m", "usage": {"output_tokens": 1}}
)
RAN, DONE = said(3, "system", "ran"), said(4, "system", "done", metadata={"tool": "ipython"})
CALL, RESULT = said(5, "assistant", '@shell(c1): {"command": "ls"}'), said(6, "system", "x", call_id="c1")
TALK = lines(A, CALLS, RAN, DONE, A, CALL, RESULT, {"role": "user", "content": "no time", "timestamp": None})
LOG = lines(
    appended(1, A),
    appended(2, CALLS),
    appended(3, RAN),
    event(4, "undo", n=1),
    event(5, "checkpoint", messages=[A, CALLS, DONE]),
    event(6, "message_edit", messages=[A, DONE]),
    event(7, "other", x=1),
    event(7, "other", x=1),
)
SUM = said(4, "system", "summary")
VIEW = lines(A, SUM, CALL, said(7, "user", "later"))


@pytest.mark.parametrize(
    ("name", "data"),
    [("fox/conversation.jsonl", TALK), ("fox/events.jsonl", LOG), ("fox/branches/main-undo-0.jsonl", TALK)],
)
def test_a_file_that_grows_byte_by_byte_is_imported_as_if_at_once(tmp_path: Path, name: str, data: bytes) -> None:
    report = same_by_prefixes(Gptme(), name, data, tmp_path)

    assert WAITS not in [one.what for one in report.problems]


def test_a_view_that_grows_byte_by_byte_is_imported_as_if_at_once(tmp_path: Path) -> None:
    put(tmp_path / "file" / "fox" / "conversation.jsonl", TALK + lines(said(7, "user", "later")))

    same_by_prefixes(Gptme(), "fox/views/compacted-001.jsonl", VIEW, tmp_path)


def test_a_branch_that_grows_byte_by_byte_is_held_against_its_conversation(tmp_path: Path) -> None:
    put(tmp_path / "file" / "fox" / "conversation.jsonl", lines(A))

    same_by_prefixes(Gptme(), "fox/branches/main-undo-0.jsonl", TALK, tmp_path)


def test_receipts_that_grow_byte_by_byte_are_imported_as_if_at_once(tmp_path: Path) -> None:
    same_by_prefixes(GptmeReceipts(), "receipts.jsonl", RECEIPTS, tmp_path)


@pytest.mark.parametrize(
    ("kind", "name", "data"),
    [
        (KIND, "fox/conversation.jsonl", lines(A, CALLS, RAN)),
        (KIND, "fox/events.jsonl", lines(appended(1, A), appended(2, CALL), event(3, "undo", n=1))),
        (RECEIPTS_KIND, "receipts.jsonl", RECEIPTS),
    ],
)
def test_an_import_that_is_killed_anywhere_changes_nothing(tmp_path: Path, kind: str, name: str, data: bytes) -> None:
    assert same_after_kills(kind, name, data, tmp_path) >= 4


def test_an_import_that_is_killed_on_what_it_grew_by_changes_nothing(tmp_path: Path) -> None:
    cut, data = len(lines(A, CALLS)), lines(A, CALLS, RAN, DONE)

    assert same_after_kills(KIND, "fox/conversation.jsonl", data, tmp_path, grown=[cut]) >= 4


def test_import_killed_while_it_records_removals_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file" / "fox" / "conversation.jsonl"
    steps = 0
    expected: Rows = []
    with dying() as killed:
        for step in range(0, STEPS, APART):
            with app.open(tmp_path / f"ledger-{step}", create=True) as ledger:
                put(path, lines(A, CALL, RESULT))
                import_once(ledger, Gptme(), path)
            put(path, lines(A, said(9, "user", "again")))
            code = killed(str(tmp_path / f"ledger-{step}"), KIND, str(path), step) if step else 0
            with app.open(tmp_path / f"ledger-{step}") as ledger:
                import_once(ledger, Gptme(), path)
                found = rows_of(ledger)
            expected = expected or found
            assert found == expected, f"killed at step {step}"
            steps = step
            if step and code == 0:
                break

    assert steps > 4
    assert sum(row["type"] == "history.popped" for row in expected) == 3
