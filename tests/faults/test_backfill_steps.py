"""A backfill that is killed, or fails, at each of its steps: the same command completes it.

For each step a process dies by SIGKILL right before it (so right after the one before it), or
the step fails once. Then the same apply, or rollback, is made again.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.backfilling import GIT, NOON, applied, arm, ledger_with, plan_of, rows, state, taken_back, text, written
from tests.faults.support import run
from tests.projections.telling import exposed, graded

import rightful

pytestmark = pytest.mark.slow

MODEL = "pm-model:ci-fix:opus"

EVERY_STEP = """
import hashlib, json, os, shutil, sys
from pathlib import Path
from contextlib import contextmanager
import rightful
from tests.backfilling import clock
from tests.faults.steps import Steps
from rightful.errors import StorageError
from rightful.projections.projected import Projected
from rightful.backfill.planning import Books
from rightful.backfill.plan_document import plan_from
from rightful.backfill.apply_plan import apply, rollback

folder, name, what, how = Path(sys.argv[1]), *sys.argv[2:]
base, work, plan = folder / "base", folder / "work", plan_from((folder / "plan.json").read_bytes(), "plan")
target = work / "state" / name

@contextmanager
def books(path):
    with rightful.open(path) as ledger:
        yield Books(Projected(ledger.log), ledger.path, ledger.id)  # nothing is saved at the end

def act(found):
    return apply(found, plan, clock) if what == "apply" else rollback(found, str(target), clock)

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
    with books(work / "ledger") as found:
        steps = Steps(at, how)
        steps.install()
        act(found)
        steps.at, reached = 0, steps.done >= at
    return 8 if reached else 0

def again():
    with books(work / "ledger") as found:
        act(found)
        every = [[row.type, row.outcome, getattr(row.event, "new_sha256", None)] for row in
                 found.projected.log.read(types=["balance.opened", "posterior.published"])]
    (folder / "said").write_text(json.dumps(every))
    return 0

def stands():
    return hashlib.sha256(target.read_bytes()).hexdigest() if target.exists() else None

again()  # loads every module, once for all children
at = 0
while True:
    at += 1
    shutil.rmtree(work)
    shutil.copytree(base, work)
    status = in_child(lambda: once(at))
    if status == 0:
        break
    between = stands()
    repeated = in_child(again)
    beside = sorted(one.name for one in target.parent.iterdir())
    half = [one.name for one in (work / "ledger" / "backfill").glob("*.new")]
    said = json.loads((folder / "said").read_text())
    print(json.dumps({"at": at, "status": status, "between": between, "repeated": repeated, "after": stands(),
                      "beside": beside, "half": half, "said": said}), flush=True)
"""


class Case(NamedTuple):
    """What is done, to which file."""

    name: str
    reader: str
    before: dict[str, Any] | None
    what: str


FILE = state(arm(GIT, 3.0, 2.0, 3))
PM = {"arms": {MODEL: {"alpha": 1.7, "beta": 1.3, "total_selections": 1}}}
CASES = {
    "apply": Case("bandit-state.json", "gptme-sessions", FILE, "apply"),
    "apply, a new file": Case("new.json", "lesson-hook", None, "apply"),
    "apply, with the tool's lock and backup": Case("bandit-state.json", "pm-dispatch", PM, "apply"),
    "rollback": Case("bandit-state.json", "gptme-sessions", FILE, "rollback"),
    "rollback, with the tool's lock and backup": Case("bandit-state.json", "pm-dispatch", PM, "rollback"),
    "rollback, of a new file": Case("new.json", "lesson-hook", None, "rollback"),
}


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Made(NamedTuple):
    """The state before, and what the file held and holds."""

    folder: Path
    old: str | None
    new: str
    rows: list[list[Any]]


@pytest.fixture
def make(tmp_path: Path) -> Callable[[Case], Made]:
    def make(case: Case) -> Made:
        """A ledger and a file in `work`, a plan for it, and a copy of both in `base`."""
        work = tmp_path / "work"
        target = work / "state" / case.name
        target.parent.mkdir(parents=True)
        if case.before is not None:
            written(target, case.before)
        path = ledger_with(work)
        with rightful.open(path) as ledger:
            ledger.append([exposed("t:c", MODEL, at=NOON), graded("t:c", 1.0, at=NOON + 1)])
        plan = plan_of(path, target, case.reader)
        (tmp_path / "plan.json").write_bytes(plan.document())
        if case.what == "rollback":
            applied(path, plan)
        shutil.copytree(work, tmp_path / "base")
        old = None if case.before is None else sha256(text(case.before))
        opened = [] if case.before is None else [["balance.opened", "appended", None]]
        published = [["posterior.published", "appended", plan.new_sha256]]
        if case.what == "rollback":
            published.append(["posterior.published", "appended", old or sha256(b"")])
        return Made(tmp_path, old, plan.new_sha256, opened + published)

    return make


@pytest.mark.parametrize(
    ("name", "how"), [*((name, how) for name in CASES for how in ("KILL", "EIO")), ("apply", "ENOSPC")]
)
def test_the_same_command_completes_what_ended_at_any_step(name: str, how: str, make: Callable[[Case], Made]) -> None:
    case = CASES[name]
    made = make(case)

    done = run(EVERY_STEP, made.folder, case.name, case.what, how)
    found = [json.loads(line) for line in done.stdout.splitlines()]

    assert done.returncode == 0, done.stderr
    assert len(found) > 8, "hardly a step was counted"
    assert {one["status"] for one in found} == {9 if how == "KILL" else 4 << 8}, found
    ends = made.new if case.what == "apply" else made.old
    names = [] if ends is None else [case.name]
    if case.reader == "pm-dispatch":
        names += [f"{case.name}.bak"] if case.what == "apply" else []  # there was none before
        names += [f"{case.name}.lock"]
    for one in found:
        assert one["between"] in {made.old, made.new}, one
        assert (one["repeated"], one["after"], one["beside"]) == (0, ends, names), one
        assert (one["said"], one["half"]) == (made.rows, []), one


APPLY = """
import sys
from pathlib import Path
from tests.backfilling import books, clock
from rightful.backfill.plan_document import plan_from
from rightful.backfill.apply_plan import apply
folder = Path(sys.argv[1])
with books(folder / "work" / "ledger") as found:
    print(apply(found, plan_from((folder / "plan.json").read_bytes(), "plan"), clock).happened)
"""


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace injects the signal")
@pytest.mark.parametrize(("call", "when"), [("fdatasync", 1), ("fdatasync", 2), ("renameat2", 1)])
def test_killed_system_call_leaves_a_state_that_a_repeat_completes(
    call: str, when: int, make: Callable[[Case], Made]
) -> None:
    """The calls that the ledger's engine makes below us, and the exchange itself."""
    made = make(CASES["apply"])
    target, inject = made.folder / "work" / "state" / "bandit-state.json", f"inject={call}:signal=KILL:when={when}"
    strace = ("strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", inject)

    killed = run(APPLY, made.folder, prefix=strace)
    if "ptrace" in killed.stderr:
        pytest.skip("this machine lets nobody trace")
    assert sha256(target.read_bytes()) in {made.old, made.new}
    assert killed.returncode in {-9, 137}, "nothing was killed"
    done = run(APPLY, made.folder)

    assert done.returncode == 0, done.stderr
    assert sha256(target.read_bytes()) == made.new
    path = made.folder / "work" / "ledger"
    assert [one.new_sha256 for one in rows(path, "posterior.published")] == [made.new]
    assert len(rows(path, "balance.opened")) == 1
    taken_back(path, target)
    assert sha256(target.read_bytes()) == made.old
