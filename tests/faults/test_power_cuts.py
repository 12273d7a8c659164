"""A power cut at any moment, however the disk ordered what was not synced, loses nothing acknowledged."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.faults.power_cuts import cut

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("strace") is None, reason="strace sees what is written"),
]

WITHOUT_THE_JOURNALS_SYNC = "os.fdatasync = lambda fd: None"
WITHOUT_THE_TABLES_SYNC = "import lmdb; real = lmdb.open; lmdb.open = lambda *a, **b: real(*a, **b, sync=False)"
WITHOUT_THE_TABLES_LAST_SYNC = WITHOUT_THE_TABLES_SYNC.replace("sync=", "metasync=")
KILLED_BEFORE_ITS_SYNC = """
def killed(fd):
    is_record = recorder.head() > 20 and recorder.tables().env.journal._lasts  # and no anchor
    if is_record and os.fstat(fd).st_size == limits.JOURNAL_BYTES:
        os.kill(os.getpid(), 9)
os.fdatasync = killed
"""
ANSWERING_WITHOUT_A_SYNC = """
real = Writer._make_durable
Writer._make_durable = lambda writer, batch: real(writer, [each for each in batch if each.events])
"""
TRUSTING_A_FAILED_SYNC = """
sync = Journal.sync
def trusting(self, answered=None):
    last = self._last
    try:
        sync(self, answered)
    except OSError:
        self.durable = last
        raise
Journal.sync = trusting
"""


@pytest.mark.parametrize(("processes", "commits"), [(1, 6), (2, 3), (3, 2)])
def test_nothing_acknowledged_is_lost_and_nothing_is_damaged(tmp_path: Path, processes: int, commits: int) -> None:
    assert cut(tmp_path, [[""] * processes], commits=commits) == []


def test_nothing_is_lost_of_a_journal_that_is_not_emptied(tmp_path: Path) -> None:
    assert cut(tmp_path, [[""], [""]], commits=3, rows=100) == []


NEVER_SYNCED = "RowCommitter.sync = lambda session: None; acks = os.open(os.devnull, os.O_WRONLY)"


def test_unacknowledged_commits_are_whole_and_in_order_or_missing(tmp_path: Path) -> None:
    """And does not come back when the same, or another of its size, is written in the place of what is torn."""
    assert cut(tmp_path, [[NEVER_SYNCED]], commits=8, rows=100) == []


def test_without_the_sync_of_the_journal_something_is_lost(tmp_path: Path) -> None:
    """Or said to be damaged, where a later record says of it that it was durable: it was acknowledged."""
    wrong = cut(tmp_path, [[WITHOUT_THE_JOURNALS_SYNC]], commits=4)
    assert sum(": lost [" in each for each in wrong) > 5
    assert all(": lost [" in each or "DamagedRowError" in each for each in wrong), "what is torn is not taken for a row"


@pytest.mark.parametrize("change", [WITHOUT_THE_TABLES_SYNC, WITHOUT_THE_TABLES_LAST_SYNC], ids=["any", "the last"])
def test_missing_table_sync_before_a_new_round_loses_rows(tmp_path: Path, change: str) -> None:
    assert cut(tmp_path, [[change]], commits=5)


@pytest.mark.parametrize(("other", "is_sound"), [("", True), (ANSWERING_WITHOUT_A_SYNC, False)])
def test_no_answer_rests_on_what_another_did_not_sync(tmp_path: Path, other: str, is_sound: bool) -> None:
    """One is killed between its write and its sync; the next says what stands there, and writes."""
    wrong = cut(tmp_path, [[KILLED_BEFORE_ITS_SYNC], [other]], commits=3)
    assert bool(wrong) is not is_sound, wrong


SUBSCRIBED = "found = ((each.event.data, each.position) for each in recorder.subscribe(after=19))"
FOLLOWED = """
from rightful.log.follow import Following
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
@pytest.mark.parametrize(("before", "is_sound"), [("", True), ("Journal.sync = lambda *_: None", False)])
def test_who_follows_is_shown_nothing_that_could_be_lost(tmp_path: Path, how: str, before: str, is_sound: bool) -> None:
    """He may note its position, which another event would have afterwards."""
    follower = f"{before}\n{how}\n{SAY_WHAT_WAS_FOUND}"
    wrong = cut(tmp_path, [[KILLED_BEFORE_ITS_SYNC], [follower]], commits=1, rows=100)
    assert bool(wrong) is not is_sound, wrong


@pytest.mark.parametrize(("failing", "rows"), [("2", 100), ("2", 3), ("3+2", 3), ("4+", 3)])
def test_answers_are_true_if_syncs_fail_and_the_system_drops_pages(tmp_path: Path, failing: str, rows: int) -> None:
    """Of the journal or of the tables, as it comes."""
    assert cut(tmp_path, [[""]], commits=4, failing=failing, rows=rows) == []


FORGETTING = """
errors = Path(log).with_name("errors")
errors.touch()
told, calls, sync = errors.stat().st_size, [], os.fdatasync
def fdatasync(fd):
    global told
    calls.append(fd)
    if len(calls) in {FAILING}:
        with errors.open("ab") as file:
            file.write(b"x")
        os.write(acks, b"journal forgotten")
    else:
        sync(fd)
    if told < errors.stat().st_size:
        told = errors.stat().st_size
        raise OSError(5, "odd")
os.fdatasync = fdatasync
"""
"""As the system does: what could not be written is forgotten, and each open file is told of it once."""


@pytest.mark.parametrize("failing", ["{1}", "{2, 3}"])
def test_failed_sync_is_reported_to_every_process_and_answers_are_true(tmp_path: Path, failing: str) -> None:
    fails = FORGETTING.replace("{FAILING}", failing)
    never = FORGETTING.replace("{FAILING}", "{}")
    assert cut(tmp_path, [[fails, never], [never]], commits=2, rows=100) == []


def test_who_trusts_a_sync_that_failed_loses_something(tmp_path: Path) -> None:
    assert cut(tmp_path, [[TRUSTING_A_FAILED_SYNC]], commits=5, failing="2", rows=100)
