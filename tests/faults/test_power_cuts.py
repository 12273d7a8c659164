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


SUBSCRIBED = "found = ((each.event.data, each.position) for each in recorder.subscribe(after=19))"
FOLLOWED = """
from rightful.ledger.follow import Following
rows = Following(recorder, lambda after, head: iter(recorder.rows(after, head - after)), 19, None)
found = ((next(recorder.read(after=each.position - 1)).event.data, each.position) for each in rows)
"""
SAY_WHAT_WAS_FOUND = """
for _ in range(2):
    data, position = next(found)
    os.write(acks, f"{data.decode().split()[0]} {position}".encode())
recorder.close()
sys.exit()
"""


@pytest.mark.parametrize("how", [SUBSCRIBED, FOLLOWED], ids=["subscribed", "followed"])
@pytest.mark.parametrize(("before", "is_sound"), [("", True), ("Environment.settle = lambda env: None", False)])
def test_who_follows_is_shown_nothing_that_could_be_lost(tmp_path: Path, how: str, before: str, is_sound: bool) -> None:
    """He may note its position, which another event would have afterwards."""
    follower = f"{before}\n{how}\n{SAY_WHAT_WAS_FOUND}"
    wrong = cut(tmp_path, [[KILLED_BEFORE_ITS_LAST_SYNC], [follower]], commits=1)
    assert bool(wrong) is not is_sound, wrong


@pytest.mark.parametrize("failing", ["4", "3+2", "4+"])
def test_where_syncs_fail_and_the_system_forgets_the_pages_what_is_said_is_true(tmp_path: Path, failing: str) -> None:
    assert cut(tmp_path, [[""]], commits=4, failing=failing) == []
