from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rightful
from rightful.cli.support.options import session_named
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
         started("claude-code:a_b", alias=True),
         started("claude-code:7fbe4341-0d57"), started("claude-code:7fbe4341-0d57/scout"), started("gptme:7fb"),
         started("gptme:written.so"), started("gptme:written_so", alias=True),
         started("grok:dead"), started("workspace:dead@1"), started("workspace:dead@2"),
         *(started(f"codex:many-{n}") for n in range(7))]
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
        ("7fbe4341", "claude-code:7fbe4341-0d57"),
        ("claude-code:7fbe", "claude-code:7fbe4341-0d57"),
        ("7fbe4341-0d57/", "claude-code:7fbe4341-0d57/scout"),
        ("41c2", "workspace:41c2@1"),
        ("7fb", "gptme:7fb"),
        ("written", "gptme:written.so"),
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
        ("twin", "'twin' is the value of 2 sessions: codex:twin, copilot:twin. Type one in full."),
        (
            "41c",
            (
                "no session is named '41c' in this ledger. Names that contain it: workspace:41c2@1. "
                "Type one of them, or its beginning."
            ),
        ),
        (
            "dead@",
            "'dead@' is the beginning of 2 sessions: workspace:dead@1, workspace:dead@2. Type more characters of one.",
        ),
        (
            "codex:many",
            (
                "'codex:many' is the beginning of 7 sessions: codex:many-0, codex:many-1, codex:many-2, codex:many-3, "
                "codex:many-4, and 2 more. Type more characters of one."
            ),
        ),
        (
            "any-",
            (
                "no session is named 'any-' in this ledger. Names that contain it: codex:many-0, codex:many-1, "
                "codex:many-2, codex:many-3, codex:many-4, and 2 more. Type one of them, or its beginning."
            ),
        ),
        ("q", "no session is named 'q' in this ledger. `rightful status --sessions` lists them."),
        ("", "no session is named '' in this ledger. `rightful status --sessions` lists them."),
        ("codex:blue", "no session is named 'codex:blue' in this ledger. `rightful status --sessions` lists them."),
    ],
)
def test_what_names_none_or_several_is_refused_with_what_may_be_meant(
    opened: rightful.Ledger, asked: str, said: str
) -> None:
    with opened, pytest.raises(UsageError) as refused:
        session_named(opened, asked)

    assert str(refused.value) == said


def test_exact_value_wins_over_prefixes_with_a_note(
    opened: rightful.Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened:
        assert session_named(opened, "dead") == "grok:dead"
        assert capsys.readouterr().err == (
            "rightful: note: 'dead' is treated as grok:dead, which has this value; it is also the beginning of "
            "workspace:dead@1, workspace:dead@2.\n"
        )
        assert session_named(opened, "7fbe4341-0d57") == "claude-code:7fbe4341-0d57"
        assert session_named(opened, "grok:dead") == "grok:dead"
        assert capsys.readouterr().err == ""


def test_name_in_original_and_sanitised_form_is_listed_once(opened: rightful.Ledger) -> None:
    opened.append([started("claude-code:a_b")])
    with opened, pytest.raises(UsageError, match=r"contain it: claude-code:a_b\. Type"):
        session_named(opened, "_b")
