"""The options, the request, the observed history and the plan of a compaction."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rightful.errors import CompactionRefusedError, UsageError
from rightful.events import HistoryAppended
from rightful.integrations.openai_agents.compaction import provider
from rightful.integrations.openai_agents.compaction.model_input import Proof, sendable, without_id

if TYPE_CHECKING:
    from rightful import Ledger
    from rightful.histories.history_model import History

Mode = Literal["previous_response_id", "input", "auto"]
"""The modes of a compaction; `auto` selects one."""

_TAKES_BACK = ("history.popped", "history.cleared", "event.withdrawn")

Hook = Callable[[dict[str, Any]], bool]
"""Returns whether to compact now."""

MODES: tuple[Mode, ...] = ("auto", "input", "previous_response_id")
"""All modes."""


class CompactionOptions(NamedTuple):
    """The compaction settings of a session; see the arguments of `LedgerSession`."""

    client: Any
    model: str
    mode: Mode
    hook: Hook | None


class CompactionRequest(NamedTuple):
    """The arguments of one `run_compaction` call."""

    response_id: str | None
    mode: str
    force: bool
    store: bool | None


class HistoryState(NamedTuple):
    """The state of a history at the start of a compaction.

    Attributes:
        view: All visible items; the compaction is conditional on its token.
        window: The indexes of the items that the hook sees, and that a compaction by hand covers.
        known: The indexes of the items that the run read and appended.
        stale: Whether the history was changed after the run read it, so that nothing can be compacted.
    """

    view: History
    window: range
    known: frozenset[int]
    stale: bool


class Plan(NamedTuple):
    """The items to compact.

    Attributes:
        covered: The indexes of the items, ascending.
        items: The items in the form sent to the provider.
        mode: `input`, or `previous_response_id`.
    """

    covered: tuple[int, ...]
    items: list[Any]
    mode: str


def plan_of(look: HistoryState, proof: Proof, mode: str) -> Plan:
    """Return the plan for a proof. Reasoning is sent with its id only if the model's input contained the id."""
    items = [sendable(look.view.items[at]) for at in proof.covered]
    sent = [without_id(one) if at in proof.bare else one for at, one in zip(proof.covered, items, strict=True)]
    return Plan(proof.covered, sent, mode)


def is_output(item: Any) -> bool:  # noqa: ANN401 - content
    """Return whether an item is not from the model, so that it came before or after the response."""
    if not isinstance(item, dict):
        return True
    kind = str(item.get("type"))
    return kind.endswith("_output") or kind == "mcp_approval_response" or item.get("role") in ("user", "tool")


def seen_by(ledger: Ledger, session: str, view: History, response_id: str | None) -> set[int]:
    """Return the indexes, in a view, of a response's input and output, from the batches recorded with it.

    A range may now contain items that were not there at that time, such as a later summary or a restored item. So
    only items that were visible at that time count.

    Raises:
        CompactionRefusedError: An item that the response may have seen was removed since. A summary would
            contain it again.
    """
    at: dict[Any, int] = {one: place for place, one in enumerate(view.ids)}
    found: set[int] = set()
    for recorded in ledger.read(session=session, types=["history.appended"]):
        said = recorded.event
        if not isinstance(said, HistoryAppended) or said.response_id != response_id or said.read is None:
            continue
        if next(iter(ledger.read(session=session, types=_TAKES_BACK, after=said.read.position)), None) is not None:
            why = f"the history was popped, cleared or corrected after response {response_id} read it"
            raise CompactionRefusedError(session, why)
        entries = ledger.full_history(session, at=recorded.position).entries
        then = {at[entry.id] for entry in entries if entry.fate == "shown" and entry.id in at}
        for covered in said.read.covered:
            first, last = (covered, covered) if isinstance(covered, tuple) else (covered.first, covered.last)
            if first in at and last in at:
                found.update(then.intersection(range(at[first], at[last] + 1)))
        own = [(recorded.id, place) for place, item in enumerate(said.items) if not is_output(item)]
        found.update(at[item_id] for item_id in own if item_id in at)
    return found


def is_encrypted(items: Sequence[Any]) -> bool:
    """Return whether any item was encrypted by the SDK's `EncryptedSession`."""
    return any(isinstance(item, dict) and item.get("__enc__") == 1 and "payload" in item for item in items)


def checked_mode(mode: Mode) -> Mode:
    """Check a compaction mode and return it.

    Raises:
        UsageError: The mode does not exist.
    """
    if mode not in MODES:
        raise UsageError(f"{mode!r} is not a compaction mode. Nothing was done. Use one of {', '.join(MODES)}.")
    return mode


def checked_hook(hook: Any) -> Hook | None:  # noqa: ANN401 - any object from the caller
    """Check the hook that decides about a compaction, and return it.

    Raises:
        UsageError: The hook is not callable, or is a coroutine function.
    """
    found: Hook | None = hook
    if hook is None or (callable(hook) and not inspect.iscoroutinefunction(hook)):
        return found
    raise UsageError(
        "should_trigger_compaction is not a synchronous function. Nothing was done. Pass a function that takes a dict "
        "and returns True or False, or None."
    )


def checked_model(model: object) -> str:
    """Check the name of a model that compacts, and return it.

    Raises:
        UsageError: The model cannot compact.
    """
    if not isinstance(model, str) or not provider.compacts(model):
        raise UsageError(
            f"{model!r} is not a model that compacts. Nothing was done. Use one of OpenAI's: gpt-…, o…, or ft:gpt-…."
        )
    return model
