from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run
from tests.projections.telling import exposed, graded, mentioned, opened

import rightful

EVENTS: list[dict[str, Any]] = [
    {
        "type": "exposure.recorded", "producer": "hook", "key": "1", "session": "claude-code:a",
        "at": "2026-08-01T10:00:00Z", "arms": [{"arm": "lessons/a.md"}], "context": ["code", "opus"],
    },
    {
        "type": "exposure.recorded", "producer": "hook", "key": "2", "session": "claude-code:b",
        "at": "2026-08-01T10:05:00Z", "arms": [{"arm": "lessons/b\u202e.md"}],
    },
    {
        "type": "grade.recorded", "producer": "judge", "key": "3", "session": "claude-code:a",
        "at": "2026-08-01T10:10:00Z", "reward": 0.8, "seq": 1,
    },
    {
        "type": "grade.recorded", "producer": "judge", "key": "4", "session": "claude-code:ghost",
        "at": "2026-08-01T10:11:00Z", "reward": 0.4, "seq": 1,
    },
]  # fmt: skip


def fill(ledger: Path) -> None:
    with rightful.open(ledger) as opened:
        assert {receipt.outcome for receipt in opened.append(EVENTS)} == {"appended"}


def test_json_has_the_keys_and_numbers_of_the_design(run: Run, ledger: Path) -> None:
    fill(ledger)

    document = run("posteriors", "--json").document

    assert list(document) == ["policy", "through", "decay_at", "arms", "contexts", "counters"]
    assert document["decay_at"] == "2026-08-01T10:11:00Z"
    assert document["policy"]["hash"] == "d9db8dfd61ec1629484424d10ffabcfec3b1c7332de12ce1d1151dc57210e6ed"
    assert document["through"] == 4
    assert document["counters"] == {"credited_grades": 1, "unmatched_grades": 1, "pending_sessions": 1}
    assert list(document["arms"]) == ["lessons/a.md"]
    arm = document["arms"]["lessons/a.md"]
    assert {key: arm[key] for key in ("alpha", "beta", "n", "mass", "mean")} == {
        "alpha": 1.8, "beta": 1.2, "n": 1, "mass": 1.0, "mean": 1.8 / 3.0,
    }  # fmt: skip
    assert arm["ci95"] == pytest.approx([0.11231291292966648, 0.9732260068150657], abs=1e-9)
    assert document["contexts"][0]["context"] == ["code", "opus"]


def test_people_read_first_what_happened_to_the_grades(run: Run, ledger: Path) -> None:
    fill(ledger)

    first, *rest = run("posteriors", "--contexts").out.splitlines()

    assert first == (
        "1 of 2 grades is credited to 1 arm (1 unmatched). 1 exposed session waits for a grade. "
        "Policy bound (d9db8dfd61ec), through position 4."
    )
    assert any("lessons/a.md" in line and "0.600" in line and "0.112 to 0.973" in line for line in rest)
    assert any("code · opus" in line for line in rest)


def test_an_empty_ledger_says_that_nothing_was_graded(run: Run, ledger: Path) -> None:
    assert run("posteriors").out.startswith("No grades yet; every arm without an opening balance has its prior.")
    document = run("posteriors", "--json").document
    assert (document["arms"], document["decay_at"]) == ({}, None)


@pytest.mark.parametrize(
    ("kinds", "missing"),
    [
        ([], "The ledger has no exposures and no grades. Import both with `rightful import auto FOLDER`, or"),
        (
            ["exposure"],
            "Import grades from a session-records.jsonl with `rightful import auto FILE`, or record one with",
        ),
        (
            ["grade"],
            "The ledger has no exposures, so no arm can be credited. Import the state files of the lesson hook",
        ),
        (["exposure", "grade"], None),
    ],
)
def test_missing_exposures_or_grades_are_named_with_the_command(
    run: Run, ledger: Path, kinds: list[str], missing: str | None
) -> None:
    common = {"producer": "p", "session": "t:a", "at": "2026-08-01T10:00:00Z"}
    events: dict[str, Any] = {
        "exposure": {"type": "exposure.recorded", "key": "e", "arms": [{"arm": "lessons/a.md"}], **common},
        "grade": {"type": "grade.recorded", "key": "g", "reward": 0.8, "seq": 1, **common},
    }
    with rightful.open(ledger) as written:
        written.append([events[kind] for kind in kinds])

    said = " ".join(run("posteriors").out.split())

    assert said.count("Import") == (missing is not None)
    assert missing is None or missing in said


def test_policy_without_graders_does_not_report_missing_grades(run: Run, ledger: Path) -> None:
    fill(ledger)

    out = run("posteriors", "--policy", '{"graders": ["human/overall"]}').out

    assert out.startswith("None of 2 grades counts under this policy; every arm without an opening balance")


def test_a_single_grade_is_spoken_of_in_the_singular(run: Run, ledger: Path) -> None:
    fill(ledger)

    assert run("posteriors", "--as-of", "3").out.startswith("1 of 1 grade is credited to 1 arm. 1 exposed session wai")


def test_a_time_before_the_first_row_is_said_to_be_one_of_recording(run: Run, ledger: Path) -> None:
    fill(ledger)
    sentence = "Nothing had been recorded by then; --as-of is a time of recording, not the time of an event."

    assert run("posteriors", "--as-of", "2026-08-01T10:15:00Z").out.startswith(sentence)
    assert run("posteriors", "--as-of", "2026-08-01T10:15:00Z", "--json").err == f"rightful: note: {sentence}\n"
    assert run("audit", "--as-of", "2026-08-01T10:15:00Z").err == f"rightful: note: {sentence}\n"
    assert sentence not in run("posteriors", "--as-of", "0").out


WEEK = '{"decay": {"mode": "time", "half_life": 604800}}'


def test_a_decay_over_time_says_as_of_when(run: Run, ledger: Path) -> None:
    fill(ledger)
    first = run("posteriors", "--policy", WEEK).out.splitlines()[0]
    later = run("posteriors", "--policy", WEEK, "--decay-at", "2026-08-08T10:11:00+00:00", "--json")

    assert first.endswith(", through position 4, decayed as of 2026-08-01T10:11:00Z.")
    assert (later.document["decay_at"], later.err) == ("2026-08-08T10:11:00Z", "")


FAR = [
    exposed("t:a", "x", at=0),
    graded("t:a", 0.5, at=10),
    mentioned("t:b", key="b"),
    opened(at=50 * 86_400, arms={}),
]


@pytest.mark.parametrize(
    "words", [["posteriors"], ["posteriors", "--json"], ["explain", "x"], ["explain", "x", "--json"], ["audit"]]
)
def test_a_decay_to_a_time_long_after_all_evidence_is_noted(run: Run, ledger: Path, words: list[str]) -> None:
    with rightful.open(ledger) as held:
        held.append(FAR)

    done = run(*words, *(["--decay", "time:7d"] if words[0] == "audit" else ["--policy", WEEK]))

    assert done.code == 0
    assert done.err == (
        "rightful: note: evidence is decayed as of 1970-02-20T00:00:00Z, the latest time of any row. The newest "
        "exposure is from 1970-01-01T00:00:00Z, 7 half-lives earlier, so almost none of its evidence is left. "
        "Use --decay-at to choose another time.\n"
    )


@pytest.mark.parametrize(
    "words",
    [
        ["posteriors", "--policy", WEEK, "--decay-at", "1970-02-20T00:00:00Z"],
        ["posteriors", "--policy", WEEK, "--as-of", "3"],
        ["posteriors", "--decay", "time:10d"],
        ["posteriors", "--decay", "session:0.5"],
        ["posteriors"],
        ["explain", "t:a", "--policy", WEEK],
    ],
)
def test_given_near_or_irrelevant_time_gets_no_note(run: Run, ledger: Path, words: list[str]) -> None:
    with rightful.open(ledger) as held:
        held.append(FAR)

    assert run(*words).err == ""


@pytest.mark.parametrize(("events", "said"), [(1, "0 of 1 grade is credited"), (2, "0 of 2 grades are credited")])
def test_none_of_one_grade_is_credited(run: Run, ledger: Path, events: int, said: str) -> None:
    with rightful.open(ledger) as held:
        held.append([graded(f"t:{at}", 0.5) for at in range(events)])

    assert run("posteriors").out.startswith(f"{said} ({events} unmatched). ")


@pytest.mark.parametrize(
    ("words", "note"),
    [
        (["posteriors", "--decay-at", "2026-08-08T10:11:00Z"], "--decay-at has no effect"),
        (["audit", "--decay-at", "2026-08-08T10:11:00Z"], "--decay-at has no effect"),
        (["posteriors", "--contexts", "--as-of", "1"], "--contexts has no effect: no credited exposure"),
        (["posteriors", "--contexts", "--json"], "--contexts has no effect with --json"),
    ],
)
def test_an_option_without_effect_is_said_to_have_none(run: Run, ledger: Path, words: list[str], note: str) -> None:
    fill(ledger)

    done = run(*words)

    assert done.code == 0
    assert done.err.startswith(f"rightful: note: {note}")


def test_alpha_and_beta_stand_in_the_table(run: Run, ledger: Path) -> None:
    fill(ledger)

    [row] = [line.split() for line in run("posteriors").out.splitlines() if "lessons/a.md" in line]

    assert row[-4:] == ["1.8", "1.2", "1", "1"]


BALANCE: dict[str, Any] = {
    "arms": {name: {"alpha": 9.0, "beta": 5.0, "n": 12} for name in ("lessons/a.md", "lessons/x.md")},
    "through": "1970-01-01T00:01:30Z",
}


def test_credits_of_an_opening_balance_are_counted_apart(run: Run, ledger: Path) -> None:
    with rightful.open(ledger) as held:
        held.append(
            [
                opened(90, **BALANCE), exposed("t:1", "lessons/a.md", at=50, context=["code"]),
                graded("t:1", 0.5, at=60), exposed("t:2", "lessons/a.md", context=["code"]),
                graded("t:2", 1.0),
            ]
        )  # fmt: skip

    done, document = run("posteriors", "--contexts"), run("posteriors", "--json").document
    rows = [line.split() for line in done.out.splitlines() if "lessons/" in line]

    assert done.out.startswith("1 of 2 grades is credited to 1 arm (1 in-balance).")
    assert " 1 arm has only the numbers of an opening balance. " in done.out
    assert [(row[0], row[-3:-1]) for row in rows] == [
        ("lessons/a.md", ["1", "12"]), ("lessons/x.md", ["0", "12"]), ("lessons/a.md", ["1", "0"]),
    ]  # fmt: skip
    assert [arm["n"] for arm in document["arms"].values()] == [13, 12]


def test_in_80_columns_the_picture_goes_first_and_names_keep_20_characters(
    run: Run, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = [
        event | {"arms": [{"arm": f"/home/dev/work/lessons/{event['key']}-quote-paths.md"}]} for event in EVENTS[:2]
    ]
    with rightful.open(ledger) as opened:
        opened.append([*long, *EVENTS[2:]])
    monkeypatch.setenv("COLUMNS", "80")

    lines = run("posteriors", "--policy", "historical-newest").out.splitlines()

    assert max(map(len, lines)) <= 80
    [row] = [line.split() for line in lines if "paths" in line]
    assert row[0] == "/home/d…ote-paths.md"
    assert row[1:] == ["0.550", "0.124", "to", "0.931", "2.2", "1.8", "2", "2"]


def test_what_is_piped_has_no_width_and_no_name_is_cut(run: Run, ledger: Path) -> None:
    arm = f"/home/{'x' * 300}.md"
    with rightful.open(ledger) as opened:
        opened.append([EVENTS[0] | {"arms": [{"arm": arm}]}, EVENTS[2]])

    assert [line.split()[0] for line in run("posteriors").out.splitlines() if "0.600" in line] == [arm]


def test_a_policy_comes_by_name_as_json_or_from_a_file(run: Run, ledger: Path, here: Path) -> None:
    fill(ledger)
    (here / "rule.json").write_text(json.dumps({"prior": [2, 5]}))

    answers = [
        run("posteriors", "--json", "--policy", asked).document["arms"]["lessons/a.md"]["alpha"]
        for asked in ("bound", '{"prior": [2, 5]}', str(here / "rule.json"), "rule.json")
    ]

    assert answers == [1.8, 2.8, 2.8, 2.8]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--policy", "best"], "unknown preset 'best'"),
        (["--policy", "{}x"], "Invalid policy: --policy: Expected a JSON object; Expected JSON"),
        (["--policy", "{"], "Invalid policy: --policy: Expected a JSON object; Expected JSON"),
        (["--policy", "[]"], "Invalid policy: --policy: Expected a JSON object, got `array`. "),
        (["--policy", "missing.json"], "Invalid policy: --policy missing.json cannot be read: No such file"),
        (["--policy", "empty.json"], "Invalid policy: --policy empty.json: Expected a JSON object, got nothing. "),
        (["--policy", "rule.toml"], "Invalid policy: --policy rule.toml: Expected a JSON object; Expected JSON"),
        (["--policy", "/dev/zero"], "--policy /dev/zero: Expected a JSON object of at most 16777216 bytes"),
        (["--policy", "ledger"], "Invalid policy: --policy: unknown preset 'ledger'; the presets are bound, "),
        (["--policy", '{"joint": 1}'], "unknown field `joint`"),
        (["--policy", '{"join": "nearest"}'], "'nearest'; there are `bound`, `newest` - at `$.join`"),
        (["--as-of", "5"], "position 5 is not in this ledger, which ends at 4"),
        (["--as-of", "soon"], "--as-of expects a position or a time, got 'soon'"),
        (["--as-of", "-1"], "--as-of expects a position or a time, got '-1'"),
        (["--as-of", "2026-08-01T10:15:00"], "has no UTC offset. Write it as 2026-08-01T10:15:00Z"),
        (["--decay-at", " "], "--decay-at is empty"),
    ],
)
def test_wrong_usage_is_a_sentence_and_exit_2(
    run: Run, ledger: Path, here: Path, words: list[str], sentence: str
) -> None:
    fill(ledger)
    (here / "empty.json").touch()
    (here / "rule.toml").write_text('join = "newest"')

    done = run("posteriors", *words)

    assert (done.code, done.out) == (2, "")
    assert sentence in done.err


def test_as_of_a_position_or_a_time_shows_what_was_recorded_by_then(run: Run, ledger: Path) -> None:
    fill(ledger)

    assert run("posteriors", "--json", "--as-of", "2").document["arms"] == {}
    assert run("posteriors", "--json", "--as-of", "3").document["through"] == 3
    assert run("posteriors", "--json", "--as-of", "2026-08-01T00:00:00Z").document["through"] == 0


def test_a_name_cannot_steer_the_terminal(run: Run, ledger: Path) -> None:
    fill(ledger)

    assert "\u202e" not in run("posteriors", "--policy", "historical-newest").out
    assert "lessons/b\\u202e.md" in run("posteriors", "--policy", "historical-newest").out


def test_asking_twice_gives_the_same_bytes(run: Run, ledger: Path) -> None:
    fill(ledger)

    assert run("posteriors", "--json").out == run("posteriors", "--json").out
