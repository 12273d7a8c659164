from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.cli.test_posteriors import fill


def test_the_first_line_says_in_words_what_went_where(run: Run, ledger: Path) -> None:
    fill(ledger)

    done = run("audit")

    assert done.code == 0
    assert done.out.splitlines()[0] == (
        "2 of 2 credited grades (100%) went to another session's lessons. "
        "The best lesson changes from lessons/a.md to lessons/b\\u202e.md."
    )


def test_json_has_the_keys_of_the_cases_file(run: Run, ledger: Path) -> None:
    fill(ledger)

    document = run("audit", "historical-newest", "--json").document

    assert (document["policy"], document["reference"]) == ("historical-newest", "bound")
    assert (document["grades"], document["policy_credited_grades"], document["bound_credited_grades"]) == (2, 2, 1)
    assert (document["foreign_grades"], document["foreign_credit_rate"]) == (2, 1.0)
    assert document["foreign_reward"] == pytest.approx(1.2, abs=1e-12)
    assert (document["spurious_mass"], document["missing_mass"], document["overlap"]) == (2.0, 1.0, 0.0)
    assert [one["arm"] for one in document["per_arm"]] == ["lessons/a.md", "lessons/b\u202e.md"]
    assert document["bins_bound"] == {"credited": 1, "unmatched": 1}
    assert document["best_changes"] is True


def test_against_alone_holds_that_rule_against_bound(run: Run, ledger: Path) -> None:
    fill(ledger)

    assert run("audit", "--against", "historical-newest", "--json").out == run("audit", "--json").out


def test_a_policy_held_against_itself_moves_nothing(run: Run, ledger: Path) -> None:
    fill(ledger)

    document = run("audit", "bound", "--against", "bound", "--json").document

    assert (document["selection_shift"], document["spurious_mass"], document["missing_mass"]) == (0.0, 0.0, 0.0)
    assert document["foreign_grades"] == 0


def test_an_empty_ledger_has_no_rates(run: Run, ledger: Path) -> None:
    document = run("audit", "--json").document

    assert document["foreign_credit_rate"] is None
    assert document["foreign_credit_rate_bounds"] is None
    assert run("audit").out.startswith("historical-newest credits none of 0 grades.")


def test_what_cannot_be_told_is_bounds_and_not_a_guess(run: Run, ledger: Path) -> None:
    """The graded workspace session has no link to the namespace of the exposures."""
    fill(ledger)
    import rightful

    with rightful.open(ledger) as opened:
        opened.append(
            [
                {
                    "type": "grade.recorded", "producer": "judge", "key": "9", "session": "workspace:w",
                    "at": "2026-08-01T10:12:00Z", "reward": 1.0, "seq": 1,
                }
            ]
        )  # fmt: skip

    document = run("audit", "--json").document

    assert (document["foreign_grades"], document["unverifiable_grades"]) == (2, 1)
    assert document["foreign_credit_rate_bounds"] == pytest.approx([2 / 3, 1.0])
    assert "1 more could not be checked (67% to 100% of all)" in run("audit").out
