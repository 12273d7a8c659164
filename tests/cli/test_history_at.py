"""A history as it was when the ledger had recorded what it had by a time."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Run
from tests.cli.test_history import CHAT, batch, user

import rightful
from rightful import times


def test_a_history_is_shown_as_it_was_at_a_time_of_recording(run: Run, tmp_path: Path) -> None:
    begun_us, step_us = times.us_from("2026-08-04T10:00:00Z"), 3_600_000_000
    clock = iter(begun_us + number * step_us for number in range(9))
    with rightful.open(tmp_path / "L", create=True) as ledger:
        ledger.log._clock = clock.__next__  # one hour an append
        for number in range(3):
            ledger.append([batch(str(number), user(f"item {number}"))])

    for at, through, items in (
        ("2026-08-04T11:30:00Z", 2, 2),
        ("2026-08-04T12:00:00+01:00", 2, 2),
        ("2026-08-04T10:00:00Z", 1, 1),
        ("2027-01-01T00:00:00Z", 3, 3),
        ("2026-08-04T09:59:59Z", 0, 0),
    ):
        done = run("--ledger", str(tmp_path / "L"), "history", CHAT, "--at", at, "--json")
        assert (done.document["position"], len(done.document["items"])) == (through, items), at
        assert ("Nothing of it had been recorded by then" in done.err) == (not items)
