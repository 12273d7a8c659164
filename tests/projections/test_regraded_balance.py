"""What an opening balance holds is not paid again, and arrival decides nothing."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from tests.projections.telling import alphas, ask, bins, exposed, graded, log_of, projected, retracted, told
from tests.strategies import Wire

from rightful.policies import policy_of

OPENED = told(
    "balance.opened", None, 1,
    {
        "arms": {"x": {"alpha": 6.0, "beta": 3.0, "n": 7}}, "source": "/b.json", "sha256": "0" * 64,
        "through": "1970-01-01T00:05:00Z",
    },
)  # fmt: skip


def test_a_regrade_of_what_a_balance_holds_is_not_paid_on_top_of_it() -> None:
    """The first grade (at 200 s) is in the balance (through 300 s); nobody can take it out again."""
    rows = [OPENED, exposed("t:a", "x", at=100), graded("t:a", 1.0, at=200), graded("t:a", 0.0, at=400, seq=2)]

    assert (alphas(ask(*rows)), bins(ask(*rows))) == ({"x": 6.0}, {"in_balance": 1})
    rival = graded("t:a", 0.0, at=400, by="human")
    assert bins(ask(*rows[:3], rival)) == {"in_balance": 1}
    again = [*rows[:3], retracted("t:a", 2, at=350), graded("t:a", 0.5, at=400, seq=3)]
    assert bins(ask(*again)) == {"in_balance": 1}


def test_a_grade_that_comes_first_after_the_balance_is_paid() -> None:
    got = ask(OPENED, exposed("t:a", "x", at=100), graded("t:a", 1.0, at=400))

    assert (alphas(got), bins(got)) == ({"x": 7.0}, {"credited": 1})


SAME_TIME: list[Wire] = [
    exposed("t:a", "x", context=["code", "opus"], key="1"),
    exposed("t:a", "x", key="2"),
    exposed("t:a", "x", context=["code", None], key="3"),
]


def test_credited_context_of_simultaneous_exposures_ignores_arrival() -> None:
    said: set[Any] = set()
    for order in permutations(SAME_TIME):
        got = ask(*order, graded("t:a", 1.0))
        said.add(tuple((one.arm, one.context) for one in got.contexts))

    assert said == {(("x", ("code", "opus")),)}


def test_a_publication_does_not_age_what_it_published() -> None:
    published = told(
        "posterior.published", None, 9e8,
        {"policy": "0" * 64, "through": 2, "digest": "0" * 64, "target": "/b.json", "new_sha256": "f" * 64},
    )  # fmt: skip
    policy = policy_of({"decay": {"mode": "time", "half_life": 100.0}})
    rows = [exposed("t:a", "x", at=100), graded("t:a", 1.0, at=200)]

    before = projected(log_of(*rows)).posteriors(policy)
    after = projected(log_of(*rows, published)).posteriors(policy)

    assert (before.decay_at_us, after.decay_at_us) == (200_000_000, 200_000_000)
    assert before.arms == after.arms


@pytest.mark.parametrize("count", [1, 1_023, 1_024, 1_025])
def test_a_publication_is_skipped_wherever_its_block_ends(count: int) -> None:
    published = [
        told(
            "posterior.published", None, 9e8,
            {
                "policy": "0" * 64, "through": 2, "digest": "0" * 64, "target": "/b.json", "new_sha256": "f" * 64,
                "key": str(number),
            },
        )
        for number in range(count)
    ]  # fmt: skip
    log = log_of(exposed("t:a", "x", at=100), *published, graded("t:a", 1.0, at=200))
    policy = policy_of({"decay": {"mode": "time", "half_life": 100.0}})

    assert projected(log).posteriors(policy, as_of=1 + count).decay_at_us == 100_000_000
    assert projected(log).posteriors(policy).decay_at_us == 200_000_000
