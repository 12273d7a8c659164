"""No exception at any line of a ledger's reads makes an answer wrong: here, in another process, or as stored."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from tests.contracts.support import Other
from tests.faults.interrupting import each_new_line
from tests.faults.test_interrupted import MEMORY

import rightful
from rightful.ledger import Ledger
from rightful.projections import projected, store

pytestmark = pytest.mark.slow

S = "t:history"
PROMPT = {"role": "user", "content": "go on"}
APART = 15
"""A read has some thousand lines, and after each all is compared with other processes."""

DECAYED = {"decay": {"mode": "time", "half_life": 1000}}
ERRORS = [KeyboardInterrupt, TimeoutError]


def facts(at: int) -> list[dict[str, Any]]:
    """Return what changes every answer: a lesson, its grade by an alias, a link, and something said."""
    common: dict[str, Any] = {"producer": "p", "at": f"2026-08-01T10:{at // 60 % 60:02d}:{at % 60:02d}Z"}
    name, arm, reward = f"t:run/{at}", f"lesson-{at % 5}", at % 7 / 7
    return [
        {"type": "exposure.recorded", "key": f"e{at}", "session": name, "arms": [{"arm": arm}], **common},
        {"type": "session.linked", "key": f"l{at}", "session": name, "other": f"u:{at}", "as": "native",
         "evidence": "pointer", **common},
        {"type": "grade.recorded", "key": f"g{at}", "session": f"t:run_{at}", "reward": reward, "seq": 1, **common},
        {"type": "message.recorded", "key": f"m{at}", "session": "t:said", "role": "user", "content": "", **common},
    ]  # fmt: skip


def answers(ledger: Ledger) -> dict[str, Any]:
    """Return what a ledger answers, as values that another process can send."""
    shown = ledger.history(S)
    return {
        "posteriors": ledger.posteriors().as_dict(),
        "decayed": ledger.posteriors(DECAYED).as_dict(),
        "audit": repr(ledger.audit("historical-newest")),
        "transcript": repr(ledger.transcript("t:said")),
        "history": (shown.items, shown.ids, shown.token.position, shown.token.commitment),
    }


def answer_again(pipe: Connection, folder: Path) -> None:
    """Answer like a fresh process: from what is stored if it fits, and from the log alone."""
    store.VERSION, projected.SAVE_ROWS = pipe.recv()
    while pipe.recv():
        with rightful.open(folder, readonly=True) as ledger:
            pipe.send(answers(ledger))
        with rightful.open(folder, readonly=True) as ledger:
            ledger.projected().store = None
            ledger.projected()._loaded = True
            pipe.send(answers(ledger))


class Reader:
    """Another process that opens the ledger again each time that it is asked."""

    def __init__(self, folder: Path) -> None:
        self._other = Other(answer_again, folder)
        self._other.tell((store.VERSION, projected.SAVE_ROWS))

    def look(self) -> tuple[Any, Any]:
        """Return what it answers from what is stored, and from the log alone."""
        self._other.tell(True)
        return self._other.hear(), self._other.hear()

    def end(self) -> None:
        self._other.tell(False)
        self._other.end()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a ledger in memory whose projections are saved with each few rows, in chunks of a few."""
    monkeypatch.setattr(projected, "SAVE_ROWS", 1)
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else tmp_path) as made:
        with rightful.open(Path(made) / "l", create=True) as ledger:
            ledger.append([event for at in range(3) for event in facts(at)])
            ledger.extend(S, [PROMPT] * 3)
            answers(ledger)
        yield Path(made) / "l"


@pytest.fixture
def reader(folder: Path) -> Iterator[Reader]:
    reader = Reader(folder)
    yield reader
    reader.end()


READS: dict[str, Callable[[Ledger], object]] = {
    "posteriors": lambda ledger: ledger.posteriors(),
    "decayed": lambda ledger: ledger.posteriors(DECAYED),
    "audit": lambda ledger: ledger.audit("historical-newest"),
    "transcript": lambda ledger: ledger.transcript("t:said"),
    "save": lambda ledger: (ledger.projected().catch_up(), ledger.projected().save()),
}


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("fresh", [False, True], ids=["kept", "fresh"])
@pytest.mark.parametrize("reading", list(READS))
def test_projected_read(folder: Path, reader: Reader, error: type[BaseException], reading: str, *, fresh: bool) -> None:
    """By a ledger that had all folded before the last rows, or by one that loads what is stored first."""
    numbers = count(100)
    ledger = rightful.open(folder)
    for interruption in each_new_line(error, room="projections", apart=APART):
        ledger.append(facts(next(numbers)))
        if fresh:
            ledger.close()
            ledger = rightful.open(folder)
        interruption.run(partial(READS[reading], ledger))
        check(ledger, reader, interruption.place)
    ledger.close()


def check(ledger: Ledger, reader: Reader, place: object) -> None:
    """Compare what is answered here, elsewhere from what is stored, and elsewhere from the log."""
    here = answers(ledger)
    theirs, whole = reader.look()
    for what, answer in whole.items():
        assert here[what] == answer, (what, "here", place)
        assert theirs[what] == answer, (what, "stored", place)


HISTORY_READS: dict[str, Callable[[Ledger], object]] = {
    "history": lambda ledger: ledger.history(S),
    "ready": lambda ledger: ledger.histories().ready(S, fold_recent=True),
    "extend": lambda ledger: ledger.extend(ledger.history(S).token, [PROMPT]),
    "pop": lambda ledger: ledger.pop(S),
    "compact": lambda ledger: ledger.compact(ledger.history(S, 2).token, [PROMPT]),
    "follow": lambda ledger: [recorded.position for recorded in ledger.follow(ledger.log.head() - 1, timeout_s=0)],
}


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("reading", list(HISTORY_READS))
def test_history(folder: Path, error: type[BaseException], reading: str) -> None:
    """By a ledger that has the view, of items that another handle has just appended."""
    numbers = count(1)
    with rightful.open(folder) as ledger, rightful.open(folder) as other:
        for interruption in each_new_line(error, room="log" if reading == "follow" else "histories"):
            other.extend(S, [{"role": "user", "content": f"{next(numbers)}"}])
            interruption.run(partial(HISTORY_READS[reading], ledger))
            ledger.extend(S, [PROMPT])
            shown = ledger.history(S)
            with rightful.open(folder, readonly=True) as fresh:  # it shares the store, and has no view
                whole = fresh.history(S)
            assert (shown.items, shown.ids, shown.token) == (whole.items, whole.ids, whole.token), interruption.place
