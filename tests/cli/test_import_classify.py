"""`import agenta --classify`: what the deliveries of each record id are to each other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cli.conftest import Run
from tests.importers.agenta_records import TOOL_CALL, body

from rightful.importers.agenta.agenta_records import record_id


def call(**fields: Any) -> dict[str, Any]:
    told = {"type": "tool_call", "id": "call_1"} | {
        name: fields.pop(name) for name in ("name", "input") if name in fields
    }
    turn = fields.get("turn_id", "turn-1")
    return body("tool_call", told, record_id=record_id("sess-1", "call_1", "tool_call", turn), **fields)


def classes(run: Run, here: Path, *records: dict[str, Any], code: int = 0) -> list[tuple[str, int]]:
    path = here / "records.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    done = run("import", "agenta", path, "--classify", "--json")
    assert done.code == code
    return [(one["class"], len(one["outcomes"])) for one in done.document]


def test_each_record_id_has_the_class_of_its_deliveries(run: Run, here: Path) -> None:
    whole = call(name="bash", input={"command": "ls"})
    begun = call(name="bash", input=None)

    assert classes(run, here, whole) == [("single", 1)]
    assert classes(run, here, whole, whole | {"record_index": 1}) == [("exact retry", 2)]
    assert classes(run, here, begun, whole) == [("progressive", 2)]
    assert classes(run, here, whole, begun) == [("progressive", 2)]
    assert classes(run, here, begun, whole, whole) == [("progressive", 3)]
    assert classes(run, here, whole, call(name="bash", input={"command": "rm"}), code=3) == [("conflict", 2)]


def test_the_same_record_in_another_turn_is_a_resume(run: Run, here: Path) -> None:
    first = call(name="bash", input={"command": "ls"})

    assert classes(run, here, first, first | {"turn_id": "turn-2"}) == [("resume re-emission", 2)]


def test_people_get_a_table_and_nothing_is_imported(run: Run, here: Path) -> None:
    path = here / "records.jsonl"
    path.write_text(json.dumps(body("tool_call", TOOL_CALL)) + "\nnot JSON\n")

    ended = run("import", "agenta", path, "--classify")

    assert ended.code == 2
    assert "single" in ended.out
    assert f"{path}:2" in ended.err
    assert not (here / ".rightful").exists()


def test_other_kinds_and_options_are_refused(run: Run) -> None:
    assert "--classify is for the kind agenta, got codex" in run("import", "codex", "x", "--classify").err
    assert "neither --watch nor --again" in run("import", "agenta", "x", "--classify", "--again").err
