"""Deferred compactions: one that was due but could not be made is recorded as an event, so it survives a restart."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from rightful import limits, times
from rightful.events import CompactionDeferred, HistoryAppended
from rightful.histories.send import send
from rightful.identity import composite_key
from rightful.integrations.openai_agents.compaction import provider
from rightful.log.log import now_us

if TYPE_CHECKING:
    from rightful import Ledger
    from rightful.integrations.openai_agents.compaction.compaction_plan import CompactionRequest

PRODUCER = "openai-agents"
"""The producer of the events."""

FAILED = "the provider's compaction failed"
"""The start of the reason after a failure of the provider."""

_RETRIES = 2
"""The number of failures after which the provider is not called again in each turn."""


def record_owed(ledger: Ledger, session: str, request: CompactionRequest, reason: str, *, inline: bool) -> None:
    """Record a deferred compaction. If one is recorded already, record another only after an automatic failure."""
    failed = reason.startswith(FAILED) and not request.force
    if not failed and ledger.history(session, 0).owed is not None:
        return
    run, response_id = request.run.calls.run, request.response_id
    which = uuid.uuid4().hex if failed or response_id is None else response_id
    event = CompactionDeferred(
        producer=PRODUCER,
        key=composite_key(session, "deferred", run, which),
        session=session,
        at=times.at_of(now_us()),
        response_id=response_id,
        store=request.store,
        run=run,
        reason=reason[: limits.WORD_CHARS],
    )
    send(ledger.log, [event], inline=inline)


def is_paused(ledger: Ledger, session: str) -> bool:
    """Return whether the deferred compaction should not be retried yet.

    That is so if the provider failed twice and few items were added since. Otherwise a compaction that always
    fails, because the history is too large or the model's name is wrong, would be requested in every turn.
    """
    failed: list[int] = []
    for row in ledger.read(session=session, types=("compaction.deferred", "history.compacted", "history.cleared")):
        if not isinstance(row.event, CompactionDeferred):
            failed = []
        elif (row.event.reason or "").startswith(FAILED):
            failed.append(row.position)
    if len(failed) < _RETRIES:
        return False
    later = ledger.read(session=session, types=("history.appended",), after=failed[-1])
    batches = [row.event.items for row in later if isinstance(row.event, HistoryAppended)]
    return sum(len(provider.candidates(items)) for items in batches) < provider.THRESHOLD
