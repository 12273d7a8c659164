"""The views that are kept: bounded, caught up by what was added, and of no use to the child of a fork."""

from __future__ import annotations

import os
from typing import Any

import pytest
from eventsourcing.dcb.api import DCBQuery, DCBReadResponse
from tests.histories.actors import S, histories, texts, wire
from tests.log.memory import MemoryRecorder

from rightful import limits
from rightful.errors import DamagedRowError
from rightful.histories.cached_views import Views
from rightful.histories.service import Histories
from rightful.projections.histories.history_items import item_of
from rightful.projections.histories.history_view import ITEM_BYTES, Change, View


class Counted(MemoryRecorder):
    """Counts the rows that are read."""

    read_rows = 0

    def read(
        self, query: DCBQuery | None = None, *, after: int | None = None, limit: int | None = None
    ) -> DCBReadResponse:
        found = list(super().read(query, after=after, limit=limit))
        self.read_rows += len(found)
        return super().read(query, after=after, limit=limit)


def reading(recorder: Counted, kept: Histories, **how: Any) -> int:
    """How many rows it takes to answer."""
    before = recorder.read_rows
    kept.history(S, **how)
    return recorder.read_rows - before


def test_only_what_was_added_is_read_and_nothing_if_nothing_was() -> None:
    recorder = Counted()
    kept = histories(recorder)
    for n in range(50):
        kept.extend(S, [n])
    assert reading(recorder, kept) >= 50

    kept.extend(S, [50])

    assert [reading(recorder, kept, limit=2), reading(recorder, kept)] == [1, 0]
    assert texts(kept) == [*range(51)]


def test_an_append_folds_nothing() -> None:
    recorder = Counted()
    kept = histories(recorder)
    for n in range(20):
        kept.extend(S, [n])
    assert recorder.read_rows == 0


@pytest.mark.parametrize("over", [0, 1])
def test_views_are_kept_of_so_many_sessions_and_the_oldest_goes(over: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HISTORY_VIEWS", 4)
    recorder = Counted()
    kept = histories(recorder)
    kept.extend(S, ["a"])
    kept.history(S)
    for n in range(limits.HISTORY_VIEWS - 1 + over):
        kept.history(f"t:{n}")

    assert reading(recorder, kept) == over


@pytest.mark.parametrize("over", [0, 1])
def test_views_are_kept_up_to_so_many_bytes(over: int, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Counted()
    kept = histories(recorder)
    for session in (S, "t:b"):
        kept.extend(session, ["x" * 1_000])
        kept.history(session)
    monkeypatch.setattr(limits, "HISTORY_VIEW_BYTES", 2 * (1_002 + 500) - over)
    kept.history("t:b")

    assert reading(recorder, kept) == over


def test_what_gave_way_takes_no_memory_any_more() -> None:
    view = View()
    view.append(S, [item_of((S, n), n, b'"%d"' % n, escaped=False) for n in range(10)])
    assert view.size_bytes == 10 * (3 + ITEM_BYTES)

    view.replace([(S, 3)], [], Change(11, "popped"))
    assert view.size_bytes == 9 * (3 + ITEM_BYTES)
    view.clear()
    assert view.size_bytes == 0


def test_what_fails_half_way_is_folded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PAGE_ROWS", 1)
    recorder = MemoryRecorder()
    kept = histories(recorder)
    kept.extend(S, ["a"])
    kept.history(S)
    kept.extend(S, ["b"])
    kept.extend(S, ["c"])
    whole = recorder.events[2].payload
    recorder.events[2].payload = b"x" * 40
    with pytest.raises(DamagedRowError):
        kept.history(S)

    recorder.events[2].payload = whole

    assert texts(kept) == ["a", "b", "c"]


def test_the_child_of_a_fork_waits_for_no_lock_that_its_parent_held(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = histories()
    views = Views(kept.log)
    held = views.of(S)
    held.lock.acquire()
    views._lock.acquire()
    pid = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: pid + 1)

    mine = views.of(S)

    assert mine is not held
    assert not mine.lock.locked()


def test_what_another_session_writes_is_skipped() -> None:
    kept = histories()
    kept.extend(S, ["a"])
    kept.log.append([wire("history.cleared", "x", "t:b")])

    assert texts(kept) == ["a"]
    assert kept.history(S).token.position == 2
