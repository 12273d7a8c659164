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


def test_sides_of_one_name_are_told_apart_by_their_roles(run: Run, ledger: Path) -> None:
    fill(ledger)

    out = run("audit", "bound", "--against", "bound").out

    assert [line.split() for line in out.splitlines() if line.split()[:1] in (["reference"], ["bin"])] == [
        ["bin", "reference", "policy"],
        ["reference", "policy", "Δ", "mean", "W1", "TV", "reference", "policy"],
    ]
    assert "0.000" in out
    assert "-0.000" not in out
    assert "+0.000" not in out


def test_a_policy_is_called_by_its_files_name_or_by_the_first_digits_of_its_hash(
    run: Run, ledger: Path, here: Path
) -> None:
    fill(ledger)
    (here / "rule.json").write_text('{"prior": [2, 5]}')

    by_file = run("audit", here / "rule.json").out
    by_value = run("audit", '{"prior": [2, 5]}').out
    digest = run("audit", "rule.json", "--json").document["policy_hash"]

    assert f"rule.json ({digest[:12]})" in by_file
    assert digest[:12] in by_value
    assert digest[:13] not in by_file + by_value
    assert str(here) not in by_file


def test_the_errors_of_the_two_policies_say_which_it_is(run: Run, ledger: Path) -> None:
    assert run("audit", "{").err.startswith("rightful: this is no policy: POLICY: Expected a JSON object")
    assert run("audit", "bound", "--against", "{").err.startswith("rightful: this is no policy: --against: Expected a")


def test_in_80_columns_whole_columns_go_before_names_are_folded(
    run: Run, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(ledger)
    monkeypatch.setenv("COLUMNS", "80")

    out = run("audit").out

    assert max(map(len, out.splitlines())) <= 80
    assert "P(best)" not in out
    assert "TV" not in out
    assert "W1" in out
    assert "lessons/a.md" in out


def test_an_empty_ledger_has_no_part_of_nothing(run: Run, ledger: Path) -> None:
    out = run("audit").out

    assert "none)" not in out
    assert "reward gone astray" not in out


def test_grades_that_a_file_holds_already_are_said_with_how_to_audit_them(run: Run, ledger: Path) -> None:
    fill(ledger)
    import rightful

    with rightful.open(ledger) as opened:
        opened.append(
            [{
                "type": "balance.opened", "producer": "p", "key": "1", "at": "2026-08-01T12:00:00Z",
                "through": "2026-08-01T12:00:00Z", "source": "/b.json", "sha256": "0" * 64,
                "arms": {"lessons/a.md": {"alpha": 2.0, "beta": 1.0, "n": 1}},
            }]
        )  # fmt: skip

    told = "2 grades are in-balance. A bandit's file holds them already, right or wrong."
    assert told in run("audit").out
    assert told not in run("audit", "historical-newest", "--balances", "none", "--against", '{"balances": []}').out
    counted = (
        "0 of 2 grades are credited (2 in-balance). What is in-balance stands already in the numbers of a bandit's"
    )
    assert run("posteriors").out.startswith(counted)
    assert "in-balance" not in run("posteriors", "--balances", "none").out
