"""Several processes at one target: they take turns, and the ledger says each publication once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.backfilling import EVENTS, GIT, NOON, OLD, applied, arm, ledger_with, plan_of, rows, state, text, written
from tests.projections.telling import exposed, graded
from tests.readers_of_tools import Bandit

import rightful

FILE = state(arm(GIT, 3.0, 2.0, 3), arm(OLD, 2.0, 1.0, 1))


def started(path: Path, *words: str | Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "rightful", "--ledger", str(path), "backfill", *map(str, words), "--json"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(processes: list[subprocess.Popen[str]]) -> list[tuple[int, str, str]]:
    said = [process.communicate(timeout=120) for process in processes]
    return [(process.returncode, out, err) for process, (out, err) in zip(processes, said, strict=True)]


def test_eight_processes_that_apply_one_plan_write_it_once(tmp_path: Path) -> None:
    path, target = ledger_with(tmp_path), written(tmp_path / "s" / "b.json", FILE)
    plan = plan_of(path, target)
    (tmp_path / "plan.json").write_bytes(plan.document())

    done = ended([started(path, "apply", "--plan", tmp_path / "plan.json") for _ in range(8)])

    assert [code for code, _, _ in done] == [0] * 8, done
    happened = [json.loads(out)["done"]["happened"] for _, out, _ in done]
    assert sorted(happened) == ["already in place"] * 7 + ["written"]
    assert [one.new_sha256 for one in rows(path, "posterior.published")] == [plan.new_sha256]
    assert len(rows(path, "balance.opened")) == 1
    assert Bandit(target).arms[GIT].alpha == 4.0
    assert [one.name for one in target.parent.iterdir()] == ["b.json"]


def test_of_two_processes_with_two_plans_one_is_told_of_the_other(tmp_path: Path) -> None:
    path, target = ledger_with(tmp_path), written(tmp_path / "s" / "b.json", FILE)
    plans = [plan_of(path, target), plan_of(path, target, old="rebuilt", force=True)]
    for number, plan in enumerate(plans):
        (tmp_path / f"{number}.json").write_bytes(plan.document())

    done = ended([started(path, "apply", "--plan", tmp_path / f"{number}.json") for number in range(2)])

    assert sorted(code for code, _, _ in done) == [0, 3], done
    [won] = [number for number, (code, _, _) in enumerate(done) if code == 0]
    assert "something else was published" in done[1 - won][2]
    [published] = rows(path, "posterior.published")
    assert published.new_sha256 == plans[won].new_sha256


def test_eight_processes_that_roll_back_go_back_once(tmp_path: Path) -> None:
    path, target = ledger_with(tmp_path), written(tmp_path / "s" / "b.json", FILE)
    applied(path, plan_of(path, target))
    with rightful.open(path) as ledger:
        ledger.append([exposed("t:c", GIT, at=NOON + 500), graded("t:c", 1.0, at=NOON + 600)])
    middle = target.read_bytes()
    applied(path, plan_of(path, target))

    done = ended([started(path, "rollback", "--target", target) for _ in range(8)])

    assert [code for code, _, _ in done] == [0] * 8, done
    assert target.read_bytes() == middle
    assert len(rows(path, "posterior.published")) == 3


@pytest.mark.parametrize("count", [4])
def test_ledgers_that_publish_to_one_file_take_turns(tmp_path: Path, count: int) -> None:
    """The lock is the file's, not the ledger's: whoever comes second finds the file changed."""
    target = written(tmp_path / "s" / "b.json", FILE)
    paths = []
    for number in range(count):
        (tmp_path / str(number)).mkdir()
        more = [
            told
            for at in range(number)
            for told in (exposed(f"t:{at}", GIT, at=NOON), graded(f"t:{at}", 1.0, at=NOON + 1))
        ]
        paths.append(ledger_with(tmp_path / str(number), [*EVENTS, *more]))
        plan = plan_of(paths[-1], target)
        (tmp_path / f"{number}.json").write_bytes(plan.document())

    processes = [started(path, "apply", "--plan", tmp_path / f"{n}.json") for n, path in enumerate(paths)]
    done = ended(processes)

    assert sorted(code for code, _, _ in done) == [0] + [3] * (count - 1), done
    [won] = [number for number, (code, _, _) in enumerate(done) if code == 0]
    assert rows(paths[won], "posterior.published")
    assert Bandit(target).arms[GIT].alpha == 4.0 + won
    assert text(FILE) in {one.read_bytes() for one in (paths[won] / "backfill").iterdir()}
