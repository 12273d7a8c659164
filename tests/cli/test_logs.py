from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.cli.test_posteriors import EVENTS, fill

from rightful.projections.store import Store


def test_verbose_logs_each_step_as_one_json_object_a_line(run: Run, ledger: Path) -> None:
    fill(ledger)

    steps = [json.loads(line) for line in run("posteriors", "--verbose", "--json").err.splitlines()]

    assert [step["event"] for step in steps] == ["opened", "folded", "saved"]
    assert (steps[0]["path"], steps[0]["events"], steps[0]["level"]) == (str(ledger), 4, "info")
    assert set(steps[1]) == {"event", "level", "timestamp", "rows", "took_s"}


def test_ingest_logs_what_it_committed(run: Run, ledger: Path, here: Path) -> None:
    (here / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in EVENTS))

    done = run("ingest", "--verbose", "events.jsonl")

    committed = json.loads(done.err.splitlines()[-1])
    assert (committed["event"], committed["lines"], committed["head"]) == ("committed", 4, 4)


def test_without_verbose_nothing_is_logged_and_structlog_is_not_loaded(ledger: Path) -> None:
    program = "import sys; from rightful.cli import main; main(['status']); print('structlog' in sys.modules)"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment, cwd=ledger.parent
    )

    assert done.stdout.splitlines()[-1] == "False"
    assert done.stderr == ""


def test_a_projection_that_cannot_be_saved_is_a_warning_and_no_failure(
    run: Run, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger is whole; only the next command has to fold again."""
    fill(ledger)
    monkeypatch.setattr(Store, "save", lambda *_: False)

    done = run("posteriors", "--json")

    assert done.code == 0
    assert done.document["through"] == 4
    assert json.loads(done.err.splitlines()[0])["level"] == "warning"
