"""Two real processes, each an app of the SDK, on one session of one ledger."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import amounts
from tests.sidebyside.elsewhere import Piped
from tests.sidebyside.kinds import SESSION
from tests.sidebyside.saying import names, told

import rightful

NAME = f"openai-agents:{SESSION}"
TURNS = amounts.either(25, 10)
APP = "tests.sidebyside.app"


@pytest.fixture(scope="module")
def apps() -> Iterator[tuple[Piped, Piped]]:
    both = Piped(APP), Piped(APP)
    yield both
    assert [one.end() for one in both] == [0, 0]


def kept(folder: Path) -> tuple[list[str], list[str]]:
    with rightful.open(folder / "ledger", readonly=True) as ledger:
        full = names([told.item for told in ledger.full_history(NAME).entries])
        return names(ledger.history(NAME).items), full


def test_a_turn_of_another_process_is_kept_when_a_compaction_ends_after_it(
    apps: tuple[Piped, Piped], tmp_path: Path
) -> None:
    a, b = apps
    a.tell(f"turn {tmp_path} u1 a1 compacts")
    assert a.hear() == "asked"
    b.tell(f"turn {tmp_path} u2 a2 never")
    assert b.hear() == "done"
    a.tell("answer")
    assert a.hear() == "done"

    assert kept(tmp_path) == (["S(u1 a1)", "u2", "a2"], ["u1", "a1", "u2", "a2", "S(u1 a1)"])


def test_one_of_two_processes_that_compact_at_once_writes(apps: tuple[Piped, Piped], tmp_path: Path) -> None:
    a, b = apps
    a.tell(f"turn {tmp_path} u1 a1 compacts")
    assert a.hear() == "asked"
    b.tell(f"turn {tmp_path} u2 a2 compacts")
    assert b.hear() == "asked"
    b.tell("answer")
    assert b.hear() == "done"
    a.tell("answer")
    assert a.hear() == "done"

    visible, full = kept(tmp_path)
    assert visible == ["S(u1 a1 u2 a2)"]
    assert sorted(full) == ["S(u1 a1 u2 a2)", "a1", "a2", "u1", "u2"]


def test_two_processes_that_append_and_compact_fast_lose_nothing(apps: tuple[Piped, Piped], tmp_path: Path) -> None:
    for app, name in zip(apps, "AB", strict=True):
        app.tell(f"hammer {tmp_path} {name} {TURNS}")
    assert [app.hear() for app in apps] == ["done", "done"]

    visible, full = kept(tmp_path)
    said = [f"{role}{name}{number}" for name in "AB" for number in range(TURNS) for role in "ua"]
    assert sorted(one for one in full if not one.startswith("S(")) == sorted(said)
    assert told(visible) == set(said)
    for name in "AB":
        own = [f"{role}{name}{number}" for number in range(TURNS) for role in "ua"]
        assert [one for one in full if one in own] == own
