"""No exception at any line of opening, closing or a fork leaves a store open or a lock taken."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
from tests.contracts.base import event
from tests.contracts.support import in_fork
from tests.faults.interrupting import each_line

from rightful.errors import RightfulError
from rightful.storage import locks, open_stores
from rightful.storage.recorder import LMDBRecorder

ERRORS = [KeyboardInterrupt, TimeoutError]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # a file that an exception has let go of is closed
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with LMDBRecorder(tmp_path / "s", kind="plain", create=True) as recorder:
        recorder.append([event()])
    return tmp_path / "s"


def check(folder: Path, place: object) -> None:
    """See that nothing has the store, here or as another process sees it, and that it opens again."""
    gc.collect()
    assert open_stores._registry.stores == {}, place
    locks.hold_alone(folder).close()
    with LMDBRecorder(folder, kind="plain") as recorder:
        position = recorder.append([event()])
        assert recorder.head() == position, place
    assert open_stores._registry.stores == {}, place
    locks.hold_alone(folder).close()


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("others", [0, 1], ids=["alone", "shared"])
def test_opening(folder: Path, error: type[BaseException], others: int) -> None:
    """Whoever else has it keeps it; once they close it, nothing is left."""
    for interruption in each_line(error, room="storage", apart=3):
        open_ = [LMDBRecorder(folder, kind="plain") for _ in range(others)]
        made = interruption.run(lambda: LMDBRecorder(folder, kind="plain"))
        assert isinstance(made, LMDBRecorder | error | RightfulError), made
        if isinstance(made, LMDBRecorder):
            made.close()
        for recorder in open_:
            recorder.append([event()])
            recorder.close()
        check(folder, interruption.place)


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("again", ["closed again", "let go", "opened again"])
def test_closing(folder: Path, error: type[BaseException], again: str) -> None:
    for interruption in each_line(error, room="storage", apart=3):
        recorder = LMDBRecorder(folder, kind="plain")
        recorder.append([event()])
        interruption.run(recorder.close)
        if again == "opened again":
            with LMDBRecorder(folder, kind="plain") as other:
                other.append([event()])
        if again == "closed again":
            recorder.close()
        del recorder
        check(folder, interruption.place)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Python only prints it
@pytest.mark.parametrize("error", ERRORS)
def test_fork(folder: Path, error: type[BaseException]) -> None:
    """In the child all that was inherited is closed; in the parent reads and writes go on."""

    def child() -> tuple[object, int]:
        stores = dict(open_stores._registry.stores)
        with LMDBRecorder(folder, kind="plain") as recorder:
            return stores, recorder.append([event()])

    for interruption in each_line(error, room="storage", apart=3):
        with LMDBRecorder(folder, kind="plain") as recorder:
            before = recorder.append([event()])
            pid = interruption.run(os.fork)
            if pid == 0:
                os._exit(len(open_stores._registry.stores))
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, interruption.place
            assert recorder.append([event()]) == before + 1
            assert recorder.head() == before + 1, interruption.place
            assert in_fork(child) == ({}, before + 2), interruption.place
        check(folder, interruption.place)
