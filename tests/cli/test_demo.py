from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

import pytest
from tests.cli.conftest import Run

from rightful.demo import demo_history, demo_workspace


def test_the_demo_shows_the_newest_file_rule_going_wrong(run: Run, here: Path) -> None:
    done = run("demo", here / "demo")

    assert (done.code, done.err) == (0, "")
    assert "Between 7 and 9 of 9 credited grades (78% to 100%) went to another session's lessons" in done.out
    assert f"$ rightful --ledger {here}/demo/.rightful audit historical-newest" in done.out
    assert (here / "demo" / "state" / "sessions" / "session-records.jsonl").is_file()


def test_what_the_demo_says_in_words_is_what_its_numbers_say(run: Run, here: Path) -> None:
    document = run("demo", here / "demo", "--json").document

    hook, records, posteriors, audit, recorded, explained, plan, applied, back, imported, said, *_ = (
        step["answer"] for step in document["steps"]
    )
    assert [step["exit_code"] for step in document["steps"]] == [0] * 14
    assert [report["appended"] for report in hook] == [1, 8, 1]
    assert [report["problems"] for report in [*hook, *records]] == [[], [], [], []]
    means = {Path(arm).stem: one["mean"] for arm, one in posteriors["arms"].items()}
    assert means == pytest.approx({"quote-paths": 0.75, "small-commits": 0.75, "retry-blindly": 0.25})
    assert posteriors["counters"] == {"credited_grades": 8, "unmatched_grades": 1, "pending_sessions": 1}
    assert (audit["foreign_grades"], audit["unverifiable_grades"]) == (7, 1)
    assert recorded["fits"] == ["historical-newest"]
    assert recorded["candidates"][0]["exact"] == 3
    means = {Path(one["arm"]).stem: (one["old"], one["new"]) for one in plan["changes"]}
    assert means["retry-blindly"] == ([5.25, 2.75], [1.5, 4.5])
    assert (applied["done"]["happened"], back["done"]["happened"]) == ("written", "written")
    assert back["done"]["sha256"] == plan["previous_sha256"] == recorded["sha256"]
    assert explained["arm"].endswith("/retry-blindly.md")
    assert [(report["appended"], report["duplicate"], report["problems"]) for report in imported] == [
        (9, 0, []),
        (1, 8, []),
    ]
    shown = [one for one in said["entries"] if one["kind"] != "data"]
    assert [(one.get("role", one.get("name")), one.get("output")) for one in shown] == [
        ("user", None),
        ("assistant", None),
        ("Grep", "build.sh:7: cp $name out/"),
        ("Bash", "exit 1"),
        ("assistant", None),
    ]
    assert said["names"] == [f"claude-code:{demo_workspace.SESSIONS[0].native}"]


def test_the_demos_compaction_covers_what_its_run_had_read_and_no_more(run: Run, here: Path) -> None:
    imported, seen, compacted = (step["answer"] for step in run("demo", here / "demo", "--json").document["steps"][-3:])

    assert [(report["appended"], report["problems"]) for report in imported] == [(9, [])]
    assert [one["item"] for one in seen["items"]] == [demo_history.SUMMARY, demo_history.MEANWHILE]
    [compaction] = compacted["compactions"]
    assert (len(compaction["covered"]), len(compaction["put"]), compaction["inert"]) == (8, 1, False)


def test_the_demo_says_the_same_each_time(run: Run, here: Path) -> None:
    first, second = (run("demo", here / name).out.replace(str(here / name), "DIR") for name in ("a", "b"))

    publication = re.compile(r"publication [0-9a-f-]{36}")  # made from the file's path, among others
    assert publication.sub("publication", first) == publication.sub("publication", second)


def test_a_workspace_is_written_alike_each_time(here: Path) -> None:
    for name in ("a", "b"):
        demo_workspace.write(here / name)

    files = [sorted(path.relative_to(here / name) for path in (here / name).rglob("*.*")) for name in ("a", "b")]
    assert files[0] == files[1]
    for file in files[0]:
        assert (here / "a" / file).read_bytes() == (here / "b" / file).read_bytes()
    [state] = [file for file in files[0] if file.parent.name == "claude-lesson-match"]
    assert os.stat(here / "a" / state).st_mtime == os.stat(here / "b" / state).st_mtime  # noqa: PTH116 - as read


def test_the_demo_takes_a_temporary_folder_and_says_where_it_is(
    run: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(here))

    done = run("demo")

    [folder] = here.iterdir()
    assert done.code == 0
    assert f"worked side by side in {folder}." in done.out
    assert done.out.endswith(f"This folder is temporary and is kept until you remove it\n  rm -r {folder}\n")
    assert "is temporary" not in run("demo", here / "named").out


def test_a_folder_that_holds_anything_is_refused(run: Run, here: Path) -> None:
    (here / "mine.txt").write_text("mine")

    done = run("demo", here)

    assert (done.code, done.err) == (
        2,
        f"rightful: {here} is not empty; nothing was written. Name a new folder.\n",
    )
    assert [path.name for path in here.iterdir()] == ["mine.txt"]


def test_the_demo_never_writes_into_a_ledger_that_was_named(run: Run, ledger: Path) -> None:
    done = run("--ledger", ledger, "demo")

    assert done.code == 2
    assert run("status", "--json").document["events"] == 0


def test_the_bandits_file_is_what_it_was_when_the_demo_ends(run: Run, here: Path) -> None:
    demo_workspace.write(here / "before")

    run("demo", here / "after")

    file = Path("state", "bandit", "bandit-state.json")
    assert (here / "after" / file).read_bytes() == (here / "before" / file).read_bytes()
    status = run("--ledger", here / "after" / ".rightful", "backfill", "status", "--json").document
    assert [one["standing"] for one in status["targets"]] == ["rolled back"]
