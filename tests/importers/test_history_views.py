"""What the history.* events of a tool leave of a session is what its model sees, whatever it compacts and takes back.

Sessions are made up together with a plain list of what the model would see next. The view is a fold that insists
on the ends of every range standing in it: a range of what is there no more would mean nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.amounts import examples
from tests.importers import claude_lines, codex_lines, copilot_lines
from tests.importers.reading_lines import Row, id_of, of
from tests.log.memory import MemoryRecorder

from rightful.histories.service import Histories
from rightful.importers.shared.record_parts import ITEMS
from rightful.log.log import Log

Item = tuple[str, int]
Made = tuple[list[Any], list[Any]]
"""What a reader yields of a session, and what the model sees at its end."""

NOON = {"timestamp": "2026-08-01T10:00:00Z"}


class View:
    """A history, item by item."""

    def __init__(self) -> None:
        self.items: list[tuple[Item, Any]] = []

    def take(self, event: Row) -> None:
        match event["type"]:
            case "history.compacted":
                gone = self._named(event["covers"])
                at = min(gone, default=len(self.items))
                put = [((id_of(event), n), item) for n, item in enumerate(event.get("items", ()))]
                kept = [one for n, one in enumerate(self.items) if n not in gone and n >= at]
                self.items = [*self.items[:at], *put, *kept]
            case "history.popped":
                gone = self._named(event["items"])
                self.items = [one for n, one in enumerate(self.items) if n not in gone]
            case "history.cleared":
                self.items = []
            case kind if kind not in ITEMS:
                pass
            case _:
                self.items.append(((id_of(event), 0), event.get("content", event.get("output", event.get("call")))))

    def _named(self, ranges: Iterable[dict[str, Any]]) -> set[int]:
        places = {item: n for n, (item, _) in enumerate(self.items)}
        return {
            n
            for one in ranges
            for n in range(0 if one["first"] is None else places[tuple(one["first"])], places[tuple(one["last"])] + 1)
        }


def codex(random: Random) -> Made:
    rows: list[Row] = [codex_lines.meta()]
    seen: list[Any] = []
    turns: list[list[Any]] = []  # what was seen before each turn that a person began
    for n in range(1, random.randint(3, 14)):
        match random.choice(["turn", "turn", "back", "compact", "sum"]):
            case "back" if turns:
                count = random.randint(1, len(turns))
                rows.append(codex_lines.event("thread_rolled_back", n, num_turns=count))
                seen = turns[-count]
                del turns[-count:]
            case "compact" | "sum" as how if seen:
                row, seen = compaction(random, n, how)
                rows.append(row)
            case _:
                forms = [
                    codex_lines.said(f"u{n}", "user", n),
                    codex_lines.event("user_message", n, message=f"u{n}"),
                ]
                random.shuffle(forms)
                calls = [codex_lines.called(f"c{n}", second=n), codex_lines.answered(f"c{n}", "ran", n)]
                turn = codex_lines.v7(n * 1_000, str(n))
                turns.append(list(seen))
                rows.append(codex_lines.began(turn, n))
                answer = [*calls, codex_lines.said(f"a{n}", second=n)]
                where = random.choice(["none", "none", "before", "between"]) if seen else "none"
                if where == "before":
                    row, seen = compaction(random, n)
                    rows.append(row)
                rows += forms
                seen = [*seen, f"u{n}"]
                if where == "between":
                    row, seen = compaction(random, n)
                    rows.append(row)
                rows += [*answer, codex_lines.ended(turn, n)]
                seen = [*seen, f"c{n}", "ran", f"a{n}"]
    return codex_lines.read(*rows, whole=True), seen


def compaction(random: Random, n: int, how: str = "compact") -> tuple[Row, list[Any]]:
    """Return the line of a compaction of Codex, and all that is seen behind it."""
    if how == "sum":
        row = codex_lines.line("compacted", {"message": f"sum {n}"}, n)
        return row, [{"type": "message", "role": "user", "content": f"sum {n}"}]
    kept = [{"type": "message", "role": "user", "content": f"kept {n}"}] * random.randint(0, 2)
    whole: list[Any] = [*kept, *[{"type": "compaction", "encrypted_content": str(n)}] * random.randint(0, 1)]
    return codex_lines.line("compacted", {"message": "", "replacement_history": whole}, n), whole


def copilot(random: Random) -> Made:
    rows: list[Row] = []
    seen: list[Any] = []
    asked: dict[str, list[Any]] = {}  # the record in which a person asked, and what was seen before it
    covered: int | None = None  # how much a compaction that is under way covers
    later: list[str] = []  # what was asked since it began
    for n in range(1, random.randint(3, 16)):
        match random.choice(["turn", "turn", "back", "begin", "end", "clear"]):
            case "back" if asked:
                to = random.choice(list(asked))
                rows.append(copilot_lines.record("session.snapshot_rewind", f"w{n}", upToEventId=copilot_lines.uid(to)))
                seen = asked[to]
                names = list(asked)
                asked = {name: asked[name] for name in names[: names.index(to)]}
                if covered is not None and to not in later:
                    covered = len(seen)
                later = [name for name in later if name in asked]
            case "begin" if covered is None and seen:
                rows.append(copilot_lines.record("session.compaction_start", f"k{n}"))
                covered, later = len(seen), []
            case "end" if seen and covered != 0:
                is_whole = random.random() < 0.8
                put = [{"role": "user", "content": f"s{n}"}] * (random.random() < 0.9)
                more: Row = {"success": is_whole} | ({"summaryContent": f"s{n}"} if put else {})
                rows.append(copilot_lines.record("session.compaction_complete", f"d{n}", **more))
                if is_whole:
                    for name in later:
                        asked[name] = [*put, *asked[name][covered:]]
                    seen = [*put, *seen[len(seen) if covered is None else covered :]]
                covered, later = None, []
            case "clear" if covered is None:
                rows.append(copilot_lines.record("session.context_cleared", f"x{n}"))
                seen, asked = [], {}
            case _:
                rows += [copilot_lines.asked(f"u{n}", f"u{n}"), copilot_lines.answer(f"a{n}", f"a{n}")]
                asked[f"u{n}"] = list(seen)
                later = [*later, f"u{n}"] if covered is not None else []
                seen = [*seen, f"u{n}", f"a{n}"]
    return copilot_lines.read(*rows), seen


def claude(random: Random) -> Made:
    rows: list[Row] = []
    seen: list[Any] = []
    prompts: list[tuple[str, int]] = []  # what each follows, and where it stands
    leaf: str | None = None
    for n in range(1, random.randint(3, 14)):
        match random.choice(["turn", "turn", "back", "compact"]):
            case "compact" if leaf is not None:
                rows.append(claude_lines.boundary(f"b{n}", leaf, **NOON))
                rows.append(claude_lines.user(f"s{n}", f"b{n}", f"s{n}", isCompactSummary=True, **NOON))
                leaf, seen, prompts = f"s{n}", [f"s{n}"], []
                continue
            case "back" if prompts:
                at = random.randrange(len(prompts))
                leaf, place = prompts[at]
                del prompts[at:], seen[place:]
            case _:
                pass
        if leaf is not None:
            prompts.append((leaf, len(seen)))
        rows.append(claude_lines.user(f"u{n}", leaf, f"u{n}", **NOON))
        rows.append(claude_lines.model(f"c{n}", f"u{n}", claude_lines.call(f"c{n}"), stop="tool_use", **NOON))
        rows.append(claude_lines.result(f"r{n}", f"c{n}", f"c{n}", "ran", **NOON))
        rows.append(claude_lines.model(f"a{n}", f"r{n}", f"a{n}", stop="end_turn", **NOON))
        seen += [f"u{n}", f"c{n}", "ran", f"a{n}"]
        leaf = f"a{n}"
    return claude_lines.read(rows), seen


@pytest.mark.parametrize("make", [codex, copilot, claude])
@settings(max_examples=examples(150), deadline=None)
@given(st.randoms(use_true_random=False))
def test_what_is_left_of_a_history_is_what_the_model_sees(make: Callable[[Random], Made], random: Random) -> None:
    said, seen = make(random)
    view = View()
    undone = {event["id"] for event in of(said, "event.withdrawn")}

    for event in of(said):
        if id_of(event) not in undone:
            view.take(event)

    assert [item for _, item in view.items] == seen
    log = Log(MemoryRecorder())
    log.append(list(of(said)))
    shown = Histories(log).history(next(iter(log.read())).session or "").items
    assert [_plain(item) for item in shown] == [_plain(item) for item in seen]


def _plain(item: Any) -> Any:
    """What an item says: an item that a compaction put there is as it was put."""
    if not isinstance(item, dict) or item.get("type") in {"message", "compaction"}:
        return item
    return item.get("content", item.get("output", item.get("call_id")))
