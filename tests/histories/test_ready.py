"""What an event loop can read itself, without giving it to a thread."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.histories.actors import wire

import rightful
from rightful import Ledger, limits
from rightful.encoding.envelope import SALT_BYTES
from rightful.errors import RunDiffersError
from rightful.log.rows import Stored
from rightful.projections.histories.history_fold import Fold
from rightful.tokens import Batch

SESSION = "t:a"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with rightful.open(tmp_path / "ledger", create=True) as opened:
        yield opened


def test_what_is_folded_is_read_soon_and_nothing_else(ledger: Ledger) -> None:
    ledger.extend(SESSION, [{"n": 1}, {"n": 2}])
    histories = ledger.histories()

    assert histories.ready(SESSION) is None  # nothing is folded yet
    read = ledger.history(SESSION, 1)
    soon = histories.ready(SESSION, 1)
    assert soon is not None
    assert (soon.items, soon.token, soon.ids) == (read.items, read.token, read.ids)
    ledger.extend(SESSION, [{"n": 3}])
    assert histories.ready(SESSION) is None  # the ledger has gone on


def test_nothing_is_read_soon_while_another_thread_reads(ledger: Ledger) -> None:
    ledger.extend(SESSION, [{"n": 1}])
    ledger.history(SESSION)

    with ledger.histories()._views.of(SESSION).lock:
        assert ledger.histories().ready(SESSION) is None
    assert ledger.histories().ready(SESSION) is not None


def test_much_is_not_read_soon(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.extend(SESSION, [{"n": 1}, {"n": 2}, {"n": 3}])
    ledger.history(SESSION)
    monkeypatch.setattr(limits, "HISTORY_READY_ITEMS", 2)
    assert (ledger.histories().ready(SESSION), ledger.histories().ready(SESSION, 3)) == (None, None)
    assert ledger.histories().ready(SESSION, 2) is not None

    monkeypatch.setattr(limits, "HISTORY_READY_BYTES", 2 * len(b'{"n":1}'))
    assert ledger.histories().ready(SESSION, 2) is not None
    monkeypatch.setattr(limits, "HISTORY_READY_BYTES", 2 * len(b'{"n":1}') - 1)
    assert ledger.histories().ready(SESSION, 2) is None


def test_what_is_not_shown_does_not_hide_how_much_is_read(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.extend(SESSION, ["much to read"])
    wrote = ledger.extend(SESSION, [1, 2]).wrote[0]
    ledger.append([wire("event.withdrawn", "w", SESSION, id=wrote.id, revision=1)])
    assert ledger.history(SESSION, 1).items == ["much to read"]

    monkeypatch.setattr(limits, "HISTORY_READY_BYTES", len(b'"much to read"') - 1)
    assert ledger.histories().ready(SESSION, 1) is None
    monkeypatch.setattr(limits, "HISTORY_READY_BYTES", len(b'"much to read"'))
    assert ledger.histories().ready(SESSION, 1) is not None
    monkeypatch.setattr(limits, "HISTORY_READY_ITEMS", 2)  # it is read behind two others
    assert ledger.histories().ready(SESSION, 1) is None


def test_a_repeated_run_that_has_to_be_folded_apart_is_not_read_soon(ledger: Ledger) -> None:
    ledger.extend(SESSION, [{"n": 1}], Batch(run="r", ordinal=0))
    ledger.history(SESSION)

    assert ledger.histories().ready(SESSION, without=("r", 0)) is None
    soon = ledger.histories().ready(SESSION, without=("other", 0))
    assert soon is not None
    assert soon.token.without is None


def test_what_was_appended_from_here_is_folded_soon_and_not_read_for_it(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.extend(SESSION, [{"n": 1}])
    ledger.history(SESSION)
    ledger.extend(SESSION, [{"n": 2}])
    ledger.extend("t:b", ["another session"])
    wrote = ledger.extend(SESSION, ["\ud800"]).wrote[0]  # kept in an escape

    monkeypatch.setattr(ledger.log, "of_session", None)
    soon = ledger.histories().ready(SESSION, fold_recent=True)

    assert soon is not None
    assert soon.items == [{"n": 1}, {"n": 2}, "\ud800"]
    assert (soon.ids[-1], soon.token.position) == ((wrote.id, 0), ledger.log.head())


def test_what_somebody_else_appended_is_not_folded_soon(ledger: Ledger) -> None:
    ledger.extend(SESSION, [1])
    ledger.history(SESSION)
    ledger.extend(SESSION, [2])
    with rightful.open(ledger.path) as other:
        other.extend(SESSION, [3])
    ledger.extend(SESSION, [4])

    assert ledger.histories().ready(SESSION, fold_recent=True) is None
    assert ledger.history(SESSION).items == [1, 2, 3, 4]
    ledger.extend(SESSION, [5])
    soon = ledger.histories().ready(SESSION, fold_recent=True)
    assert soon is not None
    assert soon.items == [1, 2, 3, 4, 5]


def test_large_removed_or_compacted_part_is_not_folded_soon(ledger: Ledger) -> None:
    ledger.extend(SESSION, [1, 2])
    token = ledger.history(SESSION).token
    for change in (lambda: ledger.compact(token, ["sum"]), lambda: ledger.pop(SESSION), lambda: ledger.clear(SESSION)):
        change()
        ledger.extend(SESSION, [3])
        assert ledger.histories().ready(SESSION, fold_recent=True) is None
        ledger.history(SESSION)
    assert ledger.history(SESSION).items == [3]


def test_a_history_that_has_to_be_folded_again_is_not_read_soon(ledger: Ledger) -> None:
    """Its transcript told something before, which is no item once items are appended."""
    ledger.append([wire("message.recorded", "m", SESSION, role="user", content="told")])
    assert ledger.history(SESSION).items == [{"role": "user", "content": "told"}]
    ledger.extend(SESSION, [1])

    assert ledger.histories().ready(SESSION, fold_recent=True) is None
    assert ledger.history(SESSION).items == [1]


def test_what_was_not_appended_is_not_folded(ledger: Ledger) -> None:
    """A batch that stood already, and one that differs, are no second row."""
    said = Batch(run="r", ordinal=0)
    ledger.history(SESSION)
    ledger.extend(SESSION, [1], said)
    ledger.extend(SESSION, [1], said)
    with pytest.raises(RunDiffersError):
        ledger.extend(SESSION, [2], said)

    soon = ledger.histories().ready(SESSION, fold_recent=True)
    assert soon is not None
    assert (soon.items, soon.token.position) == ([1], 1)


@pytest.mark.parametrize("over", [0, 1])
def test_so_much_of_what_was_appended_is_remembered(over: int, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.history(SESSION)
    ledger.extend(SESSION, ["a"])
    ledger.extend(SESSION, ["b"])
    size = sum(SALT_BYTES + row.envelope.body_bytes for page in ledger.log.scan() for row in page)
    monkeypatch.setattr(limits, "HISTORY_WRITTEN_BYTES", size - over)
    ledger.histories()._views.wrote([])

    soon = ledger.histories().ready(SESSION, fold_recent=True)
    assert (None if soon is None else soon.items) == (None if over else ["a", "b"])
    assert ledger.history(SESSION).items == ["a", "b"]


def test_what_was_folded_in_half_is_folded_again(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.history(SESSION)
    ledger.extend(SESSION, [1])
    ledger.extend(SESSION, [2])
    step, steps = Fold.step, iter([1])

    def fails(fold: Fold, row: Stored) -> None:
        next(steps)
        step(fold, row)

    with monkeypatch.context() as broken:
        broken.setattr(Fold, "step", fails)
        with pytest.raises(StopIteration):
            ledger.histories().ready(SESSION, fold_recent=True)
    assert ledger.history(SESSION).items == [1, 2]
