"""`audit --recorded`: the first line says which rule wrote a file, the exit code whether one did."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.cli.conftest import Run

import rightful


@pytest.fixture
def told(ledger: Path) -> None:
    """Two runs, the newer one graded last: a.md earned 0.75, b.md 0.25."""
    with rightful.open(ledger) as opened:
        hook, judge = opened.producer("hook"), opened.producer("judge")
        for at, name in enumerate("ab"):
            hook.exposure(f"t:{name}", [f"lessons/{name}.md"], key=name, at=rightful_time(at))
        judge.grade("t:a", 0.75, seq=1, at=rightful_time(5))
        judge.grade("t:b", 0.25, seq=1, at=rightful_time(6))


def rightful_time(second: int) -> Any:
    from rightful.times import at_of

    return at_of((1_785_579_300 + second) * 1_000_000)


def state(path: Path, **arms: tuple[float, float, int]) -> Path:
    held = {
        f"lessons/{name}.md": {"alpha": alpha, "beta": beta, "total_selections": n}
        for name, (alpha, beta, n) in arms.items()
    }
    path.write_text(json.dumps({"arms": held, "last_updated": "2026-08-01T10:16:00+00:00"}))
    return path


@pytest.mark.usefixtures("told")
def test_the_first_line_says_which_rule_really_ran(run: Run, here: Path) -> None:
    done = run("audit", "--recorded", state(here / "newest.json", b=(2.0, 2.0, 2)))

    assert done.code == 0
    assert done.out.splitlines()[:2] == [
        "`historical-newest` fits: 1 of 1 arms bit for bit.",
        "The log lacks nothing that the file contains.",
    ]


@pytest.mark.usefixtures("told")
def test_change_of_rule_is_shown_with_its_interval_and_exits_with_0(run: Run, ledger: Path, here: Path) -> None:
    """Row A12: b.md got the first grade of a, and a.md the second one."""
    with rightful.open(ledger) as opened:
        opened.producer("judge").grade("t:a", 0.5, seq=2, at=rightful_time(9))
    file = state(here / "changed.json", a=(1.5, 1.5, 1), b=(2.0, 2.0, 2))

    done = run("audit", "--recorded", file)

    assert done.code == 0
    assert done.out.splitlines()[0] == (
        "No rule fits alone, but one change of rule explains all 2 arms within 1e-9: `historical-newest` until a time "
        "from 2026-08-01T10:15:05Z and before 2026-08-01T10:15:09Z, `bound` after it. "
        "1 more change explains the file as well: `historical-newest` then `gptme`."
    )
    assert "Changes of rule that explain the file" in done.out
    assert "The log lacks" not in done.out
    document = json.loads(run("audit", "--recorded", file, "--json").out)
    assert [(one["first"], one["second"]) for one in document["changes"]] == [
        ("historical-newest", "bound"), ("historical-newest", "gptme"),
    ]  # fmt: skip


@pytest.mark.usefixtures("told")
def test_rules_that_the_log_cannot_distinguish_are_all_named(run: Run, here: Path) -> None:
    done = run("audit", "--recorded", state(here / "bound.json", a=(1.75, 1.25, 1), b=(1.25, 1.75, 1)))

    assert (done.code, done.out.splitlines()[0]) == (
        0, "`bound` and `gptme` fit equally well, and the log cannot distinguish them: 2 of 2 arms bit for bit.",
    )  # fmt: skip


@pytest.mark.usefixtures("told")
def test_nearest_rule_and_gaps_of_the_log_are_shown_if_nothing_fits(run: Run, here: Path) -> None:
    done = run("audit", "--recorded", state(here / "odd.json", a=(3.75, 1.25, 3), c=(1.5, 1.5, 1)))

    assert done.code == 1
    assert done.out.splitlines()[:2] == [
        (
            "No rule fits; the nearest are `bound` and `gptme`, equally near: 3 of 3 arms differ; "
            "alpha is off by a weight of up to 2."
        ),
        "The log lacks about 3 credits of 2 arms. The log has about 1 credit of 1 arm that the file lost.",
    ]
    assert "about 2 credits that the log lacks, mean reward 1.00" in done.out
    assert "about 1 credit that the file lost, mean reward 0.25" in done.out


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize(
    ("belief", "off"),
    [
        ((2.0, 4.5, 2), "beta is off by a weight of up to 2.5"),
        ((4.0, 2.0, 2), "alpha is off by a weight of up to 2"),
        ((2.0, 2.0, 7), "the selections are off by up to 5"),
    ],
)
def test_how_far_off_the_nearest_is_has_its_unit(
    run: Run, here: Path, belief: tuple[float, float, int], off: str
) -> None:
    done = run("audit", "--recorded", state(here / "odd.json", b=belief))

    assert done.out.splitlines()[0] == (f"No rule fits; the nearest is `historical-newest`: 1 of 1 arms differ; {off}.")


def test_rules_that_are_equally_near_are_named_and_many_of_them_counted(run: Run, here: Path, ledger: Path) -> None:
    """One session: every rule pays it."""
    with rightful.open(ledger) as opened:
        opened.producer("hook").exposure("t:a", ["lessons/a.md"], key="a", at=rightful_time(0))
        opened.producer("judge").grade("t:a", 0.75, seq=1, at=rightful_time(5))
    path = state(here / "odd.json", a=(9.0, 1.0, 8))

    three = run("audit", "--recorded", path).out.splitlines()[0]
    four = run("audit", "--recorded", path, "--without-grader", "x/y").out.splitlines()[0]

    nearest = "No rule fits; the nearest are"
    assert three.startswith(f"{nearest} `bound`, `historical-newest` and `gptme`, equally near: 1 of 1 arms")
    assert four.startswith(
        f"{nearest} `bound, without grader x/y`, `bound`, `historical-newest` and 1 more, equally near: 1 of 1 arms"
    )


@pytest.mark.usefixtures("told")
def test_numbers_without_a_credit_are_said_to_be_that(run: Run, here: Path) -> None:
    done = run("audit", "--recorded", state(here / "odd.json", a=(1.751, 1.25, 1), b=(1.25, 1.75, 1)))

    assert (done.code, done.out.splitlines()[1]) == (
        1, "1 arm has as many credits as in the log, and other numbers (evidence +0.001).",
    )  # fmt: skip
    assert "as many credits, evidence +0.001" in done.out
    assert "mean reward" not in done.out


@pytest.mark.usefixtures("told")
def test_a_file_of_before_the_log_tells_nothing_of_its_rule(run: Run, here: Path) -> None:
    path = state(here / "early.json", a=(2.0, 1.0, 1))
    path.write_text(path.read_text().replace("2026-08-01T10:16:00", "2026-07-01T10:15:00"))
    models = here / "pm.json"
    models.write_text(json.dumps({"arms": {"pm-model:a:b": {"alpha": 2.0, "beta": 1.0, "total_selections": 1}}}))

    early, of_models = run("audit", "--recorded", path), run("audit", "--recorded", models)

    assert (early.code, early.out.splitlines()[:2]) == (
        1,
        [
            (
                "It cannot be determined which rule wrote the file: the log contains no grade up to its time, "
                "2026-07-01T10:15:00Z, so all rules give the same result."
            ),
            "The log lacks about 1 credit of 1 arm.",
        ],
    )
    assert (of_models.code, of_models.out.splitlines()[0]) == (
        1,
        (
            "It cannot be determined which rule wrote the file: the log credits no arm of such a file, so all rules "
            "give the same result."
        ),
    )
    assert "2 arms of the log belong to another tool's file and were skipped" in of_models.err


@pytest.mark.usefixtures("told")
def test_json_says_it_all(run: Run, here: Path) -> None:
    path = state(here / "bound.json", a=(1.75, 1.25, 1), b=(1.25, 1.75, 1))

    document = run("audit", "--recorded", path, "--json").document

    assert (document["file"], document["fits"], document["nearest"]) == (str(path), ["bound", "gptme"], "bound")
    assert document["candidates"][0]["exact"] == 2
    assert document["lacks"] == []


@pytest.mark.usefixtures("told")
def test_a_rule_of_ones_own_is_held_against_the_file_too(run: Run, here: Path) -> None:
    path = state(here / "a.json", a=(1.75, 1.25, 1))

    assert run("audit", "--recorded", path).code == 1
    done = run("audit", "--recorded", path, "--without-session", "b")
    assert (done.code, done.out.splitlines()[0]) == (0, "`bound, without session t:b` fits: 1 of 1 arms bit for bit.")
    assert run("audit", "gptme", "--recorded", path, "--without-grader", "x/y", "--without-session", "t:b").code == 0


@pytest.mark.usefixtures("told")
def test_a_file_is_read_from_stdin(run: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = state(here / "bound.json", a=(1.75, 1.25, 1), b=(1.25, 1.75, 1)).read_bytes()
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(data)))

    assert run("audit", "--recorded", "-").code == 0


@pytest.mark.usefixtures("told")
def test_a_file_that_is_not_there_or_no_state_is_wrong_usage(run: Run, here: Path) -> None:
    (here / "odd.json").write_text("[]")

    for path, why in (
        (here / "none.json", "No such file"),
        (here / "odd.json", "not a bandit state"),
        (here, "directory"),
    ):
        done = run("audit", "--recorded", path)
        assert (done.code, done.out) == (2, "")
        assert why in done.err
    assert run("audit", "--recorded", here / "odd.json", "--against", "bound").code == 2


@pytest.mark.usefixtures("told")
def test_a_file_without_a_belief_tells_nothing(run: Run, here: Path) -> None:
    done = run("audit", "--recorded", state(here / "empty.json"))

    assert (done.code, done.out) == (1, "The file contains no beliefs, so no rule can be identified.\n")


@pytest.mark.usefixtures("told")
def test_what_is_later_than_the_file_is_said_on_stderr(run: Run, here: Path) -> None:
    path = state(here / "early.json", a=(1.75, 1.25, 1))
    path.write_text(path.read_text().replace("10:16:00", "10:15:05"))

    done = run("audit", "--recorded", path)

    assert done.code == 0
    assert done.err == "rightful: note: 1 grade is later than the file's last update and excluded.\n"


@pytest.mark.usefixtures("told")
def test_no_name_of_a_file_steers_the_terminal(run: Run, here: Path) -> None:
    odd = {"\u202ered": (3.0, 1.0, 2), "\x1b[31m": (3.0, 1.0, 2)}
    done = run("audit", "--recorded", state(here / "odd.json", a=(1.75, 1.25, 1), **odd))

    assert "\x1b" not in done.out + done.err
    assert "\u202e" not in done.out + done.err
    assert "\\u202ered" in done.out
    assert "\\x1b[31m" in done.err  # no arm of a ledger has such a name
