from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rightful
from rightful.cli.asking import session_named
from rightful.errors import UsageError


def started(session: str, **more: Any) -> dict[str, Any]:
    return {
        "type": "session.started", "producer": "p", "key": f"{session}{more}", "session": session,
        "at": "2026-08-01T10:00:00Z", **more,
    }  # fmt: skip


@pytest.fixture
def opened(tmp_path: Path) -> rightful.Ledger:
    made = rightful.open(tmp_path / "ledger", create=True)
    made.append(
        [started("workspace:41c2@1"), started("gptme:blue"), started("codex:twin"), started("copilot:twin"),
         started("claude-code:a_b", alias=True)]
    )  # fmt: skip
    return made


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ("gptme:blue", "gptme:blue"),
        ("blue", "gptme:blue"),
        ("41c2@1", "workspace:41c2@1"),
        ("a_b", "claude-code:a_b"),
        ("claude-code:a_b", "claude-code:a_b"),
    ],
)
def test_a_session_is_found_by_its_name_or_by_a_value_that_only_it_has(
    opened: rightful.Ledger, asked: str, named: str
) -> None:
    with opened:
        assert session_named(opened, asked) == named


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("twin", "'twin' is the value of 2 sessions: codex:twin, copilot:twin. Name one in full."),
        ("41c2", "no session is named '41c2' in this ledger. Names that contain it: workspace:41c2@1."),
        ("q", "no session is named 'q' in this ledger. `rightful status` says what the ledger holds."),
        ("", "no session is named '' in this ledger. `rightful status` says what the ledger holds."),
        (
            "codex:blue",
            "no session is named 'codex:blue' in this ledger. `rightful status` says what the ledger holds.",
        ),
    ],
)
def test_what_names_none_or_several_is_refused_with_what_may_be_meant(
    opened: rightful.Ledger, asked: str, said: str
) -> None:
    with opened, pytest.raises(UsageError) as refused:
        session_named(opened, asked)

    assert str(refused.value) == said
