"""The sequences as Agenta's own records: imported in any order, any batches and twice, they tell the same."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.importers.import_files import import_paths
from tests.transcripts.folding import conversation
from tests.transcripts.sequences import CASES, NAME, Case, bodies, shuffled

import rightful
from rightful.importers.agenta.agenta_records import Agenta
from rightful.projections.transcripts import agenta_readers

EACH = pytest.mark.parametrize("case", CASES, ids=[case.number for case in CASES])


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[rightful.Ledger]:
    with rightful.open(tmp_path / "ledger", create=True) as opened:
        yield opened


def take(ledger: rightful.Ledger, sent: list[dict[str, Any]]) -> None:
    data = "".join(f"{json.dumps(one)}\n" for one in sent).encode()
    [report] = import_paths(ledger.log, [Agenta()], ["-"], stdin=io.BytesIO(data))
    assert [one for one in report.as_dict()["problems"] if not one["what"].startswith("conflicts with")] == []


@pytest.mark.sweep
@EACH
@pytest.mark.parametrize("seed", range(4))
def test_a_sequence_of_records_gives_the_right_conversation(ledger: rightful.Ledger, case: Case, seed: int) -> None:
    random_ = random.Random(seed)
    sent = bodies(case.records if seed == 0 or case.ordered else shuffled(case.records, random_))
    rest = list(sent)
    while rest:
        size = random_.randint(1, len(rest))
        take(ledger, rest[:size])
        rest = rest[size:]

    once = ledger.transcript(NAME).as_dict()
    take(ledger, sent)
    assert conversation(once) == case.right
    assert ledger.transcript(NAME).as_dict() == once


def test_the_readers_get_what_the_store_would_have_doubled_once(ledger: rightful.Ledger) -> None:
    [cold] = [case for case in CASES if case.number == "2.9 cold"]
    take(ledger, bodies(cold.records))
    call = {"type": "tool_call", "toolCallId": "g", "toolName": "bash", "input": {"command": "rm -r tmp"}}
    result = {"type": "tool_result", "toolCallId": "g", "toolName": "bash", "output": "gone", "isError": False}

    assert agenta_readers.runner(ledger.transcript(NAME)) == [
        {"role": "user", "content": "clean up"},
        {"role": "assistant", "content": [call, result]},
    ]
