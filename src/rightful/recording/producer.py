"""The producer API: a method for each kind of fact, for hooks and runners in Python.

    with rightful.open(path) as ledger:
        hook = ledger.producer("claude-code-hook")
        hook.exposure("claude-code:7fbe4341", {"lessons/git.md": 0.8}, key="prompt-1")

Each method returns the ledger's receipt once the fact is durable. Calling it again with the same facts is
safe: the outcome is `duplicate`, because the event id is derived from `key`, or else from the fields that
identify the fact. The exception is `grade` without `seq`: it compares with the last value, so a script that
grades 0.6 and then 0.7 writes both again when it is run again. Pass `seq` if the grader has one.
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

Arms = Mapping[str, float | None] | Iterable[str | ArmShown]
"""Arms as an argument: names, or each name with its probability of injection."""


class Producer:
    """Writes facts under one producer name. Threads may share it.

    Every method accepts `at`, the time of the fact (aware; now if None), and `extra`, an object for fields
    that the type does not define. It raises `InvalidEventError` if the fact is not valid for its type, and
    the errors of `Ledger.append`. In each case nothing was written.

    Args:
        log: The ledger's log.
        name: The producer's name.
        clock: Returns the default for `at`; microseconds since 1970, UTC.

    Raises:
        InvalidEventError: The name is not a valid producer name.
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
            event: A struct, or a wire object; `producer` and `at` are added to a wire object without them.

        Raises:
            InvalidEventError: The event is not valid for its type. Nothing was written.
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
            run_nonce: A random value, one per run. Two starts with different nonces are two runs.
            key: A key of your own; by default derived from session and nonce.
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
        """Record that a session ended. A resumed session may end again.

        Args:
            session: The session's name.
            turns: The number of its turns.
            exit_code: The exit code of its process.
            key: A key of your own; by default derived from session, turns and exit code.
            at: When it happened.
            extra: Fields that the type does not define.
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
        """Link a run's own name to a tool's name for it.

        Args:
            session: The run's own name.
            other: The tool's name for it.
            as_: The relation of the two: `native`, `resume`, `retry`, `subagent`.
            evidence: The evidence for the claim.
            note: A note for people.
            key: A key of your own; required to link two names again after `unlink`.
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
            other: The tool's name that was linked by mistake.
            note: A note for people.
            key: A key of your own; required to unlink two names a second time.
            at: When it happened.
        """
        key = key or composite_key(session, "unlinked", other)
        return self._record(events.SessionUnlinked, key, at, session=session, other=other, note=note)

    # -- exposures and grades --------------------------------------------------------------

    def exposure(
        self,
        session: str,
        arms: Arms,
        *,
        withheld: Arms = (),
        turn: str | None = None,
        index: int | None = None,
        key: str | None = None,
        at: datetime | None = None,
        **fields: Any,  # noqa: ANN401 - the event's own fields, checked by its type
    ) -> Receipt:
        """Record that arms were shown to a session.

        Args:
            session: The session's name.
            arms: The arms shown: names, or each name with its probability of injection.
            withheld: The arms that were eligible but not shown, in the same form.
            turn: The turn.
            index: The index in the turn; a second exposure in the turn has another index.
            key: A key of your own; without one, `turn` and `index` are required.
            at: When it happened.
            fields: `context` (the dimensions of a contextual bandit), `extra` …
        """
        return self._record(
            events.ExposureRecorded,
            _key(key, session, "exposure", turn, index),
            at,
            session=session,
            arms=_arms_of(arms, "$.arms"),
            withheld=_arms_of(withheld, "$.withheld"),
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

        Without `seq` the grader's last value is read. An equal value is a `duplicate`. Another value gets the
        next seq, on condition that the session was not graded again in between.

        Args:
            session: The session's name.
            reward: The reward, 0 to 1; or pass `outcome`.
            seq: Your own revision number, if you have one.
            key: A key of your own; by default derived from session, rubric and seq. Without `seq`, the first
                value uses this key, and later values use it together with their seq.
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
        """Retract this grader's grade of a session. A later grade replaces the retraction.

        Args:
            session: The session's name.
            rubric: The rubric of the grade.
            reason: The reason, for people.
            seq: Your own revision number, if you have one; by default the next one.
            key: A key of your own; by default derived from session, rubric and seq.
            at: When it happened.

        Raises:
            UsageError: This grader has no grade here, and no `seq` was passed. Nothing was written.
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
        """Record a message. A longer text with the same key replaces a shorter one.

        Args:
            session: The session's name.
            role: `user`, `assistant`, `system` …
            content: Text, or a list of parts.
            turn: The turn.
            index: The index in the turn.
            key: A key of your own; without one, `turn` and `index` are required.
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
            key: A key of your own; by default derived from session, turn and call.
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
            key: A key of your own; by default derived from session, turn and call.
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
        """Record that a turn ended, and the facts that you know about its content.

        Args:
            session: The session's name.
            turn: The turn.
            key: A key of your own; by default derived from session and turn.
            at: When it happened.
            fields: `stop_reason`, `event_count`, `dropped_count`, `previous`, `index`, `extra`.
        """
        key = key or composite_key(session, "turn_ended", turn)
        return self._record(events.TurnEnded, key, at, session=session, turn=turn, **fields)


def _key(key: str | None, session: str, kind: str, turn: str | None, index: int | None) -> str:
    """Return the key. Without turn and index, two facts could not be distinguished from one fact sent twice."""
    if key is not None:
        return key
    if turn is None or index is None:
        raise InvalidEventError("Expected `key`, or `turn` and `index`, which make one", "$.key")
    return composite_key(session, kind, turn, index)


def _arms_of(arms: Arms, place: str) -> tuple[ArmShown, ...]:
    if isinstance(arms, str):
        raise InvalidEventError("Expected `array` or `object`, got `str`", place)  # each letter would be an arm
    if isinstance(arms, Mapping):
        return tuple(ArmShown(arm, p_inject) for arm, p_inject in arms.items())
    return tuple(arm if isinstance(arm, ArmShown) else ArmShown(arm) for arm in arms)
