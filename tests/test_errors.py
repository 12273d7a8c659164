"""Every error is a sentence with its facts as attributes, says what to do, and survives a pickle."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import pytest

from rightful import errors, session_errors
from rightful.errors import RightfulError

CASES: list[tuple[RightfulError, int, dict[str, Any], str]] = [
    (errors.RightfulError("x"), 4, {}, "x"),
    (errors.UsageError("say it otherwise"), 2, {}, "say it otherwise"),
    (
        errors.InvalidEventError("Expected `str`", "$.arms[0]"),
        2,
        {"what": "Expected `str`", "place": "$.arms[0]"},
        "Expected `str` - at `$.arms[0]`",
    ),
    (errors.PolicyError("odd"), 2, {"what": "odd"}, "this is no policy: odd. Nothing was computed"),
    (
        errors.UpgradeError(5, "run.dreamt", 2),
        4,
        {"position": 5, "type": "run.dreamt", "schema": 2},
        "the row at position 5 is 'run.dreamt' version 2, which this program does not know; nothing was computed",
    ),
    (
        errors.StorageError("it failed", "Do this."),
        4,
        {"what": "it failed", "advice": "Do this."},
        "it failed. Do this.",
    ),
    (
        errors.LedgerNotFoundError("/l"),
        4,
        {"path": "/l"},
        "there is no ledger at /l; nothing was made. Run `rightful init` (in Python: `create=True`), or name one with",
    ),
    (
        errors.ForeignStoreError("/l", "cut short"),
        4,
        {"path": "/l", "why": "cut short"},
        "/l was refused: cut short. It was not changed",
    ),
    (
        errors.ReadOnlyStoreError("/l"),
        4,
        {"path": "/l"},
        "/l cannot be written: it is open for reading only; nothing was written",
    ),
    (
        errors.StoreFullError("/l", "ENOSPC"),
        4,
        {"path": "/l", "why": "ENOSPC"},
        "there is no room to write to /l (ENOSPC)",
    ),
    (
        errors.BusyError("/l", 0.5),
        4,
        {"path": "/l", "waited_s": 0.5},
        "another writer held /l for more than 0.5 s; nothing was written",
    ),
    (
        errors.InUseError("/l", ("pid 7",)),
        4,
        {"path": "/l", "holders": ("pid 7",)},
        "/l is open in pid 7; nothing was changed",
    ),
    (
        errors.ForkedError("/l"),
        4,
        {"path": "/l"},
        "this handle on /l was opened by the parent process; nothing was done",
    ),
    (
        errors.ClosedError("/l"),
        4,
        {"path": "/l"},
        "this handle on /l is closed; nothing was done. Open the ledger again.",
    ),
    (
        errors.DamagedRowError("/l", 5, "its checksum"),
        4,
        {"path": "/l", "position": 5, "what": "its checksum"},
        "the row at position 5 of /l is damaged: its checksum. It was not used",
    ),
    (
        errors.OutcomeUnknownError("/l", ("a", "b"), "EIO"),
        4,
        {"path": "/l", "ids": ("a", "b"), "why": "EIO"},
        "whether 2 event(s) were written to /l is not known (EIO). Send the same events again",
    ),
    (
        errors.ConditionFailedError(7),
        3,
        {"after": 7},
        "a row after position 7 fits the condition of this append, so nothing was written",
    ),
    (
        errors.TargetError("/ws/b.json", "it is torn"),
        2,
        {"path": "/ws/b.json", "why": "it is torn", "advice": "Mend it, or let its tool finish, and plan again."},
        "/ws/b.json was not touched: it is torn. Mend it, or let its tool finish, and plan again.",
    ),
    (
        errors.TargetChangedError("/ws/b.json", "a tool wrote it"),
        3,
        {"path": "/ws/b.json", "why": "a tool wrote it", "advice": "What stands there was kept. Plan again."},
        "/ws/b.json: a tool wrote it. What stands there was kept. Plan again.",
    ),
    (
        errors.BackfillRefusedError("/ws/b.json", ("it mixes forms", "too few pay")),
        1,
        {
            "path": "/ws/b.json",
            "why": ("it mixes forms", "too few pay"),
            "advice": "Mend what is named, or plan with --force.",
        },
        "/ws/b.json was not written: it mixes forms; too few pay. Mend what is named, or plan with --force.",
    ),
    (
        session_errors.IncompleteTranscriptError("t:a", "incomplete", ("turn 1 lacks index 2", "turn 2 is open")),
        1,
        {"session": "t:a", "state": "incomplete", "why": ("turn 1 lacks index 2", "turn 2 is open")},
        "the transcript of t:a is incomplete: turn 1 lacks index 2; turn 2 is open. Nothing of it was shown.",
    ),
    (
        session_errors.BacklogError("/l", 3, 0.5, "this event was not taken"),
        4,
        {"path": "/l", "waiting": 3, "waited_s": 0.5, "what": "this event was not taken"},
        "3 event(s) wait to be written to /l, and 0.5 s were not enough; this event was not taken. Try again.",
    ),
    (
        session_errors.HandoffMismatchError("pr", "t:a", "run:b put it", "Give the session of this step."),
        3,
        {"name": "pr", "session": "t:a", "why": "run:b put it", "advice": "Give the session of this step."},
        "handoff 'pr' of t:a: run:b put it; nothing was handed over. Give the session of this step.",
    ),
    (
        session_errors.NothingToTakeError("pr", "t:a", "nothing was put"),
        1,
        {"name": "pr", "session": "t:a", "why": "nothing was put"},
        "handoff 'pr' of t:a: nothing was put; nothing was handed over. Put it first, or repeat",
    ),
    (
        session_errors.StaleTokenError("t:a", 3, 5),
        3,
        {"session": "t:a", "token_position": 3, "changed_at": 5},
        "the history of t:a changed at position 5, after your read at 3; nothing was written. Read the history again",
    ),
    (
        session_errors.VoidTokenError("t:a", "nothing was read"),
        2,
        {"session": "t:a", "why": "nothing was read"},
        "nothing of t:a can be compacted with this token: nothing was read; nothing was written. Read the history",
    ),
    (
        session_errors.RunDiffersError("t:a", "job-7", 2, 9),
        3,
        {"session": "t:a", "run": "job-7", "ordinal": 2, "position": 9},
        "run 'job-7' of t:a was here before, and its call 2 did something else (position 9); nothing was written.",
    ),
    (
        session_errors.SessionClosedError("t:a"),
        2,
        {"session": "t:a"},
        "the session object of t:a is closed; nothing was done. Make another one to go on.",
    ),
    (
        session_errors.NotJsonError(1, "keys must be str"),
        2,
        {"at": 1, "why": "keys must be str"},
        "item 1 of the batch is not a JSON value (keys must be str). Nothing of the batch was written. Convert it",
    ),
    (
        session_errors.CompactionRefusedError("t:a", "no response id was given"),
        2,
        {"session": "t:a", "why": "no response id was given"},
        "the history of t:a was not compacted: no response id was given; nothing was sent or written. Compact in",
    ),
]
IDS = [type(case[0]).__name__ for case in CASES]


def test_every_error_is_here() -> None:
    kinds = {
        kind
        for module in (errors, session_errors)
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, RightfulError)
    }

    assert sorted(IDS) == sorted(kind.__name__ for kind in kinds)


@pytest.mark.parametrize(("error", "code", "facts", "said"), CASES, ids=IDS)
def test_an_error_is_a_sentence_with_its_facts_and_its_exit_code(
    error: RightfulError, code: int, facts: dict[str, Any], said: str
) -> None:
    assert str(error).startswith(said)
    assert {name: getattr(error, name) for name in facts} == facts
    assert error.exit_code == code


@pytest.mark.parametrize(("error", "code", "facts", "said"), CASES, ids=IDS)
def test_an_error_survives_the_way_to_another_process(
    error: RightfulError, code: int, facts: dict[str, Any], said: str
) -> None:
    again = pickle.loads(pickle.dumps(error))

    assert type(again) is type(error)
    assert str(again) == str(error)
    assert {name: getattr(again, name) for name in facts} == facts
