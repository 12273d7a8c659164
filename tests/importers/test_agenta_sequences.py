"""Every way in which Agenta says a record twice, in any order of arrival, cut into any batches, and again."""

from __future__ import annotations

import io
import json
import random
from typing import Any

import pytest
from tests.importers.import_files import import_paths
from tests.transcripts.sequences import CASES, Case, bodies, shuffled

from rightful.importers.agenta.agenta_records import Agenta
from rightful.ledger import Ledger
from rightful.log.rows import Stored
from rightful.projections.facts.completeness import completeness_of


def take(ledger: Ledger, records: list[dict[str, Any]]) -> list[str]:
    """Import records and return their outcomes."""
    data = "".join(f"{json.dumps(one)}\n" for one in records).encode()
    [report] = import_paths(ledger.log, [Agenta()], ["-"], stdin=io.BytesIO(data), receipts=True)
    return [one["outcome"] for one in report.as_dict()["receipts"]]


def rows_of(ledger: Ledger) -> list[Stored]:
    return [row for page in ledger.log.scan() for row in page]


def facts(ledger: Ledger) -> set[tuple[Any, ...]]:
    """What stands in the ledger, whatever the order in which it came."""
    found: set[tuple[Any, ...]] = set()
    for row in ledger.read():
        found.add((row.id, row.type, getattr(row.event, "turn", None), str(getattr(row.event, "name", None))))
    return found


@pytest.mark.sweep
@pytest.mark.parametrize("case", CASES, ids=[case.number for case in CASES])
@pytest.mark.parametrize("seed", range(5))
def test_a_sequence_is_as_complete_as_it_was_in_whatever_order_it_comes(ledger: Ledger, case: Case, seed: int) -> None:
    random_ = random.Random(seed)
    records = case.records if seed == 0 or case.ordered else shuffled(case.records, random_)
    sent = bodies(records)
    while sent:
        cut = random_.randint(1, len(sent))
        take(ledger, sent[:cut])
        sent = sent[cut:]
    whole = completeness_of(rows_of(ledger))
    before = facts(ledger), len(rows_of(ledger))
    again = take(ledger, bodies(records))

    assert (facts(ledger), len(rows_of(ledger))) == before
    assert not {"appended", "refined", "reemitted", "invalid"} & set(again)
    missing = {hole.turn: hole.indexes for hole in whole.holes if hole.kind == "missing"}
    late = {hole.turn: hole.indexes for hole in whole.holes if hole.kind == "late"}
    assert missing == {turn: tuple((one, one) for one in indexes) for turn, indexes in case.missing.items()}
    assert late == {turn: tuple((one, one) for one in indexes) for turn, indexes in case.late.items()}
    ended = {one.turn for one in case.records if one.type == "done"}
    opened = {hole.turn for hole in whole.holes if hole.kind == "open"}
    assert opened == {one.turn for one in case.records} - ended
