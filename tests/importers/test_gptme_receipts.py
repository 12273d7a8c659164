from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.importers.conftest import KINDS, Importer, said

from rightful.events import ToolCallSnapshotted
from rightful.identity import composite_key, event_id
from rightful.importers.gptme_records.manifest import hash_of
from rightful.importers.gptme_records.receipts import GptmeReceipts, ReceiptsReader
from rightful.importers.sources.text_files import Found
from rightful.ledger import Ledger

SAMPLE = Path(__file__).parents[1] / "samples" / "gptme" / "receipts.jsonl"
BEGAN = datetime(2026, 8, 1, 10, 15, 1, tzinfo=UTC)


def receipt(seconds: float = 0, *, session: str = "41c2", target: Any = "ls", **fields: Any) -> dict[str, Any]:
    stamp = (BEGAN + timedelta(seconds=seconds)).isoformat(timespec="seconds")
    facts = {"session_id": session, "model": "m", "action_type": "shell", "target": target, "workspace": "/w"}
    payload = facts | {"timestamp": stamp} | fields
    return payload | {"receipt_hash": hash_of(payload, without="receipt_hash")}


def write(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "receipts.jsonl"


def calls(ledger: Ledger) -> list[ToolCallSnapshotted]:
    return [row.event for row in ledger.read() if isinstance(row.event, ToolCallSnapshotted)]


def test_a_receipt_is_a_call(ledger: Ledger, imported: Importer) -> None:
    [report] = imported("receipts", SAMPLE)

    first, second, third = calls(ledger)
    row = json.loads(SAMPLE.read_text().splitlines()[0])
    assert (first.producer, first.session) == ("gptme-receipts", "workspace:41c2@2026-08-01T10:15:01+00:00")
    assert (first.name, first.arguments) == ("shell", {"target": "ls", "workspace": "/home/dev/my.proj"})
    assert (first.complete, first.call) == (True, f"{row['receipt_hash']}.1")
    assert first.extra == {"model": "anthropic/claude-sonnet", "receipt_hash": row["receipt_hash"]}
    assert first.at == BEGAN
    assert first.id == event_id("gptme-receipts", composite_key("41c2", row["receipt_hash"], 1))
    assert (report.problems, report.appended) == ([], 3)
    assert {first.session, second.session, third.session} == {first.session}


def test_the_same_action_twice_in_one_second_is_two_actions(ledger: Ledger, imported: Importer) -> None:
    imported("receipts", SAMPLE)
    [again] = imported("receipts", SAMPLE)

    _, second, third = calls(ledger)
    assert (second.arguments, second.at) == (third.arguments, third.at)
    assert [second.call[-2:], third.call[-2:]] == [".1", ".2"]
    assert (again.appended, again.duplicate) == (0, 3)


def test_changed_receipt_is_a_problem_and_others_are_imported(ledger: Ledger, imported: Importer, path: Path) -> None:
    changed = receipt() | {"target": "rm -rf /"}
    [report] = imported("receipts", write(path, receipt(), changed, receipt(2)))

    expected = f"Expected the hash of its content ({hash_of(changed, without='receipt_hash')})"
    what = f"{expected}, got {changed['receipt_hash']}: it was modified after it was written - at `$.receipt_hash`"
    assert said(report)["problems"] == [{"line": 2, "what": what}]
    assert [one.at.second for one in calls(ledger)] == [1, 3]


def test_a_session_that_the_plugin_did_not_know_is_nobody(ledger: Ledger, imported: Importer, path: Path) -> None:
    [report] = imported("receipts", write(path, receipt(session="unknown"), receipt()))

    what = "Expected a session id, got 'unknown', which names no session - at `$.session_id`"
    assert said(report)["problems"] == [{"line": 1, "what": what}]
    assert len(calls(ledger)) == 1


@pytest.mark.parametrize(("hours", "sessions"), [(23.99, 1), (24, 2)])
def test_a_label_that_was_silent_for_a_day_is_another_session(
    ledger: Ledger, imported: Importer, path: Path, hours: float, sessions: int
) -> None:
    later = [receipt(hours * 3600), receipt(hours * 3600 + 1)]
    imported("receipts", write(path, receipt(), receipt(5, session="beef"), *later))

    names = [one.session for one in calls(ledger)]
    assert len({names[0], names[2], names[3]}) == sessions
    assert names[2] == names[3]
    assert names[1] == "workspace:beef@2026-08-01T10:15:06+00:00"


def test_a_long_session_is_one(ledger: Ledger, imported: Importer, path: Path) -> None:
    imported("receipts", write(path, *(receipt(hours * 3600) for hours in range(0, 100, 20))))

    assert len({one.session for one in calls(ledger)}) == 1


@pytest.mark.parametrize(("seconds", "count"), [(3_600, 2), (3_601, 1)])
def test_a_copy_far_behind_is_the_same_action(
    ledger: Ledger, imported: Importer, path: Path, seconds: int, count: int
) -> None:
    imported("receipts", write(path, receipt(), receipt(seconds, target="x"), receipt()))

    assert sum(one.arguments["target"] == "ls" for one in calls(ledger)) == count


def test_what_is_kept_does_not_grow_with_the_file() -> None:
    reader, sizes = ReceiptsReader(), []
    for hours in range(200):
        for second in range(10):
            list(reader.events(Found(1, receipt(hours * 3_601 + second, session=f"s{hours}"))))
        sizes.append(len(json.dumps(reader.state())))

    assert max(sizes[30:]) < 5_000


@pytest.mark.parametrize(
    ("row", "what"),
    [
        (receipt(action_type=None), "Expected `str`, got `null` - at `$.action_type`"),
        (receipt(timestamp="now"), "Expected a time, got 'now' - at `$.timestamp`"),
        (receipt(target=7), "Expected `str | null`, got `int` - at `$.target`"),
    ],
)
def test_a_receipt_of_another_form_is_a_problem(
    ledger: Ledger, imported: Importer, path: Path, row: dict[str, Any], what: str
) -> None:
    [report] = imported("receipts", write(path, row))

    assert said(report)["problems"] == [{"line": 1, "what": what}]
    assert calls(ledger) == []


def test_auto_tells_a_receipt_by_its_content() -> None:
    assert not GptmeReceipts().recognises({"action_type": "shell"})
    assert [kind.NAME for kind in KINDS["auto"] if kind.recognises(receipt())] == ["receipts"]
