from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.cli.conftest import Run
from tests.ledger.facts import exposure, grade

import rightful
from rightful.cli import tables

START_US = 1_785_500_000_000_000


def fill(ledger: Path) -> None:
    with rightful.open(ledger, clock=lambda: START_US) as opened:
        opened.append([exposure("1"), grade("2")])
        opened.posteriors()
        opened.append([grade("3", seq=2)])


def test_json_has_stable_keys(run: Run, ledger: Path) -> None:
    fill(ledger)

    document = run("status", "--json").document

    assert list(document) == ["path", "id", "events", "last_recorded_at", "watermark", "bytes", "openers"]
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
    assert lines["projected"] == "2 of 3"
    assert lines["on disk"].endswith("KiB")
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
