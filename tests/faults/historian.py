"""A process that keeps a history at the same time as others, or whose children die at it; run by the tests of it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.faults.steps import Steps

from rightful import ledger as app
from rightful import limits
from rightful.errors import StaleTokenError
from rightful.ledger import Ledger
from rightful.tokens import Batch, Token

ACTS: dict[str, Callable[[Ledger, Token], Any]] = {
    "extend": lambda ledger, token: len(ledger.extend(token, ["c", "d"], Batch(run="k", ordinal=0)).wrote),
    "parts": lambda ledger, token: len(ledger.extend(token, ["x" * 9_000] * 3, Batch(run="k", ordinal=0)).wrote),
    "pop": lambda ledger, token: ledger.pop(token.session, key="k"),
    "clear": lambda ledger, token: ledger.clear(token.session, key="k").outcome is not None,
    "compact": lambda ledger, token: ledger.compact(token, ["sum"]).outcome is not None,
    "fork": lambda ledger, token: ledger.fork("t:from", token.session, at=1).session == token.session,
}


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def kills(path: str, act: str) -> None:
    """Let a child die at each of its steps, and do it again; say what stood after each."""
    limits.EVENT_BYTES = 20_000
    with app.open(path) as ledger:
        ledger.extend("t:from", ["a", "b"])
    at = status = -1
    while status != 0:
        at += 1
        session = f"t:{act}-{at}"
        with app.open(path) as ledger:
            if act != "fork":
                ledger.extend(session, ["a", "b"])
            token = ledger.history(session).token
        if (child := os.fork()) == 0:
            with app.open(path) as ledger:
                Steps(at + 1, "KILL").install()
                ACTS[act](ledger, token)
                os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with app.open(path) as ledger:
            left = ledger.history(session).items
            answers = [ACTS[act](ledger, token) for _ in range(2)]
            items, rows = ledger.history(session).items, [row.type for row in ledger.read(session=session)]
        _say(json.dumps({"status": status, "left": left, "answers": answers, "items": items, "rows": rows}))


def appends(path: str, name: str, count: str) -> None:
    """Append one item after another."""
    with app.open(path) as ledger:
        _meet()
        for n in range(int(count)):
            ledger.extend("t:a", [f"{name}{n}"])


def compacts(path: str, count: str) -> None:
    """Let what is read give way to a summary that says all of it, again and again; say how often it was stale."""
    won = stale = 0
    with app.open(path) as ledger:
        _meet()
        for _ in range(int(count)):
            items, token = ledger.history("t:a")
            try:
                ledger.compact(Token.of(token.text()), [{"sum": items, "by": os.getpid()}])
                won += 1
            except StaleTokenError:
                stale += 1
    _say(f"{won} {stale}")


def _meet() -> None:
    _say("ready")
    sys.stdin.readline()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["kills", path, act]:
            kills(path, act)
        case ["appends", path, name, count]:
            appends(path, name, count)
        case ["compacts", path, count]:
            compacts(path, count)
        case words:
            sys.exit(f"there is no work {words} for {Path(__file__).name}")
