from __future__ import annotations

from tests.projections.telling import exposed, graded, log_of, told
from tests.reports.explaining import explained

OPENED = told(
    "balance.opened", None, 1,
    {
        "arms": {"x": {"alpha": 6.0, "beta": 3.0, "n": 7}}, "source": "/b.json", "sha256": "0" * 64,
        "through": "1970-01-01T00:05:00Z",
    },
)  # fmt: skip


def test_grade_and_regrade_in_a_balance_name_their_reason() -> None:
    log = log_of(OPENED, exposed("t:a", "x", at=100), graded("t:a", 1.0, at=200))
    [first] = explained(log, "t:a").grades
    assert (first.state, first.reason) == (
        "in-balance",
        (
            "It is of 1970-01-01T00:03:20Z, and the opening balance of /b.json (#1) covers everything through "
            "1970-01-01T00:05:00Z; paying it again would count it twice."
        ),
    )

    log.append([graded("t:a", 0.0, at=400, seq=2)])
    *_, again = explained(log, "t:a").grades
    assert (again.state, again.reason) == (
        "in-balance",
        (
            "Its run was graded before, at 1970-01-01T00:03:20Z, and the opening balance of /b.json (#1) covers "
            "everything through 1970-01-01T00:05:00Z; a later grade cannot be separated from that sum, and paying it "
            "too would count the run twice."
        ),
    )


def test_grade_in_balance_names_its_arms_that_no_balance_holds() -> None:
    [row] = explained(log_of(OPENED, exposed("t:a", "x", "y", at=100), graded("t:a", 1.0, at=200)), "t:a").grades

    assert (row.state, row.outside_balance, row.arms) == ("in-balance", ["y"], [])
    assert row.reason.endswith("A grade counts as a whole, so y is not paid either, though no balance covers it.")
