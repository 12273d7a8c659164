"""Record the calls of another updater's bandit as they happen, so that a replay reproduces its numbers exactly.

    with rightful.open(path) as ledger:
        calls = BanditCalls(ledger.log, "runner")
        bandit.update(lessons, 0.8, context=("code", "opus"), decay_rate=0.99)
        calls.update(lessons, 0.8, context=("code", "opus"), decay_rate=0.99, call="2026-08-01/17")

Each call is one append and has its own session name, `bandit-call:UPDATER#CALL`, so that only the listed arms earn
its grade, however often a session updates. `call` is the caller's id of the call: recording it again writes nothing.
The reference of policies describes the events, for runners in other languages.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from rightful import times
from rightful.encoding import wire
from rightful.errors import ConditionFailedError, InvalidEventError
from rightful.events import BanditDecayed, BanditPruned, Event, ExposureRecorded, GradeRecorded
from rightful.field_types import ArmContext, ArmShown
from rightful.identity import PRODUCER, composite_key, event_id
from rightful.importers.shared.regrades import ATTEMPTS, TYPES, grades_of
from rightful.log.log import Clock, Log, now_us
from rightful.log.rows import Receipt, valid
from rightful.policies import PRESETS

NAMESPACE = "bandit-call"
"""Namespace of the names of calls."""

_REWARDS = PRESETS["gptme"].outcomes


class BanditCalls:
    """Records the calls of one updater, in the order in which they are recorded.

    Record a call after the updater has saved its file. Do not record a change that was never saved because a reload
    dropped it. Record a change that a later call saved before that call. Threads may share an instance; the order of
    their calls is the order that is replayed.

    Args:
        log: The ledger's log.
        updater: The name of the updater; the producer of the events.
        clock: Returns the default of `at`; microseconds since 1970, UTC.

    Raises:
        InvalidEventError: The name is not a valid producer name.
    """

    def __init__(self, log: Log, updater: str = "gptme-sessions", *, clock: Clock = now_us) -> None:
        if not re.match(PRODUCER, updater):
            raise InvalidEventError(f"Expected a producer's name, got {updater[:128]!r}", "$.producer")
        self.updater = updater
        self._log = log
        self._clock = clock

    def name_of(self, call: str) -> str:
        """Return the session name of a call."""
        return f"{NAMESPACE}:{self.updater}#{call}"

    def update(  # noqa: PLR0913 - those of the call that it records
        self,
        arms: Iterable[str],
        outcome: float | str,
        *,
        call: str,
        context: Iterable[str | None] | None = None,
        per_arm_rewards: Mapping[str, float] | None = None,
        decay_rate: float | None = None,
        session: str | None = None,
        at: datetime | None = None,
    ) -> list[Receipt]:
        """Record one `update`: the exposure of the listed arms and its grade, in one append.

        Args:
            arms: The listed arms, in order; an arm listed twice was updated twice. An empty list is
                a call too: it decays.
            outcome: The reward, 0 to 1, or an outcome word of gptme. If no arm used it, because all had their own
                rewards or none was listed, it may be any number, as in gptme.
            call: The caller's id of the call.
            context: The context that was updated in addition to each arm.
            per_arm_rewards: Rewards of single arms; those of arms that are not listed had no effect.
            decay_rate: The factor by which everything was decayed first.
            session: The graded session, if known: under `last_wins` only its
                last call counts then, and other graders compete with it.
            at: The file's `last_updated` after the call. The default, the time of recording, is later: if
                the file is later opened as a balance, such a call does not count as included, and is counted again.

        Returns:
            The receipts of the exposure and of the grade; `duplicate` if the call is already in the ledger.

        Raises:
            InvalidEventError: The updater itself refuses such a call. Nothing was written.
        """
        if isinstance(arms, str):
            raise InvalidEventError("Expected `array`, got `str`", "$.arms")  # otherwise each letter would be an arm
        listed = tuple(arms)
        own = {arm: float(reward) for arm, reward in (per_arm_rewards or {}).items() if arm in listed}
        name, when = self.name_of(call), self._time(at)
        shown = ExposureRecorded(
            producer=self.updater,
            key=composite_key("exposure", call),
            session=name,
            at=when,
            arms=tuple(ArmShown(arm) for arm in listed),
            context=None if context is None else tuple(context),
        )
        fields: dict[str, Any] = {
            "producer": self.updater,
            "key": composite_key("grade", call),
            "session": session or name,
            "at": when,
            "per_arm": own or None,
            "exposure_session": None if session is None else name,
            "decay_rate": decay_rate,
            **_outcome_fields(outcome, used=any(arm not in own for arm in listed)),
        }
        wire.check(shown)
        wire.check(GradeRecorded(seq=1, **fields))
        return self._append_update(shown, fields)

    def decay(self, gamma: float, *, call: str, at: datetime | None = None) -> Receipt:
        """Record that everything was decayed, apart from an update.

        Args:
            gamma: The factor of alpha - 1 and beta - 1; above 0, at most 1.
            call: The caller's id of the call.
            at: When it happened.

        Raises:
            InvalidEventError: `gamma` is out of range. Nothing was written.
        """
        key, session = composite_key("decay", call), self.name_of(call)
        return self._append_one(
            BanditDecayed(producer=self.updater, key=key, session=session, at=self._time(at), gamma=gamma)
        )

    def pruned(
        self,
        arms: Iterable[str] = (),
        contexts: Iterable[tuple[str, Iterable[str | None]]] = (),
        *,
        call: str,
        at: datetime | None = None,
    ) -> Receipt:
        """Record which arms a prune dropped: those that existed before it and not after it.

        Args:
            arms: The arms themselves.
            contexts: (arm, context) of the arms in a context.
            call: The caller's id of the call.
            at: When it happened.

        Raises:
            InvalidEventError: A name or a context is not valid. Nothing was written.
        """
        return self._append_one(
            BanditPruned(
                producer=self.updater,
                key=composite_key("prune", call),
                session=self.name_of(call),
                at=self._time(at),
                arms=tuple(arms),
                contexts=tuple(ArmContext(arm, tuple(context)) for arm, context in contexts),
            )
        )

    def _time(self, at: datetime | None) -> datetime:
        return times.at_of(self._clock()) if at is None else at

    def _append_one(self, event: Event) -> Receipt:
        [receipt] = self._log.append([event])
        return valid(receipt)

    def _append_update(self, shown: ExposureRecorded, fields: dict[str, Any]) -> list[Receipt]:
        session = fields["session"]
        if fields["exposure_session"] is None:
            return self._log.append([shown, GradeRecorded(seq=1, **fields)])
        for _ in range(ATTEMPTS):
            read_at = self._log.head()
            grade = GradeRecorded(seq=self._seq(session, fields["key"], read_at), **fields)
            try:
                return self._log.append([shown, grade], unless=grades_of(session), after=read_at)
            except ConditionFailedError:
                continue
        raise ConditionFailedError(self._log.head())

    def _seq(self, session: str, key: str, until: int) -> int:
        """Return the seq of a call in a session: its existing one, else the next one."""
        mine, highest = event_id(self.updater, key), 0
        for row in self._log.read(session=session, types=TYPES, until=until):
            event = row.event
            if not isinstance(event, GradeRecorded) or event.producer != self.updater:
                continue
            if row.id == mine:
                return event.seq
            highest = max(highest, event.seq)
        return highest + 1


def _outcome_fields(outcome: float | str, *, used: bool) -> dict[str, Any]:
    """Return the grade's fields for an outcome; an outcome that no arm used goes to `extra`."""
    if isinstance(outcome, str):
        if outcome not in _REWARDS:
            known = ", ".join(f"`{word}`" for word in _REWARDS)
            raise InvalidEventError(f"Expected a number or one of {known}, got {outcome[:64]!r}", "$.outcome")
        return {"outcome": outcome}
    reward = float(outcome)
    if not used and not (math.isfinite(reward) and 0.0 <= reward <= 1.0):
        return {"reward": 0.0, "extra": {"outcome": repr(reward)}}
    return {"reward": reward}
