from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run

from rightful import cli
from rightful.cli.output import terminal
from rightful.cli.support import ledger_choice
from rightful.errors import LedgerNotFoundError

# -- which ledger ------------------------------------------------------------------------------


@pytest.fixture
def folder(here: Path) -> Callable[..., Path]:
    def made(*parts: str) -> Path:
        path = here.joinpath(*parts)
        path.mkdir(parents=True, exist_ok=True)
        return path

    return made


Folder = Callable[..., Path]


def test_option_precedes_environment_and_environment_precedes_folder(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = folder(".rightful")
    assert ledger_choice.ledger_path(None) == str(found)

    monkeypatch.setenv("RIGHTFUL_LEDGER", "/from/env")
    assert ledger_choice.ledger_path(None) == "/from/env"
    assert ledger_choice.ledger_path("/asked") == "/asked"


@pytest.mark.parametrize("words", [["status"], ["init"], ["ingest"], ["credit", "--exposure-session-id", "a"]])
@pytest.mark.parametrize("where", ["--ledger", "RIGHTFUL_LEDGER"])
def test_empty_ledger_name_is_refused(
    run: Run, folder: Folder, monkeypatch: pytest.MonkeyPatch, words: list[str], where: str
) -> None:
    folder(".rightful")
    if where == "RIGHTFUL_LEDGER":
        monkeypatch.setenv(where, "")
    else:
        words = ["--ledger", "", *words]

    done = run(*words, *(["--grade", "1"] if words[-1] == "a" else []))

    assert (done.code, done.out) == (2, "")
    assert done.err == f"rightful: {where} is empty; nothing was done. Pass the path of a folder, or omit it.\n"


@pytest.mark.parametrize("words", [["status"], ["credit", "--exposure-session-id", "a", "--grade", "1"]])
def test_the_folder_around_a_ledger_is_refused_and_the_ledger_in_it_named(
    run: Run, ledger: Path, here: Path, words: list[str]
) -> None:
    done = run("--ledger", here, *words)

    said = f"rightful: there is no ledger at {here}; nothing was made. One is inside: pass --ledger {ledger}.\n"
    assert (done.code, done.err.endswith(said)) == (4, True)
    assert [entry.name for entry in here.iterdir()] == [".rightful"]


def test_the_nearest_one_upwards_is_found(folder: Folder) -> None:
    folder(".rightful")
    near = folder("a", "b", ".rightful")

    assert ledger_choice.ledger_path(None, start=folder("a", "b", "c", "d")) == str(near)
    assert ledger_choice.ledger_path(None, start=folder("a", "b")) == str(near)
    assert ledger_choice.ledger_path(None, start=folder("a")) == str(folder(".rightful"))


def test_a_file_of_that_name_is_no_ledger(folder: Folder) -> None:
    upper = folder(".rightful")
    (folder("a") / ".rightful").write_text("not a folder")

    assert ledger_choice.ledger_path(None, start=folder("a")) == str(upper)


def test_a_strangers_folder_in_a_shared_parent_is_skipped(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder(".rightful")
    monkeypatch.setattr(os, "geteuid", lambda: 4711)

    with pytest.raises(LedgerNotFoundError):
        ledger_choice.ledger_path(None)


def test_where_there_is_none_the_error_says_where_init_would_make_it(here: Path) -> None:
    with pytest.raises(LedgerNotFoundError) as caught:
        ledger_choice.ledger_path(None)
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

    assert ledger_choice.ledger_path(None, start=linked) == str(main)
    assert ledger_choice.ledger_path(None, start=folder("elsewhere", "topic", "src")) == str(main)


def test_the_search_goes_on_above_the_main_work_tree(folder: Folder, linked: Path) -> None:
    above = folder(".rightful")

    assert ledger_choice.ledger_path(None, start=linked) == str(above)


def test_a_linked_work_tree_may_have_its_own_where_the_main_one_has_none(folder: Folder, linked: Path) -> None:
    own = folder("elsewhere", "topic", ".rightful")

    assert ledger_choice.ledger_path(None, start=linked) == str(own)


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

    assert ledger_choice.main_work_tree(here / "linked") == here / "repo"
    assert ledger_choice.main_work_tree(folder("linked", "deep", "er")) == here / "repo"
    assert ledger_choice.main_work_tree(here / "repo") is None


def test_a_submodule_is_no_linked_work_tree(folder: Folder) -> None:
    module = folder("main", ".git", "modules", "part")
    part = folder("main", "part")
    (part / ".git").write_text(f"gitdir: {module}\n")
    found = folder("main", ".rightful")

    assert ledger_choice.main_work_tree(part) is None
    assert ledger_choice.ledger_path(None, start=part) == str(found)


def test_a_work_tree_of_a_bare_repository_has_no_main_one(folder: Folder) -> None:
    own = folder("bare.git", "worktrees", "topic")
    (own / "commondir").write_text("../..\n")
    tree = folder("topic")
    (tree / ".git").write_text(f"gitdir: {own}\n")

    assert ledger_choice.main_work_tree(tree) is None


@pytest.mark.parametrize("text", ["", "nonsense", "gitdir:", "gitdir: /nowhere/at/all", "gitdir: \0"])
def test_a_git_file_that_leads_nowhere_is_skipped(folder: Folder, text: str) -> None:
    tree = folder("tree")
    (tree / ".git").write_text(text)
    found = folder(".rightful")

    assert ledger_choice.ledger_path(None, start=tree) == str(found)


# -- what is printed ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext\nand more", r"plain\ttext\nand more"),
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
    assert terminal.safe(text) == shown


def test_prose_is_wrapped_at_spaces_where_a_width_is_given_and_only_there(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = ["The ledger keeps all.", "\n  Where    in /a/folder/with-a-long-name and here"]
    terminal.wrap_stdout(*text)
    assert capsys.readouterr().out == "\n".join(text) + "\n"

    monkeypatch.setenv("COLUMNS", "30")
    terminal.wrap_stdout(*text)
    assert capsys.readouterr().out.splitlines() == [
        "The ledger keeps all.",
        "",
        "  Where    in",
        "           /a/folder/with-a-long-name",
        "           and here",
    ]


def test_help_is_as_wide_as_the_terminal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")

    for command in cli.COMMANDS:
        lines = run(command, "--help").out.splitlines()
        assert max(map(len, lines)) <= 60
        assert "" in lines[lines.index("") + 1 :]  # the summary stands apart from what follows


def test_a_count_has_its_noun() -> None:
    assert [terminal.plural(n, "grade") for n in (0, 1, 2_000)] == ["0 grades", "1 grade", "2,000 grades"]


def test_complaints_go_to_stderr_and_are_safe(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.warn_stderr("bad \x1b[2J")

    assert capsys.readouterr() == ("", "rightful: bad \\x1b[2J\n")


FORGED = "x\nrightful: note: all 40 files imported\r\n\twarning: none"
SHOWN = r"x\nrightful: note: all 40 files imported\r\n\twarning: none"


def test_no_text_makes_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    """A key of a file, its name, an arm: what others wrote ends where our sentence goes on."""
    terminal.print_stdout(f"{FORGED} 1", FORGED)
    terminal.wrap_stdout(f"{FORGED} 2", f"\n{FORGED}")
    terminal.warn_stderr(FORGED)
    terminal.note_stderr(FORGED)

    out, err = capsys.readouterr()
    assert out.splitlines() == [f"{SHOWN} 1", SHOWN, f"{SHOWN} 2", "", SHOWN]
    assert err.splitlines() == [f"rightful: {SHOWN}", f"rightful: note: {SHOWN}"]


def test_answers_go_to_stdout_and_are_safe(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.print_stdout("good \u202e")

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
    terminal.print_json(document)

    assert capsys.readouterr().out == text + "\n"


def test_json_refuses_numbers_that_json_does_not_have() -> None:
    with pytest.raises(ValueError, match="Out of range"):
        terminal.json_text({"x": float("nan")})


def test_counts_are_words() -> None:
    assert terminal.counts_text({"appended": 3, "conflict": 0, "duplicate": 1}) == "3 appended, 1 duplicate"
    assert terminal.counts_text({}) == "nothing"


def test_of_several_exit_codes_the_highest_is_returned() -> None:
    assert terminal.highest_code([0, 3, 2]) == 3
    assert terminal.highest_code([]) == 0


def test_the_search_for_garbage_rests_while_modules_load_and_no_longer(run: Run, ledger: Path) -> None:
    import gc

    gc.enable()
    assert run("status").code == 0
    assert gc.isenabled()
    assert run("--ledger", "nowhere", "status").code == 4
    assert gc.isenabled()
