"""What the tool did since a publication is dropped where that is asked, and a file without a time knows its grades."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from tests.backfilling import GIT, NOON, OLD, applied, arm, ledger_with, plan_of, rows, state, taken_back, written
from tests.importers.import_files import import_paths
from tests.projections.telling import exposed, graded, told
from tests.readers_of_tools import Bandit

import rightful
from rightful.backfill.plan_document import Plan
from rightful.importers.bandits.bandit_state import BanditState

SAID = state(arm(GIT, 3.0, 2.0, 3), arm(OLD, 2.0, 1.0, 2))
MODEL = "pm-model:code:opus"
LATE = "1970-01-01T13:00:00+00:00"


def numbers(target: Path) -> dict[str, tuple[float, float]]:
    return {name: (one["alpha"], one["beta"]) for name, one in json.loads(target.read_bytes())["arms"].items()}


def believed(path: Path) -> dict[str, tuple[float, float]]:
    with rightful.open(path) as ledger:
        return {name: (one.alpha, one.beta) for name, one in ledger.posteriors().arms.items()}


def imported(path: Path, target: Path) -> list[str]:
    """Import a file; what was said of it."""
    with rightful.open(path) as ledger:
        [report] = import_paths(ledger.log, [BanditState()], [str(target)], stdin=io.BytesIO())
    return [one.what for one in report.problems]


def updated(tmp_path: Path) -> tuple[Path, Path, dict[str, tuple[float, float]]]:
    """A file to which was published and which its tool has written since; and what was published."""
    path, target = ledger_with(tmp_path), written(tmp_path / "b.json", SAID)
    applied(path, plan_of(path, target))
    before = numbers(target)
    Bandit(target).update([OLD], 0.0, LATE)
    return path, target, before


def test_imported_updates_are_dropped_and_stay_dropped(tmp_path: Path) -> None:
    path, target, before = updated(tmp_path)
    assert imported(path, target) == []

    plan = plan_of(path, target, old="kept")
    applied(path, plan)

    [_, since] = rows(path, "balance.opened")
    assert (numbers(target), before[OLD]) == (before, (2.0, 1.0))
    assert (plan.old, plan.in_balance, plan.opens, plan.retires) == ("kept", 0, None, (str(since.id),))
    assert rows(path, "posterior.published")[-1].extra["retires"] == [str(since.id)]
    assert believed(path) == before
    again = plan_of(path, target)
    assert (again.changes, again.in_balance, again.retires) == ((), 0, ())


def test_what_a_publication_opened_that_was_withdrawn_is_dropped(tmp_path: Path) -> None:
    path, target, before = updated(tmp_path)
    applied(path, plan_of(path, target, force=True))
    taken_back(path, target)
    assert numbers(target)[OLD] == (2.0, 2.0)

    applied(path, plan_of(path, target, old="kept"))
    assert numbers(target) == before

    taken_back(path, target)
    assert numbers(target)[OLD] == believed(path)[OLD] == (2.0, 2.0)


def test_what_was_dropped_counts_again_once_that_is_withdrawn(tmp_path: Path) -> None:
    path, target, before = updated(tmp_path)
    imported(path, target)
    applied(path, plan_of(path, target, old="kept"))
    taken_back(path, target)

    plan = plan_of(path, target, force=True)

    assert (numbers(target), plan.changes) == (before | {OLD: (2.0, 2.0)}, ())
    assert believed(path)[OLD] == (2.0, 2.0)


def test_a_rebuild_of_an_earlier_position_retires_what_was_opened_after_it(tmp_path: Path) -> None:
    path, target, _ = updated(tmp_path)
    imported(path, target)

    plan = plan_of(path, target, old="rebuilt", as_of=2, force=True)
    applied(path, plan)

    assert sorted(plan.retires) == sorted(str(one.id) for one in rows(path, "balance.opened"))
    assert believed(path) == {GIT: (2.0, 2.0), "/ws/lessons/tests.md": (1.75, 1.25)}


def models(path: Path) -> Path:
    return written(path, {"arms": {MODEL: {"alpha": 2.0, "beta": 1.0, "total_selections": 1}}})


def matcher(path: Path) -> Path:
    return written(path, {"arms": {MODEL[3:]: {"alpha": 2.0, "beta": 1.0, "helpful": 3, "harmful": 1}}})


def failed(target: Path) -> None:
    """The tool pays one failure."""
    document = json.loads(target.read_bytes())
    [entry] = document["arms"].values()
    entry["beta"] += 1.0
    target.write_bytes((json.dumps(document, indent=2) + "\n").encode())


@pytest.mark.parametrize("through", ["backfill", "import"])
@pytest.mark.parametrize(("reader", "make"), [("pm-dispatch", models), ("gptme-hybrid", matcher)])
def test_file_without_a_time_is_credited_once_over_many_plans(
    tmp_path: Path, reader: str, make: Any, through: str
) -> None:
    target = make(tmp_path / "b.json")
    [name] = numbers(target)
    path = ledger_with(tmp_path, [exposed("t:a", name, at=NOON), graded("t:a", 1.0, at=NOON + 60)])
    found, plans, said = [], list[Plan](), list[str]()
    for _ in range(3):
        plans.append(plan_of(path, target, reader, force=True))
        applied(path, plans[-1])
        found.append(numbers(target)[name])
        failed(target)
        notes = imported(path, target) if through == "import" else []
        said += [one for one in notes if "no time" in one]

    assert found == [(3.0, 1.0), (3.0, 2.0), (3.0, 3.0)]
    assert [one.until for one in plans] == ["1970-01-01T12:01:00Z"] * 3
    assert [one.in_balance for one in plans] == [0, 1, 1]
    assert [one.extra["until"] for one in rows(path, "posterior.published")] == ["1970-01-01T12:01:00Z"] * 3
    held = rows(path, "balance.opened")
    assert [one.through and one.through.minute for one in held] == [None, 1, 1, 1][: len(held)]
    what = (
        "note: the state has no time: it continues from posteriors that this ledger published, which include the grades"
    )
    assert said == [f"{what} up to 1970-01-01T12:01:00Z"] * (3 if through == "import" else 0)


def test_later_grades_are_credited_to_a_file_without_a_time(tmp_path: Path) -> None:
    target = models(tmp_path / "b.json")
    path = ledger_with(tmp_path, [exposed("t:a", MODEL, at=NOON), graded("t:a", 1.0, at=NOON + 60)])
    applied(path, plan_of(path, target, "pm-dispatch"))
    failed(target)
    with rightful.open(path) as ledger:
        ledger.append([exposed("t:b", MODEL, at=NOON + 100), graded("t:b", 0.5, at=NOON + 160)])

    plan = plan_of(path, target, "pm-dispatch", force=True)
    applied(path, plan)

    assert (numbers(target)[MODEL], plan.in_balance) == ((3.5, 2.5), 1)
    assert plan.until == "1970-01-01T12:02:40Z"


def test_publication_of_another_producer_dates_no_file(tmp_path: Path) -> None:
    target, zeros = models(tmp_path / "b.json"), "0" * 64
    said = {"policy": zeros, "through": 0, "digest": zeros, "target": str(target), "new_sha256": zeros}
    path = ledger_with(tmp_path, [told("posterior.published", None, NOON, said | {"extra": {"until": LATE}})])

    imported(path, target)

    assert [one.through for one in rows(path, "balance.opened")] == [None]


def test_what_was_withdrawn_says_nothing_of_a_file_without_a_time(tmp_path: Path) -> None:
    target = models(tmp_path / "b.json")
    path = ledger_with(tmp_path, [exposed("t:a", MODEL, at=NOON), graded("t:a", 1.0, at=NOON + 60)])
    applied(path, plan_of(path, target, "pm-dispatch"))
    taken_back(path, target)
    failed(target)

    plan = plan_of(path, target, "pm-dispatch")
    said = [one for one in imported(path, target) if "the state has no time" in one]

    assert plan.in_balance == 0
    excluded = "unless the policy's field `balances` excludes it"
    assert said == [f"note: the state has no time: its grades are counted again {excluded}"]
    assert [one.through for one in rows(path, "balance.opened")] == [None, None]
