from __future__ import annotations

from typing import Any

from tests.projections.fake import FakeLog
from tests.projections.telling import decayed, exposed, graded, log_of, opened, projected, told, withdrawn
from tests.strategies import Wire

from rightful import limits
from rightful.policies import policy_of
from rightful.reports.alarms import alarms
from rightful.reports.session_coverage import Alarm, ground_of

K = limits.DECAYS_ALONE


def raised(log: FakeLog, **policy: Any) -> list[Alarm]:
    return alarms(ground_of(projected(log), policy_of(policy)), log)  # type: ignore[arg-type]


def kinds(*events: Wire, **policy: Any) -> list[str]:
    return [one.kind for one in raised(log_of(*events), **policy)]


def decays(count: int, gamma: float = 0.99) -> list[Wire]:
    return [decayed(gamma, key=f"d{at}") for at in range(count)]


CREDITED = [exposed("t:a", "x", "y"), graded("t:a", 0.8)]


def test_an_arm_without_a_credit_in_the_last_decays_only_decays() -> None:
    [alarm] = raised(log_of(*CREDITED, *decays(K)))

    assert (alarm.kind, alarm.arms) == ("only-decays", ["x", "y"])
    assert (
        alarm.what == f"2 arms only decay: no credit was recorded since #3, and {K} decays left 82% of the evidence "
        "(x and y)."
    )


def test_one_decay_fewer_or_a_credit_among_them_is_no_alarm() -> None:
    fed = [exposed("t:b", "x"), graded("t:b", 0.8)]

    assert kinds(*CREDITED, *decays(K - 1)) == []
    assert raised(log_of(*CREDITED, *decays(K - 1), *fed, decayed(0.99, key="last")))[0].arms == ["y"]


def test_a_decay_that_leaves_everything_is_none() -> None:
    assert kinds(*CREDITED, *decays(K, gamma=1.0)) == []


def test_a_call_that_decays_counts_as_a_decay() -> None:
    calls = [graded(f"t:{at}", 0.5, decay_rate=0.9) for at in range(K)]

    assert kinds(*CREDITED, *calls) == ["only-decays", "uncredited-grades"]


def test_arm_of_a_balance_only_decays_unless_it_is_at_the_prior() -> None:
    arms = {"x": {"alpha": 3.0, "beta": 1.0, "n": 4}, "fresh": {"alpha": 1.0, "beta": 1.0, "n": 0}}

    assert [one.arms for one in raised(log_of(opened(arms=arms), *decays(K)))] == [["x"]]


def test_an_arm_that_was_dropped_decays_no_more() -> None:
    pruned = told("bandit.pruned", "t:desk", 120, {"arms": ["x"]})

    assert raised(log_of(*CREDITED, pruned, *decays(K)))[0].arms == ["y"]


def test_a_withdrawn_prune_drops_no_arm() -> None:
    pruned = told("bandit.pruned", "t:desk", 120, {"arms": ["x"], "key": "p"})

    [alarm] = raised(log_of(*CREDITED, pruned, withdrawn("p", 1), *decays(K)))

    assert alarm.arms == ["x", "y"]


def test_a_withdrawn_balance_is_not_the_oldest_one() -> None:
    wrong = opened(at=10, arms={"x": {"alpha": 5.0, "beta": 3.0, "n": 6}}, key="b")
    right = opened(at=20, arms={"x": {"alpha": 4.0, "beta": 2.5, "n": 6}}, sha256="b" * 64)

    assert kinds(wrong, right) == ["only-decays"]
    assert kinds(wrong, right, withdrawn("b", 1)) == []


def test_an_arm_whose_balance_shrank_without_a_selection_only_decays() -> None:
    before = {"x": {"alpha": 5.0, "beta": 3.0, "n": 6}, "y": {"alpha": 5.0, "beta": 3.0, "n": 6}}
    after = {"x": {"alpha": 4.0, "beta": 2.5, "n": 6}, "y": {"alpha": 5.5, "beta": 3.0, "n": 7}}

    [alarm] = raised(log_of(opened(at=10, arms=before), opened(at=20, arms=after, sha256="b" * 64)))

    assert (alarm.kind, alarm.arms) == ("only-decays", ["x"])
    assert alarm.what == (
        "bandit.json: 1 arm lost evidence between the balances at #1 and #2 without being selected once: "
        "only decay moves it (x)."
    )


def held(selections: int, rewards: int, **more: Any) -> Wire:
    return opened(arms={"x": {"alpha": 1.0, "beta": 9.0, "n": selections, "rewards": rewards}}, **more)


def test_a_bandit_file_with_many_selections_and_no_reward_is_reported() -> None:
    [alarm] = raised(log_of(held(87, 0, sessions=87)))

    assert alarm.kind == "no-rewards"
    assert alarm.what == (
        "bandit.json (#1) counts 87 selections in 87 sessions and total_rewards 0. "
        "Its updater never saw a reward above 0.5."
    )


def test_few_selections_or_one_reward_are_no_alarm() -> None:
    assert kinds(held(limits.REWARDLESS_COUNT, 0)) == ["no-rewards"]
    assert kinds(held(limits.REWARDLESS_COUNT - 1, 0)) == []
    assert kinds(held(87, 1)) == []
    assert kinds(opened(arms={"x": {"alpha": 1.0, "beta": 9.0, "n": 87}})) == []


def test_an_arm_that_does_not_tell_its_rewards_is_counted_on_neither_side() -> None:
    silent = {"alpha": 20.0, "beta": 3.0, "n": 20}

    def both(selections: int) -> Wire:
        return opened(arms={"x": {"alpha": 1.0, "beta": 9.0, "n": selections, "rewards": 0}, "y": silent}, sessions=60)

    assert kinds(both(limits.REWARDLESS_COUNT - 1)) == []
    [alarm] = raised(log_of(both(40)))
    assert alarm.what == (
        "bandit.json (#1) counts 40 selections and total_rewards 0 for the 1 of 2 arms that records its rewards. "
        "Its updater never saw a reward above 0.5 for them."
    )


def graded_often(count: int, *rewards: float) -> list[Wire]:
    events = []
    for at in range(count):
        events += [exposed(f"t:{at}", "x"), graded(f"t:{at}", rewards[at % len(rewards)])]
    return events


def test_a_grader_that_never_rewards_above_a_half_is_reported() -> None:
    [alarm] = raised(log_of(*graded_often(limits.REWARDLESS_COUNT, 0.5, 0.2)))

    assert alarm.what == "judge/overall: 30 credited grades and no reward above 0.5, so total_rewards stays 0."
    assert kinds(*graded_often(limits.REWARDLESS_COUNT - 1, 0.5)) == []
    assert kinds(*graded_often(limits.REWARDLESS_COUNT, 0.5, 0.51)) == []


def test_arm_withheld_and_shown_in_one_run_is_reported() -> None:
    log = log_of(
        exposed("t:a", "x", withheld=("y", "z")),
        exposed("t:a", "y", at=150),
        exposed("t:b", "y", withheld=("x",)),
        exposed("t:c", "y", withheld=("y",)),
    )

    assert raised(log) == [
        Alarm(
            "withheld-but-shown",
            "Withheld and shown in the same run: y in 2 runs; for example in t:a.",
            arms=["y"],
            session="t:a",
        )
    ]
    assert kinds(exposed("t:a", "x", withheld=("y",)), exposed("t:b", "y")) == []


def doubtful(count: int) -> list[Wire]:
    return [
        event for at in range(count)
        for event in (exposed(f"d:{at}", "x"), graded(f"d:{at}", 0.8), graded(f"d:{at}", 0.4))
    ]  # fmt: skip


def paid(count: int) -> list[Wire]:
    return [event for at in range(count) for event in (exposed(f"t:{at}", "x"), graded(f"t:{at}", 0.8))]


def test_doubtful_grades_are_reported_above_one_in_ten_with_an_example() -> None:
    contested = [exposed("e:a", "x"), graded("e:a", 0.8), graded("w:a", 0.8, exposure_session="e:a")]

    [alarm] = raised(log_of(*paid(17), *doubtful(1), *contested))

    assert (alarm.kind, alarm.session, alarm.share) == ("doubtful-grades", "w:a", 0.15)
    assert alarm.what == (
        "3 of 20 grades (15%) end in ambiguous (2) or conflicting (1) and pay no arm; for example that of w:a."
    )
    assert limits.DOUBTFUL_PERCENT == 10
    assert kinds(*paid(9), *doubtful(1)) == []
    assert kinds(*paid(8), *doubtful(1)) == ["doubtful-grades"]


def test_whether_grades_are_in_doubt_is_judged_under_the_policy() -> None:
    assert kinds(*doubtful(3), graders=["human/*"]) == []


def graded_alone(count: int, **more: Any) -> list[Wire]:
    return [graded(f"t:none{number}", 0.5, at=1_000 + number, **more) for number in range(count)]


def uncredited(*events: Wire, **policy: Any) -> list[Alarm]:
    return [alarm for alarm in raised(log_of(*events), **policy) if alarm.kind == "uncredited-grades"]


def test_grades_that_all_miss_their_exposures_are_reported_by_bin() -> None:
    late = [graded("t:a", 0.8, at=10), exposed("t:a", "x", at=5_000)]
    [alarm] = uncredited(*graded_alone(9), *late)

    assert alarm.what == (
        "0 of 10 grades in the 30 days up to 1970-01-01 are credited; the others are unmatched (9) and late-only (1). "
        "`rightful explain t:a` names the reason."
    )
    assert (alarm.share, alarm.session, alarm.bins) == (0.0, "t:a", {"unmatched": 9, "late_only": 1})


def test_a_tenth_of_credited_grades_is_enough() -> None:
    paid = [exposed("t:a", "x", at=1), graded("t:a", 0.8, at=1_000)]

    assert (limits.CREDITED_PERCENT, limits.CREDITED_COUNT, limits.CREDITED_DAYS) == (10, 10, 30)
    assert uncredited(*paid, *graded_alone(9)) == []
    [alarm] = uncredited(*paid, *graded_alone(10))
    assert alarm.share == 1 / 11
    assert alarm.what.startswith(
        "1 of 11 grades in the 30 days up to 1970-01-01 is credited; the others are unmatched (10)."
    )


def test_of_few_grades_a_single_credited_one_is_enough() -> None:
    assert uncredited(exposed("t:a", "x", at=1), graded("t:a", 0.8, at=1_000), *graded_alone(8)) == []
    assert len(uncredited(*graded_alone(1))) == 1


def test_only_the_days_before_the_newest_grade_are_counted() -> None:
    """The exposures stopped: what was credited long ago does not hide that."""
    old = [event for number in range(20) for event in (
        exposed(f"t:{number}", "x", at=1), graded(f"t:{number}", 0.8, at=2))]  # fmt: skip
    day = 86_400

    assert uncredited(*old, graded("t:none", 0.5, at=2 + 30 * day)) == []
    [alarm] = uncredited(*old, graded("t:none", 0.5, at=3 + 30 * day))
    assert alarm.what.startswith("0 of 1 grade in the 30 days up to 1970-01-31 is credited")


def test_grades_that_are_not_to_be_paid_are_not_counted() -> None:
    """Retracted, or in a balance that holds the arm."""
    taken_back = [{"type": "grade.retracted", "producer": "judge", "key": "r", "session": "t:none0", "at":
                   "1970-01-01T01:00:00Z", "seq": 2}]  # fmt: skip
    inside = [
        exposed("t:b", "x", at=1),
        graded("t:b", 0.5, at=2),
        opened(arms={"x": {"alpha": 2.0, "beta": 2.0, "n": 1}}, through="1970-01-01T00:01:00Z"),
    ]

    assert uncredited(*graded_alone(1), *taken_back) == []
    assert uncredited(*inside) == []
