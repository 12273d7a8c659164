from __future__ import annotations

import hashlib
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.importers.bandit_files import ARM, LAST, balances, means, state, write
from tests.importers.conftest import KINDS, MTIME_S, Importer, said

from rightful.events import BalanceOpened
from rightful.identity import composite_key, event_id
from rightful.importers.bandits.bandit_documents import document
from rightful.importers.bandits.bandit_state import BanditStateReader
from rightful.importers.engine.formats import End
from rightful.ledger import Ledger

NO_TIME = "note: the state has no time: its grades are counted again unless the policy's field `balances` excludes it"


def facts(event: BalanceOpened) -> dict[str, Any]:
    """What a golden file says of an event: all but where the file stood."""
    fields: dict[str, Any] = json.loads(msgspec.json.encode(event))
    return {name: fields[name] for name in fields if name not in {"id", "key", "source", "type"}}


@pytest.mark.parametrize("form", ["bandit", "lesson-thompson", "legacy", "xdg", "pm-dispatch"])
def test_each_of_the_shapes_opens_its_balance_with_nothing_lost(
    ledger: Ledger, imported: Importer, golden: Path, form: str
) -> None:
    path = golden / "bandits" / form / "bandit-state.json"
    imported("bandit-state", path)

    [event] = balances(ledger)
    assert facts(event) == json.loads((golden / "bandit-state.events").read_text())[form]
    assert document(event) == json.loads(path.read_text())
    assert event.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    source = os.path.realpath(path)
    assert (event.source, event.id) == (source, event_id("bandit-state", composite_key(source, event.sha256)))


def test_a_balance_stands_on_the_prior_and_again_adds_nothing(
    ledger: Ledger, imported: Importer, tmp_path: Path
) -> None:
    path = write(tmp_path / "a" / "bandit-state.json", state())
    [once], [again] = imported("bandit-state", path), imported("bandit-state", path)

    assert said(once) == {"appended": 1, "duplicate": 0, "problems": []}
    assert said(again) == {"appended": 0, "duplicate": 1, "problems": []}
    assert means(ledger) == {"x": (2.5, 1.5, 2)}


def test_rewritten_file_opens_a_new_balance_and_the_newest_counts(
    ledger: Ledger, imported: Importer, tmp_path: Path
) -> None:
    path = tmp_path / "bandit-state.json"
    later = state(arms={"x": ARM | {"alpha": 3.5, "total_selections": 3}}, last_updated="2026-08-02T00:00:00Z")
    for one in (state(), later, state()):
        imported("bandit-state", write(path, one))

    assert len(balances(ledger)) == 2
    assert means(ledger) == {"x": (3.5, 1.5, 3)}


@pytest.mark.parametrize(
    ("fields", "through", "note"),
    [
        ({}, datetime(2026, 8, 1, 10, 15, 11, tzinfo=UTC), None),
        ({"last_updated": "2026-08-01T12:15:11.5+02:00"}, datetime(2026, 8, 1, 10, 15, 11, 500_000, UTC), None),
        (
            {"last_updated": "2026-08-01T10:15:11"},
            datetime(2026, 8, 1, 10, 15, 11, tzinfo=UTC),
            "note: `last_updated` has no UTC offset; such times in this file were read as UTC",
        ),
        (
            {
                "last_updated": None,
                "arms": {"x": ARM | {"last_updated": LAST}, "y": ARM | {"last_updated": "2026-07-01Z"}},
            },
            datetime(2026, 8, 1, 10, 15, 11, tzinfo=UTC),
            "note: Expected a time, got '2026-07-01Z' - at `$.last_updated`; it was ignored",
        ),
        (
            {"last_updated": "2300-01-01T00:00Z", "arms": {"x": ARM | {"last_updated": LAST}}},
            datetime(2026, 8, 1, 10, 15, 11, tzinfo=UTC),
            "note: Expected a time from 1970 to 2200, got '2300-01-01T00:00Z' - at `$.last_updated`; it was ignored",
        ),
        (
            {
                "last_updated": None,
                "arms": {"x": ARM | {"last_updated": LAST}, "y": ARM | {"last_updated": "2026-07-01"}},
            },
            datetime(2026, 8, 1, 10, 15, 11, tzinfo=UTC),
            "note: `last_updated` has no UTC offset; such times in this file were read as UTC",
        ),
        (
            {"last_updated": None, "arms": {}, "contextual_arms": {"x": {'["a"]': ARM | {"last_updated": LAST}}}},
            datetime(2026, 8, 1, 10, 15, 11, tzinfo=UTC),
            None,
        ),
        (  # what a refused call left is saved by the next decay, and is newer than the file's own time
            {"arms": {"x": ARM | {"last_updated": "2026-08-01T10:16:00Z"}}},
            datetime(2026, 8, 1, 10, 16, tzinfo=UTC),
            None,
        ),
    ],
)
def test_through_is_the_newest_time_of_the_state_and_its_arms(
    ledger: Ledger, imported: Importer, tmp_path: Path, fields: dict[str, Any], through: datetime, note: str | None
) -> None:
    [report] = imported("bandit-state", write(tmp_path / "b.json", state(**fields)))

    [event] = balances(ledger)
    assert (event.through, event.at, event.at_basis) == (through, through, None)
    assert [one.what for one in report.problems] == ([] if note is None else [note])
    assert report.exit_code == 0


def test_a_state_without_a_time_has_no_through_and_says_what_that_means(
    ledger: Ledger, imported: Importer, tmp_path: Path
) -> None:
    [report] = imported("bandit-state", write(tmp_path / "b.json", {"arms": {"x": ARM}}))

    [event] = balances(ledger)
    assert (event.through, event.at.timestamp(), event.at_basis) == (None, MTIME_S, "file")
    assert [one.what for one in report.problems] == [NO_TIME]


def test_standard_input_is_a_source_of_its_own_and_needs_a_time(ledger: Ledger, imported: Importer) -> None:
    data = json.dumps(state(), indent=2).encode()
    [piped] = imported("bandit-state", "-", stdin=data)
    [timeless] = imported("bandit-state", "-", stdin=b'{"arms": {}}')

    [event] = balances(ledger)
    assert (event.source, event.sha256) == ("-", hashlib.sha256(data).hexdigest())
    assert said(piped) == {"appended": 1, "duplicate": 0, "problems": []}
    what = "Expected `last_updated`: the state has no time, and stdin has none - at `$`"
    assert [one.what for one in timeless.problems] == [what]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32-be"])
@pytest.mark.parametrize("indent", [None, 2])
def test_the_digest_is_of_the_bytes_and_not_of_what_they_say(
    ledger: Ledger, imported: Importer, tmp_path: Path, encoding: str, indent: int | None
) -> None:
    path = tmp_path / "b.json"
    path.write_bytes((json.dumps(state(), indent=indent) + "\n").encode(encoding))
    imported("bandit-state", path)

    assert [one.sha256 for one in balances(ledger)] == [hashlib.sha256(path.read_bytes()).hexdigest()]


def test_digest_is_of_the_bytes_read_though_the_file_is_replaced(
    ledger: Ledger, imported: Importer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer puts a new file in its place between the reading and the append."""
    path = write(tmp_path / "b.json", state())
    data = path.read_bytes()
    finish = BanditStateReader.finish

    def replaced(reader: BanditStateReader, end: End) -> Any:
        (tmp_path / "b.tmp").write_text(json.dumps(state(arms={"y": ARM})))
        (tmp_path / "b.tmp").replace(path)
        return finish(reader, end)

    monkeypatch.setattr(BanditStateReader, "finish", replaced)
    imported("bandit-state", path)

    [event] = balances(ledger)
    assert (list(event.arms), event.sha256) == (["x"], hashlib.sha256(data).hexdigest())


TORN = "Expected exactly one bandit state in the file; it is incomplete, or two programs wrote it at once. "
BROKEN: dict[str, tuple[bytes, list[tuple[int | None, str]]]] = {
    "torn": (json.dumps(state(), indent=2).encode()[:-9], [(1, "Expected JSON, got a truncated line")]),
    "torn compact": (json.dumps(state()).encode()[:-9], [(1, "Expected JSON, got a truncated line")]),
    "twice": (
        json.dumps(state()).encode() * 2,
        [
            (1, "note: several objects share this line; read from it: 2"),
            (1, f"{TORN}No balance was opened - at `$`"),
        ],
    ),
    "tail": (
        json.dumps(state(), indent=2).encode() + b'  "y": 1\n}',
        [
            (1, "Expected `object`, got `str`"),
            (1, "Expected JSON: Expecting value, line 11 column 7"),
            (1, "note: several objects share this line; read from it: 1"),
            (1, f"{TORN}No balance was opened - at `$`"),
        ],
    ),
    "list": (b"[1, 2]", [(1, "Expected `object`, got `array`")]),
    "arms null": (b'{"arms": null}', [(1, "Expected `object`, got `null` - at `$.arms`")]),
    "arms list": (b'{"arms": [], "total_sessions": 3}', [(1, "Expected `object`, got `array` - at `$.arms`")]),
    "no arms": (
        b'{"b": 1, "a": 2}',
        [(1, "an object with `b`, `a` is not of kind bandit-state; nothing was imported from it")],
    ),
    "arm twice": (b'{"arms": {"x": {}, "x": {}}}', [(1, "Expected each key once, got 'x' twice")]),
    "all arms bad": (
        b'{"arms": {"x": null}, "total_sessions": 3}',
        [(1, "Expected `object`, got `null` - at `$.arms['x']`")],
    ),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_file_that_is_not_one_whole_state_opens_nothing(
    ledger: Ledger, imported: Importer, tmp_path: Path, how: str
) -> None:
    path = tmp_path / "bandit-state.json"
    path.write_bytes(BROKEN[how][0])

    [report] = imported("bandit-state", path)

    assert [(one.line, one.what) for one in report.problems] == BROKEN[how][1]
    assert (report.appended, report.exit_code, balances(ledger)) == (0, 2, [])


def test_an_empty_file_is_worth_a_note(ledger: Ledger, imported: Importer, tmp_path: Path) -> None:
    (tmp_path / "b.json").write_bytes(b"")

    [report] = imported("bandit-state", tmp_path / "b.json")

    assert said(report) == {
        "appended": 0,
        "duplicate": 0,
        "problems": [{"line": None, "what": "note: the file is empty"}],
    }


def test_bad_arms_are_problems_and_the_good_ones_are_opened(ledger: Ledger, imported: Importer, tmp_path: Path) -> None:
    value = state(arms={"a": ARM | {"alpha": float("nan")}, "x": ARM, "c": {"alpha": "2", "beta": 1}})

    [report] = imported("bandit-state", write(tmp_path / "b.json", value))

    assert [one.what for one in report.problems] == [
        "Expected a finite number, got nan - at `$.arms['a'].alpha`",
        "Expected `float`, got `str` - at `$.arms['c'].alpha`",
    ]
    assert (report.appended, report.exit_code) == (1, 2)
    [event] = balances(ledger)
    assert list(event.arms) == ["x"]
    assert event.extra is not None
    assert str(event.extra["arms"]["a"]["alpha"]) == "nan"


def test_an_arm_that_does_not_say_its_selections_is_worth_a_note(
    ledger: Ledger, imported: Importer, tmp_path: Path
) -> None:
    value = state(arms={"x": {"alpha": 2.0, "beta": 1.5}, "y": {"alpha": 2.0, "beta": 1.5}})

    [report] = imported("bandit-state", write(tmp_path / "b.json", value))

    what = "note: arms without a selection count: 2; they count as selected 0 times"
    assert [one.what for one in report.problems] == [what]


def test_a_link_is_the_source_that_it_leads_to(ledger: Ledger, imported: Importer, tmp_path: Path) -> None:
    path = write(tmp_path / "b.json", state())
    (tmp_path / "link.json").symlink_to("b.json")

    reports = imported("bandit-state", path, tmp_path / "link.json")

    assert [(one.appended, one.duplicate) for one in reports] == [(1, 0), (0, 1)]


def test_a_path_that_no_source_can_be_is_a_problem(ledger: Ledger, imported: Importer, tmp_path: Path) -> None:
    long = tmp_path / ("d" * 200) / ("e" * 200) / ("f" * 200) / "b.json"
    other = Path(os.fsdecode(bytes(tmp_path) + b"/caf\xe9.json"))
    reports = imported("bandit-state", write(long, state()), write(other, state()))

    assert [one.what for report in reports for one in report.problems] == [
        "Expected `str` of length <= 512 - at `$.source`",
        "Expected text in UTF-8, got other bytes - at `$`",
    ]


@pytest.mark.parametrize(
    ("value", "is_one"),
    [
        (state(), True),
        ({"arms": {}}, True),
        ({"arms": None}, True),
        ({"arms": [], "contextual_arms": {}}, True),
        ({"arms": {"x": {"helpful": 1}}}, True),
        ({"arms": {"x": None}, "total_sessions": 3}, True),
        ({"arms": {"left": {"length": 2}}}, False),
        ({"arms": 2}, False),
        ({"arms": [{"arm": "x"}], "type": "exposure.recorded"}, False),
        ({"arms": {}, "type": "balance.opened"}, False),
        ({"alpha": 1}, False),
    ],
)
def test_auto_tells_a_bandits_state_by_its_content(value: dict[str, Any], is_one: bool) -> None:
    assert KINDS["bandit-state"][0].recognises(value) is is_one
