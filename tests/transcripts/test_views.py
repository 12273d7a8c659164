"""What a transcript says that a compaction covers is what the history says, in any order of what happens."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.amounts import examples
from tests.log.facts import fact
from tests.log.memory import MemoryRecorder

import rightful
from rightful import cli
from rightful.histories.history_rows import folded
from rightful.histories.service import Histories
from rightful.log.log import Log
from rightful.log.rows import Stored
from rightful.projections.histories.forks import parent_facts
from rightful.projections.transcripts import Entry, fold
from rightful.projections.transcripts.covered_entries import CoveredEntries
from rightful.projections.transcripts.session_facts import SessionRows

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
        self.calls, self.is_open = 0, False

    def do(self, step: Step) -> None:
        self.count += 1
        match step:
            case ("append", items):
                self.histories.extend(self.session, [self._own(one) for one in items])
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

    def _own(self, item: Any) -> Any:
        """Return an item of its own: a transcript shows what is told twice once. Each call is answered once."""
        if item is CALL:
            self.calls, self.is_open = self.calls + 1, True
        elif item is OUTPUT:
            name, self.is_open = f"c{self.calls}" if self.is_open else f"o{self.count}", False
            return OUTPUT | {"call_id": name}
        return CALL | {"call_id": f"c{self.calls}"} if item is CALL else item

    def _write(self, covers: list[Any], after: int | None) -> None:
        wire = fact("history.compacted", f"k{self.count}", covers=covers, after=after, items=["s", "t"])
        [receipt] = self.log.append([wire | {"session": self.session}])
        assert receipt.outcome == "appended", receipt

    def rows(self, session: str, until: int | None = None) -> Iterable[Stored]:
        return [row for page in self.log.of_session(session, until=until) for row in page]


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(STEPS, max_size=14))
@example([("append", ["a"]), ("append", ["b"]), ("cover", [], 1)])
def test_transcript_and_history_agree_on_the_view_and_on_each_cover(steps: list[Step]) -> None:
    world = World()
    for step in steps:
        world.do(step)
    history, whole = world.histories.history(world.session), world.histories.full(world.session)
    gathered = SessionRows(keeps=False)
    for row in world.rows(world.session):
        gathered.take(row)
    facts = gathered.facts()

    view = CoveredEntries(facts, parent_facts(facts, world.rows)).view
    assert [one for one in view if one not in history.left_out] == history.ids
    assert set(history.left_out) <= set(view)

    transcript = fold(world.session, world.rows(world.session), others=partial(world.rows))
    own = {row.envelope.id for row in world.rows(world.session)}
    outputs = {one.id for one in whole.entries if isinstance(one.item, dict) and one.item.get("output")}
    for entry in [one for one in transcript.entries if one.kind == "history_compacted"]:
        [compaction] = [one for one in whole.compactions if one.position == entry.position]
        covered = {id_ for id_ in compaction.covered if id_[0] in own}
        assert _named(entry.covered, transcript.entries) == {
            one.position for one in transcript.entries if _is_covered(one, covered, outputs)
        }
        assert (entry.elsewhere or 0) == len(compaction.covered) - len(covered)


def _named(ranges: Any, entries: list[Entry]) -> set[int]:
    """Return the positions of the items that ranges of positions name, as items follow each other."""
    items = [one.position for one in entries if one.item or one.items]
    return {position for first, last in ranges for position in items if first <= position <= last}


def _is_covered(entry: Entry, covered: set[Any], outputs: set[Any]) -> bool:
    """Whether an entry tells an item that is covered: by itself, by its result, or by what a compaction put there."""
    if entry.item:
        results = {one for one in covered & outputs if one[0] == entry.result_id}
        return tuple(entry.item) in covered or (entry.kind == "tool_call" and bool(results))
    return entry.kind == "history_compacted" and any(one[0] == entry.id for one in covered)


def test_they_agree_on_every_session_that_is_imported(tmp_path: Path) -> None:
    """Of each tool whose transcripts hold compactions, undos and branches."""
    ledger = tmp_path / "ledger"
    assert cli.main(["init", str(ledger)]) == 0
    samples = Path(__file__).parent.parent / "samples"
    for kind in ("claude-code", "codex", "copilot", "gptme"):
        cli.main(["--ledger", str(ledger), "import", "auto", str(samples / kind.removesuffix("-code"))])
    compacted = 0
    with rightful.open(ledger, readonly=True) as opened:
        for session in sorted({row.session for row in opened.read() if row.session}):
            gathered = SessionRows(keeps=False)
            for page in opened.log.of_session(session):
                for row in page:
                    gathered.take(row)
            items = folded(opened.log, session, opened.log.head()).view.items
            assert CoveredEntries(gathered.facts()).view == [one.id for one in items], session
            compacted += bool(opened.full_history(session).compactions)
    assert compacted == 4
