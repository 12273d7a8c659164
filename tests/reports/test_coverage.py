from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.projections.fake import FakeLog
from tests.projections.telling import exposed, graded, linked, log_of, mentioned, projected, retracted, withdrawn
from tests.strategies import Wire

from rightful import limits
from rightful.policies import policy_of
from rightful.reports.session_coverage import Alarm, Day, days_of, drops, ground_of, newest

DAY = 86_400


def days(log: FakeLog, **policy: Any) -> list[Day]:
    return days_of(ground_of(projected(log), policy_of(policy)))


def test_a_session_counts_for_the_producer_and_day_of_its_first_row() -> None:
    log = log_of(
        exposed("t:a", "x", at=DAY - 1, by="hook"),
        graded("t:a", 0.8, at=DAY + 5, by="judge"),
        mentioned("t:b", by="importer"),
        exposed("t:c", "x", at=DAY + 1, by="hook"),
        graded("t:d", 0.5, at=DAY + 9, by="judge"),
    )

    assert days(log) == [
        Day("hook", "1970-01-01", 1, 1, 1, 0, {"credited": 1}, complete=True),
        Day("hook", "1970-01-02", 1, 1, 0, 0, {}, complete=False),
        Day("importer", "1970-01-01", 1, 0, 0, 0, {}, complete=True, transcripts={"unknown": 1}),
        Day("judge", "1970-01-02", 1, 0, 1, 0, {"unmatched": 1}, complete=False),
    ]


def test_a_link_gives_every_name_of_a_run_what_one_of_them_has() -> None:
    log = log_of(
        exposed("u:n", "x", by="hook"),
        graded("w:a", 0.8, by="judge"),
        linked("w:a", "u:n", by="judge"),
        mentioned("t:z"),
    )

    assert days(log) == [
        Day("hook", "1970-01-01", 2, 1, 1, 1, {}, complete=False, transcripts={"unknown": 1}),
        Day("judge", "1970-01-01", 1, 1, 1, 1, {"credited": 1}, complete=False),
    ]


def test_a_grade_that_names_another_session_counts_as_that_sessions_grade() -> None:
    log = log_of(exposed("t:a", "x", by="hook"), graded("w:a", 0.8, by="judge", exposure_session="t:a"))

    assert [(row.producer, row.exposure, row.grade) for row in days(log)] == [("hook", 1, 1), ("judge", 0, 1)]


def test_exposure_of_a_sanitised_form_counts_for_its_session() -> None:
    log = log_of(exposed("t:a_b", "x", alias=True), mentioned("t:a/b", by="importer"))

    assert days(log) == [Day("importer", "1970-01-01", 1, 1, 0, 0, {}, complete=False, transcripts={"unknown": 1})]


def test_conflicting_or_withdrawn_rows_cover_nothing() -> None:
    twice = [exposed("t:a", "x", key="e"), exposed("t:a", "y", key="e")]

    assert [row.exposure for row in days(log_of(*twice))] == [0]
    assert [row.exposure for row in days(log_of(*twice, withdrawn("e", 2)))] == [1]


def test_a_retracted_grade_is_a_grade_and_a_withdrawn_one_is_none() -> None:
    taken_back = log_of(exposed("t:a", "x"), graded("t:a", 0.8), retracted("t:a", 2))
    twice = [graded("t:a", 0.8, key="g"), exposed("t:a", "x", by="judge", key="g", at=201)]

    assert [(row.grade, row.bins) for row in days(taken_back)] == [(1, {"retracted": 1})]
    assert sum(row.grade for row in days(log_of(*twice))) == 1
    assert sum(row.grade for row in days(log_of(*twice, withdrawn("g", 1, by="judge")))) == 0


def recorded_on(day: int, *events: Wire) -> FakeLog:
    """A log whose rows were all recorded on one day, whenever they say that they happened."""
    log = log_of(*events)
    log.stored = [
        row._replace(envelope=msgspec.structs.replace(row.envelope, recorded_at_us=(day * DAY + 5) * 1_000_000))
        for row in log.stored
    ]
    return log


def test_a_day_is_complete_once_a_row_was_recorded_on_a_later_one() -> None:
    """By the ledger's own clock: neither a silence nor a stamp of the future changes when a day is judged."""
    events = [exposed("t:a", "x", at=1), exposed("t:b", "x", at=DAY), exposed("t:late", "x", at=3_000 * DAY)]

    assert [row.complete for row in days(recorded_on(0, *events))] == [False, False, False]
    assert [row.complete for row in days(recorded_on(1, *events))] == [True, False, False]
    assert [row.complete for row in days(recorded_on(2, *events))] == [True, True, False]
    assert [row.complete for row in days(recorded_on(0, exposed("t:a", "x", at=9 * DAY, at_basis="file")))] == [False]


def test_the_bins_are_those_of_the_policy_that_is_asked() -> None:
    log = log_of(exposed("t:a", "x"), graded("t:a", 0.8), graded("t:a", 0.4, seq=2))

    assert [row.bins for row in days(log)] == [{"credited": 1}]
    assert [row.bins for row in days(log, revision="additive")] == [{"credited": 2}]


def test_an_empty_ledger_has_no_days() -> None:
    assert days(FakeLog()) == []


def run_of_days(shares: list[int], sessions: int = 10) -> list[Day]:
    """Days of so many sessions with so many exposures each, the last one incomplete."""
    rows = [
        Day("hook", f"1970-01-{at + 1:02d}", sessions, have, sessions, 0, {}, complete=True)
        for at, have in enumerate(shares)
    ]
    return [*rows, Day("hook", "1970-02-01", sessions, 0, sessions, 0, {}, complete=False)]


def test_drop_below_the_median_is_reported_with_its_numbers() -> None:
    assert limits.COVERAGE_POINTS == 20

    assert drops(run_of_days([10, 10, 10, 8]), 0) == []
    assert drops(run_of_days([10, 10, 10, 7]), 0) == [
        Alarm(
            "exposure-drop",
            "hook on 1970-01-04: 7 of 10 sessions have an exposure (70%); the median of the 3 days before is 100%.",
            "hook",
            "1970-01-04",
            0.7,
            1.0,
        )
    ]


def test_the_newest_day_is_not_judged_since_it_may_go_on() -> None:
    assert drops(run_of_days([10]), 0) == []


def test_days_with_few_sessions_are_neither_judged_nor_held_against() -> None:
    few = limits.COVERAGE_SESSIONS - 1
    small = Day("hook", "1970-01-02", few, 0, few, 0, {}, complete=True)
    first, *rest = run_of_days([10, 10, 7])

    assert drops([first, small, *rest[1:]], 0)[0].median == 1.0
    assert [one.day for one in drops([first, small, *rest[1:]], 0)] == ["1970-01-03"]
    assert [one.day for one in drops(run_of_days([10, 0], limits.COVERAGE_SESSIONS), 0)] == ["1970-01-02"]


def test_the_median_is_of_the_last_seven_days_that_have_data() -> None:
    assert limits.COVERAGE_DAYS == 7
    rows = run_of_days([10] * 9 + [5] * 7 + [4])

    assert [one.median for one in drops(rows, 0) if one.day == "1970-01-17"] == []
    assert {one.day for one in drops(rows, 0)} == {"1970-01-10", "1970-01-11", "1970-01-12", "1970-01-13"}


def test_a_drop_before_the_days_asked_for_is_history() -> None:
    rows = run_of_days([10, 5, 10, 10])

    assert [one.day for one in drops(rows, 0)] == ["1970-01-02"]
    assert drops(rows, 3) == []
    assert [row.day for row in newest(rows, 2)] == ["1970-01-04", "1970-02-01"]


def test_what_is_stamped_in_the_future_hides_no_day() -> None:
    def later(day: str) -> Day:
        return Day("hook", day, 1, 0, 1, 0, {}, complete=False)

    rows = [*run_of_days([10, 5, 10]), later("2020-01-01"), later("2021-01-01")]

    assert [row.day for row in newest(rows, 2)] == ["1970-01-03", "1970-02-01", "2020-01-01", "2021-01-01"]
    assert [row.day for row in newest(rows, 1)] == ["1970-02-01", "2020-01-01", "2021-01-01"]
    assert [row.day for row in newest(rows[:3], 1)] == ["1970-01-03"]
    assert [one.day for one in drops(rows, 3)] == ["1970-01-02"]
    assert newest(rows, 0) == rows


@pytest.mark.parametrize("name", ["grade", "binding"])
def test_grades_and_bindings_are_judged_as_exposures_are(name: str) -> None:
    def row(day: int, have: int, *, complete: bool = True) -> Day:
        counts = {"exposure": 0, "grade": 0, "binding": 0} | {name: have}
        return Day("hook", f"1970-01-0{day}", 10, counts["exposure"], counts["grade"], counts["binding"], {}, complete)

    [alarm] = drops([row(1, 9), row(2, 6), row(3, 0, complete=False)], 0)

    assert (alarm.kind, alarm.share, alarm.median) == (f"{name}-drop", 0.6, 0.9)
    assert (
        alarm.what
        == f"hook on 1970-01-02: 6 of 10 sessions have a {name} (60%); the median of the 1 day before is 90%."
    )


def test_who_named_a_session_first_is_kept_between_processes(tmp_path: Any) -> None:
    from rightful.projections.projected import Projected
    from rightful.projections.store import Store

    log = log_of(exposed("t:a", "x", by="hook"), graded("w:a", 0.8, by="judge", exposure_session="u:later"))
    first = Projected(log, Store(tmp_path, "id"))  # type: ignore[arg-type]
    before = days_of(ground_of(first, policy_of({})))
    assert first.save()
    again = Projected(log, Store(tmp_path, "id"))  # type: ignore[arg-type]
    assert days_of(ground_of(again, policy_of({}))) == before

    log.append([exposed("u:later", "x", at=DAY, by="late-hook")])

    assert days_of(ground_of(again, policy_of({})))[2:] == [
        Day("late-hook", "1970-01-02", 1, 1, 1, 0, {}, complete=False)
    ]


def test_a_name_that_only_a_grade_named_is_met_when_a_row_is_its_own() -> None:
    log = FakeLog(page=1)
    log.append([graded("w:a", 0.8, by="judge", exposure_session="u:later"), mentioned("t:z"), mentioned("t:y")])
    log.append([exposed("u:later", "x", at=DAY, by="late-hook")])

    assert days(log)[-1] == Day("late-hook", "1970-01-02", 1, 1, 1, 0, {}, complete=False)


def whole(rows: list[Wire]) -> list[Day]:
    return days(log_of(*rows))


def test_pages_change_no_day() -> None:
    events = [exposed(f"t:{at}", "x", at=at * 40_000, by=f"hook-{at % 2}") for at in range(9)]
    small = FakeLog(page=2)
    small.append(events)

    assert days(small) == whole(events)
    assert len(whole(events)) == 8


def test_transcript_of_a_sanitised_form_counts_for_no_session() -> None:
    log = log_of(mentioned("t:a_b", by="importer", alias=True), mentioned("t:c", by="importer"))

    assert [row.transcripts for row in days(log)] == [{"unknown": 1}]


def test_names_of_one_run_that_a_producer_names_first_are_one_session() -> None:
    """Session records name each session twice: itself, and the tool's own name by a link."""
    log = log_of(
        *(event for number in range(3) for event in (
            mentioned(f"w:{number}", by="records"), linked(f"w:{number}", f"u:{number}", by="records"))),
        exposed("u:0", "x", by="hook"),
    )  # fmt: skip

    [row] = days(log)

    assert (row.producer, row.sessions, row.measured("exposure"), row.measured("binding")) == (
        "records",
        3,
        (1, 3),
        (3, 3),
    )
