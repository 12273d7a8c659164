from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
from tests.cli.conftest import Run
from tests.cli.test_explain import newer
from tests.log.facts import exposure, grade, message
from tests.projections.telling import exposed, graded, opened
from tests.strategies import Wire

import rightful
from rightful import limits
from rightful.cli.output import tables
from rightful.integrations.spool.spool_files import Spool

START_US = 1_785_500_000_000_000


def fill(ledger: Path) -> None:
    with rightful.open(ledger, clock=lambda: START_US) as opened:
        opened.append([exposure("1"), grade("2")])
        opened.posteriors()
        opened.append([grade("3", seq=2)])


def test_json_has_stable_keys(run: Run, ledger: Path) -> None:
    fill(ledger)

    document = run("status", "--json").document

    assert list(document) == [
        "path", "id", "events", "last_recorded_at", "watermark", "bytes", "openers", "spool", "unended_runs",
        "policy", "transcripts", "coverage", "why_no_coverage", "warnings",
    ]  # fmt: skip
    assert document["path"] == str(ledger)
    assert (document["events"], document["watermark"]) == (3, 2)
    assert document["last_recorded_at"] == "2026-07-31T12:13:20Z"
    assert document["openers"] == []


def test_size_is_what_the_disk_gave_and_not_the_sparse_map(run: Run, ledger: Path) -> None:
    document = run("status", "--json").document
    files = [path for path in ledger.rglob("*") if path.is_file()]

    assert document["bytes"] == sum(path.stat().st_blocks * 512 for path in files)
    assert 0 < document["bytes"] < 10_000_000


def test_an_empty_ledger_was_never_written(run: Run, ledger: Path) -> None:
    document = run("status", "--json").document

    assert (document["events"], document["last_recorded_at"], document["watermark"]) == (0, None, 0)
    assert "last recorded  never" in run("status").out


def test_people_get_words_and_units(run: Run, ledger: Path) -> None:
    fill(ledger)

    lines = {line[:15].strip(): line[15:].strip() for line in run("status").out.splitlines()}

    assert lines["ledger"] == str(ledger)
    assert lines["events"] == "3"
    assert lines["last recorded"] == "2026-07-31 12:13:20+00:00"
    assert lines["projected"] == "2 of 3 (the next credit query, such as `rightful posteriors`, processes the rest)"
    assert lines["on disk"].endswith("MiB")  # 2 of the journal, which is allocated in full
    assert lines["also open in"] == "no other process"


def test_it_names_the_other_processes_that_have_it_open(run: Run, ledger: Path) -> None:
    program = "import sys, rightful; ledger = rightful.open(sys.argv[1]); print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", program, str(ledger)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        seen = run("status", "--json").document["openers"]
        other.communicate(b"")

    assert seen in ([f"pid {other.pid}"], [])  # the system may not say
    if Path("/proc/locks").exists():
        assert seen == [f"pid {other.pid}"]


def test_asking_writes_nothing(run: Run, ledger: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in ledger.rglob("*") if path.name != "lock.mdb"}

    run("status")

    assert {path: path.stat().st_mtime_ns for path in ledger.rglob("*") if path.name != "lock.mdb"} == before


def test_sizes_have_the_unit_that_reads_best() -> None:
    assert [tables.size(count) for count in (0, 1023, 1024, 1536, 5 * 1024**2, 3 * 1024**3, 2 * 1024**4)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "1.5 KiB",
        "5.0 MiB",
        "3.0 GiB",
        "2.0 TiB",
    ]


DAY = 86_400


def fill_days(ledger: Path, covered: list[int], sessions: int = 10) -> None:
    """Days of so many sessions, of which so many are shown an arm and graded; then one more, when all is recorded."""
    events: list[Wire] = []
    for day, have in enumerate(covered):
        for at in range(sessions):
            session, when = f"t:{day}-{at}", day * DAY + 100
            kind = exposed(session, "x", at=when) if at < have else graded(session, 0.9, at=when, by="hook")
            events += [kind, graded(session, 0.9, at=when + 50)] if at < have else [kind]
    events.append(exposed("t:last", "x", at=len(covered) * DAY + 5))
    with rightful.open(ledger, clock=lambda: (len(covered) * DAY + 9) * 1_000_000) as held:
        held.append(events)


def test_coverage_stands_by_producer_and_day(run: Run, ledger: Path) -> None:
    fill_days(ledger, [10, 5])

    document = run("status", "--json").document

    day = {"producer": "hook", "sessions": 10, "grade": 10, "binding": 0, "transcripts": {}}
    assert document["coverage"] == [
        {**day, "day": "1970-01-01", "exposure": 10, "bins": {"credited": 10}, "complete": True},
        {**day, "day": "1970-01-02", "exposure": 5, "bins": {"credited": 5, "unmatched": 5}, "complete": True},
        {
            "producer": "hook",
            "day": "1970-01-03",
            "sessions": 1,
            "exposure": 1,
            "grade": 0,
            "binding": 0,
            "bins": {},
            "complete": False,
            "transcripts": {},
        },
    ]
    assert document["transcripts"] == {"complete": 0, "incomplete": 0, "unknown": 0}
    assert document["why_no_coverage"] is None
    assert document["policy"]["hash"].startswith("d9db8dfd61ec")


def test_people_see_shares_and_no_column_of_nothing(run: Run, ledger: Path) -> None:
    fill_days(ledger, [10, 5])

    lines = run("status").out.splitlines()

    heading = next(at for at, line in enumerate(lines) if "producer" in line)
    assert lines[heading - 1].split() == ["sessions", "exposure", "grade", "credited", "unmatched"]
    assert lines[heading].split() == ["day", "producer", "n", "with", "with", "grades", "grades"]
    rows = [line.split() for line in lines if line.strip().startswith("1970")]
    assert rows[1] == ["1970-01-02", "hook", "10", "5", "50%", "██▌··", "10", "100%", "█████", "5", "5"]
    assert rows[2][:3] == ["1970-01-03", "(so", "far)"]


def test_a_drop_is_a_warning_in_words_and_in_json_and_the_check_says_no(run: Run, ledger: Path) -> None:
    fill_days(ledger, [10, 5])
    said = "hook on 1970-01-02: 5 of 10 sessions have an exposure (50%); the median of the 1 day before is 100%."

    done = run("status")

    assert (done.code, done.out.splitlines()[-1], done.err) == (0, f"warning: {said}", "")
    [alarm] = run("status", "--json").document["warnings"]
    assert (alarm["what"], alarm["kind"], alarm["share"]) == (said, "exposure-drop", 0.5)
    assert run("status", "--check").code == 1
    assert run("status", "--check", "--days", "1").code == 0


def test_the_check_says_yes_where_nothing_looks_wrong(run: Run, ledger: Path) -> None:
    fill_days(ledger, [10, 10])

    done = run("status", "--check")

    assert (done.code, done.out.splitlines()[-1]) == (0, "No warnings.")


def test_the_last_days_are_shown_and_how_to_see_the_others(run: Run, ledger: Path) -> None:
    fill_days(ledger, [10] * 16)

    out = run("status").out
    assert sum(line.strip().startswith("1970") for line in out.splitlines()) == 14
    assert "3 earlier days; --days 0 or --json shows all" in " ".join(out.split())
    assert sum(line.strip().startswith("1970") for line in run("status", "--days", "0").out.splitlines()) == 17
    assert len(run("status", "--json").document["coverage"]) == 17
    assert len(run("status", "--json", "--days", "2").document["coverage"]) == 2
    assert run("status", "--days", "-1").code == 2


def test_the_bins_are_those_of_the_policy_that_is_asked(run: Run, ledger: Path) -> None:
    fill_days(ledger, [10])

    document = run("status", "--json", "--policy", '{"graders": ["human/*"]}').document

    assert document["coverage"][0]["bins"] == {}
    assert run("status", "--policy", "nonsense").code == 2


def test_newer_row_keeps_the_facts_and_explains_missing_coverage(run: Run, ledger: Path) -> None:
    fill_days(ledger, [10])
    newer(ledger)

    document = run("status", "--json").document

    assert (document["events"], document["coverage"], document["warnings"]) == (22, None, [])
    assert "'dream.recorded' version 1, which this version of the program does not know" in document["why_no_coverage"]
    done = run("status")
    assert (done.code, "No coverage: The row at position 22" in done.out) == (0, True)
    assert run("status", "--check").code == 4


def test_a_plain_status_does_not_fold_for_long(run: Run, ledger: Path) -> None:
    fill_days(ledger, [10])
    assert limits.STATUS_ROWS == 200_000

    with mock.patch.object(limits, "STATUS_ROWS", 20):
        plain = run("status", "--json").document
        asked = run("status", "--json", "--days", "14").document
    with mock.patch.object(limits, "STATUS_ROWS", 21):
        assert run("status", "--json").document["coverage"] == asked["coverage"]

    assert (plain["coverage"], plain["events"]) == (None, 21)
    assert plain["why_no_coverage"].startswith("21 rows are not folded yet. ")
    assert len(asked["coverage"]) == 2


def test_a_ledger_that_cannot_be_written_has_its_coverage_too(run: Run, ledger: Path) -> None:
    fill_days(ledger, [10])
    ledger.chmod(0o500)
    try:
        assert len(run("status", "--json").document["coverage"]) == 2
    finally:
        ledger.chmod(0o700)


def test_one_earlier_day_is_one_and_one_session_has(run: Run, ledger: Path) -> None:
    fill_days(ledger, [10] * 13 + [1])

    out = " ".join(run("status").out.split())

    assert "1 earlier day; --days 0 or --json shows all" in out
    assert "1 of 10 sessions has an exposure (10%)" in out


def test_what_is_folded_whole_is_said_without_a_word_on_the_rest(run: Run, ledger: Path) -> None:
    fill(ledger)
    run("posteriors")

    assert "projected      3 of 3\n" in re.sub(" +\n", "\n", run("status").out)


def test_status_shows_waiting_calls_and_fails_on_set_aside_input(run: Run, home: Path, ledger: Path) -> None:
    fill_days(ledger, [10])
    spool = Spool(str(ledger), os.environ)
    assert run("status", "--json").document["spool"] == {"waiting": 0, "aside": 0}
    assert "spool" not in run("status").out

    spool.keep_events([exposed("t:w", "x")], 1)
    assert run("status", "--json").document["spool"] == {"waiting": 1, "aside": 0}
    assert "hook's spool   1 call waits; `rightful hook status claude-code` shows details" in run("status").out
    assert run("status", "--check").code == 0

    spool.keep_events([exposed("t:v", "x")], 2)
    spool.set_aside(b"?", "no JSON", 3)
    done = run("status", "--check")
    assert (done.code, "No warnings." in done.out) == (1, False)
    assert "2 calls wait and 1 input set aside; `rightful hook status claude-code` shows details" in done.out
    assert run("status", "--json").document["spool"] == {"waiting": 2, "aside": 1}
    assert run("status").code == 0


def test_grades_that_cannot_be_settled_are_a_warning(run: Run, ledger: Path) -> None:
    with rightful.open(ledger) as held:
        held.append([exposed("t:a", "x"), graded("t:a", 0.8), graded("t:a", 0.4)])

    assert run("status").out.splitlines()[-1] == (
        "warning: 1 of 1 grade (100%) ends in conflicting (1) and pays no arm; for example that of t:a."
    )
    assert run("status", "--check").code == 1


@pytest.mark.parametrize(
    ("texts", "what"),
    [
        ("ab", "1 row has the id of another row and other content. `rightful explain '#2'` shows it."),
        ("abc", "2 rows have the id of another row and other content. `rightful explain '#3'` shows the last of them."),
    ],
)
def test_check_counts_conflicts_without_the_healthy_row(run: Run, ledger: Path, texts: str, what: str) -> None:
    with rightful.open(ledger) as held:
        held.append([message(text, key="k") for text in texts])

    done = run("status", "--check")

    assert (done.code, done.out.splitlines()[-1]) == (0, "No warnings.")
    assert what in " ".join(done.out.split())


def test_alarms_of_arms_are_warnings_too(run: Run, ledger: Path) -> None:
    arms = {"x": {"alpha": 1.0, "beta": 9.0, "n": 87, "rewards": 0}}
    with rightful.open(ledger) as held:
        held.append([opened(arms=arms)])

    assert [one["kind"] for one in run("status", "--json").document["warnings"]] == ["no-rewards"]
    assert run("status").out.splitlines()[-1].startswith("warning: bandit.json (#1) counts 87 selections")


def test_grades_that_all_miss_their_exposures_fail_the_check(run: Run, ledger: Path) -> None:
    """Row A8: 10 of 10 unmatched said "No warnings" and exit code 0."""
    with rightful.open(ledger) as held:
        held.append([exposed("t:a", "x"), *(graded(f"t:none{number}", 0.5) for number in range(10))])

    done = run("status", "--check")

    assert done.code == 1
    assert (
        "warning: 0 of 10 grades in the 30 days up to 1970-01-01 are credited; the others are unmatched (10)."
        in done.out
    )
    [warning] = run("status", "--json").document["warnings"]
    assert (warning["kind"], warning["share"], warning["bins"]) == ("uncredited-grades", 0.0, {"unmatched": 10})
