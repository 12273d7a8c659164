"""A power cut at any moment, however the disk ordered what was not synced, loses nothing acknowledged."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.faults.power_cuts import cut

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="strace sees what is written")

WITHOUT_THE_LAST_SYNC = "Environment.sync = lambda env: None"
WITHOUT_ANY_SYNC = "import lmdb; real = lmdb.open; lmdb.open = lambda *a, **b: real(*a, **b, sync=False)"
KILLED_BEFORE_ITS_LAST_SYNC = "Environment.sync = lambda env: recorder.head() > 20 and os.kill(os.getpid(), 9)"
ANSWERING_WITHOUT_A_SYNC = """
real = Writer._make_durable
Writer._make_durable = lambda writer, batch: real(writer, [each for each in batch if each.events])
"""


@pytest.mark.parametrize(("processes", "commits"), [(1, 5), (2, 3), (3, 2)])
def test_nothing_acknowledged_is_lost_and_nothing_is_damaged(tmp_path: Path, processes: int, commits: int) -> None:
    assert cut(tmp_path, [[""] * processes], commits=commits) == []


def test_without_the_last_sync_of_a_commit_something_is_lost(tmp_path: Path) -> None:
    wrong = cut(tmp_path, [[WITHOUT_THE_LAST_SYNC]], commits=4)
    assert len(wrong) > 5
    assert all(": lost [" in each for each in wrong), "its pages were synced, so the older one is whole"


def test_without_any_sync_the_store_is_damaged(tmp_path: Path) -> None:
    wrong = cut(tmp_path, [[WITHOUT_ANY_SYNC + "; " + WITHOUT_THE_LAST_SYNC]], commits=4)
    assert [each for each in wrong if ": lost [" not in each]


@pytest.mark.parametrize(("other", "is_sound"), [("", True), (ANSWERING_WITHOUT_A_SYNC, False)])
def test_no_answer_rests_on_what_another_did_not_sync(tmp_path: Path, other: str, is_sound: bool) -> None:
    """One is killed between its commit and its last sync; the next says what stands there, and writes."""
    wrong = cut(tmp_path, [[KILLED_BEFORE_ITS_LAST_SYNC], [other]], commits=3)
    assert bool(wrong) is not is_sound, wrong


@pytest.mark.parametrize("failing", ["3", "4", "5..6", "6..8", "4+"])
def test_where_syncs_fail_and_the_system_forgets_the_pages_what_is_said_is_true(tmp_path: Path, failing: str) -> None:
    assert cut(tmp_path, [[""]], commits=4, failing=failing) == []
