"""What a log cannot tell of a state file, and what of the log does not belong into it."""

from __future__ import annotations

import pytest
from tests.projections.telling import exposed, graded, log_of, opened
from tests.projections.telling import projected as of_log
from tests.reports.recording import TWO, S, ask, best, state

from rightful.policies import policy_of
from rightful.times import text_of

MODEL = "pm-model:ci-fix:opus"
OF_MODEL = [exposed("t:m", MODEL, at=12), graded("t:m", 1.0, at=32)]


def test_arms_of_another_tools_file_are_left_out_and_noted() -> None:
    """Lessons are never in the file of pm-dispatch, nor models in any other."""
    of_pm = ask(state({MODEL: (2.0, 1.0, 1)}, last=40), *TWO, *OF_MODEL)
    lessons = ask(state({"x": (1.75, 1.25, 1), "y": (1.25, 1.75, 1)}, last=40), *TWO, *OF_MODEL)
    both = ask(state({"x": (1.75, 1.25, 1), MODEL: (2.0, 1.0, 1)}, last=40), *TWO, *OF_MODEL)

    assert ("bound" in [one.policy for one in of_pm.fitting], of_pm.lacks, of_pm.credited) == (True, (), 1)
    assert of_pm.notes == ("2 arms of the log belong to another tool's file and were skipped, such as x.",)
    assert ("bound" in [one.policy for one in lessons.fitting], lessons.lacks) == (True, ())
    assert lessons.notes == ("1 arm of the log belongs to another tool's file and was skipped: pm-model:ci-fix:opus.",)
    assert [(lack.arm, lack.what) for lack in both.lacks] == [("y", "lost")]
    assert both.notes == ()


def test_a_decay_is_found_without_the_evidence_of_another_tools_arms() -> None:
    events = [
        one
        for place in range(9)
        for one in (
            exposed(f"t:{place}", "x", *([MODEL] if place % 2 else []), at=10 * place),
            graded(f"t:{place}", 0.1 * place, at=10 * place + 5),
        )
    ]
    asked = of_log(log_of(*events)).posteriors(policy_of({"decay": {"mode": "session", "gamma": 0.9}})).arms["x"]

    found = ask(state({"x": (asked.alpha, asked.beta, 9)}, last=100), *events)

    assert (best(found).policy, best(found).fits) == ("bound, decay session:0.9", True)


def test_without_a_grade_up_to_its_time_nothing_can_be_told() -> None:
    shown = [exposed("t:a", "x", at=10), graded("t:a", 0.75, at=500)]

    for data in (state({"x": (2.0, 1.0, 1)}, last=40), state({"x": (1.0, 1.0, 0)}, last=40)):
        found = ask(data, *shown)
        assert (found.is_decidable, found.fitting, found.grades, found.credited) == (False, [], 0, 0)
        assert len(found.nearest_rules) == len(found.candidates) > 1
        assert found.fits == ()
    of_pm = ask(state({MODEL: (2.0, 1.0, 1)}, last=40), *TWO)
    assert (of_pm.is_decidable, of_pm.grades, of_pm.credited) == (False, 2, 0)
    later = ask(state({"x": (1.75, 1.25, 1)}, last=600), *shown)
    assert (later.is_decidable, later.grades, later.credited) == (True, 1, 1)
    assert "bound" in [one.policy for one in later.fitting]


def test_an_opening_balance_alone_can_tell() -> None:
    older = opened(at=5, arms={"x": {"alpha": 3.0, "beta": 1.0, "n": 2}}, through=text_of(5 * S))

    found = ask(state({"x": (3.0, 1.0, 2)}, last=40), older)

    assert (found.is_decidable, found.grades) == (True, 0)
    assert "bound" in [one.policy for one in found.fitting]


def test_numbers_that_differ_with_as_many_credits_are_no_credit() -> None:
    """Somebody edited the file, or a decay that nobody recorded touched it."""
    arms = {"x": (1.751, 1.25, 1), "y": (1.25, 1.5, 1)}

    found = ask(state(arms, last=40), *TWO)

    assert [(lack.arm, lack.what, lack.grades, lack.n) for lack in found.lacks] == [
        ("x", "changed", 0, 0), ("y", "changed", 0, 0),
    ]  # fmt: skip
    assert [lack.evidence for lack in found.lacks] == pytest.approx([0.001, -0.25])
    counted = ask(state({"x": (1.751, 1.25, 3), "y": (1.25, 1.75, 1)}, last=40), *TWO)
    assert [(lack.what, lack.grades) for lack in counted.lacks] == [("missing", 2)]
