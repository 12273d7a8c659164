"""What-if options: the policy is changed in one thing, the answer says so, and nonsense is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run

import rightful
from rightful.policies import Policy, policy_of


@pytest.fixture
def told(ledger: Path) -> None:
    """Two runs; a judge and a human grade the first."""
    with rightful.open(ledger) as opened:
        hook, judge, human = (opened.producer(name) for name in ("hook", "judge", "human"))
        hook.exposure("t:a", ["x", "y"], key="a")
        hook.exposure("t:b", ["x"], key="b")
        judge.grade("t:a", 0.25, seq=1)
        human.grade("t:a", 1.0, seq=1)
        judge.grade("t:b", 0.5, seq=1)


def asked(run: Run, *words: str) -> tuple[Policy, dict[str, float]]:
    document = run("posteriors", *words, "--json").document
    policy = {name: value for name, value in document["policy"].items() if name != "hash"}
    assert policy_of(policy).hash == document["policy"]["hash"]
    return policy_of(policy), {arm: one["alpha"] for arm, one in document["arms"].items()}


OPTIONS: list[tuple[list[str], dict[str, Any], str]] = [
    (["--join", "newest"], {"join": "newest"}, "join newest"),
    (["--revision", "additive"], {"revision": "additive"}, "revision additive"),
    (["--credit", "salience_split"], {"credit": "salience_split"}, "credit salience_split"),
    (["--causal-order", "lenient"], {"causal_order": "lenient"}, "causal order lenient"),
    (["--decay", "time:12h"], {"decay": {"mode": "time", "half_life": 43_200.0}}, "decay time:12h"),
    (["--decay", "time:90"], {"decay": {"mode": "time", "half_life": 90.0}}, "decay time:90"),
    (["--decay", "time:1.5w"], {"decay": {"mode": "time", "half_life": 907_200.0}}, "decay time:1.5w"),
    (["--decay", "session:0.99"], {"decay": {"mode": "session", "gamma": 0.99}}, "decay session:0.99"),
    (["--decay", "arm:0.9"], {"decay": {"mode": "arm", "gamma": 0.9}}, "decay arm:0.9"),
    (["--grader", "a/*", "--grader", "b/*"], {"graders": ["a/*", "b/*"]}, "paid by a/* and b/*"),
    (["--without-grader", "human/*"], {"without_graders": ["human/*"]}, "without grader human/*"),
    (["--without-session", "b"], {"without_sessions": ["t:b"]}, "without session t:b"),
    (
        ["--without-session", "b", "--without-session", "t:a"], {"without_sessions": ["t:b", "t:a"]},
        "without session t:b and t:a",
    ),
    (["--arm-alias", "y=x"], {"arm_aliases": {"y": "x"}}, "with y as x"),
    (["--arm-alias", "y=x=z"], {"arm_aliases": {"y": "x=z"}}, "with y as x=z"),
    (["--arm-alias", "a==b=c==d"], {"arm_aliases": {"a=b": "c=d"}}, "with a=b as c=d"),
    (["--arm-alias", "a===c"], {"arm_aliases": {"a=": "c"}}, "with a= as c"),
    (["--balances", "none"], {"balances": []}, "without opening balances"),
    (["--balances", "*a.json"], {"balances": ["*a.json"]}, "with the opening balances of *a.json"),
    (["--credit", "split", "--join", "newest"], {"join": "newest", "credit": "split"}, "join newest, credit split"),
]  # fmt: skip


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize(("words", "policy", "said"), OPTIONS, ids=[" ".join(words) for words, _, _ in OPTIONS])
def test_each_option_changes_the_policy_in_one_thing_and_says_so(
    run: Run, words: list[str], policy: dict[str, Any], said: str
) -> None:
    assert asked(run, *words)[0] == policy_of(policy)
    assert f"Policy bound, {said} ({policy_of(policy).hash[:12]})" in " ".join(run("posteriors", *words).out.split())


@pytest.mark.usefixtures("told")
def test_the_answers_are_those_of_the_changed_policy(run: Run) -> None:
    assert asked(run)[1] == {"x": 2.5, "y": 2.0}
    assert asked(run, "--without-session", "b")[1] == {"x": 2.0, "y": 2.0}
    assert asked(run, "--without-grader", "human/overall")[1] == {"x": 1.75, "y": 1.25}
    assert asked(run, "--credit", "split")[1] == {"x": 2.0, "y": 1.5}
    assert asked(run, "--arm-alias", "y=x")[1] == {"x": 2.5}
    assert asked(run, "--policy", "gptme", "--decay", "none")[1] == {"x": 2.75, "y": 2.25}


@pytest.mark.usefixtures("told")
def test_what_a_policy_leaves_out_already_stays_left_out(run: Run) -> None:
    given = '{"without_sessions":["t:a"],"without_graders":["human/*"],"arm_aliases":{"z":"x"}}'

    policy, _ = asked(
        run, "--policy", given, "--without-session", "b", "--without-grader", "judge/*", "--arm-alias", "y=x"
    )

    assert policy == policy_of(
        {
            "without_sessions": ["t:a", "t:b"],
            "without_graders": ["human/*", "judge/*"],
            "arm_aliases": {"z": "x", "y": "x"},
        }
    )


@pytest.mark.usefixtures("told")
def test_in_an_audit_they_change_what_is_audited(run: Run) -> None:
    document = run("audit", "bound", "--without-session", "b", "--json").document

    assert (document["reference"], document["missing_mass"], document["spurious_mass"]) == ("bound", 1.0, 0.0)
    assert document["policy_hash"] == policy_of({"without_sessions": ["t:b"]}).hash
    assert (
        run("audit", "--without-session", "b", "--json").out
        == run("audit", "bound", "--without-session", "b", "--json").out
    )
    assert "bound, without session t:b" in run("audit", "bound", "--without-session", "b").out
    against = run("audit", "--against", "gptme", "--decay", "none", "--json").document
    assert (
        against["policy_hash"]
        == policy_of({"revision": "additive", "causal_order": "lenient", "arithmetic": "sequential"}).hash
    )


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--decay", "events"], "bound, decay events: decay `events` depends on the order of the log"),
        (
            ["--policy", "gptme", "--decay", "time:7d"],
            "gptme, decay time:7d: `sequential` arithmetic allows only the decay",
        ),
        (["--decay", "time:0"], "bound, decay time:0: "),
        (["--decay", "session:1.5"], "bound, decay session:1.5: "),
        (["--decay", "session:nan"], "bound, decay session:nan: "),
        (["--decay", "session:much"], "--decay expects none, time:SECONDS"),
        (["--decay", "time:7y"], "--decay expects none, time:SECONDS"),
        (["--decay", "none:1"], "--decay expects none, time:SECONDS"),
        (["--decay", ""], "--decay expects none, time:SECONDS"),
        (["--grader", "judge"], "bound, paid by judge: Expected `producer/rubric`"),
        (["--without-session", "nobody"], "no session is named 'nobody'"),
        (["--arm-alias", "y"], "--arm-alias expects ALIAS=ARM, got 'y'"),
        (
            ["--arm-alias", "y==x"],
            "--arm-alias expects ALIAS=ARM, got 'y==x'; nothing was computed. Write a = in",
        ),
        (
            ["--grader", "judge/\noverall"],
            "Expected a grader without control characters, got 'judge/\\noverall' - at `$.graders[0]`",
        ),
        (
            ["--without-grader", "a/\x1b"],
            "Expected a grader without control characters, got 'a/\\x1b' - at `$.without_graders[0]`",
        ),
        (["--arm-alias", "y="], "--arm-alias expects ALIAS=ARM"),
        (["--arm-alias", "y=x", "--arm-alias", "x=z"], "which is itself an alias"),
        (["--balances", "none", "--balances", "a"], "--balances expects `none` or sources, got both"),
        (["--join", "odd"], "invalid choice: 'odd'"),
    ],
)
def test_nonsense_is_refused_with_a_sentence(run: Run, words: list[str], said: str) -> None:
    done = run("posteriors", *words)

    assert (done.code, done.out) == (2, "")
    assert said in " ".join(done.err.split())


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--without-grader", "humn/*"], "--without-grader humn/*: no grade has such a grader in this ledger."),
        (["--grader", "judge/*", "--grader", "x/y"], "--grader x/y: no grade has such a grader in this ledger."),
        (["--arm-alias", "w=x"], "--arm-alias w=x: no exposure or balance names w."),
        (["--balances", "a.json"], "--balances a.json: no opening balance has such a source in this ledger."),
        (["--join", "bound"], "the options have no effect: bound already has these values."),
    ],
)
def test_what_fits_nothing_or_changes_nothing_is_noted(run: Run, words: list[str], said: str) -> None:
    done = run("posteriors", *words)

    assert (done.code, done.err) == (0, f"rightful: note: {said}\n")


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("7d", "got '7d'; nothing was computed. Did you mean time:7d?"),
        ("604800", "got '604800'; nothing was computed. Did you mean time:604800?"),
        ("0.5w", "got '0.5w'; nothing was computed. Did you mean time:0.5w?"),
        ("0.99", "got '0.99'; nothing was computed. Did you mean session:0.99 or arm:0.99?"),
        ("odd", "got 'odd'; nothing was computed."),
    ],
)
def test_a_decay_without_its_mode_is_answered_with_what_was_meant(run: Run, text: str, said: str) -> None:
    done = run("posteriors", "--decay", text)

    assert done.code == 2
    assert " ".join(done.err.split()).endswith(said)


@pytest.mark.usefixtures("told")
def test_decay_at_is_noted_only_without_a_decay_by_time(run: Run) -> None:
    at = ["--decay-at", "2026-08-01T10:15:00Z"]

    assert "--decay-at has no effect" in run("posteriors", *at).err
    assert run("posteriors", *at, "--decay", "time:7d").err == ""


@pytest.mark.usefixtures("told")
def test_time_of_decay_may_come_from_an_excluded_session(run: Run, ledger: Path) -> None:
    with rightful.open(ledger) as opened:
        opened.producer("hook").exposure("t:late", ["x"], key="late", at=datetime(2099, 1, 1, tzinfo=UTC))
    decay = ["--decay", "time:7d"]
    said = (
        "rightful: note: evidence is decayed as of 2099-01-01T00:00:00Z, the latest time in the ledger, including "
        "excluded sessions; use --decay-at to choose another time.\n"
    )

    assert run("posteriors", *decay, "--without-session", "late").err == said
    assert run("audit", *decay, "--without-session", "late").err == said
    assert "2099" not in run("posteriors", *decay, "--without-session", "late", "--as-of", "5").err
    assert run("posteriors", *decay).err == ""
    assert run("posteriors", "--without-session", "late").err == ""
    assert run("posteriors", *decay, "--without-session", "late", "--decay-at", "2026-08-01T00:00:00Z").err == ""
