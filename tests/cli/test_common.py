from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run

from rightful import cli
from rightful.cli import common, main
from rightful.errors import AmbiguousNameError, LedgerNotFoundError, StoreFullError

# -- which ledger ------------------------------------------------------------------------------


@pytest.fixture
def folder(here: Path) -> Callable[..., Path]:
    def made(*parts: str) -> Path:
        path = here.joinpath(*parts)
        path.mkdir(parents=True, exist_ok=True)
        return path

    return made


Folder = Callable[..., Path]


def test_the_option_wins_over_the_environment_and_the_environment_over_the_folder(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = folder(".rightful")
    assert common.located(None) == str(found)

    monkeypatch.setenv("RIGHTFUL_LEDGER", "/from/env")
    assert common.located(None) == "/from/env"
    assert common.located("/asked") == "/asked"


def test_an_empty_variable_names_nothing(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    found = folder(".rightful")
    monkeypatch.setenv("RIGHTFUL_LEDGER", "")

    assert common.located(None) == str(found)


def test_the_nearest_one_upwards_is_found(folder: Folder) -> None:
    folder(".rightful")
    near = folder("a", "b", ".rightful")

    assert common.located(None, start=folder("a", "b", "c", "d")) == str(near)
    assert common.located(None, start=folder("a", "b")) == str(near)
    assert common.located(None, start=folder("a")) == str(folder(".rightful"))


def test_a_file_of_that_name_is_no_ledger(folder: Folder) -> None:
    upper = folder(".rightful")
    (folder("a") / ".rightful").write_text("not a folder")

    assert common.located(None, start=folder("a")) == str(upper)


def test_a_strangers_folder_in_a_shared_parent_is_passed_over(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder(".rightful")
    monkeypatch.setattr(os, "geteuid", lambda: 4711)

    with pytest.raises(LedgerNotFoundError):
        common.located(None)


def test_where_there_is_none_the_error_says_where_init_would_make_it(here: Path) -> None:
    with pytest.raises(LedgerNotFoundError) as caught:
        common.located(None)
    assert caught.value.path == str(here / ".rightful")


# -- git work trees ----------------------------------------------------------------------------


@pytest.fixture
def linked(folder: Folder) -> Path:
    """A linked work tree as git lays it out; the main one is `main`."""
    own = folder("main", ".git", "worktrees", "topic")
    (own / "commondir").write_text("../..\n")
    tree = folder("elsewhere", "topic")
    (tree / ".git").write_text(f"gitdir: {own}\n")
    return tree


def test_linked_work_trees_share_the_ledger_of_the_main_one(folder: Folder, linked: Path) -> None:
    folder("elsewhere", ".rightful")  # nearer by the path, but not the repository's
    main = folder("main", ".rightful")

    assert common.located(None, start=linked) == str(main)
    assert common.located(None, start=folder("elsewhere", "topic", "src")) == str(main)


def test_the_search_goes_on_above_the_main_work_tree(folder: Folder, linked: Path) -> None:
    above = folder(".rightful")

    assert common.located(None, start=linked) == str(above)


def test_a_linked_work_tree_may_have_its_own_where_the_main_one_has_none(folder: Folder, linked: Path) -> None:
    own = folder("elsewhere", "topic", ".rightful")

    assert common.located(None, start=linked) == str(own)


def test_git_itself_lays_it_out_like_that(here: Path, folder: Folder) -> None:
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@y", "-c", "init.defaultBranch=main"]

    def run(*words: str, at: Path) -> None:
        subprocess.run([*git, *words], cwd=at, check=True, capture_output=True)

    try:
        run("init", "repo", at=here)
    except FileNotFoundError:
        pytest.skip("there is no git here")
    run("commit", "--allow-empty", "-m", "x", at=here / "repo")
    run("worktree", "add", "../linked", at=here / "repo")

    assert common.main_work_tree(here / "linked") == here / "repo"
    assert common.main_work_tree(folder("linked", "deep", "er")) == here / "repo"
    assert common.main_work_tree(here / "repo") is None


def test_a_submodule_is_no_linked_work_tree(folder: Folder) -> None:
    module = folder("main", ".git", "modules", "part")
    part = folder("main", "part")
    (part / ".git").write_text(f"gitdir: {module}\n")
    found = folder("main", ".rightful")

    assert common.main_work_tree(part) is None
    assert common.located(None, start=part) == str(found)


def test_a_work_tree_of_a_bare_repository_has_no_main_one(folder: Folder) -> None:
    own = folder("bare.git", "worktrees", "topic")
    (own / "commondir").write_text("../..\n")
    tree = folder("topic")
    (tree / ".git").write_text(f"gitdir: {own}\n")

    assert common.main_work_tree(tree) is None


@pytest.mark.parametrize("text", ["", "nonsense", "gitdir:", "gitdir: /nowhere/at/all", "gitdir: \0"])
def test_a_git_file_that_leads_nowhere_is_passed_over(folder: Folder, text: str) -> None:
    tree = folder("tree")
    (tree / ".git").write_text(text)
    found = folder(".rightful")

    assert common.located(None, start=tree) == str(found)


# -- what is printed ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext\nand more", "plain\ttext\nand more"),
        ("größer → 文字 \U0001f600 \xa0", "größer → 文字 \U0001f600 \xa0"),
        ("\x1b[31m\x07\x00\x7f", r"\x1b[31m\x07\x00\x7f"),
        ("\r\x0b\x0c", r"\r\x0b\x0c"),
        ("\x9b31m", r"\x9b31m"),
        ("\u202e\u2066\u200b\ufeff\xad", r"\u202e\u2066\u200b\ufeff\xad"),
        ("\u2028\u2029", r"\u2028\u2029"),
        ("\ud800", r"\ud800"),
        ("\U000e0001", r"\U000e0001"),
    ],
)
def test_text_cannot_steer_a_terminal(text: str, shown: str) -> None:
    assert common.safe(text) == shown


def test_complaints_go_to_stderr_and_are_safe(capsys: pytest.CaptureFixture[str]) -> None:
    common.complain("bad \x1b[2J")

    assert capsys.readouterr() == ("", "rightful: bad \\x1b[2J\n")


def test_answers_go_to_stdout_and_are_safe(capsys: pytest.CaptureFixture[str]) -> None:
    common.say("good \u202e")

    assert capsys.readouterr() == ("good \\u202e\n", "")


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"b": 1, "a": [None, True, 0.1]}, '{"b":1,"a":[null,true,0.1]}'),
        ({"x": "\x1b\u202eé\ud800"}, '{"x":"\\u001b\\u202e\\u00e9\\ud800"}'),
        ({"p": Path("/a")}, '{"p":"/a"}'),
    ],
)
def test_json_is_one_line_of_ascii(document: Any, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    if isinstance(document.get("p"), Path):
        document = {"p": str(document["p"])}
    common.print_json(document)

    assert capsys.readouterr().out == text + "\n"


def test_json_refuses_numbers_that_json_does_not_have() -> None:
    with pytest.raises(ValueError, match="Out of range"):
        common.json_text({"x": float("nan")})


def test_counts_are_words() -> None:
    assert common.counted({"appended": 3, "conflict": 0, "duplicate": 1}) == "3 appended, 1 duplicate"
    assert common.counted({}) == "nothing"


def test_of_several_exit_codes_the_highest_is_returned() -> None:
    assert common.worst([0, 3, 2]) == 3
    assert common.worst([]) == 0


# -- exit codes --------------------------------------------------------------------------------


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail(*_: Any) -> int:
        raise error

    monkeypatch.setattr("rightful.cli.status.run", fail)


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (AmbiguousNameError("41c2", ("t:41c2", "u:41c2")), 2, "'41c2' fits 2 sessions: t:41c2, u:41c2"),
        (StoreFullError("/there", "ENOSPC"), 4, "there is no room to write to /there (ENOSPC)"),
        (PermissionError(13, "Permission denied", "/there"), 4, "/there: Permission denied."),
        (KeyboardInterrupt(), 130, "interrupted; what was acknowledged is written"),
    ],
)
def test_an_error_is_a_sentence_on_stderr_and_an_exit_code(
    monkeypatch: pytest.MonkeyPatch, run: Run, error: BaseException, code: int, said: str
) -> None:
    failing(monkeypatch, error)

    done = run("status")

    assert done.code == code
    assert done.err.startswith(f"rightful: {said}")
    assert done.out == ""


@pytest.mark.parametrize(
    "words", [["nonsense"], [], ["init", "--nonsense"], ["--nonsense", "init"], ["ingest", "a", "b"]]
)
def test_wrong_usage_is_2_and_says_so_on_stderr(run: Run, words: list[str]) -> None:
    done = run(*words)

    assert done.code == 2
    assert "usage: rightful" in done.err
    assert done.out == ""


def test_there_is_no_guessing_of_shortened_options(run: Run, ledger: Path) -> None:
    assert run("status", "--js").code == 2


def test_without_a_ledger_a_command_says_how_to_get_one_and_makes_none(run: Run, here: Path) -> None:
    done = run("status")

    assert done.code == 4
    assert done.err == (
        f"rightful: there is no ledger at {here / '.rightful'}; nothing was made. "
        "Run `rightful init`, or name one with --ledger.\n"
    )
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("words", [["--ledger", "x", "status"], ["status", "--ledger", "x"], ["--ledger=x", "status"]])
def test_the_ledger_is_named_before_or_after_the_command(run: Run, here: Path, words: list[str]) -> None:
    assert run("init", "x").code == 0

    assert run(*words, "--json").document["path"] == "x"


def test_the_version_is_that_of_the_package(run: Run) -> None:
    done = run("--version")

    assert done.code == 0
    try:
        assert done.out == f"rightful {version('rightful')}\n"
    except PackageNotFoundError:
        assert done.out == "rightful, run from its source and not installed\n"


def test_help_lists_every_command_with_its_summary(run: Run) -> None:
    done = run("--help")

    assert done.code == 0
    assert [name for name in cli.COMMANDS if f"\n    {name} " not in done.out] == []


@pytest.mark.parametrize("command", ["init", "ingest", "status"])
def test_each_command_has_help_with_its_own_words(run: Run, command: str) -> None:
    done = run(command, "--help")

    assert done.code == 0
    assert f"usage: rightful {command}" in done.out
    assert "--json" in done.out


def test_calling_one_command_loads_no_other(here: Path) -> None:
    program = "from rightful.cli import main; import sys; main(['init', 'x']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )

    commands = {name for name in done.stderr.split() if name in cli.COMMANDS.values()}
    assert commands == {"rightful.cli.init"}


def test_the_package_can_be_run_as_a_module(here: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rightful", "nonsense"],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )

    assert done.returncode == 2
    assert "invalid choice: 'nonsense'" in done.stderr


def test_a_narrow_locale_loses_no_answer(run: Run, here: Path) -> None:
    name = here / "größer"
    done = subprocess.run(
        [sys.executable, "-m", "rightful", "init", str(name)],
        check=True,
        capture_output=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONIOENCODING": "ascii"},
    )

    assert b"gr\\xf6\\xdfer is a ledger now." in done.stdout


def test_main_takes_the_words_of_the_process_by_default(monkeypatch: pytest.MonkeyPatch, here: Path) -> None:
    monkeypatch.setattr(sys, "argv", ["rightful", "init", "x"])

    assert main() == 0
    assert (here / "x" / "store").is_dir()
