"""The objects that the parts of one session share."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rightful import Ledger
    from rightful.integrations.openai_agents.call_queue import CallQueue
    from rightful.integrations.openai_agents.session_runs import Runs


class SessionParts(NamedTuple):
    """The objects that a session passes to its compaction and to the operations of the SDK's wrapper.

    Attributes:
        ledger: The ledger that contains the session.
        name: The session's name in the ledger.
        queue: The session's calls, each made when the one before it has ended.
        runs: The runs on the session.
    """

    ledger: Ledger
    name: str
    queue: CallQueue
    runs: Runs
