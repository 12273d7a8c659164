from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rightful
from rightful.errors import UpgradeError
from rightful.log.rows import RawEvent
from rightful.projections.bindings import TYPES, Bindings, bindings

SHA, OTHER = "0" * 64, "1" * 64
A, B = "workspace:a", "workspace:b"


def bound(session: str, uri: str, key: str, sha256: str = SHA) -> dict[str, Any]:
    return {
        "type": "transcript.bound", "producer": "locate", "key": key, "session": session, "at": "2026-08-01T10:15:00Z",
        "uri": uri, "bytes": 7, "sha256": sha256, "evidence": "sentinel", "started_at": "2026-08-01T10:15:01Z",
    }  # fmt: skip


def unbound(session: str, uri: str, key: str) -> dict[str, Any]:
    return {
        "type": "transcript.unbound", "producer": "locate", "key": key, "session": session,
        "at": "2026-08-01T10:15:00Z", "uri": uri,
    }  # fmt: skip


def folded(folder: Path, *events: dict[str, Any]) -> Bindings:
    with rightful.open(folder / "ledger", create=True) as ledger:
        ledger.append(events)
        return bindings(ledger.read(types=TYPES))


def test_of_one_place_the_newest_binding_counts_and_unbinding_ends_it(tmp_path: Path) -> None:
    state = folded(
        tmp_path,
        bound(A, "file:///x", "1"),
        bound(A, "file:///y", "2"),
        bound(A, "file:///x", "3", OTHER),
        unbound(A, "file:///y", "4"),
        unbound(B, "file:///x", "5"),
    )
    [one] = state.all()
    assert (one.session, one.uri, one.bytes, one.sha256, one.evidence, one.position) == (
        A, "file:///x", 7, OTHER, "sentinel", 3,
    )  # fmt: skip
    assert one.started_at_us == 1785579301000000
    assert (state.of(A), state.of(B)) == ((one,), ())


def test_a_place_of_two_sessions_and_a_session_of_two_places_are_named(tmp_path: Path) -> None:
    state = folded(
        tmp_path, bound(A, "file:///x", "1"), bound(B, "file:///x", "2"), bound(B, "file:///y", "3"),
        bound(A, "file:///x", "4", OTHER),
    )  # fmt: skip
    assert state.disputed() == {"file:///x": (B, A)}
    assert state.split() == {B: ("file:///x", "file:///y")}


def test_bound_again_after_it_was_unbound_it_is_bound(tmp_path: Path) -> None:
    state = folded(tmp_path, bound(A, "file:///x", "1"), unbound(A, "file:///x", "2"), bound(A, "file:///x", "3"))
    assert [one.position for one in state.all()] == [3]


def test_what_is_in_conflict_does_not_count(tmp_path: Path) -> None:
    state = folded(tmp_path, bound(A, "file:///x", "1"), bound(A, "file:///z", "1"))
    assert [one.uri for one in state.all()] == ["file:///x"]


def test_a_newer_row_stops_it_and_an_erased_one_says_nothing(tmp_path: Path) -> None:
    with rightful.open(tmp_path / "ledger", create=True) as ledger:
        ledger.append([bound(A, "file:///x", "1")])
        [row] = ledger.read(types=TYPES)
    import msgspec

    assert bindings([msgspec.structs.replace(row, event=None)]).all() == ()
    with pytest.raises(UpgradeError):
        bindings([msgspec.structs.replace(row, event=RawEvent("transcript.bound", 9, b"{}"))])
