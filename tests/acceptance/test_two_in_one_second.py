"""Issue 4: of two runs dispatched in one second, each transcript is bound to its own, or to none with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.importers import transcript_writers as write
from tests.locate.searching import TOOLS, WRITERS, A, B, answers, owners, pointer, run

ITEM = "b381dcfa-da0b-5cf5-849f-5787aaac922a"
OTHER = "41d7cf3e-6f4b-5c39-9f7a-7d7c4b8e2f10"
FIRST, SECOND = "2026-08-01T10:15:00.200Z", "2026-08-01T10:15:00.700Z"


@pytest.mark.parametrize("tool", TOOLS)
def test_runs_that_marked_their_prompt_get_their_own(tool: str, tmp_path: Path) -> None:
    first = WRITERS[tool](tmp_path, A, FIRST, write.marker("41c2", tool))
    second = WRITERS[tool](tmp_path, B, SECOND, write.marker("36d9", tool))
    runs = run("41c2", FIRST, tool=tool), run("36d9", SECOND, tool=tool)
    assert owners(tmp_path, *runs) == [str(first), str(second)]


@pytest.mark.parametrize("tool", TOOLS)
def test_runs_that_share_one_id_get_none(tool: str, tmp_path: Path) -> None:
    """Two dispatches of one item in one second have one id: it is made of the item and the second."""
    WRITERS[tool](tmp_path, A, FIRST, write.marker(ITEM, tool))
    runs = run(ITEM, FIRST, tool=tool), run(ITEM, SECOND, tool=tool)
    found = answers(tmp_path, *runs)
    assert [one.owner for one in found] == [None, None]
    assert found[0].why == f"workspace:{ITEM}@{SECOND} claims it as strongly"


@pytest.mark.parametrize("tool", TOOLS)
def test_runs_with_only_folder_and_time_to_distinguish_get_none(tool: str, tmp_path: Path) -> None:
    WRITERS[tool](tmp_path, A, FIRST)
    WRITERS[tool](tmp_path, B, SECOND)
    runs = run("41c2", FIRST, tool=tool, cwd=write.CWD), run("36d9", SECOND, tool=tool, cwd=write.CWD)
    for found in answers(tmp_path, *runs):
        assert found.owner is None
        assert found.found
        assert found.why.startswith("it began in the run's first second")


@pytest.mark.parametrize("tool", TOOLS)
def test_transcript_of_an_unknown_run_is_not_bound_to_another(tool: str, tmp_path: Path) -> None:
    """The concurrent run wrote none, and the newest file would be the other's."""
    WRITERS[tool](tmp_path, B, SECOND)
    assert owners(tmp_path, run("41c2", FIRST, tool=tool, cwd=write.CWD)) == [None]


def test_grok_runs_of_one_second_are_distinguished_by_their_pointers(tmp_path: Path) -> None:
    first = write.grok(tmp_path / "grok-trajectories", "one")
    second = write.grok(tmp_path / "grok-trajectories", "two")
    pointer(tmp_path, f"grok-build-session-log-ref-{ITEM}.txt", first)
    pointer(tmp_path, f"grok-build-session-log-ref-{OTHER}.txt", second)
    runs = run(ITEM, FIRST, tool="grok"), run(OTHER, SECOND, tool="grok")
    assert owners(tmp_path, *runs) == [str(first), str(second)]


def test_two_conversations_in_one_runs_folder_are_nobodys(tmp_path: Path) -> None:
    folder = tmp_path / "gptme-runs" / f"gptme-logs-{ITEM}"
    write.gptme(folder, "2026-08-01-quiet-red-owl", "2026-08-01T10:15:02Z")
    write.gptme(folder, "2026-08-01-loud-blue-owl", "2026-08-01T10:15:03Z")
    [found] = answers(tmp_path, run(ITEM, FIRST, tool="gptme"))
    assert found.owner is None
    assert found.why == f"the folder of session {ITEM} holds 2 transcripts; 2 transcripts fit it equally well"
    pointer(tmp_path, f"gptme-traj-{ITEM}.path", folder / "2026-08-01-loud-blue-owl" / "conversation.jsonl")
    [found] = answers(tmp_path, run(ITEM, FIRST, tool="gptme"))
    assert (found.owner, found.why) == (None, f"the folder of session {ITEM} holds 2 transcripts")
