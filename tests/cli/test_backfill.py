from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest
from tests.backfilling import EVENTS, GIT, NOON, OLD, TESTS, arm, state, text, written
from tests.cli.conftest import Run
from tests.projections.telling import exposed, graded
from tests.projections.telling import opened as balance
from tests.readers_of_tools import Bandit

import rightful
from rightful.backfill import target_file as module

FILE = state(arm(GIT, 3.0, 2.0, 3), arm(OLD, 2.0, 1.0, 2))


@pytest.fixture
def target(here: Path, ledger: Path) -> Path:
    tell(ledger, *EVENTS)
    return written(here / "state" / "bandit-state.json", FILE)


def tell(ledger: Path, *events: dict[str, Any]) -> None:
    with rightful.open(ledger) as opened:
        assert {receipt.outcome for receipt in opened.append(events)} == {"appended"}


def test_plan_apply_status_and_rollback_in_words(run: Run, target: Path) -> None:
    plan = run("backfill", "plan", "--target", target, "--reader", "gptme-sessions")
    assert plan.code == 0
    assert plan.out.splitlines()[0] == f"2 arms of {target} would change. Nothing was written to it."
    table = [line.split() for line in plan.out.splitlines() if line.lstrip().startswith("/ws/")]
    assert table == [
        [TESTS, "new", "0.583", "+0.083", "1.75,", "1.25", "1"],
        [GIT, "0.600", "0.571", "-0.029", "3,", "2", "4,", "3", "5"],
    ]
    assert "1 arm unchanged" in plan.out
    assert target.read_bytes() == text(FILE)

    applied = run("backfill", "apply", "--target", target)
    assert applied.code == 0
    assert applied.out.startswith(
        f"{target} was written (for gptme-sessions, the old numbers counted): 2 arms changed, publication "
    )
    assert applied.out.endswith(f". Undo with:\n  rightful backfill rollback --target {target}\n")
    assert run("backfill", "apply", "--target", target).out == (
        f"{target} already has the planned content (for gptme-sessions); nothing was written to it.\n"
    )

    status = run("backfill", "status")
    assert "the file is as it was published" in status.out
    assert "rollback restores  SHA-256 " in status.out
    Bandit(target).update([OLD], 1.0, "1970-01-01T13:00:00+00:00")
    assert "a tool has written the file since" in run("backfill", "status", "--target", target).out

    refused = run("backfill", "rollback", "--target", target)
    assert refused.code == 3
    assert (
        "another program wrote it after it was published. The file was not changed. With --force the earlier bytes "
        "are restored anyway, and the present bytes are kept in the ledger's folder."
    ) in refused.err
    of_tool = target.read_bytes()
    back = run("backfill", "rollback", "--target", target, "--force")
    assert (back.code, target.read_bytes()) == (0, text(FILE))
    assert back.out.startswith(f"{target} was restored byte for byte (SHA-256 ")
    kept = back.out.splitlines()[-1].removeprefix("Its content before the rollback is kept in ").removesuffix(".")
    assert Path(kept).read_bytes() == of_tool
    assert run("backfill", "rollback", "--target", target).out == (
        f"{target} is already the previous file; nothing was written to it.\n"
    )
    said = run("backfill", "status").out
    assert "the last publication was rolled back, and the previous file is restored" in said
    assert [line.split() for line in said.splitlines() if line.startswith("in force")] == [["in", "force", "nothing"]]


def test_the_way_back_is_given_as_it_has_to_be_typed(run: Run, here: Path, ledger: Path) -> None:
    tell(ledger, *EVENTS)
    target = here / "my state" / "it's.json"
    target.parent.mkdir()

    applied = run("--ledger", ledger, "backfill", "apply", "--target", target, "--reader", "lesson-hook", "--rebuild")

    command = applied.out.splitlines()[-1]
    assert shlex.split(command) == [
        "rightful", "--ledger", str(ledger), "backfill", "rollback", "--target", str(target),
    ]  # fmt: skip
    assert "(for lesson-hook, rebuilt from the log only)" in applied.out
    assert run(*shlex.split(command)[1:]).out == f"{target} was removed: there was no file before the publication.\n"


def test_rollback_and_status_name_the_earlier_publication(run: Run, ledger: Path, target: Path) -> None:
    words = ("backfill", "apply", "--target", target, "--reader", "gptme-sessions")
    first = run(*words, "--json").document["done"]["publication"]
    tell(ledger, exposed("t:c", GIT, at=NOON + 500), graded("t:c", 1.0, at=NOON + 600))
    second = run(*words, "--json").document["done"]["publication"]

    back = run("backfill", "rollback", "--target", target)
    again = run("backfill", "rollback", "--target", target)

    command = f"rightful backfill rollback --target {target} --publication {first}"
    pointer = f"An earlier publication is in force, {first}. Undo that one too with:\n  {command}\n"
    assert back.out.startswith(f"{target} was restored byte for byte")
    assert back.out.endswith(pointer)
    assert again.out == f"{target} is already the previous file; nothing was written to it.\n{pointer}"
    status = run("backfill", "status").out
    assert "the last publication was rolled back, and the previous file is restored" in status
    assert (first in status, second in status) == (True, False)
    last = run(*shlex.split(command)[1:])
    assert (last.out.count("\n"), target.read_bytes()) == (1, text(FILE))


def test_targets_stand_apart_in_the_status(run: Run, here: Path, target: Path) -> None:
    for file in (target, here / "new.json"):
        run("backfill", "apply", "--target", file, "--reader", "gptme-sessions")

    first, second = run("backfill", "status").out.split("\n\n")

    assert (str(here / "new.json") in first, str(target) in second) == (True, True)


def test_what_the_tool_did_since_can_be_dropped_and_the_refusal_says_so(run: Run, target: Path) -> None:
    words = ("--target", target, "--reader", "gptme-sessions")
    run("backfill", "apply", *words)
    Bandit(target).update([OLD], 1.0, "1970-01-01T13:00:00+00:00")

    plan, applied = run("backfill", "plan", *words), run("backfill", "apply", *words)

    way = (
        "Plan with --rebuild, which takes those grades from the log, or with --drop-updates, which drops the tool's "
        "updates since the last publication; with --force if the old numbers are correct."
    )
    assert (plan.code, applied.code) == (1, 1)
    assert f"`backfill apply` will refuse this plan. {way}" in plan.out
    assert way in applied.err
    dropped = run("backfill", "apply", *words, "--drop-updates")
    assert "(for gptme-sessions, updates of the tool since the last publication dropped)" in dropped.out


def test_numbers_that_do_not_count_are_not_said_to(run: Run, here: Path, ledger: Path) -> None:
    target = written(here / "b.json", FILE)
    later = balance(at=10 * 3600, source=str(target), arms={GIT: {"alpha": 9.0, "beta": 1.0, "n": 9}})
    tell(ledger, later, *EVENTS)

    plan = run("backfill", "plan", "--target", target, "--reader", "gptme-sessions")

    assert plan.code == 1
    assert "do not count: see the note" in plan.out
    assert "count, as the opening balance of this file" not in plan.out
    forced = run("backfill", "apply", "--target", target, "--reader", "gptme-sessions", "--force")
    assert "(for gptme-sessions, the old numbers did not count)" in forced.out


def test_plan_first_names_what_is_not_repaired(run: Run, here: Path, ledger: Path) -> None:
    tell(ledger, *EVENTS)
    target = written(here / "b.json", state(arm(GIT, 3.0, 2.0, 3), last_updated="1970-01-01T12:01:00+00:00"))

    plan = run("backfill", "plan", "--target", target, "--reader", "gptme-sessions")

    assert plan.code == 1
    first, second, third, *_ = plan.out.splitlines()
    assert first == (
        "NOT repaired: 1 of 2 grades, which the file's old numbers contain. Errors in them remain; "
        "plan with --rebuild to compute them from the log instead."
    )
    assert second == ("Refused: 1 of 2 grades would not be counted (1 in-balance); at most 10% may be.")
    assert third == (
        "`backfill apply` will refuse this plan. Plan with --rebuild, which takes those grades from the log; with "
        "--force if the old numbers are correct."
    )
    assert [line.split() for line in plan.out.splitlines() if line.lstrip().startswith("in-balance")] == [
        ["in-balance", "1", "t:a"]
    ]
    applied = run("backfill", "apply", "--target", target)
    assert applied.code == 1
    assert "Plan with --rebuild, which takes those grades from the log" in applied.err
    assert "--drop-updates" not in plan.out + applied.err

    rebuilt = run("backfill", "plan", "--target", target, "--reader", "gptme-sessions", "--rebuild")
    assert rebuilt.code == 0
    assert "are ignored: only the log counts" in rebuilt.out
    forced = run("backfill", "plan", "--target", target, "--reader", "gptme-sessions", "--force")
    assert (forced.code, forced.out.splitlines()[1].split(":")[0]) == (0, "Forced")


def test_removed_arms_are_named_by_plan_and_apply(run: Run, here: Path, ledger: Path) -> None:
    tell(ledger, *EVENTS)
    gone = [arm(f"/ws/lessons/{name}.md", 2.0, 1.0, 2) for name in ("a", "b", "c", "d", "e")]
    words = ("--target", written(here / "b.json", state(*gone)), "--reader", "gptme-sessions", "--rebuild")

    refused = run("backfill", "plan", *words)
    forced = run("backfill", "plan", *words, "--force")
    applied = run("backfill", "apply", *words, "--force")

    removed = "(5 arms removed: a.md, b.md, c.md and 2 more)"
    assert refused.code == 1
    assert f"`backfill apply` will refuse this plan {removed}. To keep the arms, import the sessions" in refused.out
    assert "Fix these" not in refused.out
    assert f"b.json would change {removed}. Nothing was written to it." in forced.out
    assert f"7 arms changed {removed}, publication " in applied.out
    assert "unchanged" not in forced.out


def test_plan_for_a_missing_file_says_first_that_it_would_be_created(run: Run, here: Path, ledger: Path) -> None:
    tell(ledger, *EVENTS)

    plan = run("backfill", "plan", "--target", here / "nosuch.json", "--reader", "gptme-sessions", "--rebuild")

    assert plan.out.splitlines()[:2] == [
        f"{here / 'nosuch.json'} does not exist and would be created with 2 arms.",
        "Nothing was written.",
    ]


def test_unchanged_rebuild_is_never_reported_as_old_numbers_that_counted(run: Run, here: Path, ledger: Path) -> None:
    tell(ledger, *EVENTS)
    words = ("backfill", "apply", "--target", here / "new.json", "--reader", "gptme-sessions")

    run(*words, "--rebuild")
    run("backfill", "rollback", "--target", here / "new.json")
    run(*words)
    rebuilt, counted = run(*words, "--rebuild"), run(*words)

    assert rebuilt.out == (
        f"{here / 'new.json'} already has the planned content (for gptme-sessions, as rebuilt from the log only); "
        f"nothing was written to it.\n"
    )
    assert "(for gptme-sessions); nothing was written" in counted.out


def test_a_plan_can_be_kept_elsewhere_and_applied_from_there(run: Run, here: Path, target: Path) -> None:
    document = run(
        "backfill", "plan", "--target", target, "--reader", "lesson-hook", "--policy", '{"credit": "split"}',
        "--out", here / "plan.json", "--json",
    ).document  # fmt: skip

    assert json.loads((here / "plan.json").read_text()) == document
    assert list(document) == [
        "version", "ledger", "target", "reader", "asked", "policy", "policy_hash", "through", "decay_at", "digest",
        "previous_sha256", "new_sha256", "supersedes", "asked_as_of", "asked_decay_at", "asked_old", "old", "opens",
        "retires", "until",
        "counts", "updated", "forced", "refusals", "notes",
        "grades", "in_balance", "uncredited", "changes", "unchanged",
    ]  # fmt: skip
    assert list(document["changes"][0]) == ["arm", "old", "new", "delta_mean", "n"]

    done = run("backfill", "apply", "--plan", here / "plan.json", "--json").document

    assert done["plan"] == document
    assert list(done["done"]) == ["target", "happened", "publication", "position", "sha256", "replaced"]
    assert done["done"]["sha256"] == document["new_sha256"]
    assert Bandit(target).arms[TESTS].alpha == 1.375


def test_apply_with_the_question_plans_and_writes_in_one_go(run: Run, ledger: Path, target: Path) -> None:
    words = ("backfill", "apply", "--target", target, "--reader", "gptme-sessions")

    assert run(*words).code == 0
    assert Bandit(target).arms[GIT].alpha == 4.0
    assert "already has the planned content" in run(*words).out
    tell(ledger, exposed("t:c", GIT, at=NOON + 500), graded("t:c", 1.0, at=NOON + 600))
    assert run(*words).code == 0
    assert Bandit(target).arms[GIT].alpha == 5.0
    with rightful.open(ledger, readonly=True) as opened:
        assert len(list(opened.read(types=["posterior.published"]))) == 2


def test_apply_replaces_a_last_plan_that_was_not_started(run: Run, ledger: Path, target: Path) -> None:
    words = ("--target", target, "--reader", "gptme-sessions")
    run("backfill", "plan", *words)
    tell(ledger, exposed("t:c", GIT, at=NOON + 500), graded("t:c", 1.0, at=NOON + 600))

    run("backfill", "apply", *words)

    assert Bandit(target).arms[GIT].alpha == 5.0


def test_apply_completes_an_interrupted_write_and_reports_it_once(
    run: Run, ledger: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("backfill", "apply", "--target", target, "--reader", "gptme-sessions")

    def fail(*_: Any) -> None:
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patch:
        patch.setattr(module, "place", fail)
        failed = run(*words)
    assert failed.code == 4
    assert "it continues where it stopped" in failed.err
    assert "published but not in place" in run("backfill", "status").out

    assert run(*words).code == 0

    assert Bandit(target).arms[GIT].alpha == 4.0
    with rightful.open(ledger, readonly=True) as opened:
        assert len(list(opened.read(types=["posterior.published"]))) == 1


def test_status_as_json_has_one_object_a_target(run: Run, target: Path) -> None:
    assert run("backfill", "status", "--json").document == {"targets": []}
    assert run("backfill", "status").out == "Nothing was published from this ledger.\n"
    run("backfill", "apply", "--target", target, "--reader", "gptme-sessions")

    [one] = run("backfill", "status", "--json").document["targets"]

    assert list(one) == [
        "target", "standing", "publication", "position", "at", "reader", "policy", "through", "sha256", "restores",
        "kept", "count",
    ]  # fmt: skip
    assert (one["standing"], one["count"], one["kept"]) == ("in place", 1, True)


def test_status_counts_no_rollback_as_a_publication(run: Run, here: Path, ledger: Path, target: Path) -> None:
    for file in (target, here / "new.json"):
        run("backfill", "apply", "--target", file, "--reader", "gptme-sessions")
        run("backfill", "rollback", "--target", file)

    documents = run("backfill", "status", "--json").document["targets"]
    state_of = {name: run("backfill", "status", "--target", name).out for name in (target, here / "new.json")}

    assert [(document["count"], document["standing"]) for document in documents] == [(1, "rolled back")] * 2
    assert "was rolled back, and the previous file is restored" in state_of[target]
    assert "was rolled back, and its new file is removed" in state_of[here / "new.json"]


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("plan",), "`backfill plan` needs --target FILE"),
        (("plan", "--target", "b.json"), "`backfill plan` needs --reader"),
        (("plan", "--target", "b.json", "--reader", "x"), "there is no reader 'x'"),
        (("plan", "--target", "b.json", "--reader", "lesson-hook", "--plan", "p"), "does not accept --plan"),
        (("apply",), "needs --target FILE or --plan PLAN"),
        (("apply", "--target", "b.json", "--force"), "without --reader applies the last plan"),
        (("apply", "--target", "b.json"), "there is no plan for "),
        (("apply", "--plan", "none.json"), "--plan none.json cannot be read"),
        (("apply", "--plan", "none.json", "--force"), "accepts no other option"),
        (("apply", "--plan", "broken.json"), "broken.json is not a plan of a backfill"),
        (("rollback",), "`backfill rollback` needs --target FILE"),
        (("rollback", "--target", "b.json", "--rebuild"), "does not accept --rebuild"),
        (("rollback", "--target", "b.json"), "nothing was published to"),
        (("status", "--force", "--out", "x"), "does not accept --force, --out"),
        (("plan", "--target", "none/b.json", "--reader", "lesson-hook"), "its folder does not exist"),
        (("plan", "--target", "broken.json", "--reader", "lesson-hook"), "not a complete JSON document"),
        (
            ("plan", "--target", "b.json", "--reader", "lesson-hook", "--out", "none/p"),
            "--out none/p cannot be written",
        ),
    ],
)
def test_wrong_usage_is_refused_with_what_to_do(run: Run, here: Path, ledger: Path, words: Any, what: str) -> None:
    (here / "broken.json").write_text("{")

    done = run("backfill", *words)

    assert done.code == 2
    assert what in done.err


def test_rebuild_and_drop_updates_exclude_each_other(run: Run, target: Path) -> None:
    done = run("backfill", "plan", "--target", target, "--reader", "lesson-hook", "--rebuild", "--drop-updates")

    assert done.code == 2
    assert "not allowed with" in done.err


def test_plan_for_a_read_only_ledger_says_that_it_is_not_stored(
    run: Run, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rightful.backfill.replaced_bytes import ReplacedBytes

    def fail(*_: Any) -> None:
        raise PermissionError(13, os.strerror(13))

    monkeypatch.setattr(ReplacedBytes, "keep_plan", fail)

    done = run("backfill", "plan", "--target", target, "--reader", "lesson-hook")

    assert done.code == 0
    assert "the plan was not kept; save it with --out" in done.err


def test_arms_that_could_steer_a_terminal_are_spelled_out(run: Run, here: Path, ledger: Path) -> None:
    tell(ledger, exposed("t:a", "/x/\u202e.md"), graded("t:a", 1.0))

    done = run("backfill", "plan", "--target", here / "b.json", "--reader", "lesson-hook")

    assert "/x/\\u202e.md" in done.out
    assert "\u202e" not in done.out


def test_in_80_columns_names_stay_and_numbers_go(run: Run, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    out = run("backfill", "plan", "--target", target, "--reader", "gptme-sessions").out

    assert "mean, new" in out
    assert "Beta, new" in out
    assert "Beta, old" not in out
    assert max(map(len, [line for line in out.splitlines() if "/ws/" in line])) <= 80


def test_the_decay_of_a_rebuilt_file_of_the_demo_is_kept(run: Run, here: Path) -> None:
    """Its file is newer than its last grade; the tool decays it and moves no time; the next backfill keeps that."""
    assert run("demo", here / "demo").code == 0
    target = here / "demo" / "state" / "bandit" / "bandit-state.json"
    words = ("--ledger", here / "demo" / ".rightful", "backfill")
    question = ("--target", target, "--reader", "gptme-sessions")
    contaminated = numbers(target)
    assert run(*words, "apply", *question, "--rebuild", "--force").code == 0
    assert numbers(target) == {"quote-paths": (4.5, 1.5), "retry-blindly": (1.5, 4.5), "small-commits": (4.5, 1.5)}
    assert Bandit(target).last_updated == "2026-08-01T12:55:00+00:00"

    document = json.loads(target.read_bytes())
    for entry in document["arms"].values():
        entry.update({key: 1.0 + (entry[key] - 1.0) * 0.9 for key in ("alpha", "beta")})
    target.write_bytes(text(document))
    plan = run(*words, "plan", *question, "--json").document
    assert run(*words, "apply", *question, "--force").code == 0

    assert (plan["changes"], plan["unchanged"], plan["counts"], plan["updated"]) == ([], 3, True, True)
    assert numbers(target) == {
        "quote-paths": (4.15, 1.45), "retry-blindly": (1.45, 4.15), "small-commits": (4.15, 1.45),
    }  # fmt: skip
    assert numbers(target) != contaminated
    again = run(*words, "plan", *question, "--json").document
    assert (again["changes"], again["counts"]) == ([], True)


def numbers(target: Path) -> dict[str, tuple[float, float]]:
    return {Path(name).stem: (one.alpha, one.beta) for name, one in sorted(Bandit(target).arms.items())}
