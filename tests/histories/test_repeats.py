"""What can be done again: each call of a history is one append, and the same call again is the same event."""

from __future__ import annotations

from typing import Any

import pytest
from tests.histories.actors import S, histories, texts, user
from tests.log.memory import MemoryRecorder

from rightful import limits
from rightful.errors import InvalidEventError, OutcomeUnknownError, RunDiffersError, UsageError
from rightful.histories.service import Histories
from rightful.storage.port import Decision
from rightful.tokens import Batch, Token


def test_batch_of_a_run_is_stored_once_whichever_process_resends_it() -> None:
    recorder = MemoryRecorder()
    batch = Batch(run="k", ordinal=0, response_id="r1")
    first = histories(recorder).extend(S, [user("a"), 1, None], batch)

    again = histories(recorder).extend(S, [user("a"), 1, None], Batch(run="k", ordinal=0, response_id="other"))

    assert (again, len(recorder.events)) == (first, 1)


@pytest.mark.parametrize("items", [[user("b")], [user("a"), user("b")], [1.0], [True]])
def test_another_content_under_a_runs_key_stops_the_run_and_writes_nothing(items: list[Any]) -> None:
    kept = histories()
    kept.extend(S, [user("zero")])
    kept.extend(S, [user("a")] if isinstance(items[0], dict) else [1], Batch(run="k", ordinal=3))

    with pytest.raises(RunDiffersError) as caught:
        kept.extend(S, items, Batch(run="k", ordinal=3))

    assert (caught.value.run, caught.value.ordinal, caught.value.position) == ("k", 3, 2)
    assert kept.log.head() == 2


def test_a_run_without_an_ordinal_is_refused() -> None:
    kept = histories()
    for batch in (Batch(run="k"), Batch(ordinal=0)):
        with pytest.raises(UsageError, match="`run` and `ordinal` must be given together"):
            kept.extend(S, [user("a")], batch)
    assert kept.log.head() == 0


def test_repeated_run_sees_no_first_batches_and_keeps_its_pops() -> None:
    kept = histories()
    kept.extend(S, [user("a"), user("b")])
    kept.extend(S, [user("k0")], Batch(run="k", ordinal=0))
    kept.extend(S, [user("k1")], Batch(run="k", ordinal=1))
    assert texts(kept, without=("k", 1)) == ["a", "b", "k0"]
    assert texts(kept, without=("other", 0)) == ["a", "b", "k0", "k1"]
    kept.compact(kept.history(S).token, [user("sum")], run="k")
    kept.extend(S, [user("c")])
    kept.pop(S)

    found = kept.history(S, without=("k", 0))

    assert [item["content"] for item in found.items] == ["a", "b"]
    kept.compact(found.token, [user("again")])
    assert texts(kept, without=("k", 0)) == ["again"]


def test_a_pop_with_a_key_returns_the_same_item_again_and_takes_no_other() -> None:
    kept = histories()
    kept.extend(S, [user("a"), user("b\ud800")])

    first = kept.pop(S, key="1")
    kept.extend(S, [user("c")])

    assert first == kept.pop(S, key="1") == user("b\ud800")
    assert texts(kept) == ["a", "c"]
    assert kept.pop(S) == user("c")


def test_a_pop_of_nothing_takes_nothing_when_it_is_repeated_either() -> None:
    kept = histories()
    assert kept.pop(S) is None
    assert kept.log.head() == 0
    assert kept.pop(S, key="1") is None
    kept.extend(S, [user("a")])

    assert kept.pop(S, key="1") is None
    assert texts(kept) == ["a"]


def test_a_clear_with_a_key_clears_once() -> None:
    kept = histories()
    kept.extend(S, [user("a")])
    kept.clear(S, key="1")
    kept.extend(S, [user("b")])

    assert kept.clear(S, key="1").outcome == "duplicate"
    assert texts(kept) == ["b"]


def test_repeated_compaction_gets_the_first_receipt_despite_a_stale_token() -> None:
    kept = histories()
    kept.extend(S, [user("a")])
    token = kept.history(S).token
    first = kept.compact(token, [user("sum")], response_id="r")
    kept.clear(S)

    again = kept.compact(token, [user("sum")], response_id="r")

    assert (again.id, again.position, again.outcome) == (first.id, first.position, "duplicate")
    assert kept.log.head() == 3


def test_the_same_pop_from_two_places_at_once_takes_one_item(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one is done after we began, and before we looked at what is last."""
    recorder = MemoryRecorder()
    kept, other = histories(recorder), histories(recorder)
    kept.extend(S, [user("a"), user("b")])
    catch_up = kept._views.catch_up

    def late(*arguments: Any) -> Any:
        other.pop(S, key="1")
        return catch_up(*arguments)

    monkeypatch.setattr(kept._views, "catch_up", late)

    assert kept.pop(S, key="1") == user("b")
    assert len(recorder.events) == 2


def test_the_same_compaction_from_two_places_at_once_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = MemoryRecorder()
    kept, other = histories(recorder), histories(recorder)
    kept.extend(S, [user("a"), user("b")])
    token = kept.history(S).token
    covers = kept._covers

    def late(*arguments: Any) -> Any:
        other.compact(token, [user("sum")])
        return covers(*arguments)

    monkeypatch.setattr(kept, "_covers", late)

    assert kept.compact(token, [user("sum")]).position == 2
    assert len(recorder.events) == 2


class Unsure(MemoryRecorder):
    """Writes, and does not know whether it did."""

    unsure = 0

    def decide(self, decision: Decision, *, timeout_s: float | None = None, inline: bool = False) -> int:
        head = super().decide(decision, timeout_s=timeout_s, inline=inline)
        if self.unsure:
            self.unsure -= 1
            raise OutcomeUnknownError("/l", (), "the disk is gone")
        return head


@pytest.mark.parametrize("times", [limits.HISTORY_SENDS - 1, limits.HISTORY_SENDS])
def test_what_is_not_known_to_be_written_is_sent_again_and_not_for_ever(times: int) -> None:
    recorder = Unsure()
    kept = histories(recorder)
    recorder.unsure = times

    if times == limits.HISTORY_SENDS:
        with pytest.raises(OutcomeUnknownError):
            kept.extend(S, [user("a")])
    else:
        kept.extend(S, [user("a")])

    assert len(recorder.events) == 1
    recorder.unsure = 1
    assert kept.pop(S) == user("a")
    assert len(recorder.events) == 2


class Busy(MemoryRecorder):
    """Somebody else appends right before each decision."""

    others = 0
    kept: Histories | None = None

    def decide(self, decision: Decision, *, timeout_s: float | None = None, inline: bool = False) -> int:
        if self.others and self.kept is not None:
            self.others -= 1
            kept, self.kept = self.kept, None
            kept.extend(S, [user("other")])
            self.kept = kept
        return super().decide(decision, timeout_s=timeout_s, inline=inline)


@pytest.mark.parametrize("times", [limits.HISTORY_ATTEMPTS - 1, limits.HISTORY_ATTEMPTS])
def test_a_pop_takes_what_is_last_when_it_is_written(times: int) -> None:
    recorder = Busy()
    kept = recorder.kept = histories(recorder)
    kept.extend(S, [user("a")])
    recorder.others = times

    if times == limits.HISTORY_ATTEMPTS:
        with pytest.raises(UsageError, match="Other writers kept changing the history"):
            kept.pop(S)
    else:
        assert kept.pop(S) == user("other")
        assert len(kept.history(S).items) == times


def test_a_batch_larger_than_an_event_is_several_of_one_append(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "EVENT_BYTES", 20_000)
    recorder = MemoryRecorder()
    kept = histories(recorder)
    items = ["x" * 9_000, "y" * 9_000, {"z": 1}]

    token = kept.extend(S, items, Batch(run="k", ordinal=0, usage={"n": 1}))

    assert (len(recorder.events), recorder.commits) == (2, 1)
    assert kept.history(S).items == items
    assert sum(one.count for one in token.wrote) == 3
    assert kept.extend(S, items, Batch(run="k", ordinal=0)) == token
    for other in (items[:1], [*items, 1]):
        with pytest.raises(RunDiffersError):
            kept.extend(S, other, Batch(run="k", ordinal=0))
    assert len(recorder.events) == 2


def test_token_can_be_stored_although_annotations_fill_an_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "EVENT_BYTES", 20_000)
    kept = histories()

    token = kept.extend(kept.history(S).token, ["x" * 9_000], Batch(usage={"n": "y" * 12_000}))

    assert Token.of(token.text()) == token
    kept.compact(token, ["sum"])
    assert texts(kept) == ["sum"]


@pytest.mark.parametrize("over", [0, 1])
def test_an_item_larger_than_an_event_is_refused_with_its_neighbours(
    over: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "EVENT_BYTES", 20_000)
    kept = histories()
    largest = 20_000 - 4_096 - 3  # room for the names of a body, two quotes and a comma
    items = [1, "x" * (largest + over), "y" * 9_000]

    if over:
        with pytest.raises(InvalidEventError, match=r"Expected an item of at most .* at `\$.items\[1\]`"):
            kept.extend(S, items)
    else:
        kept.extend(S, items)
    assert len(kept.history(S).items) == (0 if over else 3)


def test_what_is_no_content_is_refused_with_its_place() -> None:
    kept = histories()
    with pytest.raises(InvalidEventError, match=r"\$.items\[1\]"):
        kept.extend(S, [1, object()])
    assert kept.log.head() == 0
