"""Every error is a sentence with its facts as attributes, says what to do, and survives a pickle."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import pytest

from rightful import errors
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
    (
        errors.PolicyError("odd"),
        2,
        {"what": "odd"},
        "Invalid policy: odd. Nothing was computed. Fix the policy and run the command again.",
    ),
    (
        errors.UpgradeError(5, "run.dreamt", 2),
        4,
        {"position": 5, "type": "run.dreamt", "schema": 2},
        "The row at position 5 is 'run.dreamt' version 2, which this version of the program does not know. Nothing was",
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
        "No ledger at /l. Nothing was created. Run `rightful init` (in Python: `create=True`), or name a ledger with",
    ),
    (
        errors.ForeignStoreError("/l", "cut short"),
        4,
        {"path": "/l", "why": "cut short"},
        "Cannot open /l: cut short. It was not changed",
    ),
    (
        errors.ReadOnlyStoreError("/l"),
        4,
        {"path": "/l"},
        "Cannot write to /l: it is open for reading only. Nothing was written",
    ),
    (
        errors.StoreFullError("/l", "ENOSPC"),
        4,
        {"path": "/l", "why": "ENOSPC"},
        "No space left to write to /l (ENOSPC). Nothing of this call was written",
    ),
    (
        errors.BusyError("/l", 0.5),
        4,
        {"path": "/l", "waited_s": 0.5},
        "Another writer held the write lock of /l for more than 0.5 s. Nothing was written",
    ),
    (
        errors.InUseError("/l", ("pid 7",)),
        4,
        {"path": "/l", "holders": ("pid 7",)},
        "/l is open in pid 7. Nothing was changed",
    ),
    (
        errors.ForkedError("/l"),
        4,
        {"path": "/l"},
        "This handle on /l was opened by the parent process and does not work after a fork. Nothing was written",
    ),
    (
        errors.ClosedError("/l"),
        4,
        {"path": "/l"},
        "This handle on /l is closed. Nothing was written. Open the ledger again.",
    ),
    (
        errors.DamagedRowError("/l", 5, "its checksum"),
        4,
        {"path": "/l", "position": 5, "what": "its checksum"},
        "The row at position 5 of /l is damaged: its checksum. It was not used. Rows up to position 4 and after 5 can",
    ),
    (
        errors.OutcomeUnknownError("/l", ("a", "b"), "EIO"),
        4,
        {"path": "/l", "ids": ("a", "b"), "why": "EIO"},
        "It is not known whether 2 event(s) were written to /l (EIO). Send the same events again",
    ),
    (
        errors.ConditionFailedError(7),
        3,
        {"after": 7},
        "The append condition failed: a matching row was written after position 7. Nothing was written",
    ),
    (
        errors.TargetError("/ws/b.json", "it is torn"),
        2,
        {
            "path": "/ws/b.json",
            "why": "it is torn",
            "advice": "Fix the file, or wait for its tool to finish, and plan again.",
        },
        "/ws/b.json was not changed: it is torn. Fix the file, or wait for its tool to finish, and plan again.",
    ),
    (
        errors.TargetChangedError("/ws/b.json", "a tool wrote it"),
        3,
        {"path": "/ws/b.json", "why": "a tool wrote it", "advice": "The file was not changed. Plan again."},
        "/ws/b.json: a tool wrote it. The file was not changed. Plan again.",
    ),
    (
        errors.BackfillRefusedError("/ws/b.json", ("it mixes forms", "too few pay")),
        1,
        {
            "path": "/ws/b.json",
            "why": ("it mixes forms", "too few pay"),
            "advice": "Fix these, or plan with --force.",
        },
        "/ws/b.json was not written: it mixes forms; too few pay. Fix these, or plan with --force.",
    ),
    (
        errors.IncompleteTranscriptError("t:a", "incomplete", ("turn 1 lacks index 2", "turn 2 is open")),
        1,
        {"session": "t:a", "state": "incomplete", "why": ("turn 1 lacks index 2", "turn 2 is open")},
        "The transcript of t:a is incomplete: turn 1 lacks index 2; turn 2 is open. Nothing of it was shown.",
    ),
    (
        errors.BacklogError("/l", 3, 0.5, "this event was not accepted"),
        4,
        {"path": "/l", "waiting": 3, "waited_s": 0.5, "what": "this event was not accepted"},
        "3 event(s) are still waiting to be written to /l after 0.5 s: this event was not accepted. Try again.",
    ),
    (
        errors.HandoffMismatchError("pr", "t:a", "run:b put it", "Give the session of this step."),
        3,
        {"name": "pr", "session": "t:a", "why": "run:b put it", "advice": "Give the session of this step."},
        "Handoff 'pr' of t:a: run:b put it. Nothing was handed over. Give the session of this step.",
    ),
    (
        errors.NothingToTakeError("pr", "t:a", "nothing was put"),
        1,
        {"name": "pr", "session": "t:a", "why": "nothing was put"},
        "Handoff 'pr' of t:a: nothing was put. Nothing was handed over. Put it first, or repeat",
    ),
    (
        errors.StaleTokenError("t:a", 3, 5),
        3,
        {"session": "t:a", "token_position": 3, "changed_at": 5},
        "The history of t:a changed at position 5, after your read at 3. Nothing was written. Read the history again",
    ),
    (
        errors.VoidTokenError("t:a", "nothing was read"),
        2,
        {"session": "t:a", "why": "nothing was read"},
        "This token cannot compact t:a: nothing was read. Nothing was written. Read the history again",
    ),
    (
        errors.RunDiffersError("t:a", "job-7", 2, 9),
        3,
        {"session": "t:a", "run": "job-7", "ordinal": 2, "position": 9},
        "Run key 'job-7' was already used in session t:a, and call 2 differs from the first attempt (position 9).",
    ),
    (
        errors.SessionClosedError("t:a"),
        2,
        {"session": "t:a"},
        "The session object of t:a is closed. Nothing was written. Create a new one to continue.",
    ),
    (
        errors.NotJsonError(1, "keys must be str"),
        2,
        {"at": 1, "why": "keys must be str"},
        "Item 1 of the batch is not a JSON value (keys must be str). Nothing of the batch was written. Convert it",
    ),
    (
        errors.CompactionRefusedError("t:a", "no response id was given"),
        2,
        {"session": "t:a", "why": "no response id was given"},
        "The history of t:a was not compacted: no response id was given. Nothing was sent or written. Use mode",
    ),
]
IDS = [type(case[0]).__name__ for case in CASES]


def test_every_error_is_here() -> None:
    kinds = {
        kind
        for module in (errors,)
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
