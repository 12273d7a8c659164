"""Whose the lines of a fork are: what it copied is its parent's, under the ids that it has there."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.importers.codex_lines import (
    BASE_MS,
    CHILD,
    LATER,
    NAME,
    OWN,
    PARENT,
    TURN,
    V4,
    answered,
    began,
    called,
    ended,
    event,
    item,
    line,
    meta,
    read,
    said,
    v7,
)
from tests.importers.conftest import Importer
from tests.importers.reading_lines import MTIME_US, SAMPLES, Row, id_of, of, read_by, told, written

from rightful.importers.codex.rollout import Codex
from rightful.importers.engine.formats import Origin
from rightful.ledger import Ledger

FORKED = 7_200.0  # the second at which the fork was made
COPY = FORKED + 0.05
MESSAGE = "message.recorded"


def copied(rows: Iterable[Row]) -> list[Row]:
    """Lines as a fork has them: stamped with the moment of the copy."""
    return [row | {"timestamp": line("x", {}, COPY)["timestamp"]} for row in rows]


def of_parent(turn: str | None = TURN, second: float = 1) -> list[Row]:
    marks = ([began(turn, second)], [ended(turn, second + 5)]) if turn else ([], [])
    talk = [said("fix it", "user", second), event("user_message", second, message="fix it")]
    work = [
        called("c1", second=second + 1, cmd="ls"),
        answered("c1", "x", second + 2),
        said("Fixed.", second=second + 3),
    ]
    return [*marks[0], *talk, *work, *marks[1]]


def of_child(turn: str | None = OWN, second: float = FORKED + 60) -> list[Row]:
    marks = ([began(turn, second)], [ended(turn, second + 5)]) if turn else ([], [])
    return [*marks[0], said("try again", "user", second + 1), said("Done.", second=second + 2), *marks[1]]


def forked(parent: list[Row], child: list[Row], **fields: Any) -> list[Row]:
    head = meta(CHILD, FORKED, forked_from_id=PARENT, timestamp="2026-08-01T12:15:00.000Z", **fields)
    return [head, *copied([meta(), *parent]), *child]


def whose(events: list[Any]) -> list[tuple[str, str]]:
    names = {PARENT: "parent", CHILD: "child"}
    return [
        (names[session.removeprefix("codex:")], text) for session, text in told(events, MESSAGE, "session", "content")
    ]


BOTH = [("parent", "fix it"), ("parent", "Fixed."), ("child", "try again"), ("child", "Done.")]


def test_what_a_fork_copied_is_its_parents_and_the_rest_its_own() -> None:
    events = read(*forked(of_parent(), of_child()), whole=True)

    assert whose(events) == BOTH
    started = told(events, "session.started", "session", "extra")
    assert [(session, extra.get("forked_from")) for session, extra in started] == [
        (f"codex:{CHILD}", f"codex:{PARENT}"),
        (f"codex:{PARENT}", None),
    ]
    assert of(events, "session.linked") == []


def test_what_a_fork_copied_has_the_ids_of_its_parents_own_file() -> None:
    parent = of(read(meta(), *of_parent(), whole=True))
    fork = of(read(*forked(of_parent(), of_child()), whole=True))

    copies = {id_of(one): one for one in fork if one["session"] == f"codex:{PARENT}"}
    assert sorted(copies) == sorted(id_of(one) for one in parent)
    for one in parent:
        timeless = {name: said for name, said in one.items() if name not in {"at", "at_basis"}}
        assert timeless == {name: said for name, said in copies[id_of(one)].items() if name not in {"at", "at_basis"}}


@pytest.mark.parametrize("order", [("parent", "fork"), ("fork", "parent")])
def test_a_parent_and_its_fork_give_nothing_twice_in_either_order(
    ledger: Ledger, imported: Importer, tmp_path: Path, order: tuple[str, str]
) -> None:
    files = {"parent": [meta(), *of_parent()], "fork": forked(of_parent(), of_child())}
    for name, rows in files.items():
        (tmp_path / f"{name}.jsonl").write_bytes(written(rows))

    [first], [second] = (imported("codex", tmp_path / f"{name}.jsonl") for name in order)

    parents = len(of(read(*files["parent"], whole=True)))
    all_of_fork = len(of(read(*files["fork"], whole=True)))
    assert first.appended + second.appended == all_of_fork
    assert second.duplicate == parents
    assert (first.conflicts, second.conflicts, first.problems, second.problems) == (0, 0, [], [])
    assert len(list(ledger.read())) == all_of_fork


def test_the_samples_of_a_parent_and_its_fork_are_distinguished(imported: Importer, ledger: Ledger) -> None:
    fork, parent = "019fbd3f-c1a0-7c4d-881b-c6bee1919a76", "019fbcd1-e4a0-7bdc-9da7-2ed83980ed9b"
    first, second = imported("codex", SAMPLES / "codex")

    assert [(one.appended, one.duplicate, one.problems) for one in (first, second)] == [(19, 0, []), (6, 19, [])]
    spoken: list[Any] = [one.event for one in ledger.read() if one.type == MESSAGE]
    assert [(one.session, one.content[-16:]) for one in spoken] == [
        (f"codex:{parent}", "Fix the path bug"),
        (f"codex:{parent}", "Fixed."),
        (f"codex:{fork}", "Try another way"),
        (f"codex:{fork}", "Done."),
    ]


def test_the_time_of_a_copied_line_is_only_an_upper_bound() -> None:
    events = read(*forked(of_parent(), of_child()), whole=True)

    assert told(events, MESSAGE, "at_basis") == ["file", "file", None, None]
    assert told(events, "session.started", "at", "at_basis")[1] == ("2026-08-01T10:15:00Z", None)


def test_a_turn_belongs_to_the_youngest_thread_that_was_there() -> None:
    """A fork of a fork holds lines of three threads."""
    grandchild, third = v7(14_400_000, "c"), v7(14_460_000, "4")
    rows = [
        meta(grandchild, 14_400, forked_from_id=CHILD),
        *copied([meta(CHILD), meta(PARENT), *of_parent(), *of_child()]),
        began(third, 14_460),
        said("third", second=14_461),
    ]

    events = read(*rows, whole=True)

    sessions = told(events, MESSAGE, "session")
    assert sessions == [f"codex:{one}" for one in (PARENT, PARENT, CHILD, CHILD, grandchild)]


def test_a_turn_whose_id_tells_no_time_never_ends_a_copy() -> None:
    """A reader of token usage let it (tokscale's issue 895)."""
    events = read(*forked(of_parent(V4[0]), of_child()), whole=True)

    assert whose(events) == BOTH


def test_a_turn_whose_id_tells_no_time_may_say_when_it_began() -> None:
    late = BASE_MS // 1_000 + FORKED + 60
    child = [began(V4[1], COPY, started_at=late), *of_child(None, COPY)]

    assert whose(read(*forked(of_parent(V4[0]), child), whole=True)) == BOTH


@pytest.mark.parametrize("turns", [(None, None), (V4[0], V4[1])])
def test_where_no_turn_tells_a_time_lines_stamped_later_are_the_forks_own(turns: tuple[str | None, str | None]) -> None:
    events = read(*forked(of_parent(turns[0]), of_child(turns[1])), whole=True)

    assert whose(events) == BOTH


def test_a_long_copy_stays_the_parents_while_its_turn_tells_the_time() -> None:
    slow = [row | {"timestamp": line("x", {}, COPY + at)["timestamp"]} for at, row in enumerate(of_parent())]
    head = meta(CHILD, FORKED, forked_from_id=PARENT)

    assert whose(read(head, *copied([meta()]), *slow, *of_child(), whole=True)) == BOTH


def test_a_subagent_that_copied_only_the_first_line_has_all_others_itself() -> None:
    """Versions differ in whether a subagent copies what its parent said (PokeTokenBar's pull request 137)."""
    source = {"subagent": {"thread_spawn": {"parent_thread_id": PARENT, "depth": 1}}}

    events = read(*forked([], of_child(), source=source), whole=True)

    assert whose(events) == BOTH[2:]
    assert [one["other"] for one in of(events, "session.linked")] == [f"codex:{CHILD}"]


def test_a_thread_that_is_resumed_is_one() -> None:
    events = read(meta(), *of_parent(), meta(second=900), *of_parent(LATER, 901), whole=True)

    assert whose(events) == [*BOTH[:2], *BOTH[:2]]
    assert len({id_of(one) for one in of(events, "session.started")}) == 1


def test_a_file_whose_first_line_is_torn_is_its_names_and_not_its_parents() -> None:
    rows = forked(of_parent(), of_child())

    torn = read(
        {"timestamp": "x", "type": "ghost", "payload": {}}, *rows[1:], name=NAME.replace(PARENT, CHILD), whole=True
    )

    assert whose(torn) == BOTH


def test_a_copied_first_line_behind_a_torn_one_names_nobodys_file() -> None:
    rows = forked(of_parent(), of_child())[1:]
    reader = Codex().reader(Origin(f"/s/{NAME.replace(PARENT, CHILD)}", MTIME_US))

    assert whose(read_by(reader, rows, first=2)) == BOTH


def test_what_both_said_stays_apart() -> None:
    """The same words in parent and child are two facts."""
    row = item("message", role="user", content="hi")

    events = read(*forked([began(TURN, 1), row], [began(OWN, FORKED + 1), row]), whole=True)

    assert whose(events) == [("parent", "hi"), ("child", "hi")]
    assert len({id_of(one) for one in of(events, MESSAGE)}) == 2


def test_what_a_copy_does_not_hold_is_left_to_the_parents_own_file(
    ledger: Ledger, imported: Importer, tmp_path: Path
) -> None:
    """A subagent may copy the last turns alone."""
    shrunk = line("compacted", {"message": "so far", "replacement_history": []}, 20)
    back = event("thread_rolled_back", 60, num_turns=2)
    turns = [*of_parent(), shrunk, *of_parent(LATER, 30), back]
    (tmp_path / "fork.jsonl").write_bytes(written(forked(turns[len(of_parent()) :], of_child())))
    (tmp_path / "parent.jsonl").write_bytes(written([meta(), *turns]))

    reports = [imported("codex", tmp_path / f"{name}.jsonl")[0] for name in ("fork", "parent")]

    assert [(one.conflicts, one.lost) for one in reports] == [(0, 0), (0, 0)]
    history = [row.type for row in ledger.read() if row.type.startswith("history.")]
    assert history == ["history.compacted", "history.popped"]
