"""Plans between the commands: which question one answers, where it may be written, and what a damaged one stops."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.backfilling import EVENTS, GIT, OLD, arm, state, text, written
from tests.cli.conftest import Run
from tests.readers_of_tools import Bandit

import rightful
from rightful.backfill import target_file as module

FILE = state(arm(GIT, 3.0, 2.0, 3), arm(OLD, 2.0, 1.0, 2))


@pytest.fixture
def target(here: Path, ledger: Path) -> Path:
    with rightful.open(ledger) as opened:
        opened.append(EVENTS)
    return written(here / "state" / "bandit-state.json", FILE)


@pytest.mark.parametrize(
    ("first", "second"),
    [((), ("--as-of", "2")), (("--as-of", "2"), ()), ((), ("--decay-at", "1970-01-03T00:00:00Z"))],
)
def test_other_question_after_an_interruption_gets_its_own_answer(
    run: Run, target: Path, monkeypatch: pytest.MonkeyPatch, first: tuple[str, ...], second: tuple[str, ...]
) -> None:
    words = (
        "backfill", "apply", "--target", target, "--reader", "gptme-sessions", "--json",
        "--policy", '{"decay": {"mode": "time", "half_life": 86400}}',
    )  # fmt: skip

    def fail(*_: Any) -> None:
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patch:
        patch.setattr(module, "place", fail)
        assert run(*words, *first).code == 4

    plan = run(*words, *second).document["plan"]

    asked = (None if "--as-of" not in second else 2, None if "--decay-at" not in second else second[1])
    assert (plan["asked_as_of"], plan["asked_decay_at"]) == asked
    assert plan["through"] == (2 if "--as-of" in second else 6)  # the balance and the publication are rows too
    assert plan["decay_at"] == (second[1] if "--decay-at" in second else plan["decay_at"])


@pytest.mark.parametrize("name", ["same", "link", "hard link", "bak", "lock", "beside", "ledger", "log"])
def test_a_plan_is_not_written_over_what_it_is_about(
    run: Run, here: Path, ledger: Path, target: Path, name: str
) -> None:
    (here / "link").symlink_to(target)
    os.link(target, here / "hard link")
    path = {
        "same": target, "link": here / "link", "hard link": here / "hard link", "bak": f"{target}.bak",
        "lock": f"{target}.lock", "beside": module.temporary_path(str(target)), "ledger": ledger / "plan.json",
        "log": next(one for one in ledger.iterdir() if one.is_file()),
    }[name]  # fmt: skip
    before = {one: one.read_bytes() for one in here.rglob("*") if one.is_file() and one.name != "lock.mdb"}

    done = run("backfill", "plan", "--target", here / "link", "--reader", "gptme-sessions", "--out", path)

    assert done.code == 2
    assert "nothing was written. Name another file." in done.err
    after = {one: one.read_bytes() for one in before}
    assert [one for one in before if after[one] != before[one]] == []
    assert not Path(f"{target}.bak").exists()
    assert not (ledger / "backfill").exists()


@pytest.mark.parametrize("document", ["{", '{"version": 1}', "\x00"])
def test_damaged_last_plan_is_replaced_by_a_new_plan(run: Run, ledger: Path, target: Path, document: str) -> None:
    run("backfill", "plan", "--target", target, "--reader", "gptme-sessions")
    [kept] = (ledger / "backfill").glob("*.plan.json")
    kept.write_text(document)

    alone = run("backfill", "apply", "--target", target)
    assert (alone.code, target.read_bytes()) == (2, text(FILE))
    assert "Plan again." in alone.err
    assert run("backfill", "apply", "--target", target, "--reader", "gptme-sessions").code == 0
    assert Bandit(target).arms[GIT].alpha == 4.0
