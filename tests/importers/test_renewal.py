"""A ledger that an older reader filled, once a newer reader has read the same files, tells what a new ledger tells."""

from __future__ import annotations

import io
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.importers.conftest import KINDS, MTIME_S
from tests.importers.import_files import import_paths

from rightful import ledger as app
from rightful import limits
from rightful.importers.codex.rollout import Codex
from rightful.importers.engine import checkpoints
from rightful.importers.engine.checkpoints import FOLDER, Checkpoints, Reading
from rightful.importers.engine.file_import import FileImport
from rightful.importers.engine.file_report import FileReport
from rightful.importers.engine.formats import GrowingKind, GrowingReader, Origin, Wire, growing_kinds
from rightful.importers.engine.renewal import Ranges
from rightful.importers.sources.text_files import Found, Problem, opened
from rightful.ledger import Ledger
from rightful.log.rows import Receipt
from rightful.log.withdrawals import in_force, withdrawal_of

OUTSIDE = Path(__file__).parents[1] / "outside"
READER_1 = Path(__file__).parents[1] / "golden" / "reader-1"
"""What the readers of version 1 (commit ab617bd) appended for each input of `tests/outside`, in order."""


@pytest.mark.parametrize("name", sorted(path.stem for path in READER_1.glob("*.jsonl")))
def test_an_upgraded_ledger_tells_what_a_new_one_tells(name: str, tmp_path: Path) -> None:
    kind, steps = kind_and_steps(name)
    place = tmp_path / "in"
    with app.open(tmp_path / "new", create=True) as new, app.open(tmp_path / "old", create=True) as old:
        for step in steps:
            put(OUTSIDE / name / step, place)
            import_all(new, kind, place)
        old.append(json.loads(line) for line in (READER_1 / f"{name}.jsonl").read_text().splitlines())
        keep_as_of_reader_1(old, kind, place)
        reports = import_all(old, kind, place)

        assert told(old) == told(new), reports
        assert told(new)
        again = old.log.head()
        import_all(old, kind, place)
        assert old.log.head() == again


def test_an_interrupted_upgrade_withdraws_old_pops_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The import is killed after the compaction was appended and before the pops were withdrawn."""
    name, place = "gptme-view-over-conversation", tmp_path / "in"
    with app.open(tmp_path / "new", create=True) as new, app.open(tmp_path / "old", create=True) as old:
        for step in ("1", "2"):
            put(OUTSIDE / name / step, place)
            import_all(new, "gptme", place)
        old.append(json.loads(line) for line in (READER_1 / f"{name}.jsonl").read_text().splitlines())
        keep_as_of_reader_1(old, "gptme", place)
        with monkeypatch.context() as patch:
            patch.setattr(FileImport, "withdraw", interrupted)
            with pytest.raises(KeyboardInterrupt):
                import_all(old, "gptme", place)
        assert told(old) != told(new)

        import_all(old, "gptme", place)

        assert told(old) == told(new)
        assert [row.outcome for row in old.read(types=["history.compacted"])] == ["appended"]
        assert [row.outcome for row in old.read(types=["event.withdrawn"])] == ["appended"] * 2


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_an_edit_stays_an_edit_where_a_later_view_has_the_new_message(tmp_path: Path) -> None:
    """gptme keeps the conversation next to the view, so the two differ; nothing was written over."""
    place = tmp_path / "in" / "2026-08-01-blue-owl"
    said = ["You are gptme", "first ask", "first answer", "second ask", "second answer"]
    with app.open(tmp_path / "old", create=True) as old:
        conversation(place / "conversation.jsonl", said)
        import_all(old, "gptme", place.parent)
        edited = [said[0], "first ask, edited", *said[2:]]
        conversation(place / "conversation.jsonl", edited)
        import_all(old, "gptme", place.parent)
        assert len(list(old.read(types=["history.popped"]))) == 1
        conversation(place / "views" / "compacted-001.jsonl", [*edited[:2], edited[4]])
        keep_as_of_reader_1(old, "gptme", place.parent)

        import_all(old, "gptme", place.parent)

        assert list(old.read(types=["event.withdrawn"])) == []


def conversation(path: Path, texts: Iterable[str]) -> None:
    """Write messages of gptme, each a minute after the one before it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        {"role": "system" if minute == 0 else "user", "content": text, "timestamp": f"2026-08-01T10:{minute:02}:00"}
        for minute, text in enumerate(texts)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    os.utime(path, (MTIME_S, MTIME_S))


def kind_and_steps(name: str) -> tuple[str, list[str]]:
    """Return as what an input is imported, and in which steps."""
    expected = OUTSIDE / name / "expect.json"
    if not expected.exists():
        return "claude-code", ["."]
    said = json.loads(expected.read_text())
    return said["kind"], said["steps"]


def put(source: Path, place: Path) -> None:
    """Copy a step's files over those of the step before, in place, with a time that does not move."""
    for path in sorted(source.rglob("*")):
        target = place / path.relative_to(source)
        if path.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        elif path.name not in {"expect.json", "expect.md"}:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
            os.utime(target, (MTIME_S, MTIME_S))


def import_all(ledger: Ledger, kind: str, place: Path) -> list[FileReport]:
    """Import a folder as the command line does."""
    kept = Checkpoints(ledger.path / FOLDER, ledger.id, ledger.log)
    return list(import_paths(ledger.log, KINDS[kind], [str(place)], stdin=io.BytesIO(), checkpoints=kept))


def keep_as_of_reader_1(ledger: Ledger, kind: str, place: Path) -> None:
    """Keep a checkpoint for each file, as version 1 wrote it when it had read all of it."""
    [reader] = growing_kinds(KINDS[kind])
    for path in sorted(path for path in place.rglob("*") if path.is_file()):
        with opened(str(path)) as file:
            reading = Reading(file, reader)
            for _ in reading.lines:
                pass
            kept = Checkpoints(ledger.path / FOLDER, ledger.id, ledger.log)
            assert kept.save(OfReader1(reader), reading, {}, 0) is None


class OfReader1:
    """A kind as version 1 of its reader."""

    READER_VERSION = 1

    def __init__(self, kind: GrowingKind) -> None:
        self._kind = kind

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kind, name)


def told(ledger: Ledger) -> dict[str, Any]:
    """Return what a ledger tells of each session: transcript, history, sessions and usage, without places."""
    names = sorted({row.session for row in ledger.read() if row.session is not None})
    found = {name: told_of(ledger, name) for name in names}
    return {name: said for name, said in found.items() if any(said.values())}


def told_of(ledger: Ledger, session: str) -> dict[str, Any]:
    """Return what a ledger tells of one session."""
    transcript = ledger.transcript(session).as_dict()
    return {
        "entries": [without_places(entry) for entry in transcript["entries"] if "withdrawn" not in entry],
        "usage": transcript["usage"] if transcript["entries"] else None,
        "history": list(ledger.history(session).items),
        "started": sorted(starts(ledger, session), key=json.dumps),
    }


def without_places(value: Any) -> Any:
    """Return an entry without what says where in the ledger it is."""
    if isinstance(value, dict):
        places = {"position", "result_position", "covered", "rows", "revisions", "result_revisions"}
        return {name: without_places(part) for name, part in value.items() if name not in places}
    return [without_places(part) for part in value] if isinstance(value, list) else value


def starts(ledger: Ledger, session: str) -> Iterator[dict[str, Any]]:
    """Yield what the starts, ends and links of a session that are in force say."""
    rows = [row for page in ledger.log.of_session(session) for row in page]
    withdrawn = in_force(found for row in rows if (found := withdrawal_of(row)) is not None)
    for row in ledger.read(session=session, types=["session.started", "session.ended", "session.linked"]):
        if row.id not in withdrawn and row.event is not None:
            event: Any = row.event
            yield {name: str(getattr(event, name)) for name in event.__struct_fields__ if name != "id"}


# -- the mechanism, with a reader of version 2 that reads otherwise ------------------------------


class Later(Codex):
    """Codex, read by a later version, which drops and adds what its test says.

    Args:
        version: The version of its reader.
        drops: The texts of the messages that it derives no more.
        adds: What it derives instead of each.
    """

    def __init__(self, version: int, drops: Iterable[str] = (), adds: Iterable[str] = ()) -> None:
        self.READER_VERSION = version
        self._drops, self._adds = set(drops), list(adds)

    def reader(self, origin: Origin) -> GrowingReader:
        reader = super().reader(origin)
        derived = reader.events

        def events(found: Found) -> Iterator[Wire | Problem]:
            for event in derived(found):
                if isinstance(event, Problem) or event.get("content") not in self._drops:
                    yield event
                else:
                    for text in self._adds:
                        yield event | {"key": f"{event['key']} {text}", "content": text}

        reader.events = events  # type: ignore[method-assign]
        return reader


NAME = "rollout-2026-08-01T10-00-00-019fbcc4-2900-7001-8000-000000001efc.jsonl"
SESSION = "codex:019fbcc4-2900-7001-8000-000000001efc"
LINES = next((OUTSIDE / "codex-total-reset" / "in").rglob(NAME)).read_bytes()


def written(folder: Path, data: bytes = LINES, name: str = NAME) -> Path:
    path = folder / name
    folder.mkdir(parents=True, exist_ok=True)
    with path.open("r+b" if path.exists() else "wb") as file:
        file.write(data)
        file.truncate()
    return path


def read_by(ledger: Ledger, kind: Codex, *paths: Path) -> list[FileReport]:
    kept = Checkpoints(ledger.path / FOLDER, ledger.id, ledger.log)
    return list(import_paths(ledger.log, [kind], map(str, paths), stdin=io.BytesIO(), checkpoints=kept))


def texts(ledger: Ledger) -> list[str]:
    entries = ledger.transcript(SESSION).entries
    found = [str(entry.text) for entry in entries if entry.kind == "message" and entry.hidden is not True]
    assert [item["content"] if isinstance(item["content"], str) else item["content"][0]["text"]
            for item in ledger.history(SESSION).items] == found  # fmt: skip
    return found


FIRST = ["first ask", "first answer", "second ask", "second answer", "third ask", "third answer"]


def test_what_a_newer_reader_does_not_derive_is_withdrawn(ledger: Ledger, tmp_path: Path) -> None:
    path = written(tmp_path / "in")
    read_by(ledger, Later(1), path)
    head = ledger.log.head()
    assert texts(ledger) == FIRST

    [report] = read_by(ledger, Later(2, ["second ask"]), path)

    assert texts(ledger) == [text for text in FIRST if text != "second ask"]
    assert report.kinds == {"event.withdrawn": 1}
    [problem] = report.problems
    assert (
        problem.what
        == "note: 1 event was withdrawn: an earlier version derived them from this file, and this version does not"
    )
    assert ledger.log.head() == head + 1
    read_by(ledger, Later(2, ["second ask"]), path)
    assert ledger.log.head() == head + 1


def test_what_is_derived_instead_has_the_place_of_what_was_withdrawn(ledger: Ledger, tmp_path: Path) -> None:
    path = written(tmp_path / "in")
    read_by(ledger, Later(1), path)

    read_by(ledger, Later(2, ["second ask"], ["one", "two"]), path)

    assert texts(ledger) == [*FIRST[:2], "one", "two", *FIRST[3:]]


def test_what_a_yet_newer_reader_derives_again_comes_back(ledger: Ledger, tmp_path: Path) -> None:
    path = written(tmp_path / "in")
    read_by(ledger, Later(1), path)
    read_by(ledger, Later(2, ["second ask"]), path)

    read_by(ledger, Later(3), path)
    assert texts(ledger) == FIRST

    read_by(ledger, Later(4, ["second ask"]), path)
    assert texts(ledger) == [text for text in FIRST if text != "second ask"]
    read_by(ledger, Later(5), path)
    assert texts(ledger) == FIRST


def test_an_older_program_undoes_nothing_of_a_newer_one(ledger: Ledger, tmp_path: Path) -> None:
    path = written(tmp_path / "in")
    read_by(ledger, Later(1), path)
    read_by(ledger, Later(2, ["second ask"]), path)
    head = ledger.log.head()

    read_by(ledger, Later(1), path)

    assert ledger.log.head() == head


class Guessing(Later):
    """Version 1 of a reader, which takes an answer for facts of attribution as well.

    Args:
        facts: What it derives beside the first answer: the fields of each.
    """

    def __init__(self, version: int, facts: Iterable[Wire]) -> None:
        super().__init__(version)
        self._facts = list(facts)

    def reader(self, origin: Origin) -> GrowingReader:
        reader = super().reader(origin)
        derived = reader.events

        def events(found: Found) -> Iterator[Wire | Problem]:
            for event in derived(found):
                yield event
                if not isinstance(event, Problem) and event.get("content") == "first answer":
                    common = {name: event[name] for name in ("producer", "session", "at")}
                    for number, fact in enumerate(self._facts):
                        yield {**common, "key": f"{event['key']} {number}", **fact}

        reader.events = events  # type: ignore[method-assign]
        return reader


GUESSES: dict[str, list[Wire]] = {
    "exposure": [{"type": "exposure.recorded", "arms": [{"arm": "guessed"}]}],
    "grade": [{"type": "grade.recorded", "seq": 7, "reward": 0.0, "exposure_session": "gptme:beside"}],
    "link": [{"type": "session.linked", "other": "gptme:beside", "as": "native", "evidence": "pointer"}],
    "start": [{"type": "session.started", "run_nonce": nonce} for nonce in ("one", "two")],
    "decay": [{"type": "bandit.decayed", "gamma": 0.5}],
    "prune": [{"type": "bandit.pruned", "arms": ["shown"], "contexts": []}],
}
GUESSES["all"] = [fact for facts in GUESSES.values() for fact in facts]


def beside() -> Iterator[Wire]:
    """Yield what other producers say of the session of the file, and of another one."""
    for session, arm in ((SESSION, "shown"), ("gptme:beside", "beside")):
        common = {"producer": "hook", "session": session, "at": "2026-08-01T09:00:00Z"}
        yield {**common, "key": arm, "type": "exposure.recorded", "arms": [{"arm": arm}]}
    grade = {"type": "grade.recorded", "producer": "human", "key": "g", "session": SESSION, "seq": 1, "reward": 1.0}
    yield {**grade, "at": "2026-08-02T09:00:00Z"}


POLICIES: list[Any] = ["bound", {"graders": ["*/*"]}, "gptme", "historical-newest"]


@pytest.mark.parametrize("guess", list(GUESSES))
def test_facts_that_a_newer_reader_does_not_derive_change_no_belief(guess: str, tmp_path: Path) -> None:
    """An exposure, a grade, a link of an older reader: the ledger answers as one that never had them."""
    path = written(tmp_path / "in")
    guessing, later = Guessing(1, GUESSES[guess]), Later(2)
    with app.open(tmp_path / "new", create=True) as new, app.open(tmp_path / "old", create=True) as old:
        new.append(beside())
        read_by(new, later, path)
        expected = [beliefs(new, policy) for policy in POLICIES]
        old.append(beside())
        read_by(old, guessing, path)
        assert [beliefs(old, policy) for policy in POLICIES] != expected
        read_by(old, later, path)

        assert [beliefs(old, policy) for policy in POLICIES] == expected
    with app.open(tmp_path / "old", create=True) as again:
        assert [beliefs(again, policy) for policy in POLICIES] == expected
        read_by(again, Guessing(3, GUESSES[guess]), path)
        assert [beliefs(again, policy) for policy in POLICIES] != expected


def beliefs(ledger: Ledger, policy: Any) -> dict[str, Any]:
    return {name: said for name, said in ledger.posteriors(policy).as_dict().items() if name != "through"}


def test_a_file_that_is_gone_withdraws_nothing(ledger: Ledger, tmp_path: Path) -> None:
    path = written(tmp_path / "in")
    read_by(ledger, Later(1), path)
    path.unlink()

    read_by(ledger, Later(2, ["second ask"]), path.parent)

    assert texts(ledger) == FIRST


@pytest.mark.parametrize(("before", "gone"), [(b"\n", 0), (b"", 1_000)])
def test_a_file_that_was_written_again_withdraws_nothing(
    ledger: Ledger, tmp_path: Path, before: bytes, gone: int
) -> None:
    """What an earlier version read may have been right about the bytes that are gone."""
    path = written(tmp_path / "in")
    read_by(ledger, Later(1), path)
    written(tmp_path / "in", before + LINES[: len(LINES) - gone])

    read_by(ledger, Later(2, ["second ask"]), path)

    assert texts(ledger) == FIRST


def test_a_file_that_grew_meanwhile_withdraws_only_what_was_read(ledger: Ledger, tmp_path: Path) -> None:
    """The rest is of another copy of the file, which went on longer and is gone."""
    lines = LINES.splitlines(keepends=True)
    longer = written(tmp_path / "gone")
    read_by(ledger, Later(1), longer)
    longer.unlink()
    path = written(tmp_path / "in", b"".join(lines[:8]))
    read_by(ledger, Later(1), path)

    read_by(ledger, Later(2, ["first ask", "second ask", "third ask"]), path)

    assert texts(ledger) == ["first answer", "second ask", "second answer", "third ask", "third answer"]


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
@pytest.mark.parametrize("at_once", [True, False])
def test_what_another_file_derives_stays(
    ledger: Ledger, tmp_path: Path, order: list[int], at_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two files give the same event; the newer reader derives it from the second one alone."""
    paths = [written(tmp_path / "a"), written(tmp_path / "b")]
    read_by(ledger, Later(1), *paths)

    class Either(Later):
        def reader(self, origin: Origin) -> GrowingReader:
            return (Later(2, ["second ask"]) if "/a/" in origin.path else Later(2)).reader(origin)

    for batch in [[paths[at] for at in order]] if at_once else [[paths[at]] for at in order]:
        read_by(ledger, Either(2), *batch)

    assert texts(ledger) == FIRST


def test_an_upgrade_that_is_killed_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It dies before and after each append, in transactions of a few events, and another import does the rest."""
    path = written(tmp_path / "in")
    later = Later(2, FIRST[::2], ["x"])
    monkeypatch.setattr(limits, "IMPORT_EVENTS", 2)
    with app.open(tmp_path / "expected", create=True) as ledger:
        read_by(ledger, Later(1), path)
        read_by(ledger, later, path)
        expected, head = texts(ledger), ledger.log.head()
    for step in range(200):
        with app.open(tmp_path / f"{step}", create=True) as ledger:
            read_by(ledger, Later(1), path)
            with monkeypatch.context() as patch:
                calls = dying_at(step, ledger, patch)
                with suppress(KeyboardInterrupt):
                    read_by(ledger, later, path)
            read_by(ledger, later, path)
            assert (texts(ledger), ledger.log.head()) == (expected, head), step
        if calls[0] <= step:
            return
    raise AssertionError("it never came to its end")


def dying_at(step: int, ledger: Ledger, patch: pytest.MonkeyPatch) -> list[int]:
    """Interrupt an import before (even steps) or behind (odd ones) one of its appends or writes of a checkpoint."""
    calls = [0]

    def interrupting(real: Any) -> Any:
        def call(*args: Any, **more: Any) -> Any:
            calls[0] += 1
            if calls[0] == step + 1:
                raise KeyboardInterrupt
            result = real(*args, **more)
            calls[0] += 1
            if calls[0] == step + 1:
                raise KeyboardInterrupt
            return result

        return call

    patch.setattr(ledger.log, "append", interrupting(ledger.log.append))
    patch.setattr(checkpoints, "_write_atomically", interrupting(checkpoints._write_atomically))
    return calls


def test_two_upgrades_at_once_withdraw_once(ledger: Ledger, tmp_path: Path) -> None:
    path = written(tmp_path / "in")
    read_by(ledger, Later(1), path)
    [(_, older)] = Checkpoints(ledger.path / FOLDER, ledger.id, ledger.log).find([Later(2)], str(path))
    later = Later(2, ["second ask"], ["x"])
    read_by(ledger, later, path)
    head = ledger.log.head()
    kept = Checkpoints(ledger.path / FOLDER, ledger.id, ledger.log)
    [(_, name)] = checkpoints._names([later], path.resolve())
    kept._write(name, older)  # as if the other had begun before

    read_by(ledger, later, path)

    assert ledger.log.head() == head


def test_a_file_of_another_tool_that_an_older_reader_mistook_is_disowned(ledger: Ledger, tmp_path: Path) -> None:
    path = written(tmp_path / "in")
    read_by(ledger, Later(1), path)

    class Stricter(Later):
        def recognises(self, value: Mapping[str, Any]) -> bool:
            return False

    [report] = read_by(ledger, Stricter(2), path.parent)

    assert texts(ledger) == []
    assert report.passed == 1
    assert "events were withdrawn" in "".join(problem.what for problem in report.problems)


def test_too_many_ranges_of_positions_become_fewer_that_are_wider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CHECKPOINT_RANGES", 3)
    ranges = Ranges([(1, 2)])

    ranges.add(Receipt(None, "duplicate", position, position) for position in (3, 5, 6, 20))
    assert ranges.kept() == [(1, 3), (5, 6), (20, 20)]

    ranges.add([Receipt(None, "appended", 40, 40), Receipt(None, "refined", 41, 20)])
    assert ranges.kept() == [(1, 6), (20, 20), (40, 40)]
