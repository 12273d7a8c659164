from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.importers.conftest import KINDS, Importer

from rightful.importers.engine.other_tools import described

LOO = "leave-one-out results of lessons"
FOREIGN: list[tuple[str, dict[str, Any]]] = [
    ("a prediction model of the lesson hook", {"model_version": 1, "co_occurrence": {}, "temporal": {}, "titles": {}}),
    (LOO, {"results": [{"path": "x.md", "delta": 0.1}]}),
    (
        "a log of credited sessions (lesson-thompson)",
        {"session_id": "41c2", "timestamp": "t", "outcome": "productive", "base_reward": 0.6, "lessons": []},
    ),
    ("the statistics of gptme's lesson tracker", {"lesson_stats": {}}),
    ("events of a ledger, for `rightful ingest`", {"type": "exposure.recorded", "producer": "p", "arms": []}),
]


@pytest.mark.parametrize(("what", "value"), FOREIGN)
def test_what_is_skipped_is_called_by_its_name(what: str, value: dict[str, Any]) -> None:
    assert described("x.json", [value]) == what


@pytest.mark.parametrize(("what", "value"), FOREIGN)
def test_what_is_not_imported_is_of_no_kind(what: str, value: dict[str, Any]) -> None:
    assert [kind.NAME for kind in KINDS["auto"] if kind.recognises(value)] == []


@pytest.mark.parametrize("value", [{}, {"type": 7}, {"type": "user"}, {"results": 3}, {"results": [1]}, {"a": 1}])
def test_what_nobody_can_tell_has_no_name(value: dict[str, Any]) -> None:
    assert described("x.json", [value]) is None


def test_one_telling_object_among_the_first_is_enough() -> None:
    telling = {"model_version": 1, "co_occurrence": {}}

    assert described("x.json", [{"type": "text"}, telling]) == "a prediction model of the lesson hook"


@pytest.mark.parametrize(
    "shape", [[{"lesson": "x", "delta": 0.1}], {"x.md": 0.1}, {"results": [{"path": "x.md", "delta": 0.1}]}]
)
def test_the_three_shapes_of_loo_results_are_told(imported: Importer, tmp_path: Path, shape: object) -> None:
    path = tmp_path / "ws" / "loo-results.json"
    path.parent.mkdir()
    path.write_text(json.dumps(shape, indent=2))

    [found], [named] = imported("auto", path.parent), imported("auto", path)

    assert [one.what for one in found.problems] == [f"skipped: {LOO}; not imported by this version"]
    assert [one.what for one in named.problems] == [f"{LOO}; not imported by this version"]
    assert (found.exit_code, named.exit_code) == (0, 2)
