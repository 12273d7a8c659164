from __future__ import annotations

import multiprocessing
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from eventsourcing.dcb.application import DCBApplication
from eventsourcing.dcb.domain import Tagged
from eventsourcing.dcb.msgpack import Decision, InitialDecision, MessagePackMapper
from eventsourcing.persistence import (
    InfrastructureFactory,
    InfrastructureFactoryError,
    IntegrityError,
    NotSupportedError,
    ProgrammingError,
    Tracking,
)
from eventsourcing.projection import Projection, ProjectionRunner
from eventsourcing.tests import persistence as library
from eventsourcing.utils import get_topic
from tests.contracts.support import in_fork

from rightful.errors import ClosedError
from rightful.storage.eventsourcing.lmdb_factory import LMDBFactory, LMDBTrackingRecorder, ViewState

SPAWN = multiprocessing.get_context("spawn")


class Noted(Decision):
    text: str


class Opened(InitialDecision):
    note_id: str


class NotesView(LMDBTrackingRecorder):
    """Counts notes; the count and the position change together or not at all."""

    def count(self) -> int:
        return self.query(lambda state: int(state.get(b"count") or b"0"))

    def noted(self, tracking: Tracking) -> None:
        self.transact(tracking, _count_one)

    def torn(self, tracking: Tracking) -> None:
        def work(state: ViewState) -> None:
            _count_one(state)
            raise ZeroDivisionError

        self.transact(tracking, work)


def _count_one(state: ViewState) -> None:
    state.put(b"count", str(int(state.get(b"count") or b"0") + 1).encode())


class Notes(Projection[NotesView]):
    name = "notes"

    def process_event(self, domain_event: Tagged[Decision], tracking: Tracking) -> None:
        self.view.noted(tracking)


class LibrarysTrackingSuite(library.TrackingRecorderTestCase):
    """The library's own suite; pytest collects it from its base."""

    def create_recorder(self) -> LMDBTrackingRecorder:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        recorder = LMDBTrackingRecorder(Path(folder.name) / "views")
        self.addCleanup(recorder.close)
        return recorder


@pytest.fixture
def view(tmp_path: Path) -> Iterator[NotesView]:
    view = NotesView(tmp_path / "views")
    yield view
    view.close()


def test_state_is_unchanged_after_a_position_that_is_not_beyond_the_last(view: NotesView) -> None:
    view.noted(Tracking("notes", 3))
    with pytest.raises(IntegrityError):
        view.noted(Tracking("notes", 3))

    assert view.count() == 1
    assert view.max_tracking_id("notes") == 3


def test_neither_state_nor_position_changes_when_the_work_fails_halfway(view: NotesView) -> None:
    view.noted(Tracking("notes", 1))
    with pytest.raises(ZeroDivisionError):
        view.torn(Tracking("notes", 2))

    assert view.count() == 1
    assert view.max_tracking_id("notes") == 1


def test_a_failing_change_does_not_take_its_neighbours_with_it(view: NotesView) -> None:
    """All wait for one commit: the first work holds the writer until they do."""
    begun, go = threading.Event(), threading.Event()

    def hold(state: ViewState) -> None:
        begun.set()
        assert go.wait(30)

    def fail() -> None:
        with pytest.raises(ZeroDivisionError):
            view.torn(Tracking("torn", 1))

    threads = [threading.Thread(target=view.transact, args=(None, hold))]
    threads[0].start()
    assert begun.wait(30)
    threads += [threading.Thread(target=fail)]
    threads += [threading.Thread(target=view.noted, args=(Tracking(f"app{n}", 1),)) for n in range(3)]
    for thread in threads[1:]:
        thread.start()
    go.set()
    for thread in threads:
        thread.join(30)

    assert view.count() == 3
    assert view.max_tracking_id("torn") is None


def test_two_views_in_one_store_do_not_see_each_other(tmp_path: Path) -> None:
    one, two = NotesView(tmp_path / "v", name="one"), NotesView(tmp_path / "v", name="two")
    one.noted(Tracking("notes", 7))

    assert (one.count(), two.count()) == (1, 0)
    assert two.max_tracking_id("notes") is None
    one.close()
    two.close()


def test_items_stop_at_the_prefix_and_at_the_end_of_the_view(tmp_path: Path) -> None:
    a, b = LMDBTrackingRecorder(tmp_path / "v", name="a"), LMDBTrackingRecorder(tmp_path / "v", name="b")

    def fill(state: ViewState) -> None:
        for key in (b"x1", b"x2", b"y1"):
            state.put(key, key.upper())

    a.transact(None, fill)
    b.transact(None, fill)
    a.transact(None, lambda state: state.delete(b"x1"))

    assert a.query(lambda state: list(state.items(b"x"))) == [(b"x2", b"X2")]
    assert a.query(lambda state: list(state.items())) == [(b"x2", b"X2"), (b"y1", b"Y1")]
    assert b.query(lambda state: list(state.items(b"z"))) == []
    a.close()
    b.close()


def test_a_key_of_a_view_that_lmdb_cannot_hold_is_refused_at_its_limit(view: NotesView) -> None:
    longest = 511 - len("view") - 1
    view.transact(None, lambda state: state.put(b"k" * longest, b"v"))
    with pytest.raises(ProgrammingError):
        view.transact(None, lambda state: state.put(b"k" * (longest + 1), b"v"))


def _write_elsewhere(folder: Path) -> None:
    view = NotesView(folder)
    view.noted(Tracking("notes", 5))
    view.close()


def test_a_wait_ends_when_another_process_has_read_that_far(tmp_path: Path, view: NotesView) -> None:
    process = SPAWN.Process(target=_write_elsewhere, args=(tmp_path / "views",))
    process.start()

    view.wait("notes", 5, timeout=60)

    assert view.count() == 1
    process.join(60)


def test_a_closed_view_says_so(view: NotesView) -> None:
    view.close()
    with pytest.raises(ClosedError):
        view.max_tracking_id("notes")


def test_a_fork_inside_a_query_of_a_view_does_not_wait_for_itself(
    view: NotesView, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rightful.storage.environment.lmdb_environment._FORK_WAIT_S", 0.01)
    view.noted(Tracking("notes", 1))

    assert view.query(lambda _: in_fork(lambda: 7)) == 7
    view.noted(Tracking("notes", 2))
    assert view.count() == 2


def test_one_module_name_serves_an_application_and_its_view(tmp_path: Path) -> None:
    """The library's own modules need a name each: it looks for exactly one factory in a module."""
    env = {
        "PERSISTENCE_MODULE": "rightful.storage.eventsourcing.lmdb_factory",
        "LMDB_PATH": str(tmp_path / "store"),
        "MAPPER_TOPIC": get_topic(MessagePackMapper),
    }
    with ProjectionRunner(
        application_class=DCBApplication, projection_class=Notes, view_class=NotesView, env=env
    ) as runner:
        position = runner.app.events.append([Tagged(tags=["n1"], decision=Noted(text="first"))])
        runner.wait(position, timeout=30)
        position = runner.app.events.append([Tagged(tags=["n1"], decision=Noted(text="second"))])
        runner.wait(position, timeout=30)

        assert runner.view.count() == 2
        assert [event.decision for event in runner.app.events.read()] == [Noted(text="first"), Noted(text="second")]
    runner.view.close()

    with DCBApplication(env) as again:
        assert again.recorder.read().head == 2
    view = InfrastructureFactory[NotesView].construct({**env, "NAME": "x"})
    assert isinstance(view, LMDBFactory)


def test_a_factory_without_a_folder_says_which_variable_is_missing() -> None:
    with pytest.raises(InfrastructureFactoryError, match="LMDB_PATH is not set"):
        LMDBFactory({}).dcb_recorder()


@pytest.mark.parametrize("make", ["aggregate_recorder", "application_recorder", "process_recorder"])
def test_a_factory_refuses_what_it_does_not_store(make: str) -> None:
    with pytest.raises(NotSupportedError, match="stores DCB events and views"):
        getattr(LMDBFactory({}), make)()
