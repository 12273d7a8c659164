"""What a policy leaves out: a session with its run, a grader, opening balances."""

from __future__ import annotations

from typing import Any

from tests.projections.fake import FakeLog
from tests.projections.telling import exposed, graded, linked, told
from tests.strategies import Wire

from rightful.policies import policy_of
from rightful.projections.projected import Projected


def beliefs(log: FakeLog, **policy: Any) -> tuple[dict[str, tuple[float, float, int]], dict[str, int]]:
    found = Projected(log).posteriors(policy_of(policy))  # type: ignore[arg-type]
    return {arm: (one.alpha, one.beta, one.n) for arm, one in found.arms.items()}, dict(found.counters)


def log_of(*events: Wire) -> FakeLog:
    log = FakeLog()
    assert set(log.append(events)) == {"appended"}
    return log


A = [exposed("t:a", "x"), graded("w:a", 1.0), linked("w:a", "t:a")]
B = [exposed("t:b", "x", "y"), graded("t:b", 0.25)]


def test_a_session_that_is_left_out_takes_its_run_with_it() -> None:
    log = log_of(*A, *B)

    for name in ("t:a", "w:a"):  # either name of the run
        assert beliefs(log, without_sessions=[name]) == beliefs(log_of(*B))
    assert beliefs(log, without_sessions=["t:b"]) == beliefs(log_of(*A))
    assert beliefs(log, without_sessions=["t:nobody"]) == beliefs(log)


def test_a_grade_of_another_name_for_a_session_left_out_goes_with_it() -> None:
    log = log_of(*B, exposed("t:c", "x"), graded("w:c", 0.5, exposure_session="t:c"))

    assert beliefs(log, without_sessions=["t:c"]) == beliefs(log_of(*B))


def test_the_sanitised_form_of_a_session_left_out_goes_with_it() -> None:
    state = exposed("t:a_b", "x", alias=True, at_basis="file")
    log = log_of(*B, state, graded("t:a/b", 0.5))

    assert beliefs(log, without_sessions=["t:a/b"]) == beliefs(log_of(*B))


def test_a_name_that_is_only_known_from_its_sanitised_form_can_be_left_out() -> None:
    """A hook's state file that nothing else names; `credit` names it too, but no row bears that name."""
    state = exposed("t:a_b", "x", alias=True, at_basis="file")
    log = log_of(*B, state, graded("w:c", 0.5, exposure_session="t:a_b"))

    assert beliefs(log)[0]["x"] == (1.75, 2.25, 2)
    assert beliefs(log, without_sessions=["t:a_b"]) == beliefs(log_of(*B))


def test_the_newest_session_is_sought_among_those_that_are_left() -> None:
    log = log_of(exposed("t:a", "x", at=10), exposed("t:b", "y", at=20), graded("t:a", 1.0, at=30))

    assert beliefs(log, join="newest", revision="additive")[0] == {"y": (2.0, 1.0, 1)}
    assert beliefs(log, join="newest", revision="additive", without_sessions=["t:b"])[0] == {"x": (2.0, 1.0, 1)}


def test_a_grader_that_is_left_out_makes_room_for_the_next() -> None:
    log = log_of(
        exposed("t:a", "x"), graded("t:a", 1.0, by="human"), graded("t:a", 0.5, by="judge", at=201),
    )  # fmt: skip

    assert beliefs(log)[0] == {"x": (2.0, 1.0, 1)}
    assert beliefs(log, without_graders=["human/*"])[0] == {"x": (1.5, 1.5, 1)}
    assert beliefs(log, without_graders=["human/*", "judge/overall"]) == ({}, {"pending_sessions": 1})


def opened(source: str, arm: str, alpha: float, through: str | None = None) -> Wire:
    said: dict[str, Any] = {"arms": {arm: {"alpha": alpha, "beta": 1.0, "n": 1}}, "source": source, "sha256": "0" * 64}
    return told("balance.opened", None, 1, said | ({} if through is None else {"through": through}))


def test_only_the_balances_of_the_sources_that_a_policy_names_count() -> None:
    log = log_of(opened("/ws/a.json", "x", 3.0, "1970-01-01T01:00:00Z"), opened("/ws/b.json", "x", 5.0), *B)

    assert beliefs(log) == ({"x": (7.0, 1.0, 2)}, {"in_balance_grades": 1})
    assert beliefs(log, balances=["*/b.json"])[0] == {"x": (5.25, 1.75, 2), "y": (1.25, 1.75, 1)}
    assert beliefs(log, balances=[]) == beliefs(log_of(*B))
