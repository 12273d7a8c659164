"""The producer API: a method for each kind of fact, for hooks and runners in Python.

    with rightful.open(path) as ledger:
        hook = ledger.producer("claude-code-hook")
        hook.exposure("claude-code:7fbe4341", {"lessons/git.md": 0.8}, key="prompt-1")

Each method returns the ledger's receipt once the fact is durable. Calling it again with the
same facts is safe: the event id comes from `key`, or from what identifies the fact where no
key is given, and the answer is `duplicate`. The exception is `grade` without `seq`: it compares
with the last value, so a script that grades 0.6 and then 0.7 and is run again does both again.
Pass `seq` where the grader has one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rightful import events, times
from rightful.errors import InvalidEventError
from rightful.events import Event
from rightful.field_types import ArmShown, Evidence, Relation
from rightful.identity import PRODUCER, composite_key
from rightful.importers.shared.regrades import GradeAppender
from rightful.log.log import Clock, Log, now_us
from rightful.log.rows import Receipt, valid

if TYPE_CHECKING:
    from rightful.recording.turn_recorder import TurnRecorder

Shown = Mapping[str, float | None] | Iterable[str | ArmShown]
"""Arms as a caller has them: names, or each name with its probability of injection."""


class Producer:
    """Writes facts under one producer name. Threads may share it.

    Every method takes `at`, when it happened (aware; now if None), and `extra`, an object for
    what is not modelled. It raises `InvalidEventError` when the fact does not fit its type, and
    the errors of `Ledger.append`; nothing was written then.

    Args:
        log: The ledger's log.
        name: The producer's name.
        clock: Tells `at` where a caller does not; microseconds since 1970, UTC.

    Raises:
        InvalidEventError: The name has not the form of a producer's name.
    """

    def __init__(self, log: Log, name: str, *, clock: Clock = now_us) -> None:
        if not re.match(PRODUCER, name):
            raise InvalidEventError(f"Expected a producer's name, got {name[:128]!r}", "$.producer")
        self.name = name
        self._log = log
        self._clock = clock
        self._grading = GradeAppender(log, name)

    def record(self, event: Event | Mapping[str, Any]) -> Receipt:
        """Append one event of any kind and return its receipt.

        Args:
            event: A struct, or a wire object; `producer` and `at` are filled in where it has none.

        Raises:
            InvalidEventError: It does not fit its type. Nothing was written.
        """
        if not isinstance(event, Event):
            event = {"producer": self.name, "at": self._at(None), **event}
        [receipt] = self._log.append([event])
        return valid(receipt)

    def _at(self, at: datetime | None) -> datetime:
        return times.at_of(self._clock()) if at is None else at

    def _record(self, kind: type[Event], key: str, at: datetime | None, **fields: Any) -> Receipt:  # noqa: ANN401 - as above
        return self.record(kind(producer=self.name, key=key, at=self._at(at), **fields))

    # -- sessions --------------------------------------------------------------------------

    def started(
        self,
        session: str,
        *,
        run_nonce: str | None = None,
        key: str | None = None,
        at: datetime | None = None,
        **fields: Any,  # noqa: ANN401 - content, checked by the type
    ) -> Receipt:
        """Record that a session began.

        Args:
            session: The session's name.
            run_nonce: A value drawn once per run; two starts with different ones are two runs.
            key: A key of your own; session and nonce identify it otherwise.
            at: When it happened.
            fields: `harness`, `model`, `cwd`, `work_item`, `extra`.
        """
        key = key or composite_key(session, "started", run_nonce)
        return self._record(events.SessionStarted, key, at, session=session, run_nonce=run_nonce, **fields)

    def ended(
        self,
        session: str,
        *,
        turns: int | None = None,
        exit_code: int | None = None,
        key: str | None = None,
        at: datetime | None = None,
        extra: dict[str, Any] | None = None,
    ) -> Receipt:
        """Record that a session ended; a resumed one may end again.

        Args:
            session: The session's name.
            turns: How many turns it had.
            exit_code: What its process returned.
            key: A key of your own; session, turns and exit code identify it otherwise.
            at: When it happened.
            extra: What is not modelled.
        """
        key = key or composite_key(session, "ended", turns, exit_code)
        return self._record(
            events.SessionEnded, key, at, session=session, turns=turns, exit_code=exit_code, extra=extra
        )

    def link(
        self,
        session: str,
        other: str,
        *,
        as_: Relation = "native",
        evidence: Evidence = "native-id",
        note: str | None = None,
        key: str | None = None,
        at: datetime | None = None,
    ) -> Receipt:
        """Join a run's own name with a name under which a tool knows it.

        Args:
            session: The run's own name.
            other: The tool's name for it.
            as_: How they belong together: `native`, `resume`, `retry`, `subagent`.
            evidence: What the claim rests on.
            note: For people.
            key: A key of your own; needed to join again what was unlinked.
            at: When it happened.
        """
        key = key or composite_key(session, "linked", other, as_, evidence)
        return self._record(
            events.SessionLinked, key, at, session=session, other=other, as_=as_, evidence=evidence, note=note
        )

    def unlink(
        self,
        session: str,
        other: str,
        *,
        note: str | None = None,
        key: str | None = None,
        at: datetime | None = None,
    ) -> Receipt:
        """Withdraw the earlier links of two names.

        Args:
            session: The run's own name.
            other: The tool's name that is not its name after all.
            note: For people.
            key: A key of your own; needed to part again what was joined again.
            at: When it happened.
        """
        key = key or composite_key(session, "unlinked", other)
        return self._record(events.SessionUnlinked, key, at, session=session, other=other, note=note)

    # -- exposures and grades --------------------------------------------------------------

    def exposure(
        self,
        session: str,
        arms: Shown,
        *,
        withheld: Shown = (),
        turn: str | None = None,
        index: int | None = None,
        key: str | None = None,
        at: datetime | None = None,
        **fields: Any,  # noqa: ANN401 - the event's own fields, checked by its type
    ) -> Receipt:
        """Record that arms were put in front of a session.

        Args:
            session: The session's name.
            arms: What was shown: names, or each name with its probability of injection.
            withheld: What was eligible and held back, likewise.
            turn: The turn.
            index: The place in the turn; a second exposure of the turn has another.
            key: A key of your own; without one, `turn` and `index` must identify it.
            at: When it happened.
            fields: `context` (the dimensions of a contextual bandit), `extra` …
        """
        return self._record(
            events.ExposureRecorded,
            _key(key, session, "exposure", turn, index),
            at,
            session=session,
            arms=_shown(arms, "$.arms"),
            withheld=_shown(withheld, "$.withheld"),
            turn=turn,
            index=index,
            **fields,
        )

    def grade(
        self,
        session: str,
        reward: float | None = None,
        *,
        seq: int | None = None,
        key: str | None = None,
        at: datetime | None = None,
        **fields: Any,  # noqa: ANN401 - the grade's own fields, checked by its type
    ) -> Receipt:
        """Record a grade. Without `seq`, a changed grade replaces this grader's earlier one.

        Without `seq` the grader's last value is read: an equal one is a `duplicate`, another
        gets the next seq, on condition that nobody graded the session in between.

        Args:
            session: The session's name.
            reward: The reward, 0 to 1; or give `outcome`.
            seq: Your own revision number, if you keep one.
            key: A key of your own; session, rubric and seq identify the grade otherwise. Without
                `seq` it names the first value, and later ones get it with their seq.
            at: When it happened.
            fields: `outcome`, `rubric`, `per_arm`, `salience`, `exposure_session`, `decay_rate`, `extra` …
        """
        fields = {"session": session, "reward": reward, **fields}
        return self._grading.grade(fields, self._at(at), seq=seq, key=key)

    def retract(
        self,
        session: str,
        *,
        rubric: str = "overall",
        reason: str | None = None,
        seq: int | None = None,
        key: str | None = None,
        at: datetime | None = None,
    ) -> Receipt:
        """Take this grader's grade of a session back; a later grade re-instates.

        Args:
            session: The session's name.
            rubric: What was graded.
            reason: For people.
            seq: Your own revision number, if you keep one; the next one otherwise.
            key: A key of your own; session, rubric and seq identify it otherwise.
            at: When it happened.

        Raises:
            UsageError: There is no grade of this grader, and no `seq` was given. Nothing was written.
        """
        fields = {"session": session, "rubric": rubric, "reason": reason}
        return self._grading.retract(fields, self._at(at), seq=seq, key=key)

    # -- transcripts -----------------------------------------------------------------------

    def turn(
        self, session: str, turn: str, *, previous: str | None = None, timeout_s: float | None = None
    ) -> TurnRecorder:
        """Return the recorder of one turn, which counts and closes it; see `TurnRecorder` for the arguments."""
        from rightful.recording.turn_recorder import TurnRecorder

        return TurnRecorder(
            self._log, self.name, session, turn, previous=previous, timeout_s=timeout_s, clock=self._clock
        )

    def message(
        self,
        session: str,
        role: str,
        content: Any,  # noqa: ANN401 - content is any JSON value
        *,
        turn: str | None = None,
        index: int | None = None,
        key: str | None = None,
        at: datetime | None = None,
    ) -> Receipt:
        """Record what somebody said; a longer text under the same key refines it.

        Args:
            session: The session's name.
            role: `user`, `assistant`, `system` …
            content: Text, or a list of parts.
            turn: The turn.
            index: The place in the turn.
            key: A key of your own; without one, `turn` and `index` must identify it.
            at: When it happened.
        """
        return self._record(
            events.MessageRecorded,
            _key(key, session, "message", turn, index),
            at,
            session=session,
            role=role,
            content=content,
            turn=turn,
            index=index,
        )

    def tool_call(
        self,
        session: str,
        call: str,
        *,
        turn: str | None = None,
        key: str | None = None,
        at: datetime | None = None,
        **fields: Any,  # noqa: ANN401 - content, checked by the type
    ) -> Receipt:
        """Record one state of a tool call; send it again as it grows.

        Args:
            session: The session's name.
            call: The call's own id, unique in its turn.
            turn: The turn.
            key: A key of your own; session, turn and call identify it otherwise.
            at: When it happened.
            fields: `name`, `arguments`, `complete`, `index`, `extra`.
        """
        key = key or composite_key(session, "tool_call", turn, call)
        return self._record(events.ToolCallSnapshotted, key, at, session=session, call=call, turn=turn, **fields)

    def tool_result(
        self,
        session: str,
        call: str,
        *,
        turn: str | None = None,
        key: str | None = None,
        at: datetime | None = None,
        **fields: Any,  # noqa: ANN401 - content, checked by the type
    ) -> Receipt:
        """Record one state of a tool's result; send it again as it grows.

        Args:
            session: The session's name.
            call: The id of the call it answers.
            turn: The turn.
            key: A key of your own; session, turn and call identify it otherwise.
            at: When it happened.
            fields: `output`, `is_error`, `complete`, `index`, `extra`.
        """
        key = key or composite_key(session, "tool_result", turn, call)
        return self._record(events.ToolResultSnapshotted, key, at, session=session, call=call, turn=turn, **fields)

    def turn_ended(
        self,
        session: str,
        turn: str,
        *,
        key: str | None = None,
        at: datetime | None = None,
        **fields: Any,  # noqa: ANN401 - the event's own fields, checked by its type
    ) -> Receipt:
        """Record that a turn closed, and what you know it held.

        Args:
            session: The session's name.
            turn: The turn.
            key: A key of your own; session and turn identify it otherwise.
            at: When it happened.
            fields: `stop_reason`, `event_count`, `dropped_count`, `previous`, `index`, `extra`.
        """
        key = key or composite_key(session, "turn_ended", turn)
        return self._record(events.TurnEnded, key, at, session=session, turn=turn, **fields)


def _key(key: str | None, session: str, kind: str, turn: str | None, index: int | None) -> str:
    """Without turn and index nothing tells two facts apart from one fact sent twice."""
    if key is not None:
        return key
    if turn is None or index is None:
        raise InvalidEventError("Expected `key`, or `turn` and `index`, which make one", "$.key")
    return composite_key(session, kind, turn, index)


def _shown(arms: Shown, place: str) -> tuple[ArmShown, ...]:
    if isinstance(arms, str):
        raise InvalidEventError("Expected `array` or `object`, got `str`", place)  # its letters would be arms
    if isinstance(arms, Mapping):
        return tuple(ArmShown(arm, p_inject) for arm, p_inject in arms.items())
    return tuple(arm if isinstance(arm, ArmShown) else ArmShown(arm) for arm in arms)
