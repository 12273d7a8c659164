"""What is owed: a compaction that was due and could not be made is an event, so that a restart knows of it."""

from __future__ import annotations

import contextlib
import uuid
from typing import TYPE_CHECKING

from rightful import limits, times
from rightful.errors import OutcomeUnknownError
from rightful.events import CompactionDeferred, HistoryAppended
from rightful.identity import composite_key
from rightful.integrations.openai_agents.compaction import provider
from rightful.log.log import now_us

if TYPE_CHECKING:
    from rightful import Ledger
    from rightful.integrations.openai_agents.compaction.compaction_plan import CompactionRequest

PRODUCER = "openai-agents"
"""Who says that a compaction is owed."""

FAILED = "the provider's compaction failed"
"""How the reason begins of what the provider failed."""

_RETRIES = 2
"""After so many failures the provider is not asked again with each turn."""


def record_owed(
    ledger: Ledger, session: str, asked: CompactionRequest, run: str, reason: str, *, inline: bool = False
) -> None:
    """Record that a compaction is owed. If one is owed already, record it again only after an automatic failure."""
    failed = reason.startswith(FAILED) and not asked.force
    if not failed and ledger.history(session, 0).owed is not None:
        return
    response_id = asked.response_id
    if response_id is not None and not 0 < len(response_id) <= limits.WORD_CHARS:
        response_id = None
    which = uuid.uuid4().hex if failed or response_id is None else response_id
    event = CompactionDeferred(
        producer=PRODUCER,
        key=composite_key(session, "deferred", run, which),
        session=session,
        at=times.at_of(now_us()),
        response_id=response_id,
        store=asked.store,
        run=run,
        reason=reason[: limits.WORD_CHARS],
    )
    for _ in range(limits.HISTORY_SENDS - 1):
        with contextlib.suppress(OutcomeUnknownError):
            ledger.log.append([event], inline=inline)
            return
    ledger.log.append([event], inline=inline)


def is_paused(ledger: Ledger, session: str) -> bool:
    """Return whether what is owed is left alone for now: the provider has failed it again, and little came since.

    Else a compaction that can never be made, of a history too large for its model or by a wrong name, would be
    asked for with each turn, in each process.
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
