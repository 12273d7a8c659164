"""Histories that several actors append to, pop, clear, compact, fork and mend, against a model of plain lists."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.amounts import examples
from tests.histories.model import Model, Shown
from tests.log.memory import MemoryRecorder

from rightful.errors import StaleTokenError
from rightful.histories.history_rows import folded
from rightful.histories.service import Histories
from rightful.log.log import Log
from rightful.times import text_of
from rightful.tokens import Batch, Token

NAMES = ("t:a", "t:b", "t:c")
ACTORS = st.integers(0, 2)
SESSIONS = st.sampled_from([0, 0, 0, 0, 1, 2])
KINDS = st.lists(st.sampled_from(["plain", "think", "call", "call", "output", "output"]), min_size=1, max_size=4)
NOTHING = st.none()
READ = st.tuples(st.just("read"), ACTORS, SESSIONS, st.none() | st.integers(0, 5))
EXTEND = st.tuples(st.just("extend"), ACTORS, KINDS, st.booleans())
APPEND = st.tuples(st.just("append"), ACTORS, SESSIONS, KINDS)
COMPACT = st.tuples(st.just("compact"), ACTORS, st.booleans(), st.integers(0, 2))
POP = st.tuples(st.just("pop"), ACTORS, SESSIONS, NOTHING)
CLEAR = st.tuples(st.just("clear"), ACTORS, SESSIONS, NOTHING)
FORK = st.tuples(st.just("fork"), SESSIONS, st.integers(0, 2), st.none() | st.integers(0, 30))
WITHDRAW = st.tuples(st.just("withdraw"), st.integers(0, 50), NOTHING, NOTHING)
ELSEWHERE = st.tuples(st.just("elsewhere"), ACTORS, NOTHING, NOTHING)
ONE = st.one_of(
    READ, READ, EXTEND, EXTEND, APPEND, APPEND, COMPACT, COMPACT, COMPACT, POP, CLEAR, FORK, WITHDRAW, ELSEWHERE
)
OPS = st.lists(ONE, min_size=12, max_size=40)


class Actor:
    """One process: its own views, and the token that it holds."""

    def __init__(self, log: Log) -> None:
        self.histories = Histories(log, ledger_id="here")
        self.token = self.histories.history(NAMES[0]).token
        self.seen: set[tuple[str, int]] = set()


class World:
    """Does each thing to the ledger and to the model, and compares what comes of it."""

    def __init__(self) -> None:
        self.log = Log(MemoryRecorder(), entropy=bytes)
        self.model = Model()
        self.actors = [Actor(self.log) for _ in range(3)]
        self.count = 0
        self.emptied: list[Token] = []
        self.told: dict[int, list[tuple[str, list[Shown]]]] = {}

    def items(self, kinds: list[str]) -> list[Any]:
        made: list[Any] = []
        for kind in kinds:
            self.count += 1
            call = f"c{self.count % 3}"
            made.append(
                {
                    "plain": {"role": "user", "content": str(self.count)},
                    "think": {"type": "reasoning", "id": str(self.count)},
                    "call": {"type": "function_call", "call_id": call, "n": self.count},
                    "output": {"type": "function_call_output", "call_id": call, "n": self.count},
                }[kind]
            )
        return made

    def read(self, who: int, session: int, limit: int | None) -> None:
        actor, name = self.actors[who], NAMES[session]
        expected = self.model.view(name)
        window = expected if limit is None else expected[max(len(expected) - limit, 0) :]

        found = actor.histories.history(name, limit)

        assert list(zip(found.ids, found.items, strict=True)) == [(one.id, one.item) for one in window]
        actor.token, actor.seen = found.token, {one.id for one in window}

    def extend(self, who: int, kinds: list[str], is_run: bool) -> None:
        actor = self.actors[who]
        items = self.items(kinds)
        batch = Batch(run=f"run-{who}", ordinal=self.count) if is_run else Batch()
        before = self.log.head()

        actor.token = actor.histories.extend(actor.token, items, batch)
        if is_run:  # the same again, by a process that knows nothing
            Histories(self.log, ledger_id="here").extend(actor.token, items, batch)

        assert self.log.head() == before + 1
        id_ = actor.token.wrote[-1].id
        run = (f"run-{who}", self.count) if is_run else None
        self.model.add(session=actor.token.session, what="appended", id=id_, items=items, run=run)
        actor.seen |= {(id_, n) for n in range(len(items))}

    def append(self, who: int, session: int, kinds: list[str]) -> None:
        items = self.items(kinds)
        token = self.actors[who].histories.extend(NAMES[session], items)
        self.model.add(session=NAMES[session], what="appended", id=token.wrote[0].id, items=items)

    def compact(self, who: int, is_new: bool, count: int) -> None:
        actor = self.actors[who]
        self.count += 1
        put = [{"role": "user", "content": f"sum {self.count}-{n}"} for n in range(count)]
        histories = Histories(self.log, ledger_id="here") if is_new else actor.histories
        name, position = actor.token.session, actor.token.position
        if not put and actor.token in self.emptied:  # the same call again
            return
        self.emptied.append(actor.token)
        if self.model.is_stale(name, position):
            head = self.log.head()
            with pytest.raises(StaleTokenError):
                histories.compact(actor.token, put)
            assert self.log.head() == head
            return
        covers = self.model.covered(name, actor.seen)
        receipt = histories.compact(actor.token, put)
        assert receipt.id is not None
        self.model.add(session=name, what="compacted", id=receipt.id, items=put, covers=covers, after=position)
        assert histories.compact(actor.token, put).position == receipt.position

    def pop(self, who: int, session: int, _: None) -> None:
        view = self.model.view(NAMES[session])
        found = self.actors[who].histories.pop(NAMES[session])
        assert found == (view[-1].item if view else None)
        if view:
            id_ = self._last_id()
            self.model.add(session=NAMES[session], what="popped", id=id_, covers=[view[-1].id])

    def clear(self, who: int, session: int, _: None) -> None:
        self.actors[who].histories.clear(NAMES[session])
        self.model.add(session=NAMES[session], what="cleared", id=self._last_id())

    def fork(self, of: int, into: int, at: int | None) -> None:
        if any(row.session == NAMES[into] for row in self.model.rows) or of == into:
            return
        through = self.log.head() if at is None else min(at, self.log.head())
        token = self.actors[0].histories.fork(NAMES[of], NAMES[into], at=through)
        self.model.add(session=NAMES[into], what="forked", id=self._last_id(), of=(NAMES[of], through))
        self.actors[0].token, self.actors[0].seen = token, {one.id for one in self.model.view(NAMES[into])}

    def withdraw(self, which: int, *_: None) -> None:
        rows = [row for row in self.model.rows if row.what not in {"withdrawn", "forked"}]
        if not rows:
            return
        row = rows[which % len(rows)]
        wire = {"type": "event.withdrawn", "producer": "p", "key": f"{self.log.head()}", "at": text_of(10**15)}
        self.log.append([wire | {"session": row.session, "id": row.id, "revision": 1}])
        self.model.add(session=row.session, what="withdrawn", id=row.id)

    def elsewhere(self, who: int, *_: None) -> None:
        """The token is written down and used by another process."""
        actor = self.actors[who]
        actor.token = Token.of(actor.token.text())
        actor.histories = Histories(self.log, ledger_id="here")

    def _last_id(self) -> str:
        return next(iter(self.log.read(after=self.log.head() - 1))).id

    def check(self) -> None:
        views = [(name, self.model.view(name)) for name in NAMES]
        self.told[self.log.head()] = views
        for actor in [self.actors[self.log.head() % 3]]:  # the others catch up with more at once
            for name, view in views:
                soon, found = actor.histories.ready(name, fold_recent=True), actor.histories.history(name)
                assert list(zip(found.ids, found.items, strict=True)) == [(one.id, one.item) for one in view]
                assert soon is None or (soon.ids, soon.items, soon.token) == (found.ids, found.items, found.token)

    def check_all(self) -> None:
        """What was shown at each position is shown for it again, and nothing that counts is missing from the whole."""
        for position, views in self.told.items():
            for name, view in views:
                shown, _ = folded(self.log, name, position).view.shown()
                assert [one.id for one in shown] == [one.id for one in view]
        for name in NAMES:
            whole = self.actors[0].histories.full(name)
            entries = {one.id: one for one in whole.entries}
            for row in self.model.counting(name, self.model.head):
                assert [entries[row.id, n].item for n in range(len(row.items))] == [*row.items]
            assert {one.id for one in whole.entries if one.fate == "shown"} == {one.id for one in self.model.view(name)}
            for run in range(3):
                without = (f"run-{run}", self.count // 2)
                found = self.actors[0].histories.history(name, without=without).ids
                assert found == [one.id for one in self.model.view(name, without=without)]


@settings(max_examples=examples(1_000), deadline=None)
@given(OPS)
def test_history_shows_the_list_models_items_after_any_actions(ops: list[tuple[Any, ...]]) -> None:
    world = World()
    for name, *arguments in ops:
        getattr(world, name)(*arguments)
        world.check()
    world.check_all()


@settings(max_examples=examples(200), deadline=None)
@given(OPS)
def test_nothing_that_was_cleared_is_ever_visible_again(ops: list[tuple[Any, ...]]) -> None:
    """Asked of the code alone: whatever the model says."""
    world = World()
    cleared: dict[str, set[Any]] = {name: set() for name in NAMES}
    for name, *arguments in ops:
        if name == "withdraw":  # it may withdraw the clearing itself
            continue
        if name == "clear":
            cleared[NAMES[arguments[1]]] |= set(world.actors[0].histories.history(NAMES[arguments[1]]).ids)
        getattr(world, name)(*arguments)
        for session, gone in cleared.items():
            assert gone.isdisjoint(world.actors[1].histories.history(session).ids)
