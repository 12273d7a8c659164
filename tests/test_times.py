from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightful import limits, times
from rightful.errors import UsageError


@given(st.integers(limits.AT_MIN_US, limits.AT_MAX_US))
def test_microseconds_come_back_exactly(at_us: int) -> None:
    assert times.us_of(times.at_of(at_us)) == at_us
    assert times.us_from(times.text_of(at_us)) == at_us


def test_an_offset_is_taken_into_account() -> None:
    there = datetime(2026, 8, 1, 12, 0, 0, 1, tzinfo=timezone(timedelta(hours=2)))

    assert times.us_of(there) == 1_785_578_400_000_001
    assert times.at_of(1_785_578_400_000_001) == datetime(2026, 8, 1, 10, 0, 0, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "at_us"),
    [
        ("2026-08-01T10:00:00Z", 1_785_578_400_000_000),
        ("2026-08-01T12:00:00.5+02:00", 1_785_578_400_500_000),
        (datetime(2026, 8, 1, 10, tzinfo=UTC), 1_785_578_400_000_000),
        (1_785_578_400, 1_785_578_400_000_000),
        ("2026-08-01", 1_785_542_400_000_000),
        (0.000001, 1),
    ],
    ids=str,
)
def test_a_time_can_be_given_as_text_date_datetime_or_number(value: datetime | str | float, at_us: int) -> None:
    assert times.us_from(value) == at_us


NAIVE = datetime(2026, 8, 1)  # noqa: DTZ001 - the fault


@pytest.mark.parametrize("value", ["yesterday", "2026-13-01", "2026-8-1", "2026-08-01T10:00:00", NAIVE], ids=str)
def test_a_time_without_its_offset_is_refused_with_the_form_it_should_have(value: datetime | str) -> None:
    with pytest.raises(UsageError, match="Write it as 2026-08-01T10:15:00Z"):
        times.us_from(value)


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), -float("inf"), 1e300, 10**30, -(10**30), True, [], b"x", None, "\udcee"]
)
def test_what_is_no_time_at_all_is_refused_like_one_without_an_offset(value: Any) -> None:
    with pytest.raises(UsageError, match=r"Invalid time .* Write it as 2026-08-01T10:15:00Z"):
        times.us_from(value)


def test_text_is_rfc_3339_in_utc() -> None:
    assert times.text_of(1_785_578_400_000_000) == "2026-08-01T10:00:00Z"
    assert times.text_of(1) == "1970-01-01T00:00:00.000001Z"


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59-01:00", "0001-01-01T00:00:00+01:00"])
def test_a_time_that_its_offset_leads_out_of_the_calendar_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is outside the years 1 to 9999 in UTC"):
        times.us_from(text)


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59.999999Z", "0001-01-01T00:00:00Z"])
def test_the_first_and_the_last_time_of_the_calendar_come_back(text: str) -> None:
    assert times.text_of(times.us_from(text)) == text
