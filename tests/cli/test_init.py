from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from tests.cli.conftest import Run

import rightful
from rightful.storage.environment import store_files


def test_a_ledger_is_made_in_the_working_folder(run: Run, here: Path) -> None:
    done = run("init")

    assert (done.code, done.out, done.err) == (0, f"Created the ledger {here / '.rightful'}.\n", "")
    with rightful.open(here / ".rightful") as ledger:
        assert ledger.log.head() == 0
    assert stat.S_IMODE((here / ".rightful").stat().st_mode) == 0o700


def test_making_it_again_changes_nothing(run: Run, ledger: Path) -> None:
    with rightful.open(ledger) as opened:
        opened.producer("hook").started("t:a")
        own = opened.id

    done = run("init")
    assert (done.code, done.out) == (0, f"{ledger} is already a ledger, with 1 event; nothing was changed.\n")
    assert run("init", "--json").document == {"path": str(ledger), "id": own, "created": False}


def test_json_says_where_it_is_and_who(run: Run, here: Path) -> None:
    document = run("init", "deep/er", "--json").document

    assert (document["path"], document["created"]) == ("deep/er", True)
    with rightful.open(here / "deep" / "er") as opened:
        assert document["id"] == opened.id


@pytest.mark.parametrize("words", [["--ledger", "x", "init"], ["init", "x"], ["--ledger", "y", "init", "x"]])
def test_where_it_is_made_can_be_said(run: Run, here: Path, words: list[str]) -> None:
    assert run(*words).code == 0
    assert [entry.name for entry in here.iterdir()] == ["x"]


def test_the_environment_says_where_it_is_made(run: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RIGHTFUL_LEDGER", str(here / "env"))

    assert run("init").code == 0
    assert [entry.name for entry in here.iterdir()] == ["env"]


def test_ledger_of_linked_work_tree_is_in_the_main_one_and_found_from_both(
    run: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = here / "main" / ".git" / "worktrees" / "topic"
    own.mkdir(parents=True)
    (own / "commondir").write_text("../..\n")
    (here / "topic").mkdir()
    (here / "topic" / ".git").write_text(f"gitdir: {own}\n")
    monkeypatch.chdir(here / "topic")

    assert run("init").code == 0
    assert run("status", "--json").document["path"] == str(here / "main" / ".rightful")
    assert not (here / "topic" / ".rightful").exists()


def test_a_folder_that_holds_other_things_is_not_made_a_ledger(run: Run, here: Path) -> None:
    (here / "project").mkdir()
    (here / "project" / "code.py").write_text("x")

    done = run("init", "project")

    assert done.code == 2
    assert done.err == (
        "rightful: project is not empty; nothing was created. Name an own folder, such as project/.rightful\n"
    )
    assert [entry.name for entry in (here / "project").iterdir()] == ["code.py"]


def test_what_a_killed_init_left_is_made_whole(run: Run, here: Path) -> None:
    (here / ".rightful" / store_files.HALF_MADE).mkdir(parents=True)
    for name in ("ledger.lock", "writer.lock", ".gitignore"):
        (here / ".rightful" / name).touch()

    assert run("init").code == 0
    assert run("status").code == 0


def test_git_can_read_what_keeps_it_out_whatever_the_umask_says(run: Run, here: Path) -> None:
    before = os.umask(0o777)
    try:
        run("init")
    finally:
        os.umask(before)

    assert stat.S_IMODE((here / ".rightful" / ".gitignore").stat().st_mode) == 0o600


def test_projections_without_their_ledger_are_not_covered_up(run: Run, ledger: Path) -> None:
    (ledger / "projections").mkdir()
    shutil.rmtree(ledger / "store")

    assert run("init").code == 2
    assert not (ledger / "store").exists()


def test_an_empty_folder_can_be_made_one(run: Run, here: Path) -> None:
    (here / "empty").mkdir()

    assert run("init", "empty").code == 0


def test_a_file_is_refused_and_stays_unchanged(run: Run, here: Path) -> None:
    (here / "file").write_text("precious")

    done = run("init", "file")

    assert (done.code, done.err) == (
        2,
        "rightful: file is a file; it was not changed and nothing was created. Name a new or empty folder.\n",
    )
    assert (here / "file").read_text() == "precious"


def test_git_does_not_see_what_a_ledger_holds(run: Run, here: Path) -> None:
    try:
        subprocess.run(["git", "init", "-q", "."], cwd=here, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("there is no git here")
    run("init")

    seen = subprocess.run(["git", "status", "--short"], cwd=here, check=True, capture_output=True, text=True)
    assert seen.stdout == ""
