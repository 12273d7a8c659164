from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.projections.telling import exposed, graded, linked, mentioned, opened
from tests.reports.explaining import assert_arms_add_up, assert_explained
from tests.strategies import Wire

import rightful
from rightful.identity import event_id
from rightful.policies import policy_of

GOLDEN = Path(__file__).parents[1] / "golden" / "imports"

EVENTS: list[Wire] = [
    exposed("claude-code:u-1", "lessons/git.md", key="e1"),
    linked("workspace:a", "claude-code:u-1"),
    graded("workspace:a", 0.8, key="g1"),
    exposed("claude-code:u-2", "lessons/git.md", "other/git.md", key="e2"),
]


def fill(ledger: Path, *events: Wire) -> None:
    with rightful.open(ledger) as opened:
        assert {one.outcome for one in opened.append(events or EVENTS)} <= {"appended", "conflict"}


@pytest.fixture
def filled(ledger: Path) -> Path:
    fill(ledger)
    return ledger


def kind(run: Run, *words: str) -> tuple[str, str]:
    document = run("explain", *words, "--json").document
    return document["kind"], document.get("arm") or document.get("session") or ""


def test_kind_of_what_is_recognised_by_its_form(run: Run, filled: Path) -> None:
    assert kind(run, "lessons/git.md") == ("arm", "lessons/git.md")
    assert kind(run, "workspace:a") == ("session", "workspace:a")
    assert kind(run, "u-1") == ("session", "claude-code:u-1")
    assert kind(run, "#3") == kind(run, "3") == ("event", "workspace:a")


@pytest.mark.parametrize("cut", [slice(0, 8), slice(0, 11), slice(0, 36), slice(0, 24)])
def test_an_event_is_found_by_its_id_and_by_its_beginning(run: Run, filled: Path, cut: slice) -> None:
    one = event_id("judge", "g1")

    assert run("explain", one[cut], "--json").document["id"] == one
    assert run("explain", one[cut].upper(), "--json").document["position"] == 3


def test_the_shorter_end_of_an_arm_is_enough_while_it_is_one(run: Run, filled: Path) -> None:
    done = run("explain", "git.md")

    assert done.code == 2
    assert done.err == (
        "rightful: 'git.md' is ambiguous: arm lessons/git.md, arm other/git.md; nothing was explained. "
        "Type one in full.\n"
    )
    assert kind(run, "other/git.md") == ("arm", "other/git.md")


def test_what_can_mean_several_things_is_refused_with_how_to_say_it(run: Run, ledger: Path) -> None:
    fill(ledger, exposed("t:1", "1"), graded("t:1", 0.5))

    done = run("explain", "1")

    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "rightful: '1' is ambiguous: event #1, session t:1, arm 1; nothing was explained. "
        "Choose with --event or --session or --arm.\n"
    )
    assert kind(run, "1", "--event") == ("event", "t:1")
    assert kind(run, "1", "--session") == ("session", "t:1")
    assert kind(run, "1", "--arm") == ("arm", "1")


def test_unknown_target_is_refused_with_similar_names(run: Run, filled: Path) -> None:
    assert run("explain", "nothing").err == (
        "rightful: no event, session or arm 'nothing' is in this ledger; nothing was explained. "
        "`rightful posteriors` lists the arms, `rightful status --sessions` the sessions.\n"
    )
    assert "Names that contain it: claude-code:u-1, claude-code:u-2." in run("explain", "u-").err
    head = run("status", "--json").document["events"]
    assert run("explain", "#999999").err.endswith(f"nothing was explained. The last position is {head}.\n")
    for words in (["99"], ["nothing", "--session"], ["nothing", "--arm"], ["#9", "--event"], [""]):
        assert run("explain", *words).code == 2
    assert run("explain", "git.md", "--limit", "-1").code == 2


def test_session_is_found_by_the_beginning_of_its_value(run: Run, ledger: Path) -> None:
    fill(ledger, exposed("t:7fbe4341-0d57", "lessons/7fbe.md"), exposed("t:u-1", "beginning"))

    assert kind(run, "7fbe4341") == ("session", "t:7fbe4341-0d57")
    assert kind(run, "7fbe4341", "--session") == ("session", "t:7fbe4341-0d57")
    assert kind(run, "7fbe.md") == ("arm", "lessons/7fbe.md")


def test_an_arm_in_words_and_rows(run: Run, filled: Path) -> None:
    out = run("explain", "lessons/git.md").out

    assert out.splitlines()[0] == (
        "lessons/git.md is believed to earn 0.600: Beta(1.8, 1.2), 95% from 0.112 to 0.973, from 1 credit in this log "
        "(n 1, mass 1). Policy bound (d9db8dfd61ec), through position 4."
    )
    row = next(line for line in out.splitlines() if line.strip().startswith("#3"))
    assert row.split()[:9] == ["#3", "credit", "workspace:a", "judge/overall", "seq", "1", "#1", "0.800", "1"]
    assert "Shown 1 time without credit: 1 pending." in out


def test_json_of_an_arm_has_every_credit(run: Run, filled: Path) -> None:
    document = run("explain", "lessons/git.md", "--json").document

    assert list(document) == [
        "kind", "arm", "aliases", "policy", "through", "decay_at", "prior", "alpha", "beta", "n", "mass", "mean",
        "steps", "unpaid", "unpaid_states", "withheld", "ci95",
    ]  # fmt: skip
    assert document["policy"]["hash"].startswith("d9db8dfd61ec")
    assert (document["alpha"], document["n"], len(document["ci95"])) == (1.8, 1, 2)
    assert document["steps"][0]["id"] == event_id("judge", "g1")
    assert document["steps"][0]["exposures"] == [1]


def test_a_session_in_words_and_rows(run: Run, filled: Path) -> None:
    out = run("explain", "workspace:a").out

    assert out.splitlines()[0] == (
        "workspace:a was shown 1 arm in 1 exposure. 1 grade of it is credited: judge/overall seq 1 (#3) paid 1 arm. "
        "Policy bound (d9db8dfd61ec), through position 4."
    )
    assert "Run: Links join claude-code:u-1 and workspace:a into one run; workspace:a is its own name." in out
    assert "It paid 1 arm of exposure #1, shown to claude-code:u-1 of the same run." in out


def test_json_of_a_session_has_every_part(run: Run, filled: Path) -> None:
    document = run("explain", "claude-code:u-2", "--json").document

    assert list(document) == [
        "kind", "session", "policy", "through", "verdict", "run", "run_reason", "pending", "names", "links",
        "exposures", "grades", "elsewhere", "asides", "remedies",
    ]  # fmt: skip
    assert document["pending"] is True
    assert document["remedies"][0]["events"][0]["session"] == "claude-code:u-2"


def test_missing_events_can_be_copied_from_the_text(run: Run, ledger: Path) -> None:
    fill(ledger, exposed("t:a", "x"), graded("t:a", 0.8), graded("w:a", 0.4, exposure_session="t:a"))
    out = run("explain", "t:a").out
    assert "What would have to be recorded" in out
    line = next(line.strip() for line in out.splitlines() if '"grade.retracted"' in line)
    Path("fix.jsonl").write_text(line + "\n")

    assert run("ingest", "fix.jsonl").code == 0

    assert run("posteriors", "--json").document["counters"] == {"credited_grades": 1, "retracted_grades": 1}
    assert json.loads(line)["session"] == "w:a"


def test_long_lists_are_cut_with_how_to_see_the_rest(run: Run, ledger: Path) -> None:
    events = []
    for at in range(30):
        events += [exposed(f"t:{at}", "x"), graded(f"t:{at}", 0.5)]
    fill(ledger, *events)

    out = run("explain", "x").out
    assert "10 more before these; --limit 0 or --json shows all" in out
    assert sum(line.strip().startswith("#") for line in out.splitlines()) == 20
    few = run("explain", "x", "--limit", "3").out.splitlines()
    assert [line.split()[0] for line in few if line.strip().startswith("#")] == ["#56", "#58", "#60"]
    whole = run("explain", "x", "--limit", "0").out
    assert sum(line.strip().startswith("#") for line in whole.splitlines()) == 30
    assert "more before" not in whole
    assert len(run("explain", "x", "--json", "--limit", "3").document["steps"]) == 30


def test_the_policy_and_the_position_are_those_that_are_asked(run: Run, filled: Path) -> None:
    newest = run("explain", "workspace:a", "--policy", "historical-newest", "--json").document

    assert newest["grades"][0]["state"] == "ambiguous"
    assert run("explain", "lessons/git.md", "--as-of", "2", "--json").document["n"] == 0
    assert run("explain", "claude-code:u-2", "--as-of", "2").code == 2


def test_text_of_a_session_cannot_steer_a_terminal(run: Run, ledger: Path) -> None:
    evil = "t:a\u202eb"
    fill(ledger, exposed(evil, "x\u202e.md"), graded(evil, 0.5), mentioned(evil, content="\u202e\x1b[31m"))

    for what in (evil, "x\u202e.md", "#1", "#3"):
        out = run("explain", what).out
        assert "\u202e" not in out
        assert "\x1b" not in out
        assert "\\u202e" in out


def test_an_event_in_words_and_its_revisions(run: Run, ledger: Path) -> None:
    fill(ledger, exposed("t:a", "x", key="e"), exposed("t:a", "y", key="e"))

    out = run("explain", "#2").out

    assert out.startswith("#2: `exposure.recorded` of t:a, written by hook (conflict). It is conflicting:")
    assert [line.split()[:3] for line in out.splitlines() if line.strip().startswith("#")][1:] == [
        ["#1", "1", "appended"],
        ["#2", "2", "conflict"],
    ]


def test_unused_grade_lists_its_remedies(run: Run, ledger: Path) -> None:
    fill(ledger, graded("t:a", 0.8))

    out = run("explain", "#1").out

    assert "Used by" not in out
    assert out.count("No exposure is recorded for t:a") == 1
    at = out.index("What would have to be recorded; each removes the given reason")
    assert out.index("Record what t:a was shown") > at


def shadowed(*places: str) -> list[Wire]:
    """Exposures of a sanitised form, each of one arm, after one of the session with exactly that name."""
    forms = [exposed("t:a", arm, at=at + 10, alias=True) for at, arm in enumerate(places)]
    return [exposed("t:a", "x"), graded("t:a", 0.5), *forms]


def rows(out: str, state: str) -> list[str]:
    lines = [" ".join(line.split()) for line in out.splitlines()]
    return [line for line in lines if line.startswith("#") and f" {state} " in line]


def test_equal_reasons_stand_in_one_row(run: Run, ledger: Path) -> None:
    fill(ledger, *shadowed("a", "b", "c", "a"))
    said = (
        "It was read from a file whose name is only a sanitised form of a session id (t:a); the session with exactly "
        "that name has exposures of its own (#1), and those count."
    )

    out = run("explain", "t:a").out

    start = "#3 to #6 t:a 1970-01-01T00:00:10Z to 1970-01-01T00:00:13Z a, b, c shadowed It was read from a file"
    assert [row[: len(start)] for row in rows(out, "shadowed")] == [start]
    assert said in " ".join(out.split())
    assert [line.split()[0] for line in rows(out, "paid judge/overall")] == ["#1"]
    document = run("explain", "t:a", "--json").document
    assert [one["reason"] for one in document["exposures"] if one["state"] == "shadowed"] == [said] * 4


def test_rows_at_distant_positions_are_listed_singly_and_counted(run: Run, ledger: Path) -> None:
    apart = [event for at in range(5) for event in (exposed("t:b", "y", at=at + 1), mentioned("t:c", key=f"{at}"))]
    fill(ledger, *shadowed("a", "a"), *apart)

    assert rows(run("explain", "t:b").out, "pending")[0].startswith("#5, #7, #9 and 2 more t:b")
    assert rows(run("explain", "t:a").out, "shadowed")[0].startswith("#3, #4 t:a")
    few = run("explain", "t:a", "--limit", "1").out
    assert rows(few, "paid judge/overall") == []
    assert "1 more before these" in few


def test_what_is_paid_stands_in_one_row_only_where_the_arms_are_the_same(run: Run, ledger: Path) -> None:
    shown = [exposed("t:a", arm, at=at) for at, arm in enumerate("xyy")]
    fill(ledger, *shown, graded("t:a", 0.5), exposed("t:b", "z"))

    assert [line.split(" t:a")[0] for line in rows(run("explain", "t:a").out, "paid judge/overall")] == ["#1", "#2"]


ALIASED = '{"arm_aliases": {"old/git.md": "lessons/git.md", "older/vcs.md": "lessons/git.md"}}'


@pytest.mark.parametrize("what", ["lessons/git.md", "old/git.md", "git.md", "older/vcs.md", "vcs.md"])
def test_each_name_of_an_arm_and_the_end_of_each_means_the_one_arm(run: Run, ledger: Path, what: str) -> None:
    fill(ledger, exposed("t:a", "lessons/git.md"), exposed("t:b", "old/git.md"), graded("t:a", 0.5), graded("t:b", 0.5))

    document = run("explain", what, "--policy", ALIASED, "--json").document

    assert (document["kind"], document["arm"], document["n"]) == ("arm", "lessons/git.md", 2)


def test_an_event_of_a_newer_program_is_shown_raw_and_others_are_refused(run: Run, filled: Path) -> None:
    newer(filled)

    done = run("explain", "#5", "--json")

    assert done.code == 0
    assert "which this version of the program does not know" in done.err
    assert (done.document["type"], done.document["body"]) == ("dream.recorded", '{"deep":true}')
    assert "Its type is newer than this program, so its body is shown as stored." in run("explain", "#5").out
    assert run("explain", "#1").code == 0
    assert run("explain", "lessons/git.md").code == 4


def newer(ledger: Path) -> None:
    """Append a row of a type that this program does not know."""
    import hashlib

    from rightful.encoding.envelope import Envelope, encode
    from rightful.storage.port import LedgerEvent
    from rightful.storage.recorder import LMDBRecorder

    payload = bytes(32) + b'{"deep":true}'
    envelope = Envelope(
        id=event_id("hook", "dream"), revision=1, type="dream.recorded", schema=1, producer="hook", session="t:a",
        at_us=1, recorded_at_us=2_000_000_000_000_000, outcome="appended", body_bytes=13,
        commitment=hashlib.sha256(payload).hexdigest(),
    )  # fmt: skip
    tags = [f"id:{envelope.id}", "session:t:a"]
    with LMDBRecorder(ledger) as recorder:
        recorder.append([LedgerEvent(envelope.type, encode(envelope), tags, payload)])


@pytest.mark.parametrize("policy", ["bound", "historical-newest", "gptme"])
def test_every_grade_and_exposure_of_real_files_has_its_reason(run: Run, ledger: Path, policy: str) -> None:
    assert run("import", "auto", GOLDEN, "--json").code in {0, 2}
    with rightful.open(ledger) as opened:
        projection = opened.projected()
        assert len(projection.catch_up().grades) == 7

        assert_explained(projection, policy_of(policy))
        assert_arms_add_up(projection, policy_of(policy))


def test_a_ledger_that_cannot_be_written_is_explained_all_the_same(run: Run, filled: Path) -> None:
    filled.chmod(0o500)
    try:
        assert run("explain", "#1").code == 0
    finally:
        filled.chmod(0o700)


def test_a_newest_file_rule_is_explained_over_the_log_alone(run: Run, ledger: Path) -> None:
    """As in an audit: the balance is what that updater made of the same grades."""
    with rightful.open(ledger) as held:
        arms = {"x": {"alpha": 2.0, "beta": 1.0, "n": 1}}
        balance = opened(arms=arms, through="1970-01-01T01:00:00Z")
        held.append([exposed("t:a", "x"), graded("t:a", 0.8), balance])

    newest = run("explain", "t:a", "--policy", "historical-newest")

    assert "in-balance" in run("explain", "t:a").out
    assert "in-balance" not in newest.out
    assert newest.err == "rightful: note: opening balances are ignored, as in an audit of a newest-file rule.\n"
    document = run("explain", "x", "--policy", "historical-newest", "--json").document
    assert ([step["kind"] for step in document["steps"]], document["policy"]["balances"]) == (["credit"], [])
