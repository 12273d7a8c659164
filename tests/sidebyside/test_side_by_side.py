"""Every ordering on every store: ours keeps what its list says, and the page's table is what is measured."""

from __future__ import annotations

import asyncio
import importlib.metadata
from collections.abc import Iterator
from pathlib import Path

import pytest
import tests.sidebyside.__main__ as command
from tests.sidebyside.elsewhere import Elsewhere
from tests.sidebyside.kinds import KINDS, OURS, THEIRS
from tests.sidebyside.orderings import Ordering, all_orderings, played
from tests.sidebyside.page import rows
from tests.sidebyside.world import Outcome, World

MEASURED = "0.24.0"
"""The version of the SDK whose outcomes the page shows."""

ORDERINGS = [pytest.param(one, id=one.name) for one in all_orderings()]


@pytest.fixture(scope="module")
def far() -> Iterator[Elsewhere]:
    processes = Elsewhere()
    yield processes
    processes.close()


def kept(one: Ordering, world: World) -> Outcome:
    return asyncio.run(played(one, world))


@pytest.mark.parametrize("hooked", [True, False], ids=["with hooks", "without hooks"])
@pytest.mark.parametrize("one", ORDERINGS)
def test_our_session_keeps_everything_and_shows_what_the_rule_says(
    one: Ordering, hooked: bool, tmp_path: Path, far: Elsewhere
) -> None:
    found = kept(one, World(OURS, tmp_path, far, hooked=hooked))

    assert (found.lost, found.risen, found.gone, found.twice) == ([], [], [], [])
    assert found.words() == one.ours


@pytest.mark.sweep
@pytest.mark.skipif(importlib.metadata.version("openai-agents") != MEASURED, reason=f"measured with {MEASURED}")
@pytest.mark.parametrize("kind", THEIRS)
@pytest.mark.parametrize("one", ORDERINGS)
def test_the_sdks_stores_keep_what_the_page_says(one: Ordering, kind: str, tmp_path: Path, far: Elsewhere) -> None:
    heading, *table = rows()
    [shown] = [row for row in table if row[0] == one.title]

    assert kept(one, World(kind, tmp_path, far)).words() == shown[heading.index(kind)]


def test_the_page_shows_every_ordering_and_what_our_session_keeps() -> None:
    heading, *table = rows()

    assert heading == ["ordering", "reported as", *KINDS]
    assert [row[:3] for row in table] == [[one.title, one.upstream, one.ours] for one in all_orderings()]


def test_logs_of_the_sdk_in_other_processes_are_not_printed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    [approval] = [one for one in all_orderings() if one.name == "approval"]
    processes = Elsewhere()
    kept(approval, World("SQLiteSession", tmp_path, processes))
    processes.close()

    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("word", "code"), [("--help", 0), ("--hlp", 2)])
def test_help_and_a_slip_play_nothing(word: str, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[object] = []
    monkeypatch.setattr(command, "results", played.append)
    with pytest.raises(SystemExit) as ended:
        command.main([word])

    assert (ended.value.code, played) == (code, [])
