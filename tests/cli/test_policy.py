"""`policy`: what a policy is, in what two differ, and aliases that are proposed and never applied."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.cli.conftest import Run

import rightful
from rightful.cli.commands.policy import DECAYS, MEANINGS
from rightful.policies import PRESETS, ArmDecay, EventDecay, Policy, SessionDecay, TimeDecay, policy_of

HASH = PRESETS["gptme"].hash
ROOT = Path(__file__).parents[2]
ABS, REL, MODEL = "/ws/lessons/x.md", "lessons/x.md", "opus"


@pytest.fixture
def told(ledger: Path) -> None:
    """One lesson under two names, one of which two sessions saw."""
    with rightful.open(ledger) as opened:
        hook = opened.producer("hook")
        for place, arms in enumerate(([ABS, MODEL], [ABS], [REL])):
            hook.exposure(f"t:{place}", arms, key=str(place))
            hook.grade(f"t:{place}", 0.5, seq=1)


# -- show, hash, diff --------------------------------------------------------------------------


def test_show_says_what_differs_and_what_that_means(run: Run) -> None:
    done = run("policy", "show", "gptme")

    assert done.code == 0
    assert done.out.startswith("gptme differs from the defaults in 4 fields.\n")
    assert "every grade event pays, and retractions are ignored" in done.out
    assert "as an updater does them" in done.out
    assert "decays and prunes of another updater, call by call" in done.out
    assert HASH in done.out
    assert policy_of(json.loads(done.out.splitlines()[-1])) == PRESETS["gptme"]


def test_show_of_the_default_says_so_and_needs_no_ledger(run: Run, here: Path) -> None:
    assert run("policy", "show").out.startswith("bound has the defaults in every field.\n")
    assert list(here.iterdir()) == []


def test_show_as_json_is_what_a_policy_file_takes(run: Run, here: Path) -> None:
    document = run("policy", "show", "historical-newest", "--without-grader", "x/*", "--json").document

    assert list(document) == ["name", "hash", "policy", "differs"]
    assert document["name"] == "historical-newest, without grader x/*"
    assert document["differs"] == {
        "join": ["bound", "newest"],
        "revision": ["last_wins", "additive"],
        "without_graders": [[], ["x/*"]],
    }
    (here / "mine.json").write_text(json.dumps(document["policy"]))
    assert run("policy", "hash", "mine.json").out == document["hash"] + "\n"


def test_hash_is_the_hash_and_json_may_be_asked_for_before_or_behind(run: Run) -> None:
    assert run("policy", "hash", "gptme").out == f"{HASH}\n"
    assert run("policy", "--json", "hash", "gptme").document == {"name": "gptme", "hash": HASH}
    assert run("policy", "hash", "gptme", "--json").document == {"name": "gptme", "hash": HASH}
    assert run("policy", "hash", "--decay", "time:7d", "bound").out.strip() == (
        policy_of({"decay": {"mode": "time", "half_life": 604_800.0}}).hash
    )


def test_diff_is_0_for_one_rule_and_1_for_two(run: Run, here: Path) -> None:
    (here / "mine.json").write_text("{}")
    same = run("policy", "diff", "bound", "mine.json")
    assert (same.code, same.out) == (0, f"bound and mine.json are one rule, {PRESETS['bound'].hash}.\n")

    other = run("policy", "diff", "bound", "historical-newest")
    assert other.code == 1
    assert other.out.startswith("bound (d9db8dfd61ec) and historical-newest (b86bc1b34203) differ in 2 fields.\n")
    document = run("policy", "diff", "bound", "historical-newest", "--json").document
    assert document == {
        "policies": ["bound", "historical-newest"],
        "hashes": [PRESETS["bound"].hash, PRESETS["historical-newest"].hash],
        "differs": {"join": ["bound", "newest"], "revision": ["last_wins", "additive"]},
    }


def test_every_field_and_value_has_a_meaning() -> None:
    schema = msgspec.json.schema(Policy)["$defs"]["Policy"]["properties"]
    values = {name: set(field["enum"]) for name, field in schema.items() if "enum" in field}

    assert MEANINGS.keys() == {*Policy.__struct_fields__}
    assert {name: set(MEANINGS[name]) for name in values} == values
    modes = {str(kind.__struct_config__.tag) for kind in (TimeDecay, SessionDecay, ArmDecay, EventDecay)}
    assert DECAYS.keys() == modes | {None}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["show", "odd"], "POLICY: unknown preset 'odd'"),
        (["show", "--decay", "events"], "bound, decay events: decay `events` depends on the order of the log"),
        (["diff", "bound", '{"join":"x"}'], "OTHER: Invalid"),
        (["hash", "--without-session", "nobody"], "Expected a session `namespace:value`"),
        (["aliases", "--force"], "--force needs --out FILE"),
    ],
)
def test_invalid_policy_is_reported_with_its_option(run: Run, ledger: Path, words: list[str], said: str) -> None:
    done = run("policy", *words)

    assert (done.code, done.out) == (2, "")
    assert said in done.err


@pytest.mark.parametrize("words", [[], ["diff", "bound"], ["nonsense"], ["show", "bound", "gptme"]])
def test_wrong_usage_is_2(run: Run, words: list[str]) -> None:
    done = run("policy", *words)

    assert (done.code, done.out) == (2, "")
    assert "usage: rightful policy" in done.err


# -- aliases -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("told")
def test_aliases_are_proposed_with_their_evidence_and_not_applied(run: Run, here: Path) -> None:
    before = run("posteriors", "--json").out

    done = run("policy", "aliases")

    assert done.code == 0
    assert done.out.startswith("1 lesson has 2 names: 1 alias proposed.\n")
    assert (
        f"{ABS}: the same path x.md below /ws/lessons, lessons; no session was shown lessons of two of them."
        in done.out
    )
    assert "Nothing is applied." in done.out
    assert run("posteriors", "--json").out == before


@pytest.mark.usefixtures("told")
def test_out_writes_a_policy_that_a_question_takes(run: Run, here: Path) -> None:
    (here / "base.json").write_text('{"credit":"split","arm_aliases":{"old":"opus"}}')

    document = run("policy", "aliases", "--policy", "base.json", "--out", "mine.json", "--json").document

    assert (document["written"], document["arm_aliases"]) == ("mine.json", {REL: ABS})
    written = json.loads((here / "mine.json").read_text())
    assert policy_of(written) == policy_of({"credit": "split", "arm_aliases": {"old": "opus", REL: ABS}})
    arms = run("posteriors", "--policy", "mine.json", "--json").document["arms"]
    assert (list(arms), arms[ABS]["n"]) == ([ABS, MODEL], 3)
    assert stat.S_IMODE((here / "mine.json").stat().st_mode) == 0o666 & ~mask()
    assert [path.name for path in here.iterdir() if path.name.startswith(".mine")] == []


def mask() -> int:
    found = os.umask(0)
    os.umask(found)
    return found


@pytest.mark.usefixtures("told")
def test_out_replaces_nothing_unless_it_may(run: Run, here: Path) -> None:
    (here / "mine.json").write_text("precious")

    done = run("policy", "aliases", "--out", "mine.json")
    assert (done.code, done.out, (here / "mine.json").read_text()) == (2, "", "precious")
    assert "already exists; nothing was written" in done.err

    assert run("policy", "aliases", "--out", "mine.json", "--force").code == 0
    assert json.loads((here / "mine.json").read_text())["arm_aliases"] == {REL: ABS}


@pytest.mark.usefixtures("told")
def test_a_file_that_comes_in_between_stays(run: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was not there when it was looked for; the name is taken by a link, which replaces nothing."""
    monkeypatch.setattr("os.path.lexists", lambda path: False)
    (here / "mine.json").write_text("precious")

    done = run("policy", "aliases", "--out", "mine.json")

    assert (done.code, (here / "mine.json").read_text()) == (2, "precious")
    assert "already exists" in done.err
    assert sorted(path.name for path in here.iterdir()) == [".rightful", "mine.json"]


@pytest.mark.usefixtures("told")
def test_what_cannot_be_written_is_said_and_leaves_nothing(
    run: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = run("policy", "aliases", "--out", "none/mine.json")
    assert done.code == 2
    assert "No such file or directory; nothing was written" in done.err

    def full(_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    done = run("policy", "aliases", "--out", "mine.json")
    assert "No space left on device; nothing was written" in done.err
    assert sorted(path.name for path in here.iterdir()) == [".rightful"]


KILLED = """
import os, signal, sys
from rightful.cli import main
os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
main(["--ledger", sys.argv[1], "policy", "aliases", "--out", sys.argv[2], "--force"])
"""


@pytest.mark.usefixtures("told")
def test_a_process_that_dies_while_it_writes_leaves_the_old_file(ledger: Path, here: Path) -> None:
    (here / "mine.json").write_text("precious")
    run_at_once = [sys.executable, "-c", KILLED, str(ledger), str(here / "mine.json")]

    done = subprocess.run(run_at_once, env=os.environ | {"PYTHONPATH": str(ROOT / "src")}, check=False)

    assert done.returncode == -signal.SIGKILL
    assert (here / "mine.json").read_text() == "precious"


def test_nothing_to_propose_writes_nothing(run: Run, ledger: Path, here: Path) -> None:
    done = run("policy", "aliases", "--out", "mine.json")

    assert (done.code, done.out) == (0, "No arm was found under a second name, so no alias is proposed.\n")
    said = "rightful: note: there is no alias to propose; nothing was written to {}.\n"
    assert done.err == said.format("mine.json")
    assert run("policy", "aliases", "--json", "--out", "/nowhere/x").err == said.format("/nowhere/x")
    assert not (here / "mine.json").exists()


@pytest.mark.usefixtures("told")
def test_the_preferred_name_stays(run: Run) -> None:
    assert run("policy", "aliases", "--prefer", "lessons/", "--json").document["arm_aliases"] == {ABS: REL}


def test_what_is_left_to_a_person_is_listed_with_its_reason(run: Run, ledger: Path) -> None:
    with rightful.open(ledger) as opened:
        opened.producer("hook").exposure("t:a", ["/a/lessons/x.md", "/b/lessons/x.md"], key="1")

    done = run("policy", "aliases")

    assert "Not proposed" in done.out
    assert "x.md: session t:a was shown lessons of /a/lessons and of /b/lessons" in done.out
