"""Eight processes that ingest at once, killed in between, every batch sent twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from tests import amounts

import rightful

WORKERS, BATCHES, BATCH, KILLS = 8, 12, 10, amounts.either(3, 1)
Wire = dict[str, Any]

WORKER = """
import json, sys
import rightful

ledger_path, events_path = sys.argv[1:]
batches = [json.loads(line) for line in open(events_path, encoding="utf-8")]
with rightful.open(ledger_path) as ledger:
    for batch in batches:
        for _ in range(2):
            receipts = ledger.append(batch)
            print(json.dumps([[one.id, one.position] for one in receipts]), flush=True)
    sys.stdin.read()  # whoever is to be killed is still there, however late that comes
"""


def batches_of(worker: int) -> list[list[Wire]]:
    """Exposures, links, grades and regrades of this worker's own sessions, and arms that all share."""
    rng = random.Random(worker)
    events: list[Wire] = []
    for number in range(BATCHES * BATCH // 5):
        native, own = f"claude-code:{worker}-{number}", f"workspace:{worker}-{number}@1"
        common = {"producer": f"worker-{worker}", "at": f"2026-08-01T10:{number:02}:00Z"}
        arms = [{"arm": f"lessons/{rng.randrange(9)}.md"} for _ in range(2)]
        grade = {**common, "type": "grade.recorded", "session": own, "at": "2026-08-01T12:00:00Z"}
        events += [
            {**common, "type": "exposure.recorded", "key": f"e{number}", "session": native, "arms": arms},
            {**common, "type": "session.linked", "key": f"l{number}", "session": own, "other": native,
             "as": "native", "evidence": "native-id"},
            {**grade, "key": f"g{number}", "reward": rng.random(), "seq": 1},
            {**grade, "key": f"h{number}", "reward": rng.random(), "seq": 2},
            {**grade, "key": f"j{number}", "reward": rng.random(), "seq": 1, "rubric": "alignment"},
        ]  # fmt: skip
    return [events[at : at + BATCH] for at in range(0, len(events), BATCH)]


def run_worker(ledger: Path, events: Path, kill_after: int | None, acknowledged: dict[str, int]) -> int:
    """Run one worker, kill it when it has acknowledged so many batches, and note what it acknowledged."""
    program = [sys.executable, "-c", WORKER, str(ledger), str(events)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    until = subprocess.DEVNULL if kill_after is None else subprocess.PIPE
    with subprocess.Popen(program, stdin=until, stdout=subprocess.PIPE, env=environment, text=True) as process:
        assert process.stdout is not None
        for count, line in enumerate(process.stdout, 1):
            if line.endswith("\n"):
                acknowledged.update((event_id, position) for event_id, position in json.loads(line))
            if count == kill_after:
                process.send_signal(signal.SIGKILL)
                break
        process.stdout.read()
        return process.wait()


def work_until_done(worker: int, ledger: Path, folder: Path, acknowledged: dict[str, int], codes: list[int]) -> None:
    events = folder / f"events-{worker}.jsonl"
    events.write_text("".join(json.dumps(batch) + "\n" for batch in batches_of(worker)), "utf-8")
    rng = random.Random(worker)
    for _ in range(KILLS):
        assert run_worker(ledger, events, rng.randrange(1, 2 * BATCHES), acknowledged) == -signal.SIGKILL
    codes.append(run_worker(ledger, events, None, acknowledged))


def answer(ledger: rightful.Ledger) -> bytes:
    document = ledger.posteriors().as_dict()
    return json.dumps([document["arms"], document["counters"], document["through"]]).encode()


def test_nothing_acknowledged_is_missing_and_nothing_occurs_twice(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    rightful.open(path, create=True).close()
    known: list[dict[str, int]] = [{} for _ in range(WORKERS)]
    codes: list[int] = []
    threads = [
        threading.Thread(target=work_until_done, args=(worker, path, tmp_path, known[worker], codes))
        for worker in range(WORKERS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert codes == [0] * WORKERS
    every = [event for worker in range(WORKERS) for batch in batches_of(worker) for event in batch]
    acknowledged = {event_id: position for of_worker in known for event_id, position in of_worker.items()}
    with rightful.open(path) as ledger, rightful.open(tmp_path / "alone", create=True) as alone:
        rows = list(ledger.read())
        assert [row.position for row in rows] == list(range(1, len(every) + 1))
        assert {row.outcome for row in rows} == {"appended"}
        assert {row.id: row.position for row in rows} == acknowledged
        alone.append(every)
        assert answer(ledger) == answer(alone)
        assert ledger.posteriors().counters == {"credited_grades": len(every) // 5}
