"""The stored projection: loaded where it fits, passed over without a word where it does not."""

from __future__ import annotations

import fcntl
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest
from tests.projections.fake import FakeLog
from tests.projections.telling import exposed, graded, linked, log_of

from rightful.policies import Policy
from rightful.projections import projection_environment
from rightful.projections import store as module
from rightful.projections.cached_answer import cached_answer_of
from rightful.projections.credit.posteriors import Posteriors
from rightful.projections.projected import Projected
from rightful.projections.store import Store

EVENTS = [
    one
    for number in range(40)
    for one in (
        exposed(f"t:{number}", f"x{number % 7}", context=["code", None], withheld=("y",)),
        graded(f"t:{number}", number / 50, per_arm={"x1": 0.5}),
        linked(f"t:{number}", f"u:{number}"),
    )
]


@pytest.fixture
def log() -> FakeLog:
    return log_of(*EVENTS)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "projections"


def opened(log: FakeLog, folder: Path, ledger: str = "this") -> Projected:
    return Projected(log, Store(folder, ledger))  # type: ignore[arg-type]


def answer(log: FakeLog) -> Posteriors:
    return Projected(log).posteriors(Policy())  # type: ignore[arg-type]


def saved(log: FakeLog, folder: Path) -> Path:
    """Save the projection of a log, and return its data file."""
    projection = opened(log, folder)
    projection.catch_up()
    projection.save()
    assert Store(folder, "this").watermark() == log.head()
    return folder / "store" / "data.mdb"


def loads(log: FakeLog, folder: Path) -> bool:
    """Whether a new process would find the projection folded."""
    return opened(log, folder).behind() == 0


def test_what_was_saved_is_loaded_and_answers_alike(log: FakeLog, folder: Path) -> None:
    saved(log, folder)

    assert loads(log, folder)
    assert opened(log, folder).posteriors(Policy()) == answer(log)


def test_what_was_loaded_goes_on_with_the_rows_that_came_since(log: FakeLog, folder: Path) -> None:
    saved(log, folder)
    log.append([exposed("u:1", "late"), graded("t:0", 0.125, seq=2)])
    projection = opened(log, folder)

    assert projection.behind() == 2
    assert projection.posteriors(Policy()) == answer(log)
    projection.save()
    assert loads(log, folder)


def test_nothing_is_written_before_something_is_saved(log: FakeLog, folder: Path) -> None:
    opened(log, folder).posteriors(Policy())

    assert not folder.exists()
    assert Store(folder, "this").watermark() == 0


def test_deleting_it_loses_nothing(log: FakeLog, folder: Path) -> None:
    saved(log, folder)
    Store(folder, "this").delete()

    assert not loads(log, folder)
    assert opened(log, folder).posteriors(Policy()) == answer(log)
    saved(log, folder)
    assert loads(log, folder)


def cut_short(data: Path) -> None:
    data.write_bytes(data.read_bytes()[: data.stat().st_size // 2])


def emptied(data: Path) -> None:
    data.write_bytes(b"")


def garbled(data: Path) -> None:
    data.write_bytes(b"somebody else's file\n" * 5_000)


def headless(data: Path) -> None:
    data.write_bytes(bytes(8_192) + data.read_bytes()[8_192:])


def unsealed(data: Path) -> None:
    (data.parent / projection_environment.SEAL).unlink()


def grown(data: Path) -> None:
    data.write_bytes(data.read_bytes() + bytes(4_096))


def locked_by_rubbish(data: Path) -> None:
    (data.parent / "lock.mdb").write_bytes(b"\xff" * 100)


DAMAGE = [cut_short, emptied, garbled, headless, unsealed, grown]


@pytest.mark.parametrize("damage", DAMAGE)
def test_what_is_damaged_is_made_again(log: FakeLog, folder: Path, damage: Callable[[Path], None]) -> None:
    damage(saved(log, folder))
    projection = opened(log, folder)

    assert projection.posteriors(Policy()) == answer(log)
    assert Store(folder, "this").watermark() == 0
    projection.save()
    assert loads(log, folder)


def test_a_lock_file_of_rubbish_is_no_obstacle(log: FakeLog, folder: Path) -> None:
    locked_by_rubbish(saved(log, folder))
    projection = opened(log, folder)

    assert projection.posteriors(Policy()) == answer(log)
    log.append([exposed("t:more", "x")])
    projection.catch_up()
    projection.save()
    assert loads(log, folder)


def test_no_damaged_byte_is_ever_followed(log: FakeLog, folder: Path) -> None:
    """LMDB follows a damaged page number out of the file and dies, so it must not see one."""
    data = saved(log, folder)
    whole = data.read_bytes()
    chance = random.Random(7)
    want = answer(log)
    for _ in range(150):
        at = chance.choice(
            [chance.randrange(len(whole)), 4_096 * chance.randrange(len(whole) // 4_096) + chance.randrange(64)]
        )
        data.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << chance.randrange(8))]) + whole[at + 1 :])
        assert not loads(log, folder)
        assert opened(log, folder).posteriors(Policy()) == want


def test_the_projection_of_another_ledger_is_skipped(log: FakeLog, folder: Path) -> None:
    saved(log, folder)
    other = log_of(*EVENTS[:50], exposed("t:z", "z"), *EVENTS[60:])
    projection = opened(other, folder, ledger="another")

    assert projection.posteriors(Policy()) == answer(other)
    projection.save()
    assert Store(folder, "another").watermark() == other.head()
    assert not loads(log, folder)


def test_the_projection_of_a_copy_with_an_id_of_its_own_is_skipped(log: FakeLog, folder: Path) -> None:
    saved(log, folder)

    assert opened(log, folder, ledger="another").behind() == log.head()


def test_restored_ledger_is_not_answered_from_its_former_projection(log: FakeLog, folder: Path) -> None:
    saved(log, folder)
    restored = log_of(*EVENTS[:30], *(exposed(f"t:z{number}", "z") for number in range(200)))

    assert opened(restored, folder).posteriors(Policy()) == answer(restored)


def test_a_ledger_that_is_shorter_than_what_was_stored_is_folded_again(log: FakeLog, folder: Path) -> None:
    saved(log, folder)
    short = log_of(*EVENTS[:30])

    assert opened(short, folder).posteriors(Policy()) == answer(short)
    assert Store(folder, "this").watermark() == log.head()
    saved(short, folder)
    assert loads(short, folder)


def test_a_projection_of_a_newer_program_is_skipped(
    log: FakeLog, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as newer:
        newer.setattr(module, "VERSION", module.VERSION + 1)
        saved(log, folder)

    assert not loads(log, folder)
    assert opened(log, folder).posteriors(Policy()) == answer(log)
    saved(log, folder)
    assert loads(log, folder)


def test_a_chunk_that_was_lost_is_written_again(log: FakeLog, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks behind the newest are not rewritten by a save, so a store that lost one is made anew."""
    monkeypatch.setattr(module, "CHUNK_ROWS", 8)
    saved(log, folder)

    def lose(env: lmdb.Environment) -> None:
        with env.begin(write=True) as txn:
            assert txn.delete(b"shown/at/00000001")

    projection_environment.with_opened(folder, lose, readonly=False)
    projection = opened(log, folder)

    assert projection.posteriors(Policy()) == answer(log)
    projection.save()
    assert loads(log, folder)


def test_saves_in_many_chunks_are_loaded_whole(log: FakeLog, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK_ROWS", 8)
    growing = FakeLog()
    for start in range(0, len(EVENTS), 13):
        growing.append(EVENTS[start : start + 13])
        saved(growing, folder)

    assert loads(growing, folder)
    assert opened(growing, folder).posteriors(Policy()) == answer(log)


def test_a_first_save_in_many_commits_is_loaded_whole(
    log: FakeLog, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PART_BYTES", 1)
    saved(log, folder)

    assert loads(log, folder)
    assert opened(log, folder).posteriors(Policy()) == answer(log)


def test_a_first_save_that_stopped_before_its_head_is_made_again(
    log: FakeLog, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(module, "to_values", lambda _: {"kept": None})  # fails after the columns are committed
        with pytest.raises(TypeError):
            saved(log, folder)

    assert not loads(log, folder)
    saved(log, folder)
    assert loads(log, folder)


def test_where_nothing_can_be_written_the_answer_is_the_same(log: FakeLog, folder: Path) -> None:
    folder.write_text("a file in its place")
    projection = opened(log, folder)

    assert projection.posteriors(Policy()) == answer(log)
    projection.save()
    assert folder.read_text() == "a file in its place"


def test_a_ledger_that_is_only_read_saves_nothing(log: FakeLog, folder: Path) -> None:
    projection = Projected(log, Store(folder, "this", writable=False))  # type: ignore[arg-type]
    projection.posteriors(Policy())
    projection.save()

    assert not projection.store.save(projection.facts, cached_answer_of(projection.facts), "")  # type: ignore[union-attr]
    assert not folder.exists()


def test_folder_and_files_are_their_owners_alone(log: FakeLog, folder: Path) -> None:
    data = saved(log, folder)

    modes = {path: path.stat().st_mode & 0o777 for path in (folder, data.parent, *data.parent.iterdir())}
    assert modes == {path: 0o700 if path.is_dir() else 0o600 for path in modes}


def test_a_long_fold_is_saved_on_the_way(log: FakeLog, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rightful.projections.projected.SAVE_ROWS", 100)
    opened(log, folder).catch_up()

    assert loads(log, folder)


def test_a_save_never_goes_on_from_what_another_process_numbered(
    log: FakeLog, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names and arms are numbered page by page, so two processes that folded the same rows number them differently."""
    monkeypatch.setattr(module, "CHUNK_ROWS", 8)
    growing = FakeLog()
    early = opened(growing, folder)
    early.catch_up()  # finds nothing stored, and folds on its own
    for event in EVENTS:
        growing.append([event])
        other = opened(growing, folder)
        other.catch_up()
        other.save()
    growing.append([exposed("t:last", "x0")])
    early.catch_up()
    early.save()

    split = Policy(credit="split")
    assert opened(growing, folder).posteriors(split) == Projected(growing).posteriors(split)  # type: ignore[arg-type]


def test_a_stopped_process_that_holds_it_does_not_block_for_ever(
    log: FakeLog, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projection_environment, "TURN_WAIT_S", 0.05)
    data = saved(log, folder)
    whole = data.read_bytes()
    with (folder / "turn.lock").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # a lock of another open file, as another process has it

        projection = opened(log, folder)
        assert projection.posteriors(Policy()) == answer(log)
        assert Store(folder, "this").watermark() == 0
        projection.save()
    assert data.read_bytes() == whole
    assert loads(log, folder)


def test_a_process_that_forked_meanwhile_holds_nothing(log: FakeLog, folder: Path) -> None:
    """The lock of a flock is shared over fork, and the thread that would give it back is not in the child."""
    saved(log, folder)

    def fork(_: object) -> int:
        child = os.fork()
        if child == 0:
            signal.alarm(60)  # a child that hangs dies
            answered = opened(log, folder).posteriors(Policy()) == answer(log)
            signal.pause() if answered else os._exit(1)
        return child

    child = projection_environment.with_opened(folder, fork, readonly=True)
    try:
        assert loads(log, folder)
        time.sleep(0.2)
        assert os.waitpid(child, os.WNOHANG) == (0, 0)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@pytest.mark.parametrize("name", ["data.mdb", "lock.mdb", projection_environment.SEAL])
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(log: FakeLog, folder: Path, name: str) -> None:
    path = saved(log, folder).parent / name
    path.unlink()
    os.mkfifo(path)
    signal.alarm(60)  # opening a pipe waits for the other end
    try:
        projection = opened(log, folder)
        assert projection.posteriors(Policy()) == answer(log)
        projection.save()
        assert loads(log, folder)
    finally:
        signal.alarm(0)


def test_it_is_kept_whatever_the_umask_says(log: FakeLog, folder: Path) -> None:
    before = os.umask(0o777)
    try:
        data = saved(log, folder)
    finally:
        os.umask(before)

    made = [folder / "turn.lock", *data.parent.iterdir()]
    assert {path: path.stat().st_mode & 0o777 for path in made} == dict.fromkeys(made, 0o600)


def test_a_path_that_is_no_utf8_is_a_path(log: FakeLog, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    saved(log, folder)

    assert loads(log, folder)
