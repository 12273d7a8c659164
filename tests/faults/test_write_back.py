"""Writing references back that is killed, or fails, at each of its steps: the old file or the new one, and again."""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path

import pytest
from tests.faults.support import needs_root, run, small_disk

EVERY_STEP = """
import hashlib, json, os, shutil, sys
from pathlib import Path
from tests.faults.steps import Steps
from rightful.errors import StorageError
from rightful.backfill import reference_repair as references, target_file as target
from rightful.locate.record_lines import rows_of

folder, how = Path(sys.argv[1]), sys.argv[2]
base, work = folder / "base", folder / "work"
path = work / "session-records.jsonl"
owners = json.loads(sys.argv[3])

def write():
    seen = target.read_plannable(str(path))
    rows = tuple(row for row in rows_of(seen.data, str(path)).rows if row.is_missing)
    return references.write_back(str(path), seen, rows, owners)

def in_child(job):
    pid = os.fork()
    if pid == 0:
        code = 9
        try:
            code = job()
        except StorageError:
            code = 4
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1]

def once(at):
    steps = Steps(at, how)
    steps.install()
    write()
    steps.at, reached = 0, steps.done >= at
    return 8 if reached else 0

def again():
    write()
    return 0

sha = lambda at: hashlib.sha256(at.read_bytes()).hexdigest()
shutil.copytree(base, work)
again()
new, at, said = sha(path), 0, []
while True:
    at += 1
    shutil.rmtree(work)
    shutil.copytree(base, work)
    status = in_child(lambda: once(at))
    if status == 0:
        break
    between = sha(path)
    assert in_child(again) == 0, at
    names = sorted(one.name for one in work.iterdir())
    told = between == sha(base / path.name), between == new, sha(path) == new
    said.append([os.waitstatus_to_exitcode(status), *told, names])
print(json.dumps(said))
"""

FOUND = "/tmp/found/conversation.jsonl"
ROWS = (
    '\ufeff{"session_id": "a", "timestamp": "2026-08-01T10:15:00Z", "trajectory_path": "/gone/x.jsonl"}\r\n'
    '{"session_id": "torn", "harn\n'
    '{"session_id":"b","outcome":"noop"}\n\n'
    '{"session_id": "g1"}{"session_id": "a"}\n'
    '{"session_id": "c", "trajectory_path": null, "x": [1, {"trajectory_path": 1}]}'
)
OWNERS = {"workspace:a@2026-08-01T10:15:00Z": FOUND, "workspace:a": FOUND, "workspace:b": FOUND, "workspace:c": FOUND}


def make(folder: Path) -> Path:
    path = folder / "base" / "session-records.jsonl"
    path.parent.mkdir()
    path.write_bytes(ROWS.encode())
    return path


@pytest.mark.parametrize("how", ["KILL", "EIO", "ENOSPC"])
def test_file_is_old_or_new_after_any_step_and_a_repeat_completes_it(how: str, tmp_path: Path) -> None:
    path = make(tmp_path)
    done = run(EVERY_STEP, tmp_path, how, json.dumps(OWNERS))
    assert done.returncode == 0, done.stderr
    steps = json.loads(done.stdout)
    backup = f"session-records.jsonl.{hashlib.sha256(path.read_bytes()).hexdigest()[:16]}.bak"
    allowed = {-9} if how == "KILL" else {4, 8}  # 8: what failed was only the removal of what is not needed any more
    assert len(steps) > 8
    for code, is_old, is_new, completed, names in steps:
        assert code in allowed
        assert is_old != is_new
        assert completed
        assert names == ["session-records.jsonl", backup, "session-records.jsonl.lock"]
    assert {step[1] for step in steps} == {True, False}


@needs_root
def test_on_a_full_disk_nothing_is_written(tmp_path: Path) -> None:
    with small_disk(256) as disk:
        base = disk / "base"
        base.mkdir()
        path = base / "session-records.jsonl"
        path.write_bytes(ROWS.encode())
        (disk / "filler").write_bytes(b"x" * 4096)
        with (disk / "fill").open("wb", buffering=0) as fill, contextlib.suppress(OSError):
            while True:
                fill.write(b"x" * 4096)
        script = EVERY_STEP.split("sha = lambda", maxsplit=1)[0].replace('/ "work"', '/ "base"') + "again()"
        done = run(script, disk, "KILL", json.dumps(OWNERS))
        assert "StorageError" in done.stderr
        assert "No space left on device" in done.stderr
        assert path.read_bytes() == ROWS.encode()
        assert {one.name for one in base.iterdir()} <= {"session-records.jsonl", "session-records.jsonl.lock"}
