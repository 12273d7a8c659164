"""The fold: every type is decided once, and a row of a newer program stops it with nothing lost."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.projections.fake import FakeLog
from tests.projections.telling import (
    alphas,
    decayed,
    exposed,
    graded,
    linked,
    log_of,
    mentioned,
    projected,
    retracted,
    unlinked,
)

from rightful.errors import UpgradeError
from rightful.events import TYPES
from rightful.policies import Policy
from rightful.projections.facts.facts import CLOCK_ROWS
from rightful.projections.facts.fold import MENTIONS, STEPS

GRADED = [exposed("t:a", "x"), graded("t:a", 0.5)]


def test_every_type_is_decided_exactly_once() -> None:
    assert sorted([*STEPS, *MENTIONS]) == sorted(TYPES)


def made_newer(log: FakeLog, position: int, **fields: Any) -> None:
    row = log.stored[position - 1]
    log.stored[position - 1] = row._replace(envelope=msgspec.structs.replace(row.envelope, **fields))


NEWER = [{"type": "history.rewritten"}, {"schema": 2}, {"v": 2}]


@pytest.mark.parametrize("fields", NEWER)
@pytest.mark.parametrize("page", [1, 2, 100])
def test_a_row_of_a_newer_program_stops_the_projections_before_it(page: int, fields: dict[str, Any]) -> None:
    log = FakeLog(page=page)
    log.append([*GRADED, exposed("t:b", "y"), graded("t:b", 0.5)])
    made_newer(log, 3, **fields)
    asked = projected(log)

    with pytest.raises(UpgradeError) as stopped:
        asked.posteriors(Policy())

    assert stopped.value.position == 3
    assert asked.facts.watermark == 2


@pytest.mark.parametrize("fields", NEWER)
def test_nothing_is_lost_when_the_row_can_be_read(fields: dict[str, Any]) -> None:
    log = log_of(*GRADED)
    asked = projected(log)
    asked.posteriors(Policy())
    log.append([exposed("t:b", "y"), graded("t:b", 0.5), exposed("t:c", "z")])
    known = log.stored[4]
    made_newer(log, 5, **fields)

    for _ in range(2):
        with pytest.raises(UpgradeError):
            asked.posteriors(Policy())
    log.stored[4] = known

    assert asked.posteriors(Policy()) == projected(log).posteriors(Policy())
    assert alphas(asked.posteriors(Policy())) == {"x": 1.5, "y": 1.5}


def test_a_newer_schema_of_what_is_only_mentioned_stops_nothing() -> None:
    """Of such a row only the envelope is read."""
    log = log_of(*GRADED, mentioned("t:a"))
    made_newer(log, 3, schema=2)

    assert alphas(projected(log).posteriors(Policy())) == {"x": 1.5}


@pytest.mark.parametrize("page", [1, 700, 1_024, 10_000])
def test_the_largest_time_up_to_any_position_is_known(page: int) -> None:
    """Times fall and rise, and rise on the whole, over three blocks of the clock."""
    log = FakeLog(page=page)
    seconds = [place + (place * 7_919) % 50 for place in range(2 * CLOCK_ROWS + 100)]
    log.append(decayed(0.5, at=at, key=str(place)) for place, at in enumerate(seconds))
    asked = projected(log)

    for through in (0, 1, CLOCK_ROWS - 1, CLOCK_ROWS, CLOCK_ROWS + 1, 2 * CLOCK_ROWS, len(seconds) - 1, len(seconds)):
        want = max(seconds[:through], default=0) * 1_000_000
        assert asked.posteriors(Policy(), as_of=through).decay_at_us == want


@pytest.mark.parametrize("page", [1, 2, 100])
def test_the_past_is_asked_of_the_rows_up_to_it_however_the_pages_fall(page: int) -> None:
    """Linked, parted and joined again: at row 4 the pair is parted, whatever row 5 says."""
    rows = [
        exposed("u:native", "x"), graded("t:run", 0.5), linked("t:run", "u:native"), unlinked("t:run", "u:native"),
        linked("t:run", "u:native", key="again"),
    ]  # fmt: skip
    log = FakeLog(page=page)
    log.append(rows)
    asked = projected(log)

    for through, credited in ((3, 1), (4, 0), (5, 1)):
        assert asked.posteriors(Policy(), as_of=through).counters.get("credited_grades", 0) == credited, through


@pytest.mark.parametrize("page", [1, 2, 100])
def test_tables_stand_in_the_order_of_the_log(page: int) -> None:
    log = FakeLog(page=page)
    log.append(
        [
            graded("t:a", 0.5), retracted("t:a", 2), graded("t:a", 0.6, seq=3), linked("t:b", "u:b"),
            unlinked("t:b", "u:b"), linked("t:b", "u:b", key="again"), retracted("t:a", 4), exposed("t:a", "x"),
        ]
    )  # fmt: skip
    facts = projected(log).catch_up()

    assert facts.grades["pos"].tolist() == [1, 2, 3, 7]
    assert facts.links["pos"].tolist() == [4, 5, 6]
