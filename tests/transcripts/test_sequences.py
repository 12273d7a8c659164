"""Each way of saying a fact twice gives the right conversation, however the events arrive."""

from __future__ import annotations

import random

import pytest
from tests.transcripts.folding import conversation, cut, folded
from tests.transcripts.sequences import CASES, NAME, Case, shuffled, wires

EACH = pytest.mark.parametrize("case", CASES, ids=[case.number for case in CASES])


@EACH
def test_a_sequence_gives_the_right_conversation(case: Case) -> None:
    assert conversation(folded(wires(case.records), NAME).as_dict()) == case.right


@EACH
def test_a_sequence_sent_twice_gives_the_same(case: Case) -> None:
    events = wires(case.records)

    assert conversation(folded([*events, *events], NAME).as_dict()) == case.right
    assert conversation(folded([one for event in events for one in (event, event)], NAME).as_dict()) == case.right


@EACH
@pytest.mark.parametrize("seed", range(8))
def test_a_sequence_cut_into_any_batches_gives_the_same(case: Case, seed: int) -> None:
    events = wires(case.records)

    assert conversation(folded(events, NAME, cut(events, random.Random(seed))).as_dict()) == case.right


@pytest.mark.parametrize("case", [case for case in CASES if not case.ordered], ids=lambda case: case.number)
@pytest.mark.parametrize("seed", range(24))
def test_sequence_reordered_within_its_turns_gives_the_same(case: Case, seed: int) -> None:
    random_ = random.Random(seed)
    events = wires(shuffled(case.records, random_))

    assert conversation(folded(events, NAME, cut(events, random_)).as_dict()) == case.right


@EACH
def test_what_never_came_and_what_came_late_is_said(case: Case) -> None:
    holes = folded(wires(case.records), NAME).as_dict()["holes"]

    for kind, expected in (("missing", case.missing), ("late", case.late)):
        found = {
            hole["turn"]: [index for first, last in hole["indexes"] for index in range(first, last + 1)]
            for hole in holes
            if hole["kind"] == kind
        }
        assert found == expected
