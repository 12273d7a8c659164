from __future__ import annotations

import json
import os
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest
from tests.log.facts import exposure

from rightful import ledger as app
from rightful import limits
from rightful.integrations.spool.spool_drain import DrainResult, drain
from rightful.integrations.spool.spool_files import Spool
from rightful.integrations.spool.spool_folders import may_wait
from rightful.ledger import Ledger

AT_US = 1_785_579_400_000_000


@pytest.fixture
def spool(ledger: Ledger, tmp_path: Path) -> Spool:
    return Spool(str(ledger.path), {"XDG_STATE_HOME": str(tmp_path / "state"), "TMPDIR": str(tmp_path / "temp")})


def drained(spool: Spool, ledger: Ledger, **more: Any) -> DrainResult:
    return drain(spool, ledger.log, timeout_s=1, **more)


def test_a_ledger_that_is_not_there_is_spooled_for_in_the_users_own_folder(tmp_path: Path) -> None:
    environment = {"XDG_STATE_HOME": str(tmp_path / "state"), "TMPDIR": str(tmp_path / "temp")}
    spool = Spool(str(tmp_path / "missing"), environment)

    kept = spool.keep_events([exposure()], AT_US)

    assert kept is not None
    assert Path(kept).is_relative_to(tmp_path / "state" / "rightful" / "spool")
    assert not (tmp_path / "missing").exists()
    assert Spool(str(tmp_path / "another"), environment).waiting() == []
    assert Spool(f"{tmp_path}/x/../missing", environment).waiting() == [kept]


def test_next_folder_is_used_if_one_is_not_writable_or_an_error_reported(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    (tmp_path / "temp").mkdir()
    environment = {"XDG_STATE_HOME": str(tmp_path / "state"), "TMPDIR": str(tmp_path / "temp")}

    kept = Spool(str(tmp_path / "missing"), environment).keep_events([exposure()], AT_US)
    assert kept is not None
    assert Path(kept).is_relative_to(tmp_path / "temp")

    environment["TMPDIR"] = str(tmp_path / "state")
    assert Spool(str(tmp_path / "missing"), environment).keep_events([exposure()], AT_US) is None


def test_folder_with_a_relative_path_is_never_used_as_a_spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    environment = {"TMPDIR": "temp"}

    assert Spool(str(tmp_path / "missing"), environment).keep_events([exposure()], AT_US) is None
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_may_be_a_strangers_is_neither_written_nor_drained(ledger: Ledger, tmp_path: Path) -> None:
    spool = Spool(str(ledger.path), {"XDG_STATE_HOME": str(tmp_path / "state"), "TMPDIR": str(tmp_path / "temp")})
    kept = spool.keep_events([exposure()], AT_US)
    assert kept is not None
    Path(kept).parent.chmod(0o777)

    assert spool.waiting() == []
    elsewhere = spool.keep_events([exposure()], AT_US)
    assert elsewhere is not None
    assert Path(elsewhere).is_relative_to(tmp_path / "state")


def test_each_folder_that_is_made_is_its_owners_alone(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path / "missing"), {"XDG_STATE_HOME": str(tmp_path / "a" / "state"), "TMPDIR": "x"})
    before = os.umask(0)
    try:
        kept = spool.keep_events([exposure()], AT_US)
    finally:
        os.umask(before)

    assert kept is not None
    made = [folder for folder in Path(kept).parents if folder.is_relative_to(tmp_path) and folder != tmp_path]
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in made] == [0o700] * 5


@pytest.mark.parametrize(("mode", "used"), [(0o777, False), (0o770, False), (0o1777, True), (0o755, True)])
def test_a_folder_in_whose_place_others_may_put_theirs_is_not_used(tmp_path: Path, mode: int, *, used: bool) -> None:
    spool = Spool(str(tmp_path / "missing"), {"XDG_STATE_HOME": str(tmp_path), "TMPDIR": "x"})
    kept = spool.keep_events([exposure()], AT_US)
    assert kept is not None
    Path(kept).parents[1].chmod(mode)

    assert spool.waiting() == ([kept] if used else [])
    assert (spool.keep_events([exposure()], AT_US) is not None) == used


def test_calls_spooled_for_a_moved_ledger_are_drained_at_its_new_path(ledger: Ledger, tmp_path: Path) -> None:
    environment = {"XDG_STATE_HOME": str(tmp_path / "state"), "TMPDIR": str(tmp_path / "temp")}
    old, new = ledger.path, tmp_path / "moved"
    Spool(str(old), environment).note_success()
    ledger.close()
    old.rename(new)
    kept = Spool(str(old), environment).keep_events([exposure()], AT_US)

    with app.open(new) as moved:
        spool = Spool(str(new), environment)
        assert spool.waiting() == [kept]
        assert spool.keep_events([exposure("2")], AT_US + 1) != kept
        assert drained(spool, moved) == DrainResult(files=2)
        assert moved.log.head() == 2


def test_former_path_with_a_new_ledger_is_not_drained(ledger: Ledger, tmp_path: Path) -> None:
    environment = {"XDG_STATE_HOME": str(tmp_path / "state"), "TMPDIR": str(tmp_path / "temp")}
    Spool(str(ledger.path), environment).note_success()
    (tmp_path / "copy").mkdir(mode=0o700)
    shutil.copytree(ledger.path / "spool", tmp_path / "copy" / "spool")
    away = ledger.path.rename(tmp_path / "away")
    kept = Spool(str(ledger.path), environment).keep_events([exposure()], AT_US)
    away.rename(ledger.path)

    assert Spool(str(ledger.path), environment).waiting() == [kept]
    assert Spool(str(tmp_path / "copy"), environment).waiting() == []


@pytest.mark.parametrize("text", ["", "[1", "{}", '["relative", 7]', "FIFO"])
def test_paths_that_cannot_be_read_are_none(ledger: Ledger, tmp_path: Path, text: str) -> None:
    Spool(str(ledger.path), {"TMPDIR": str(tmp_path)}).note_success()
    paths = ledger.path / "spool" / "paths"
    assert json.loads(paths.read_bytes()) == [str(ledger.path)]
    paths.unlink()
    os.mkfifo(paths) if text == "FIFO" else paths.write_text(text)

    spool = Spool(str(ledger.path), {"TMPDIR": str(tmp_path)})
    assert len(spool.folders) == len(Spool(str(tmp_path / "x"), {"TMPDIR": str(tmp_path)}).folders)


def test_so_many_former_places_are_remembered(ledger: Ledger, tmp_path: Path) -> None:
    path = ledger.path
    ledger.close()
    for number in range(limits.SPOOL_PATHS + 2):
        Spool(str(path), {"TMPDIR": str(tmp_path)}).note_success()
        path = path.rename(tmp_path / str(number))

    assert len(json.loads((path / "spool" / "paths").read_bytes())) == limits.SPOOL_PATHS


def test_nothing_can_wait_where_no_spool_was_ever_made(tmp_path: Path) -> None:
    surroundings = {"XDG_STATE_HOME": f"{tmp_path}/state", "TMPDIR": f"{tmp_path}/tmp"}
    assert not may_wait(f"{tmp_path}/ledger", surroundings)

    for folder in ("ledger/spool", "state/rightful/spool", f"tmp/rightful-spool-{os.geteuid()}"):
        (tmp_path / folder).mkdir(parents=True)
        assert may_wait(f"{tmp_path}/ledger", surroundings), folder
        (tmp_path / folder).rmdir()
