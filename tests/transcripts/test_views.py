"""What a transcript says that a compaction covers is what the history says, in any order of what happens."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.ledger.facts import fact
from tests.ledger.memory import MemoryRecorder

from rightful.histories.histories import Histories
from rightful.ledger.log import Log
from rightful.ledger.recorded import Stored
from rightful.projections.transcripts import fold
from rightful.projections.transcripts.covering import Covering
from rightful.projections.transcripts.facts import Gathered
from rightful.projections.transcripts.forks import begun_with

Step = tuple[Any, ...]

CALL = {"type": "function_call", "call_id": "c", "name": "ls", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c", "output": "x"}
BATCHES: list[list[Any]] = [["a"], [{"role": "user", "content": "b"}, "c", "d"], [CALL, OUTPUT], [CALL], [OUTPUT]]

STEPS = st.one_of(
    st.tuples(st.just("append"), st.sampled_from(BATCHES)),
    st.tuples(st.just("pop")),
    st.tuples(st.just("clear")),
    st.tuples(st.just("keep")),
    st.tuples(st.just("compact")),
    st.tuples(st.just("cover"), st.lists(st.integers(0, 30), max_size=3), st.sampled_from([None, 0, 3])),
    st.tuples(st.just("range"), st.one_of(st.none(), st.integers(0, 30)), st.one_of(st.none(), st.integers(0, 30))),
    st.tuples(st.just("fork"), st.integers(0, 4)),
)


class World:
    """Histories of one log: what is done goes to the session that was forked last."""

    def __init__(self) -> None:
        self.log = Log(MemoryRecorder(), path="here", clock=lambda: 1_785_500_000_000_000, entropy=bytes)
        self.histories = Histories(self.log)
        self.session, self.forks, self.count = "t:a", 0, 0
        self.token = self.histories.history("t:a").token
        self.ids: list[Any] = []

    def do(self, step: Step) -> None:
        self.count += 1
        match step:
            case ("append", items):
                self.histories.extend(self.session, items)
            case ("pop",):
                self.histories.pop(self.session)
            case ("clear",):
                self.histories.clear(self.session)
            case ("keep",):
                self.token = self.histories.history(self.session).token
            case ("compact",):
                self.histories.compact(self.histories.history(self.session).token, ["sum"])
            case ("cover", places, after):
                self._write([self.ids[place % len(self.ids)] for place in places if self.ids], after)
            case ("range", first, last):
                ends = [None if end is None or not self.ids else self.ids[end % len(self.ids)] for end in (first, last)]
                self._write([{"first": ends[0], "last": ends[1]}], None)
            case ("fork", back):
                self.forks += 1
                into, head = f"t:a{self.forks}", self.log.head()
                self.histories.fork(self.session, into, at=max(head - back, 0))
                self.session = into
            case _:
                raise AssertionError(step)
        self.ids = [one.id for one in self.histories.full(self.session).entries]

    def _write(self, covers: list[Any], after: int | None) -> None:
        wire = fact("history.compacted", f"k{self.count}", covers=covers, after=after, items=["s", "t"])
        [receipt] = self.log.append([wire | {"session": self.session}])
        assert receipt.outcome == "appended", receipt

    def rows(self, session: str, until: int | None = None) -> Iterable[Stored]:
        return [row for page in self.log.of_session(session, until=until) for row in page]


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, max_size=14))
@example([("append", ["a"]), ("append", ["b"]), ("cover", [], 1)])
def test_a_transcript_and_a_history_agree_on_the_view_and_on_what_each_compaction_covers(steps: list[Step]) -> None:
    world = World()
    for step in steps:
        world.do(step)
    history, whole = world.histories.history(world.session), world.histories.full(world.session)
    gathered = Gathered(keeps=False)
    for row in world.rows(world.session):
        gathered.take(row)
    facts = gathered.facts()

    view = Covering(facts, begun_with(facts, world.rows)).view
    assert [one for one in view if one not in history.left_out] == history.ids
    assert set(history.left_out) <= set(view)

    transcript = fold(world.session, world.rows(world.session), others=partial(world.rows))
    own = {row.envelope.id for row in world.rows(world.session)}
    positions = {one.id: one.position for one in whole.entries}
    for entry in [one for one in transcript.entries if one.kind == "history_compacted"]:
        [compaction] = [one for one in whole.compactions if one.position == entry.position]
        mine = {positions[id_] for id_ in compaction.covered if id_[0] in own}
        assert _named(entry.covered, {one.position for one in transcript.entries}) == mine
        assert (entry.elsewhere or 0) == sum(id_[0] not in own for id_ in compaction.covered)


def _named(ranges: Any, positions: set[int]) -> set[int]:
    return {position for first, last in ranges for position in positions if first <= position <= last}
