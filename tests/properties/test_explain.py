"""Explanations, held against the settlement on random logs and policies."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests import strategies
from tests.amounts import examples
from tests.projections import cases
from tests.projections.fake import FakeLog
from tests.reports.explaining import (
    assert_arms_add_up,
    assert_explained,
    assert_names_are_told_apart,
    assert_own,
    assert_remedies_help,
    projected,
)
from tests.strategies import START_S, Wire

from rightful.policies import policy_of

policies = st.builds(
    lambda wire, left_out: {**wire, **left_out},
    strategies.policies,
    strategies.weighed(
        (3, st.just({})),
        (
            1,
            strategies.some(
                without_sessions=st.lists(st.sampled_from(strategies.SESSIONS), max_size=2),
                without_graders=st.sampled_from([["human/*"], ["*/tone"], ["*/*"]]),
                balances=st.sampled_from([[], ["one*"]]),
            ),
        ),
    ),
)

SOME = settings(max_examples=examples(120), deadline=None, suppress_health_check=[HealthCheck.too_slow])

ANSWERED = [
    pytest.param(case, run, id=f"{case['name']}-{place}")
    for case in cases.REPLAYS
    for place, run in enumerate(case["runs"])
]


@pytest.mark.parametrize(("case", "run"), ANSWERED)
def test_every_grade_and_exposure_of_a_published_case_has_its_reason(case: Wire, run: Wire) -> None:
    log = FakeLog()
    log.append([cases.wire_of(event) for event in case["events"]])
    wire, decay_at = cases.policy_and_time(case["name"], run["config"])
    policy = policy_of(wire)

    assert_explained(projected(log), policy)
    assert_arms_add_up(projected(log), policy, decay_at=decay_at)


def log_of(events: list[Wire], erased: list[int]) -> FakeLog:
    log = FakeLog()
    log.append(events)
    for position in erased:
        if position <= log.head():
            log.erase(position)
    return log


@SOME
@given(
    strategies.logs(),
    policies,
    st.none() | st.integers(0, 24),
    st.just([]) | st.lists(st.integers(1, 24), max_size=2),
)
def test_every_grade_and_exposure_has_a_reason_and_its_bin(
    events: list[Wire], wire: Wire, cut: int | None, erased: list[int]
) -> None:
    log = log_of(events, erased)

    assert_explained(projected(log), policy_of(wire), None if cut is None else min(cut, log.head()))


@SOME
@given(
    strategies.logs(),
    policies,
    st.none() | st.integers(0, 24),
    st.none() | st.integers(START_S, START_S + 20),
)
def test_the_last_running_belief_is_the_posterior(
    events: list[Wire], wire: Wire, cut: int | None, decay_at: int | None
) -> None:
    log = log_of(events, [])

    assert_arms_add_up(projected(log), policy_of(wire), None if cut is None else min(cut, log.head()), decay_at)


remedied_policies = st.one_of(
    st.just({}),
    st.just({"revision": "additive"}),
    st.just({"join": "newest", "revision": "additive"}),
    st.just({"join": "newest"}),
    policies,
)


@SOME
@given(strategies.logs(), policies, st.none() | st.integers(0, 24))
def test_a_session_is_told_what_is_its_own(events: list[Wire], wire: Wire, cut: int | None) -> None:
    log = log_of(events, [])

    assert_own(projected(log), policy_of(wire), None if cut is None else min(cut, log.head()))


twins = st.builds(
    lambda event, alias: {**event, **({"alias": True} if alias else {})},
    strategies.weighed((2, strategies.exposures), (2, strategies.grades), (1, strategies.messages)),
    st.booleans(),
)
"""Events of names of one text, read as they are written and from a sanitised form."""


@SOME
@given(strategies.logs(twins, max_size=12), policies)
def test_names_of_one_text_are_distinguished(events: list[Wire], wire: Wire) -> None:
    log = log_of(events, [])

    assert_own(projected(log), policy_of(wire))
    assert_names_are_told_apart(projected(log), policy_of(wire))


@SOME
@given(strategies.logs(max_size=14), remedied_policies)
def test_every_remedy_that_proposes_events_changes_what_is_stated(events: list[Wire], wire: Wire) -> None:
    assert_remedies_help(lambda: log_of(events, []), policy_of(wire))
