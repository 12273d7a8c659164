"""Each workload does the work it says, at a small size. Nothing here is timed."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import islice
from pathlib import Path

import pytest
from benchmarks import appends, conversations, growth, handing, histories, imports, peers, replays, sessions, starts
from benchmarks.__main__ import BENCHMARKS
from benchmarks.generator import Wire, events
from benchmarks.harness import ROOT, Result, Setting, environment
from benchmarks.stores import Twin, append, append_each, build

import rightful
from rightful.encoding.merkle import EMPTY_ROOT, HASH_BYTES
from rightful.storage.recorder import LMDBRecorder
from rightful.storage.tables.query import raw_rows
from rightful.storage.tables.snapshot import read_snapshot

pytestmark = pytest.mark.slow


@pytest.fixture
def wires() -> Iterator[Wire]:
    return events(1_000)


def quick(name: str, folder: Path) -> list[Result]:
    return list(BENCHMARKS[name](Setting(folder, quick=True)))


def test_the_bare_store_gets_the_very_rows_of_the_ledger_one_by_one(tmp_path: Path, wires: Iterator[Wire]) -> None:
    with Twin(tmp_path) as twin:
        append_each(twin.ledger, list(islice(wires, 30)))
        commits = twin.news(1)
        twin.put_each(commits)

        assert len(commits) == 30
        twin.check()


def test_the_bare_store_gets_the_very_rows_of_the_ledger_in_batches(tmp_path: Path, wires: Iterator[Wire]) -> None:
    with Twin(tmp_path) as twin:
        for _ in range(2):
            append(twin.ledger, list(islice(wires, 50)))
            append(twin.ledger, list(islice(wires, 50)))
            commits = twin.news(50)
            twin.put_many(commits)
            assert [len(commit.rows) for commit in commits] == [50, 50]

        assert twin.news(50) == []
        twin.check()


@pytest.mark.parametrize("before", [0, 10, 600])
def test_the_bare_store_gets_what_stands_in_the_tables_and_in_the_journal(
    tmp_path: Path, wires: Iterator[Wire], before: int
) -> None:
    """600 events in one commit are too many for the journal, 10 are not; both may stand there before."""
    with rightful.open(tmp_path / "ours", create=True) as ledger:
        if before:
            append(ledger, list(islice(wires, before)))
            append(ledger, list(islice(wires, 5)))

    with Twin(tmp_path, tmp_path / "ours") as twin:
        assert twin.news(1) == []
        twin.check()
        for count in (5, 300, 5):
            append(twin.ledger, list(islice(wires, count)))
        twin.put_many(twin.news(10))
        twin.check()
        assert not (tmp_path / "bare" / "journal").exists()


@pytest.mark.parametrize("kept_in", ["tables", "journal"])
@pytest.mark.parametrize("name", ["rows", "payloads", "tags", "types"])
def test_a_bare_store_with_another_byte_is_noticed(
    tmp_path: Path, wires: Iterator[Wire], name: str, kept_in: str
) -> None:
    with Twin(tmp_path) as twin:
        append(twin.ledger, list(islice(wires, 600 if kept_in == "tables" else 10)))
        twin.put_many(twin.news(600))
        twin.check()
        with twin.bare.begin(write=True, db=twin.tables[name]) as txn, txn.cursor() as cursor:
            assert cursor.last()
            key, value = cursor.item()
            assert txn.delete(key, value)
            assert txn.put(key, bytes([value[0] ^ 1]) + value[1:])

        with pytest.raises(AssertionError, match=name):
            twin.check()


def test_a_bare_store_that_lacks_a_row_is_noticed(tmp_path: Path, wires: Iterator[Wire]) -> None:
    with Twin(tmp_path) as twin:
        append(twin.ledger, list(islice(wires, 10)))
        append(twin.ledger, list(islice(wires, 10)))
        twin.put_many(twin.news(10)[:1])

        with pytest.raises((AssertionError, ValueError)):
            twin.check()


def test_a_store_without_a_tree_has_its_rows_and_no_hash(tmp_path: Path, wires: Iterator[Wire]) -> None:
    with rightful.open(tmp_path / "ledger", create=True) as ledger:
        with appends.no_tree():
            append(ledger, list(islice(wires, 10)))
            append(ledger, list(islice(wires, 10)))
        recorder = ledger.log.recorder
        assert isinstance(recorder, LMDBRecorder)

        assert recorder.tree_head() == (20, bytes(HASH_BYTES))
        values, _ = read_snapshot(recorder.tables(), lambda now: raw_rows(now, 0, 20))
        assert [value[:HASH_BYTES] for value in values] == [bytes(HASH_BYTES)] * 20


def test_a_ledger_beside_it_keeps_its_tree(tmp_path: Path, wires: Iterator[Wire]) -> None:
    with rightful.open(tmp_path / "ledger", create=True) as ledger:
        with appends.no_tree():
            pass
        append(ledger, list(islice(wires, 10)))
        assert isinstance(ledger.log.recorder, LMDBRecorder)
        size, root = ledger.log.recorder.tree_head()

    assert size == 10
    assert root not in {EMPTY_ROOT, bytes(HASH_BYTES)}


def test_the_bare_scan_sees_every_row_and_reward(tmp_path: Path) -> None:
    """Also the last ten, which the journal would keep."""
    build(tmp_path / "ledger", events(1_010))

    _, seen = replays.scan(tmp_path / "ledger")

    assert seen == replays.expected(events(1_010))
    assert seen.rows == 1_010
    assert seen.rewards > 200


def test_a_cold_replay_finds_nothing_stored_and_gives_the_same_answer(tmp_path: Path) -> None:
    build(tmp_path / "ledger", events(1_500))
    _, stored = replays.cold(tmp_path / "ledger", store=True)
    assert (tmp_path / "ledger" / "projections").exists()

    _, found = replays.cold(tmp_path / "ledger")

    assert not (tmp_path / "ledger" / "projections").exists()
    assert len(found.arms) > 200
    replays.same(found, stored)


def test_the_bandit_adds_up_and_loads_what_it_saved(tmp_path: Path) -> None:
    peers.Bandit(tmp_path).update(["lessons/git/lesson-000.md", "lessons/shell/lesson-001.md"], 0.75)
    peers.Bandit(tmp_path).update(["lessons/git/lesson-000.md"], 0.25)

    arm = peers.Bandit(tmp_path).arms["lessons/git/lesson-000.md"]

    assert (arm.alpha, arm.beta, arm.total_selections, arm.total_rewards) == (2.0, 2.0, 2, 1)
    text = (tmp_path / "bandit-state.json").read_text()
    assert text == json.dumps(json.loads(text), indent=2) + "\n"
    assert len(json.loads(text)["arms"]) == 100


def test_session_store_writes_a_record_after_a_cut_line_on_its_own_line(tmp_path: Path) -> None:
    facts, store = peers.Facts(), peers.SessionStore(tmp_path)
    store.append(facts.record())
    with store.path.open("a") as file:
        file.write('{"cut":')

    store.append(facts.record())

    first, cut, last = store.path.read_bytes().split(b"\n")[:-1]
    assert cut == b'{"cut":'
    assert [json.loads(line)["session_id"] for line in (first, last)] == ["s00000000", "s00000001"]
    assert len(json.loads(last)) == 67


def test_ingest_runs_the_whole_command(tmp_path: Path) -> None:
    rightful.open(tmp_path / "ledger", create=True).close()
    (wire,) = events(1)

    starts.run([*starts.program(), "--ledger", str(tmp_path / "ledger"), "ingest"], json.dumps(wire))

    with rightful.open(tmp_path / "ledger") as ledger:
        assert [one.id for one in ledger.read()] == [rightful.event_id(wire["producer"], wire["key"])]


def test_a_replay_of_its_own_process_tells_its_memory(tmp_path: Path) -> None:
    build(tmp_path / "ledger", events(1_500))
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.worker", "replay", str(tmp_path / "ledger")],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    _, answer = replays.cold(tmp_path / "ledger")

    told = json.loads(done.stdout)
    assert told["arms"] == len(answer.arms)
    assert 5 < told["anonymous_mb"] < 200


@pytest.mark.parametrize(
    ("name", "benches"),
    [
        ("append-one", ["append-one"]),
        ("append-threads", ["append-16-threads"]),
        ("append-processes", ["append-16-processes"]),
        ("append-batches", ["append-batches"]),
        ("tree", ["tree"]),
        ("replay", ["replay-cold"]),
        ("another-policy", ["replay-another-policy"]),
        ("what-if", [f"what-if-{kind}" for kind in replays.WHAT_IFS]),
        ("new-events", ["replay-100-new-events"]),
        ("peer", ["append-peer", "append-peer-batched"]),
        ("ingest", ["ingest-one"]),
        ("hook", ["hook-before-tool", "hook-after-tool", "hook-prompt", "hook-lesson", "hook-long-session"]),
        ("handoff", ["handoff-race-2", "handoff-race-4", "handoff-race-8", "handoff-cost"]),
        (
            "history-read",
            [
                "history-size",
                "history-cold-start",
                "history-first-read",
                "history-read-all",
                "history-read-50",
                "history-size-compacted",
                "history-read-all-compacted",
                "history-read-50-compacted",
                "history-read-all-appended",
                "history-read-50-appended",
            ],
        ),
        ("growth", ["growth-memory", "growth-replay", "growth-append"]),
    ],
)
def test_every_benchmark_does_its_work_to_the_end(name: str, benches: list[str], tmp_path: Path) -> None:
    results = quick(name, tmp_path)

    assert [result.bench for result in results] == benches
    assert all(min(pair) > 0 for result in results for pair in result.pairs)


def test_a_race_of_handoffs_counts_whose_was_read(tmp_path: Path) -> None:
    """Of two sessions that both write before they read, one gets the other's from the file."""
    rightful.open(tmp_path / "ledger", create=True).close()
    races = [handing._Race("ledger", tmp_path / "ledger", 2), handing._Race("file", tmp_path / "meta.json", 2)]

    assert [race.own_reads(3) for race in races] == [1.0, 0.5]
    assert [race.said for race in races] == [{"own": 6}, {"own": 3, "other": 3}]


@pytest.mark.parametrize("way", conversations.WAYS)
def test_a_race_of_sessions_notices_what_is_not_stored(tmp_path: Path, way: str) -> None:
    with histories.crew(1) as workers:  # they have nothing to do
        race, path = histories.Race(tmp_path, way, 2, workers, own=False), conversations.place(tmp_path, way)
    asyncio.run(conversations.fill(way, path, histories.NAME, 2, 2))

    asyncio.run(race._check(path, [1]))
    for other in (0, 2):
        with pytest.raises(AssertionError):
            asyncio.run(race._check(path, [other]))


@pytest.mark.parametrize(("way", "own"), [("ledger", True), ("sqlite", False)])
def test_sessions_of_two_processes_race_on_one_store(tmp_path: Path, way: str, own: bool) -> None:
    with histories.crew(2) as workers:
        race = histories.Race(tmp_path, way, 1, workers, own=own)

        assert min(race.rate(0.05), race.rate(0.05)) > 0
    assert len(race.p99_ms) == len(race.worst_ms) == 2
    assert 0 < race.p99_ms[0] <= race.worst_ms[0]
    assert [worker.returncode for worker in workers] == [0, 0]


@pytest.mark.parametrize("way", conversations.WAYS)
def test_a_read_after_an_append_notices_what_is_not_stored(tmp_path: Path, way: str) -> None:
    path = conversations.place(tmp_path, way)
    put = asyncio.run(conversations.fill(way, path, histories.NAME, 2, 2))
    one = conversations.session(way, path, histories.NAME)

    assert histories._milliseconds_after(one, put, None, 2) > 0
    assert len(put) == 6
    with pytest.raises(AssertionError):
        histories._milliseconds_after(one, put[1:], None, 1)
    one.close()


@pytest.mark.parametrize(("is_quick", "races", "processes"), [(True, 2, 2), (False, 10, 8)])
def test_all_races_of_sessions_share_a_few_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_quick: bool, races: int, processes: int
) -> None:
    """Each imports the SDK, which takes a second or more."""
    asked: list[int] = []
    crews: list[int] = []

    def crew(count: int) -> nullcontext[range]:
        crews.append(count)
        return nullcontext(range(count))

    monkeypatch.setattr(histories, "crew", crew)
    monkeypatch.setattr(histories, "_append", lambda _, __, workers, **___: asked.append(len(workers)))
    list(histories.append(Setting(tmp_path, quick=is_quick)))

    assert (len(asked), max(asked), crews) == (races, processes, [processes])


def test_growth_counts_each_session_once() -> None:
    counted = growth._Counted(iter([{"session": "t:a"}, {"session": "t:b"}, {"session": "t:a"}]))

    assert len(list(counted)) == 3
    assert counted.sessions == 2


def test_sessions_are_files_of_whole_lines_from_a_seed(tmp_path: Path) -> None:
    size = sessions.write(tmp_path / "a", 0.2)
    sessions.write(tmp_path / "b", 0.2)

    [path] = (tmp_path / "a").iterdir()
    data = path.read_bytes()
    assert (len(data), data) == (size, (tmp_path / "b" / path.name).read_bytes())
    assert 200_000 <= size < 250_000
    lines = [json.loads(line) for line in data.splitlines()]
    assert {line["sessionId"] for line in lines} == {path.stem}
    assert 2_000 < size / len(lines) < 8_000


def test_importing_transcripts_takes_every_line_and_says_what_it_took(tmp_path: Path) -> None:
    speed, memory = quick("import-transcripts", tmp_path)

    assert (speed.bench, speed.budget, speed.at_most) == ("import-transcripts", 0.3, False)
    assert (memory.bench, memory.at_most, memory.pairs[0].floor) == ("import-memory", True, imports.MEMORY_MB)
    assert 0 < speed.ratio < 1
    assert 10 < memory.pairs[0].ours < memory.detail["rss_mb"][0]
