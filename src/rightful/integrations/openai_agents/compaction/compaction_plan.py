"""The options, the request, the observed history and the plan of a compaction."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from rightful.errors import CompactionRefusedError, UsageError
from rightful.events import HistoryAppended
from rightful.integrations.openai_agents.compaction import provider
from rightful.integrations.openai_agents.compaction.model_input import Proof, sendable, without_id

if TYPE_CHECKING:
    from agents import RunContextWrapper

    from rightful import Ledger
    from rightful.histories.history_model import History
    from rightful.integrations.openai_agents.session_runs import Run

Mode = Literal["previous_response_id", "input", "auto"]
"""The modes of a compaction; `auto` selects one."""

_REMOVALS = ("history.popped", "history.cleared", "event.withdrawn")

Hook = Callable[[dict[str, Any]], bool]
"""Return whether to compact now."""


class CompactionOptions(NamedTuple):
    """The compaction settings of a session; see the arguments of `LedgerSession`."""

    client: Any
    model: str
    mode: Mode
    hook: Hook | None


class CompactionRequest(NamedTuple):
    """The arguments of one `run_compaction` call, and the run that it is for; by hand, without a wrapper."""

    response_id: str | None
    mode: str
    force: bool
    store: bool | None
    run: Run
    wrapper: RunContextWrapper[Any] | None


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


def plan_of(state: HistoryState, proof: Proof, mode: str) -> Plan:
    """Return the plan for a proof. Reasoning is sent with its id only if the model's input contained the id."""
    items = [(at, sendable(state.view.items[at])) for at in proof.covered]
    return Plan(proof.covered, [without_id(item) if at in proof.bare else item for at, item in items], mode)


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
    at: dict[Any, int] = {item_id: index for index, item_id in enumerate(view.ids)}
    found: set[int] = set()
    for recorded in ledger.read(session=session, types=["history.appended"]):
        batch = recorded.event
        if not isinstance(batch, HistoryAppended) or batch.response_id != response_id or batch.read is None:
            continue
        if next(iter(ledger.read(session=session, types=_REMOVALS, after=batch.read.position)), None) is not None:
            why = f"the history was popped, cleared or corrected after response {response_id} read it"
            raise CompactionRefusedError(session, why)
        entries = ledger.full_history(session, at=recorded.position).entries
        shown = {at[entry.id] for entry in entries if entry.fate == "shown" and entry.id in at}
        for covered in batch.read.covered:
            first, last = (covered, covered) if isinstance(covered, tuple) else (covered.first, covered.last)
            if first in at and last in at:
                found.update(shown.intersection(range(at[first], at[last] + 1)))
        own = [(recorded.id, ordinal) for ordinal, item in enumerate(batch.items) if not is_output(item)]
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
    if mode not in get_args(Mode):
        modes = ", ".join(sorted(get_args(Mode)))
        raise UsageError(f"{mode!r} is not a compaction mode. Nothing was done. Use one of {modes}.")
    return mode


def options_of(client: Any, model: object, mode: Mode, hook: Any) -> CompactionOptions:  # noqa: ANN401 - any object from the caller
    """Check the settings of a session's compactions, and return them.

    Raises:
        UsageError: The model cannot compact, the mode does not exist, or the hook is not a synchronous function.
    """
    if not isinstance(model, str) or not provider.compacts(model):
        raise UsageError(
            f"{model!r} is not a model that compacts. Nothing was done. Use one of OpenAI's: gpt-…, o…, or ft:gpt-…."
        )
    if hook is not None and (not callable(hook) or inspect.iscoroutinefunction(hook)):
        raise UsageError(
            "should_trigger_compaction is not a synchronous function. Nothing was done. Pass a function that takes a "
            "dict and returns True or False, or None."
        )
    return CompactionOptions(client, model, checked_mode(mode), hook)
