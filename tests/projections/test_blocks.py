"""Blocks of names: many small settlements add up to one."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import strategies
from tests.amounts import examples
from tests.projections.fake import FakeLog
from tests.strategies import Wire

from rightful.policies import policy_of
from rightful.projections.arithmetic.sums import sums_of
from rightful.projections.credit import bins_and_credits
from rightful.projections.credit import settle as settling
from rightful.projections.credit.settle import counters_of, settle, tally
from rightful.projections.facts.facts import Facts
from rightful.projections.projected import Projected

BOUND = policy_of("bound")


def facts_of(events: list[Wire]) -> Facts:
    log = FakeLog()
    log.append(events)
    return Projected(log).catch_up()  # type: ignore[arg-type]


@settings(max_examples=examples(200), deadline=None)
@given(strategies.logs())
def test_blocks_of_one_row_add_up_to_the_whole(events: list[Wire]) -> None:
    facts = facts_of(events)
    whole = settle(facts, BOUND, facts.watermark)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(settling, "BLOCK_ROWS", 1)
        sums, counters = tally(facts, BOUND, facts.watermark, 0)

    assert list(sums.rows()) == list(sums_of(facts, whole, BOUND, 0).rows())
    assert +Counter(counters) == +Counter(counters_of(whole))


@settings(max_examples=examples(200), deadline=None)
@given(strategies.logs())
def test_a_label_is_shared_by_exactly_the_names_of_one_closure(events: list[Wire]) -> None:
    names = facts_of(events).names

    labels = names.labels()

    for number in range(len(names)):
        assert np.flatnonzero(labels == labels[number]).tolist() == names.closure([number])


@settings(max_examples=examples(100), deadline=None)
@given(strategies.logs(), st.sampled_from(["bound", "historical-newest", "gptme"]))
def test_units_settled_one_at_a_time_settle_as_all_at_once(events: list[Wire], preset: str) -> None:
    """A session of many grades and many exposures must not hold their product in memory."""
    facts, policy = facts_of(events), policy_of(preset)
    whole = settle(facts, policy, facts.watermark)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bins_and_credits, "PAIRS_AT_ONCE", 1)
        single = settle(facts, policy, facts.watermark)

    for one, other in zip(single, whole, strict=True):
        np.testing.assert_equal(one, other)
