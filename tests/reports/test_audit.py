from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs
from tests.projections.fake import FakeLog

from rightful.policies import policy_of
from rightful.projections.projected import Projected
from rightful.reports.audits.rule_audit import Audit, audit

Wire = dict[str, Any]


def shown(session: str, minute: int, *arms: str) -> Wire:
    return {"type": "exposure.recorded", "producer": "hook", "key": f"e {session}", "session": session,
            "at": f"2026-08-01T10:{minute:02}:00Z", "arms": [{"arm": arm} for arm in arms]}  # fmt: skip


def graded(session: str, minute: int, reward: float) -> Wire:
    return {"type": "grade.recorded", "producer": "judge", "key": f"g {session}", "session": session,
            "at": f"2026-08-01T10:{minute:02}:00Z", "reward": reward, "seq": 1}  # fmt: skip


def audited(*events: Wire, policy: str = "historical-newest", against: str = "bound") -> Audit:
    log = FakeLog()
    log.append(events)
    return audit(Projected(log), (policy, policy_of(policy)), (against, policy_of(against)))  # type: ignore[arg-type]


def test_arms_that_are_equally_good_are_all_the_best() -> None:
    found = audited(shown("t:a", 1, "x", "y"), shown("t:b", 2, "z"), graded("t:a", 3, 0.9))

    assert (found.best_bound, found.best_policy, found.best_changes) == (("x", "y"), ("z",), True)
    assert found.verdict().endswith("The best lesson changes from a tie of x and y to z.")


def test_the_best_stays_when_the_same_arms_tie_on_both_sides() -> None:
    found = audited(shown("t:a", 1, "x", "y"), graded("t:a", 3, 0.9))

    assert not found.best_changes
    assert found.verdict() == (
        "0 of 1 credited grades (0%) went to another session's lessons. The best lessons stay x and y, which are equal."
    )


def test_lesson_that_loses_its_lead_is_named_with_its_equals() -> None:
    found = audited(shown("t:a", 1, "x", "y"), graded("t:a", 3, 0.9))
    tied = structs.replace(found, best_bound=("x",), best_policy=("v", "x", "y", "z"), best_changes=True)
    alone = structs.replace(found, best_bound=("x", "y"), best_policy=("y",), best_changes=True)
    same = structs.replace(found, best_bound=("x",), best_policy=("x",), best_changes=False)

    assert tied.verdict().endswith("x is no longer best alone: v, x, y and 1 more are equal.")
    assert alone.verdict().endswith("y is now best alone: x and y were equal.")
    assert same.verdict().endswith("The best lesson stays x.")


def test_grades_that_cannot_be_checked_are_never_counted_as_own() -> None:
    found = audited(shown("cc:a", 1, "x"), graded("ws:w", 3, 0.9), graded("ws:v", 4, 0.1))

    assert (found.foreign_grades, found.unverifiable_grades, found.foreign_credit_rate) == (0, 2, None)
    assert found.foreign_credit_rate_bounds == (0.0, 1.0)
    assert found.verdict().startswith(
        "Whether any of 2 credited grades went to another session's lessons could not be checked."
    )


def test_some_that_cannot_be_checked_make_bounds_of_the_rate() -> None:
    """28 own, 12 foreign and 5 unverifiable are 27% to 38%, as in the posterior reference; here 1, 1 and 1."""
    found = audited(
        shown("t:a", 1, "x"),
        graded("t:a", 2, 0.5),
        shown("t:b", 3, "y"),
        graded("t:c", 4, 0.5),
        graded("ws:w", 5, 0.5),
    )

    assert (found.foreign_grades, found.unverifiable_grades) == (1, 1)
    assert found.foreign_credit_rate == 0.5
    assert found.foreign_credit_rate_bounds == pytest.approx((1 / 3, 2 / 3))
    assert found.verdict().startswith(
        "1 of 2 credited grades (50%) went to another session's lessons; "
        "1 more could not be checked (33% to 67% of all)."
    )


def test_a_policy_without_a_name_is_called_by_the_first_digits_of_its_hash() -> None:
    rule = policy_of({"prior": [2, 5]})
    log = FakeLog()
    found = audit(Projected(log), (rule.hash, rule), ("bound", policy_of("bound")))  # type: ignore[arg-type]

    assert found.verdict() == f"{rule.hash[:12]} credits none of 0 grades."
