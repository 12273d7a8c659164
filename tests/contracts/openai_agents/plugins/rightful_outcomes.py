"""A pytest plugin that writes down the outcome of each test: `{"test id": ["passed", "what was said"]}`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

OUTCOMES: dict[str, tuple[str, str]] = {}


def _said(report: Any) -> str:
    """Return the last word of a failure or the reason of a skip, on one line."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        return str(crash.message).partition("\n")[0]
    said = report.longrepr[-1] if isinstance(report.longrepr, tuple) else report.longrepr
    return (str(said or "").strip().splitlines() or [""])[-1]


def pytest_runtest_logreport(report: Any) -> None:
    """Keep the worst of a test's three phases."""
    if report.outcome != "passed":
        OUTCOMES[report.nodeid] = (report.outcome, _said(report))
    elif report.when == "call":
        OUTCOMES.setdefault(report.nodeid, ("passed", ""))


def pytest_collectreport(report: Any) -> None:
    """Keep a file that cannot be imported; its tests are not there."""
    if report.outcome == "failed":
        OUTCOMES[report.nodeid] = ("failed", _said(report))


def pytest_sessionfinish(session: Any) -> None:
    """Write the file, in the one process that hears of every test."""
    if not hasattr(session.config, "workerinput"):
        Path(os.environ["RIGHTFUL_OUTCOMES"]).write_text(json.dumps(OUTCOMES), "utf-8")
