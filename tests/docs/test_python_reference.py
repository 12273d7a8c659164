"""The Python reference names what `import rightful` gives: every name, method, argument and field."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import rightful
from rightful.ledger import Status
from rightful.projections.credit.posteriors import ContextPosterior, Lookup, Posterior
from rightful.reports.beta_math.beta import Comparison

TEXT = (Path(__file__).parents[2] / "docs" / "reference" / "python.md").read_text("utf-8")
SECTIONS = dict(re.findall(r"^#{2,3} `([\w.]+)`\n(.*?)(?=^#{2,3} |\Z)", TEXT, re.MULTILINE | re.DOTALL))
CLASSES: dict[str, type] = {
    "Ledger": rightful.Ledger,
    "Producer": rightful.Producer,
    "Posteriors": rightful.Posteriors,
}


def methods(kind: type) -> Iterator[str]:
    return (name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_"))


METHODS = [f"{name}.{method}" for name, kind in CLASSES.items() for method in methods(kind)]


def called(name: str) -> Any:
    """What a heading names."""
    kind, _, method = name.partition(".")
    return getattr(CLASSES[kind], method) if method else getattr(rightful, name)


def test_every_public_name_and_every_public_method_has_its_heading() -> None:
    assert [name for name in [*rightful.__all__, *METHODS] if name not in SECTIONS] == []


def test_no_name_has_a_heading_that_does_not_exist() -> None:
    assert {*SECTIONS} - {*rightful.__all__, *METHODS, "Audit"} == set()


@pytest.mark.parametrize("name", ["open", "compare", "event_id", "composite_key", *METHODS])
def test_the_signature_that_is_shown_has_the_arguments_in_their_order(name: str) -> None:
    short = name.rpartition(".")[2]
    [shown] = re.findall(rf"^    (?:rightful\.)?{short}\((.*)\) *(?:->.*)?$", SECTIONS[name], re.MULTILINE)

    found = [one.partition("=")[0].lstrip("*") for one in shown.replace("=()", "=").split(", ") if one not in {"", "*"}]
    assert found == [name for name in inspect.signature(called(name)).parameters if name != "self"]


FIELDS: dict[str, list[type]] = {
    "Ledger.status": [Status],
    "Receipt": [rightful.Receipt],
    "Recorded": [rightful.Recorded],
    "RawEvent": [rightful.RawEvent],
    "Posteriors": [rightful.Posteriors, Posterior, ContextPosterior],
    "Posteriors.lookup": [Lookup],
    "compare": [Comparison],
    "ArmShown": [rightful.ArmShown],
    "InvalidEventError": [rightful.InvalidEventError],
}


def fields(kind: type) -> set[str]:
    if issubclass(kind, Lookup):
        return {"resolved"}
    if issubclass(kind, msgspec.Struct):
        return {field.name for field in msgspec.structs.fields(kind)}
    return set(getattr(kind, "_fields", ("what", "place")))


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_of_what_is_given_back_is_named(name: str) -> None:
    words = set(re.findall(r"\w+", SECTIONS[name]))

    assert {field for kind in FIELDS[name] for field in fields(kind)} - words == set()


CALLS: dict[str, dict[str, Any]] = {
    "started": {"session": "t:a", "run_nonce": "n"},
    "ended": {"session": "t:a", "turns": 3, "exit_code": 0},
    "link": {"session": "t:a", "other": "u:b", "as_": "native", "evidence": "native-id"},
    "unlink": {"session": "t:a", "other": "u:b"},
    "exposure": {"session": "t:a", "arms": ["x"], "turn": "1", "index": 2},
    "grade": {"session": "t:a", "reward": 0.5, "rubric": "overall", "seq": 4},
    "retract": {"session": "t:a", "rubric": "overall", "seq": 5},
    "message": {"session": "t:a", "role": "user", "content": "hi", "turn": "1", "index": 2},
    "tool_call": {"session": "t:a", "call": "c", "turn": "1"},
    "tool_result": {"session": "t:a", "call": "c", "turn": "1"},
    "turn_ended": {"session": "t:a", "turn": "1"},
}
"""One call of each method without a key."""


def test_the_table_of_keys_has_every_method_of_a_producer() -> None:
    shown = re.findall(r"^\| `(\w+)` \| ", SECTIONS["Producer"], re.MULTILINE)

    assert sorted(shown) == sorted(methods(rightful.Producer))


@pytest.mark.parametrize("method", CALLS)
def test_a_fact_without_a_key_gets_the_key_that_the_table_says(method: str, tmp_path: Path) -> None:
    [parts] = re.findall(rf"^\| `{method}` \| `\[(.*?)\]` ", SECTIONS["Producer"], re.MULTILINE)
    key = [json.loads(part) if part.startswith('"') else CALLS[method][part] for part in parts.split(", ")]

    with rightful.open(tmp_path / "ledger", create=True) as ledger:
        receipt = getattr(ledger.producer("hook"), method)(**CALLS[method])

    assert receipt.id == rightful.event_id("hook", rightful.composite_key(*key))


@pytest.mark.parametrize("method", ["exposure", "message"])
def test_a_key_is_needed_where_the_table_says_so(method: str, tmp_path: Path) -> None:
    asked = {name: value for name, value in CALLS[method].items() if name != "index"}

    with rightful.open(tmp_path / "ledger", create=True) as ledger:
        producer = ledger.producer("hook")
        with pytest.raises(rightful.InvalidEventError, match="key"):
            getattr(producer, method)(**asked)
