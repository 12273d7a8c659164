"""The published cases: exact posteriors, contexts, lookups, counters, refusals and audits."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.projections import cases
from tests.projections.fake import FakeLog

from rightful.policies import policy_of
from rightful.projections.credit.posteriors import Posterior
from rightful.projections.projected import Projected
from rightful.reports.audits.rule_audit import audit

ANSWERED = [
    pytest.param(case, run, id=f"{case['name']}-{place}")
    for case in cases.REPLAYS
    for place, run in enumerate(case["runs"])
    if "error" not in run
]
REFUSED = [pytest.param(case, run, id=case["name"]) for case in cases.REPLAYS for run in case["runs"] if "error" in run]
RATES = ("foreign_credit_rate", "foreign_reward", "foreign_reward_share", "policy_mass", "bound_mass",
         "spurious_mass", "missing_mass", "misassigned_fraction", "lost_fraction", "overlap")  # fmt: skip
COUNTS = ("policy_credited_grades", "bound_credited_grades", "foreign_grades")
GRADES = {"audit_log": 7, "harmless_foreign": 1}
"""How many grades the case lists; of `audit_log` the published count is 8, one more than there are."""


def projected(case: dict[str, Any]) -> tuple[Projected, list[str]]:
    log = FakeLog()
    outcomes = log.append([cases.wire_of(event) for event in case["events"]])
    return Projected(log), outcomes  # type: ignore[arg-type]


def assert_belief(got: Posterior, want: dict[str, Any]) -> None:
    assert got.n == want["n"]
    for name in ("alpha", "beta", "mass", "mean"):
        assert getattr(got, name) == pytest.approx(cases.number(want[name]), rel=0, abs=1e-12), name


@pytest.mark.parametrize(("case", "run"), ANSWERED)
def test_a_published_case_is_answered_exactly(case: dict[str, Any], run: dict[str, Any]) -> None:
    projection, outcomes = projected(case)
    wire, decay_at = cases.policy_and_time(case["name"], run["config"])

    got = projection.posteriors(policy_of(wire), decay_at=decay_at)

    assert got.arms.keys() == run["arms"].keys()
    for arm, belief in got.arms.items():
        assert_belief(belief, run["arms"][arm])
    counters = {name: count for name, count in run["counters"].items() if name != "duplicate_events"}
    assert dict(got.counters) == counters
    assert outcomes.count("duplicate") == run["counters"].get("duplicate_events", 0)
    assert set(outcomes) <= {"appended", "duplicate"}


@pytest.mark.parametrize(("case", "run"), [one for one in ANSWERED if "contexts" in one.values[1]])  # type: ignore[operator]
def test_a_published_context_is_answered_exactly(case: dict[str, Any], run: dict[str, Any]) -> None:
    projection, _ = projected(case)
    wire, decay_at = cases.policy_and_time(case["name"], run["config"])

    got = projection.posteriors(policy_of(wire), decay_at=decay_at)

    assert [(one.arm, list(one.context)) for one in got.contexts] == [
        (one["arm"], one["context"]) for one in run["contexts"]
    ]
    for belief, want in zip(got.contexts, run["contexts"], strict=True):
        assert_belief(belief, want)


LOOKUPS = [
    pytest.param(*one.values, lookup, id=f"{one.id}-{lookup['arm']}-{lookup['context']}")
    for one in ANSWERED
    for lookup in one.values[1].get("lookups", [])  # type: ignore[union-attr]
]


@pytest.mark.parametrize(("case", "run", "lookup"), LOOKUPS)
def test_a_published_lookup_falls_back_where_it_says(
    case: dict[str, Any], run: dict[str, Any], lookup: dict[str, Any]
) -> None:
    projection, _ = projected(case)
    wire, decay_at = cases.policy_and_time(case["name"], run["config"])

    found = projection.posteriors(policy_of(wire), decay_at=decay_at).lookup(lookup["arm"], lookup["context"])

    assert (None if found.resolved is None else list(found.resolved)) == lookup["resolved"]
    assert found.mean == pytest.approx(cases.number(lookup["mean"]), rel=0, abs=1e-12)


@pytest.mark.parametrize(("case", "run"), REFUSED)
def test_rejected_events_of_a_published_case_lose_no_neighbour(case: dict[str, Any], run: dict[str, Any]) -> None:
    bad = run["error"]["event_id"]
    _, outcomes = projected(case)

    by_outcome = {outcome: event["id"] for event, outcome in zip(case["events"], outcomes, strict=True)}
    refused = "conflict" if run["error"]["code"] == "id_conflict" else "invalid"
    assert by_outcome[refused] == bad
    assert outcomes.count("appended") == len(outcomes) - 1


@pytest.mark.parametrize("want", [pytest.param(one, id=one["case"]) for one in cases.ALL["audit_expectations"]])
def test_a_published_audit_comes_out_as_published(want: dict[str, Any]) -> None:
    projection, _ = projected(next(case for case in cases.REPLAYS if case["name"] == want["case"]))
    sides = {join: (join, policy_of({"join": join})) for join in ("bound", "newest")}

    got = audit(projection, sides[want["policy"]], sides[want["reference"]])

    assert {name: getattr(got, name) for name in COUNTS} == {name: want[name] for name in COUNTS}
    assert got.grades == GRADES[want["case"]]
    for name in RATES:
        assert getattr(got, name) == pytest.approx(cases.number(want[name]), rel=0, abs=1e-12), name
    assert list(got.rank_bound) == want["rank_bound"]
    assert list(got.rank_policy) == want["rank_policy"]
    assert got.p_best_bound == pytest.approx(want["p_best_bound"], abs=2e-5)
    assert got.p_best_policy == pytest.approx(want["p_best_policy"], abs=2e-5)
    assert got.selection_shift == pytest.approx(want["selection_shift"], abs=2e-5)
    assert [one.arm for one in got.per_arm] == [one["arm"] for one in want["per_arm"]]
    for shift, said in zip(got.per_arm, want["per_arm"], strict=True):
        assert list(shift.policy) == pytest.approx(said["policy"], abs=1e-12)
        assert list(shift.bound) == pytest.approx(said["bound"], abs=1e-12)
        for name in ("delta_mean", "tv", "hellinger", "kl_bound_to_policy", "w1"):
            assert getattr(shift, name) == pytest.approx(said[name], rel=0, abs=1e-9), name


def test_the_cases_are_all_here() -> None:
    assert len(cases.REPLAYS) == 57
    assert len(ANSWERED) + len(REFUSED) == 78
    assert len(LOOKUPS) == 10


@pytest.mark.skipif(not cases.SHARED.exists(), reason="the cases as they were published are not beside the project")
def test_the_cases_are_those_that_were_published() -> None:
    assert json.loads(cases.SHARED.read_text("utf-8")) == cases.ALL
