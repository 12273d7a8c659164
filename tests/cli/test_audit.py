from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.cli.test_posteriors import fill
from tests.projections.telling import exposed, graded, opened

import rightful


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
    out = " ".join(run("audit").out.split())
    assert out.startswith("historical-newest credits none of 0 grades. There is nothing to audit: ")
    assert "`rightful import session-records FILE`" in out
    fill(ledger)
    assert "There is nothing to audit" not in run("audit", "--as-of", "2020-01-01").out, "the note gives the reason"


def test_unknown_times_give_bounds_instead_of_a_guess(run: Run, ledger: Path) -> None:
    """The graded workspace session has no link to the namespace of the exposures."""
    fill(ledger)
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


def test_sides_with_equal_names_are_labelled_by_role(run: Run, ledger: Path) -> None:
    fill(ledger)

    out = run("audit", "bound", "--against", "bound").out

    rows = [line.split() for line in out.splitlines() if line.split()[:1] in (["against"], ["bin"])]
    assert rows[1:] == [
        ["bin", "against", "audited"],
        ["against", "audited", "Δ", "mean", "W1", "TV", "against", "audited"],
    ]
    assert "0.000" in out
    assert "-0.000" not in out
    assert "+0.000" not in out


def test_policy_is_named_by_file_name_or_first_digits_of_its_hash(run: Run, ledger: Path, here: Path) -> None:
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
    assert run("audit", "{").err.startswith("rightful: Invalid policy: POLICY: Expected a JSON object")
    assert run("audit", "bound", "--against", "{").err.startswith("rightful: Invalid policy: --against: Expected a")


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


def open_balance(ledger: Path) -> None:
    """Open a bandit's file that contains both grades of `fill`, as `import auto` does with an updater's own state."""
    import rightful

    with rightful.open(ledger) as opened:
        opened.append(
            [{
                "type": "balance.opened", "producer": "p", "key": "1", "at": "2026-08-01T12:00:00Z",
                "through": "2026-08-01T12:00:00Z", "source": "/b.json", "sha256": "0" * 64,
                "arms": {"lessons/a.md": {"alpha": 2.0, "beta": 1.0, "n": 1}},
            }]
        )  # fmt: skip


def test_audit_leaves_opening_balances_out_of_both_sides(run: Run, ledger: Path) -> None:
    """The documented first path, `import auto` and `audit`, used to say: credits none of 2 grades."""
    fill(ledger)
    before = run("audit", "--json").document
    open_balance(ledger)

    done = run("audit")
    document = run("audit", "--json").document

    assert done.out.splitlines()[0] == (
        "2 of 2 credited grades (100%) went to another session's lessons. "
        "The best lesson changes from lessons/a.md to lessons/b\\u202e.md."
    )
    assert "left out of both sides (1 source)" in " ".join(done.out.split())
    assert (document["balances"], document["balances_left_out"]) == ([], ["/b.json"])
    ignored = {"through", "policy_hash", "reference_hash", "balances_left_out"}
    assert {key: value for key, value in document.items() if key not in ignored} == {
        key: value for key, value in before.items() if key not in ignored
    }
    assert "in-balance" not in done.out


def test_one_option_counts_balances_on_both_sides_of_an_audit(run: Run, ledger: Path) -> None:
    fill(ledger)
    open_balance(ledger)

    counted = run("audit", "--balances", "*", "--json").document
    without = run("audit", "--balances", "none", "--json")

    assert counted["bins_bound"] == {"in_balance": 1, "unmatched": 1}
    assert counted["bins_policy"] == {"credited": 2}  # it pays an arm that the balance does not hold
    assert (counted["balances"], counted["balances_left_out"]) == (["*"], [])
    assert without.out == run("audit", "--json").out
    assert run("audit", "--balances", "/b.json", "--json").document["bins_bound"] == counted["bins_bound"]
    assert "those of * count on both sides, and contain" in " ".join(run("audit", "--balances", "*").out.split())
    assert "no opening balance has such a source" in run("audit", "--balances", "/other.json").err


def test_balances_of_a_policy_decide_nothing_in_an_audit(run: Run, ledger: Path) -> None:
    """A balance on one side only compares an updater with its own result."""
    fill(ledger)
    open_balance(ledger)
    own = '{"join": "newest", "revision": "additive", "balances": ["/b.json"]}'

    done = run("audit", own, "--json")

    assert done.document["bins_policy"] == run("audit", "--json").document["bins_policy"]
    assert "has no effect in an audit" in done.err


def test_audit_that_credits_nothing_gives_the_reason_and_the_fix(run: Run, ledger: Path) -> None:
    with rightful.open(ledger) as opened:
        opened.append([graded("t:a", 0.8)])
    unmatched = " ".join(run("audit").out.split())
    fill(ledger)
    open_balance(ledger)
    contained = " ".join(run("audit", "bound", "--against", "bound", "--balances", "*").out.split())

    assert "1 grade matched no exposure. Import the records of shown lessons" in unmatched
    assert (
        "bound credits none of 3 grades. Already in an opening balance: 1 grade. Run the audit without --balances"
        in contained
    )


def test_hint_of_a_foreign_grade_explains_it_under_the_audited_rule(run: Run, ledger: Path) -> None:
    """Without --policy, `explain` answers under bound: in-balance, and nothing of the session that was paid."""
    fill(ledger)
    open_balance(ledger)

    assert (
        "What this rule did with a grade N:\n  rightful explain '#N' --policy historical-newest\n" in run("audit").out
    )
    explained = " ".join(run("explain", "#3", "--policy", "historical-newest").out.split())
    assert "shown to claude-code:b of another run" in explained
    assert "in-balance" not in explained


def test_posteriors_say_which_grades_a_balance_contains(run: Run, ledger: Path) -> None:
    fill(ledger)
    open_balance(ledger)

    counted = "0 of 2 grades are credited (1 unmatched, 1 in-balance). In-balance grades are already counted in the "
    assert run("posteriors").out.startswith(counted)
    assert "in-balance" not in run("posteriors", "--balances", "none").out


def test_reference_that_credits_nothing_gives_nothing_to_compare(run: Run, ledger: Path) -> None:
    """All arms at the prior are equally good: that is not a best lesson, and not 100% misassigned evidence."""
    fill(ledger)

    done = run("audit", "historical-newest", "--against", '{"graders": ["nobody/*"]}')
    document = run("audit", "historical-newest", "--against", '{"graders": ["nobody/*"]}', "--json").document

    assert ", so no beliefs can be compared." in done.out.splitlines()[0]
    assert "The best lesson" not in done.out
    assert "misassigned" not in done.out
    assert (document["best_bound"], document["best_changes"]) == ([], False)


def test_the_robbed_sessions_are_listed_one_by_one_and_by_day(run: Run, ledger: Path) -> None:
    fill(ledger)

    document = run("audit", "--json").document
    out = run("audit").out

    assert document["foreign_grades_bounds"] == document["policy_credited_grades_bounds"] == [2, 2]
    assert [(one["grade"], one["session"], one["paid_session"], one["arms"]) for one in document["foreign"]] == [
        (3, "claude-code:a", "claude-code:b", ["lessons/b\u202e.md"]),
        (4, "claude-code:ghost", "claude-code:b", ["lessons/b\u202e.md"]),
    ]
    assert document["days"] == [
        {
            "day": "2026-08-01", "grades": 2, "credited": 2, "foreign": 2, "foreign_bounds": [2, 2],
            "foreign_reward": pytest.approx(1.2), "robbed_sessions": ["claude-code:a", "claude-code:ghost"],
        }
    ]  # fmt: skip
    assert [line.split() for line in out.splitlines() if line.strip().startswith("2026-08-01")] == [
        ["2026-08-01", "2", "2", "2", "1.2", "2"]
    ]
    assert [line.split()[:6] for line in out.splitlines() if line.strip().startswith("#")] == [
        ["#3", "2026-08-01", "10:10:00Z", "claude-code:a", "0.8", "claude-code:b"],
        ["#4", "2026-08-01", "10:11:00Z", "claude-code:ghost", "0.4", "claude-code:b"],
    ]


def test_bounds_are_a_range_in_words_where_file_times_order_nothing(run: Run, ledger: Path) -> None:
    with rightful.open(ledger) as opened:
        file = exposed("t:a", "x", at=100.5) | {"at_basis": "file"}
        opened.append([file, exposed("t:b", "y", at=90.5), graded("t:b", 0.8, at=200.5)])

    out = run("audit").out

    assert out.startswith(
        "Between 0 and 1 of 1 credited grades (0% to 100%) went to another session's lessons; "
        "by the recorded times, 1. "
    )
    assert (
        "No exact times are in the ledger for lessons of t:a. If you have a trajectory log or lesson events of it, "
        "import them (`rightful import lesson-hook state/lesson-trajectories`) and audit again. To audit without "
        "t:a and its grades: rightful audit historical-newest --without-session t:a "
    ) in " ".join(out.split())
    excluded = run("audit", "historical-newest", "--without-session", "t:a").out
    assert excluded.startswith("0 of 1 credited grades (0%) went to another session's lessons. The best lesson stays y")
    assert "1 (0 to 1)" in out
    assert "by its time" in out


def test_sessions_credited_later_are_named_with_the_command_for_the_past(run: Run, ledger: Path) -> None:
    """Rows 1 to 3 decide the answer for the past; B and C were credited from their files alone."""
    with rightful.open(ledger) as opened:
        opened.append([exposed("t:a", "x", at=90.5), exposed("t:d", "y", at=95.5), graded("t:a", 0.8, at=200.5)])
        for session in ("t:b", "t:c"):
            file = exposed(session, "z", at=900.5) | {"at_basis": "file"}
            opened.append([file, graded(session, 0.8, at=901.5)])

    out = run("audit", "--policy", '{"credit": "split"}').out

    assert out.startswith("Between 1 and 3 of 3 credited grades")
    assert (
        "for lessons of t:b, t:c. If you have a trajectory log or lesson events of them, import them "
        "(`rightful import lesson-hook state/lesson-trajectories`) and audit again. These sessions were recorded after "
        "position 3, with later times than the grades up to it. If they began after those grades, audit the ledger as "
        'of that position: rightful audit historical-newest --policy \'{"credit": "split"}\' --as-of 3 '
    ) in " ".join(out.split())
    assert run("audit", "historical-newest", "--as-of", "3").out.startswith("1 of 1 credited grades (100%)")


def test_grade_with_the_time_of_a_file_is_named_with_the_command(run: Run, ledger: Path) -> None:
    """The record of A has no end, so its grade has the time of its file: B can have been the newest, or not."""
    with rightful.open(ledger) as opened:
        grade = graded("t:a", 0.8, at=200.5) | {"at_basis": "file"}
        opened.append([exposed("t:a", "x", at=90.5), exposed("t:b", "y", at=95.5), grade])
        opened.append([graded("t:b", 0.8, at=200.5)])

    out = run("audit").out

    assert out.startswith("Between 0 and 1 of 1 to 2 credited grades")
    assert (
        "it is not known which file was the newest at the grade of t:a: a time is equal to another, has whole seconds "
        "only, or is the time of a file, such as that of a record without an end. To audit without t:a and its "
        "grades: rightful audit historical-newest --without-session t:a "
    ) in " ".join(out.split())
    assert run("audit", "historical-newest", "--without-session", "t:a").out.startswith("0 of 1 credited grades (0%)")


def test_only_sessions_without_a_log_are_to_be_imported(run: Run, ledger: Path) -> None:
    """A has times of x in the ledger, so its log was imported already; B to F have only state files."""
    with rightful.open(ledger) as opened:
        file = {"at_basis": "file"}
        opened.append([exposed("t:a", "x", at=50.5), exposed("t:a", "z", at=100.5) | file])
        opened.append([exposed(f"t:{name}", "y", at=101.5) | file for name in "bcdef"] + [graded("t:a", 0.8, at=200.5)])

    text = " ".join(run("audit").out.split())

    assert "for lessons of t:a, t:b, t:c, 3 more. " in text
    assert "lesson events of t:b, t:c, t:d, 2 more, import them" in text
    assert "To audit without t:a and its grades (repeat the option to exclude more sessions): rightful audit " in text


def test_policy_option_applies_its_aliases_to_both_sides(run: Run, ledger: Path, here: Path) -> None:
    """Both sessions saw one lesson in two spellings, so the wrong session's credit moves nothing."""
    with rightful.open(ledger) as opened:
        opened.append([exposed("t:a", "x", at=50.5), exposed("t:b", "./x", at=60.5), graded("t:a", 0.8, at=200.5)])
    (here / "aliases.json").write_text('{"arm_aliases": {"./x": "x"}}')

    words = ("audit", "historical-newest", "--policy", "aliases.json")
    document, text = run(*words, "--json").document, run(*words).out

    assert [shift["arm"] for shift in document["per_arm"]] == ["x"]
    assert (document["foreign_grades"], document["best_changes"], document["selection_shift"]) == (1, False, 0.0)
    assert "historical-newest with aliases.json (" in text
    assert "bound with aliases.json (" in text
    assert run("audit", "--recorded", "x.json", "--policy", "aliases.json").code == 2


WORDS = [
    ["audit", "historical-newest", "--policy", "my aliases.json", "--credit", "split", "--without-session", "t:c"],
    ["audit", "--as-of", "4", "--without-grader", "human/*"],
    ["audit", "--against", "historical-newest"],
    ["audit", '{"join": "newest"}', "--against", "gptme", "--balances", "*"],
]


@pytest.mark.parametrize("words", WORDS)
def test_the_printed_commands_are_those_to_paste(run: Run, ledger: Path, here: Path, words: list[str]) -> None:
    """Each is one line, whatever the width, and has all options of the reader."""
    (here / "my aliases.json").write_text('{"arm_aliases": {"./x": "x"}}')
    fill_untimed(ledger)
    words = ["--ledger", ".rightful", *words] if "--as-of" in words else words
    newest = [*words, "--join", "newest"] if "--as-of" in words else words

    lines = run(*newest).out.splitlines()
    exclude, explain = (next(line for line in lines if f" {word} " in line and line[:11] == "  rightful ")
                        for word in ("audit", "explain"))  # fmt: skip
    printed, explained = shlex.split(exclude)[1:], shlex.split(explain)[1:]

    assert run(*printed).out.startswith("0 of 1 credited grades (0%)")
    assert {*newest} <= {*printed}
    assert printed[-2:] == ["--without-session", "t:a"]
    assert run(*[word.replace("#N", "#3") for word in explained]).code == 0
    assert "bound" in " ".join(printed) or "--against" in printed or "historical-newest" in printed


def fill_untimed(ledger: Path) -> None:
    """The file of A has no exact time, so B's grade can have paid A."""
    with rightful.open(ledger) as opened:
        file = exposed("t:a", "x", at=100.5) | {"at_basis": "file"}
        opened.append([file, exposed("t:b", "y", at=90.5), graded("t:b", 0.8, at=200.5), exposed("t:c", "y", at=50.5)])


def test_an_excluded_session_counts_on_neither_side(run: Run, ledger: Path) -> None:
    """The evidence of A was lost by no rule: it was excluded. Only a rule against itself shows the effect."""
    with rightful.open(ledger) as opened:
        opened.append(
            [exposed("t:a", "x"), graded("t:a", 0.5), exposed("t:b", "y", at=300), graded("t:b", 1.0, at=400)]
        )

    newest, same = (
        run("audit", policy, "--without-session", "t:a", "--json").document for policy in ("historical-newest", "bound")
    )

    assert (newest["missing_mass"], newest["bound_credited_grades"]) == (0.0, 1)
    assert (same["missing_mass"], same["bound_credited_grades"]) == (1.0, 2)
    assert "bound, without session t:a (" in run("audit", "historical-newest", "--without-session", "t:a").out


def test_a_label_has_one_hash(run: Run, ledger: Path) -> None:
    """With opening balances in the ledger, an audit and an explanation of a newest-file rule leave them out."""
    with rightful.open(ledger) as held:
        held.append([opened(90), exposed("t:a", "x"), graded("t:a", 0.5)])

    hashed = run("audit", "--json").document["policy_hash"][:12]

    label = f"historical-newest, without opening balances ({hashed})"
    assert label in " ".join(run("audit").out.split())
    assert label in " ".join(run("explain", "#3", "--policy", "historical-newest").out.split())


def test_no_heading_is_shortened(run: Run, ledger: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "workspace-policy.json").write_text('{"arm_aliases": {"./x": "x"}}')
    fill(ledger)
    monkeypatch.setenv("COLUMNS", "80")

    out = run("audit", "historical-newest", "--policy", "workspace-policy.json").out

    assert "…" not in out.replace("0 … 1", "")


MANY = '{"prior": [2, 2], "skew_s": 3, "credit": "split", "marginals": true}'


@pytest.mark.parametrize(
    ("policy", "called"),
    [
        ('{"credit": "split"}', "bound, credit split"),
        ('{"join": "newest"}', "bound, join newest"),
        ("{}", "bound"),
        (MANY, "bound, credit split, prior [2.0, 2.0], skew_s 3.0, 1 more"),
    ],
)
def test_unnamed_policy_is_described_by_its_differences(run: Run, ledger: Path, policy: str, called: str) -> None:
    fill(ledger)

    out = run("audit", policy, "--against", "historical-newest").out

    audited = next(line for line in out.splitlines() if line.startswith("audited"))
    assert audited.split(maxsplit=1)[1].startswith(f"{called} (")
