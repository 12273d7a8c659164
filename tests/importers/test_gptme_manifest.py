from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.importers.conftest import KINDS, Importer, said

from rightful import limits
from rightful.events import ToolCallSnapshotted, ToolResultSnapshotted
from rightful.identity import composite_key, event_id
from rightful.importers.gptme_records.manifest import GptmeManifest, hash_of
from rightful.ledger import Ledger

SAMPLES = Path(__file__).parents[1] / "samples" / "manifest"
SESSION = "workspace:41c2@2026-08-01T10:15:01.123456+00:00"
MADE_UP = "Expected a session id, got 'anon-0a1b2c3d': gptme generates such an id if it knows no session"
Record = dict[str, Any]


def hashed(record: Record) -> Record:
    text = json.dumps(record, sort_keys=True, default=str)
    return record | {"hash": "sha256:" + hashlib.sha256(text.encode()).hexdigest()}


def record(sequence: int, phase: str, before: Record | None, *, session: str = "41c2", second: int = 1) -> Record:
    facts = {"session_id": session, "model": "unknown", "sequence": sequence, "tool": "shell", "phase": phase}
    more = {"args_hash" if phase == "pre" else "result_hash": f"sha256:{sequence}"}
    stamp = {"timestamp": f"2026-08-01T10:15:{second:02}+00:00", "prev_hash": before and before["hash"]}
    return hashed(facts | more | stamp)


def put(folder: Path, one: Record) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"{one['session_id']}-{one['sequence']:04d}-{one['tool']}-{one['phase']}.json"
    path.write_text(json.dumps(one, indent=2))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "manifest"


def chain(count: int, *, session: str = "41c2", second: int = 1) -> list[Record]:
    found: list[Record] = []
    for sequence in range(1, count + 1):
        for phase in ("pre", "post"):
            found.append(record(sequence, phase, found[-1] if found else None, session=session, second=second))
    return found


def lost(imported: Importer, folder: Path) -> list[tuple[str, str]]:
    return [(Path(one.path).name, two.what) for one in imported("manifest", folder) for two in one.problems if two.lost]


def test_the_samples_are_calls_and_their_results(ledger: Ledger, imported: Importer) -> None:
    reports = imported("manifest", SAMPLES)

    rows = list(ledger.read())
    assert sum(one.lost for one in reports) == 0
    assert {row.session for row in rows} == {SESSION}
    calls = [one for one in (row.event for row in rows) if isinstance(one, ToolCallSnapshotted)]
    results = [one for one in (row.event for row in rows) if isinstance(one, ToolResultSnapshotted)]
    assert [(one.call, one.name, one.arguments, one.complete) for one in calls] == [
        ("0001-shell", "shell", None, True),
        ("0002-save", "save", None, True),
    ]
    assert [(one.call, one.output, one.complete) for one in results] == [
        ("0001-shell", None, True),
        ("0002-save", None, True),
    ]
    pre = json.loads((SAMPLES / "41c2-0002-save-pre.json").read_text())
    assert calls[1].extra == {name: pre[name] for name in pre if name not in {"session_id", "tool", "timestamp"}}
    assert {one.producer for one in [*calls, *results]} == {"gptme-manifest"}
    assert calls[1].id == event_id("gptme-manifest", composite_key("41c2", pre["hash"]))
    assert calls[1].at.isoformat() == pre["timestamp"]


def test_a_call_stands_before_its_result_though_its_file_comes_later(ledger: Ledger, imported: Importer) -> None:
    imported("manifest", SAMPLES)

    assert [row.type.partition(".")[0] for row in ledger.read()] == ["tool_call", "tool_result"] * 2


def test_the_order_of_the_files_decides_nothing(ledger: Ledger, imported: Importer) -> None:
    files = sorted(SAMPLES.iterdir(), reverse=True)
    reports = imported("manifest", *files) + imported("manifest", *reversed(files))

    assert (len(list(ledger.read())), sum(one.conflicts + one.lost for one in reports)) == (4, 0)


def test_a_call_that_failed_has_no_result(ledger: Ledger, imported: Importer, folder: Path) -> None:
    first = record(1, "pre", None)
    for one in (first, record(2, "pre", first)):
        put(folder, one)

    assert lost(imported, folder) == []
    assert [row.type for row in ledger.read()] == ["tool_call.snapshotted"] * 2


def test_a_result_behind_a_result_tells_of_itself_alone(ledger: Ledger, imported: Importer, folder: Path) -> None:
    """A tool that runs a tool: the outer result stands behind the inner one."""
    records = chain(1)
    records.append(record(2, "post", records[-1]))
    for one in records:
        put(folder, one)
    imported("manifest", folder / "41c2-0002-shell-post.json")

    assert [row.type for row in ledger.read()] == ["tool_result.snapshotted"]


def test_changed_record_is_a_problem_and_others_are_imported(ledger: Ledger, imported: Importer, folder: Path) -> None:
    shutil.copytree(SAMPLES, folder)
    path = folder / "41c2-0002-save-pre.json"
    changed = json.loads(path.read_text()) | {"tool": "shell"}
    path.write_text(json.dumps(changed))

    [(name, what)] = lost(imported, folder)

    assert name == path.name
    was = f"got {changed['hash']}: it was modified after it was written - at `$.hash`"
    assert what == f"Expected the hash of its content ({hash_of(changed, without='hash')}), {was}"
    assert [row.event.extra["sequence"] for row in ledger.read() if row.event.extra] == [1, 1, 2]  # type: ignore[union-attr]


def test_a_record_behind_one_that_is_missing_is_a_problem(ledger: Ledger, imported: Importer, folder: Path) -> None:
    records = chain(3)
    for one in records[:2] + records[3:]:
        put(folder, one)

    problems = lost(imported, folder)

    assert [name for name, _ in problems] == [
        f"41c2-000{n}-shell-{phase}.json" for n, phase in [(2, "post"), (3, "post"), (3, "pre")]
    ]
    what = f"no record of '41c2' here has the hash {records[2]['hash']}, so the session is unknown"
    assert {text for _, text in problems} == {f"the chain is broken: {what} - at `$.prev_hash`"}
    assert len(list(ledger.read())) == 2


def test_the_next_session_of_the_same_id_is_another_one(ledger: Ledger, imported: Importer, folder: Path) -> None:
    """It begins at 1 and overwrites; what is left of the older one has lost its beginning."""
    for one in chain(2):
        put(folder, one)
    imported("manifest", folder)
    for one in chain(1, second=9):
        put(folder, one)

    problems = lost(imported, folder)

    assert [name for name, _ in problems] == ["41c2-0002-shell-post.json", "41c2-0002-shell-pre.json"]
    sessions = [row.session for row in ledger.read()]
    old, new = "workspace:41c2@2026-08-01T10:15:01+00:00", "workspace:41c2@2026-08-01T10:15:09+00:00"
    assert sessions == [old] * 4 + [new] * 2


def test_two_ids_in_one_folder_are_two_sessions(ledger: Ledger, imported: Importer, folder: Path) -> None:
    for one in chain(1) + chain(1, session="beef"):
        put(folder, one)

    assert lost(imported, folder) == []
    assert {row.session.partition("@")[0] for row in ledger.read() if row.session} == {
        "workspace:41c2",
        "workspace:beef",
    }


def test_a_chain_that_leads_through_another_id_is_broken(imported: Importer, folder: Path) -> None:
    first = record(1, "pre", None, session="beef")
    put(folder, first)
    put(folder, record(1, "post", first))

    assert [name for name, _ in lost(imported, folder)] == ["41c2-0001-shell-post.json"]


@pytest.mark.parametrize(
    ("session", "what"),
    [
        (
            "anon-0a1b2c3d",
            f"{MADE_UP}, so it does not identify a session - at `$.session_id`",
        ),
        ("unknown", "Expected a session id, got 'unknown', which names no session - at `$.session_id`"),
    ],
)
def test_an_id_that_names_no_session_is_a_problem(
    ledger: Ledger, imported: Importer, folder: Path, session: str, what: str
) -> None:
    put(folder, record(1, "pre", None, session=session))

    assert lost(imported, folder) == [(f"{session}-0001-shell-pre.json", what)]
    assert list(ledger.read()) == []


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"phase": "mid"}, "Invalid enum value 'mid' - at `$.phase`"),
        ({"sequence": "1"}, "Expected `int`, got `str` - at `$.sequence`"),
        ({"timestamp": "now"}, "Expected a time, got 'now' - at `$.timestamp`"),
    ],
)
def test_a_record_of_another_form_is_a_problem(
    ledger: Ledger, imported: Importer, folder: Path, change: Record, what: str
) -> None:
    one = record(1, "pre", None)
    path = put(folder, one)
    path.write_text(json.dumps(one | change))

    [report] = imported("manifest", path)

    assert said(report)["problems"] == [{"line": 1, "what": what}]
    assert list(ledger.read()) == []


def test_a_chain_that_leads_back_to_itself_ends(imported: Importer, folder: Path) -> None:
    """Nobody can make one whose hashes are right; the names are all that is followed."""
    one = record(1, "pre", None) | {"prev_hash": "sha256:b", "hash": "sha256:a"}
    other = record(2, "pre", None) | {"prev_hash": "sha256:a", "hash": "sha256:b"}
    third = hashed({name: item for name, item in record(3, "pre", other).items() if name != "hash"})
    for record_ in (one, other, third):
        put(folder, record_)

    whats = dict(lost(imported, folder))
    assert whats["41c2-0003-shell-pre.json"] == "the chain is broken: it has a cycle - at `$.prev_hash`"


@pytest.mark.parametrize(("over", "count"), [(0, 2), (1, 1)])
def test_a_file_beside_it_is_read_up_to_its_limit(
    ledger: Ledger, imported: Importer, folder: Path, over: int, count: int
) -> None:
    first, second = chain(1)
    path = put(folder, first)
    path.write_text(json.dumps(first).ljust(limits.BESIDE_BYTES + over))
    put(folder, second)
    imported("manifest", folder / "41c2-0001-shell-post.json")

    assert len(list(ledger.read())) == (2 if count == 2 else 0)


def test_standard_input_has_no_files_beside_it(imported: Importer) -> None:
    [report] = imported("manifest", "-", stdin=json.dumps(record(1, "pre", None)).encode())

    what = "Expected a file: the session of a record is known only from the other records in its folder"
    assert said(report)["problems"] == [{"line": None, "what": what}]


def test_auto_tells_a_record_by_its_content() -> None:
    assert GptmeManifest().recognises(record(1, "pre", None))
    assert not GptmeManifest().recognises({"session_id": "x", "sequence": 1, "phase": "pre"})
    assert [kind.NAME for kind in KINDS["auto"] if kind.recognises(record(1, "pre", None))] == ["manifest"]
