"""What histories are, written from the design and not from the code: plain lists, folded anew at each question."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

Id = tuple[str, int]
CALL, OUTPUT = "function_call", "function_call_output"


class Row(NamedTuple):
    """One event as the model knows it."""

    position: int
    session: str
    what: str
    id: str
    items: Sequence[Any] = ()
    covers: Sequence[Id] = ()
    after: int = 0
    run: tuple[str, int] | None = None
    of: tuple[str, int] | None = None


class Shown(NamedTuple):
    id: Id
    position: int
    item: Any


def kind(item: Any) -> str:
    return str(item.get("type", ""))


class Model:
    """All histories of a ledger."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    @property
    def head(self) -> int:
        return self.rows[-1].position if self.rows else 0

    def add(self, **said: Any) -> Row:
        row = Row(position=self.head + 1, **said)
        self.rows.append(row)
        return row

    def counting(self, session: str, until: int, without: tuple[str, int] | None = None) -> list[Row]:
        """The rows of a session that count."""
        mine = [row for row in self.rows if row.session == session and row.position <= until]
        withdrawn = {row.id for row in mine if row.what == "withdrawn"}
        return [
            row
            for row in mine
            if row.what != "withdrawn"
            and row.id not in withdrawn
            and not (without and row.run and row.run[0] == without[0] and row.run[1] >= without[1])
        ]

    def stands(self, session: str, until: int, without: tuple[str, int] | None = None) -> tuple[list[Shown], set[str]]:
        """What stands in a view, outputs without their call included, and the calls that were ever there."""
        view: list[Shown] = []
        calls: set[str] = set()
        for row in self.counting(session, until, without):
            new = [Shown((row.id, n), row.position, item) for n, item in enumerate(row.items)]
            calls |= {one.item["call_id"] for one in new if kind(one.item) == CALL}
            if row.what == "forked":
                assert row.of is not None
                view, calls = self.stands(*row.of)
            elif row.what == "appended":
                view = view + new
            elif row.what == "cleared":
                view = []
            elif row.covers:
                places = [n for n, one in enumerate(view) if one.id in row.covers]
                if places:
                    first = min(places)
                    behind = [one for one in view[first:] if one.id not in row.covers]
                    view = [*view[:first], *new, *behind]
            elif row.what == "compacted":
                before = [n for n, one in enumerate(view) if one.position <= row.after]
                place = max(before) + 1 if before else 0
                view = [*view[:place], *new, *view[place:]]
        return view, calls

    def view(self, session: str, until: int | None = None, without: tuple[str, int] | None = None) -> list[Shown]:
        """What the model would see."""
        view, calls = self.stands(session, self.head if until is None else until, without)
        there = {one.item["call_id"] for one in view if kind(one.item) == CALL}
        gone = calls - there
        return [one for one in view if not (kind(one.item) == OUTPUT and one.item["call_id"] in gone)]

    def is_stale(self, session: str, position: int) -> bool:
        changes = {"compacted", "popped", "cleared", "forked", "withdrawn"}
        return any(row.session == session and row.what in changes and row.position > position for row in self.rows)

    def covered(self, session: str, seen: set[Id]) -> list[Id]:
        """What a compaction covers of what was seen: whole groups, and no thought before a call that stays."""
        view = self.view(session)
        chosen = {one.id for one in view if one.id in seen}
        for one in view:
            if kind(one.item) in {CALL, OUTPUT}:
                group = [other for other in view if other.item.get("call_id") == one.item["call_id"]]
                kinds = [kind(other.item) for other in group]
                if any(other.id not in seen for other in group) or kinds.count(CALL) > kinds.count(OUTPUT):
                    chosen -= {other.id for other in group}
        for one, after in reversed(list(pairwise(view))):
            stays = after.id not in chosen and kind(after.item) in {CALL, "reasoning"}
            if kind(one.item) == "reasoning" and stays and self._call_follows(view, after):
                chosen.discard(one.id)
        return [one.id for one in view if one.id in chosen]

    def _call_follows(self, view: list[Shown], one: Shown) -> bool:
        behind = view[view.index(one) :]
        return kind(next((other.item for other in behind if kind(other.item) != "reasoning"), {})) == CALL
