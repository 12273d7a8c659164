"""A process that hands something over, at a barrier or until it dies; run by the tests of handoffs."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from rightful import ledger as app
from rightful.errors import HandoffMismatchError, NothingToTakeError
from rightful.handoffs.handoffs import Handoffs
from rightful.log.log import Log


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _met() -> None:
    """Say that we are ready, and wait for all others."""
    _say("ready")
    sys.stdin.readline()


def race(path: str, session: str, key: str) -> None:
    """Take once, at the same moment as the others."""
    with app.open(path) as ledger:
        hand = Handoffs(ledger.log, environ={}, cwd=Path(f"/{os.getpid()}"))
        _met()
        try:
            taken = hand.take("meta", session=session, put_by="t:giver", key=key or None)
        except NothingToTakeError:
            _say("nothing")
        else:
            _say(f"got {taken.payload}")


def rounds(path: str, session: str, nonce: str, count: str) -> None:
    """Hand something to our own next step again and again, under the name that all others use too."""
    wrong = refused = 0
    with app.open(path) as ledger:
        hand = Handoffs(ledger.log, environ={"RIGHTFUL_RUN_NONCE": nonce}, cwd=Path("/w"))
        _met()
        for number in range(int(count)):
            try:
                hand.put("meta", f"{nonce} {number}", session=session)
                wrong += hand.take("meta", session=session).payload != f"{nonce} {number}"
            except (HandoffMismatchError, NothingToTakeError):
                refused += 1
    _say(f"{wrong} {refused}")


def dying(path: str, act: str, moment: str) -> None:
    """Put or take with a key, and die before or after the commit."""
    real = Log.append

    def append(log: Log, *args: Any, **more: Any) -> Any:
        if moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        receipts = real(log, *args, **more)
        os.kill(os.getpid(), signal.SIGKILL)
        return receipts

    Log.append = append  # type: ignore[method-assign, assignment]
    with app.open(path) as ledger:
        hand = Handoffs(ledger.log, environ={}, cwd=Path("/died"))
        if act == "put":
            hand.put("meta", "x", session="t:a", key="k")
        else:
            hand.take("meta", session="t:a", key="k")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["race", path, session, key]:
            race(path, session, key)
        case ["rounds", path, session, nonce, count]:
            rounds(path, session, nonce, count)
        case ["dying", path, act, moment]:
            dying(path, act, moment)
        case words:
            sys.exit(f"there is no work {words}")
