"""What a compaction is asked for, what it finds, and what it is going to do."""

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
"""How a compaction can be asked for; `auto` finds out."""

_TAKES_BACK = ("history.popped", "history.cleared", "event.withdrawn")

Hook = Callable[[dict[str, Any]], bool]
"""Says whether it is time to compact."""

MODES: tuple[Mode, ...] = ("auto", "input", "previous_response_id")
"""All of them."""


class CompactionOptions(NamedTuple):
    """How a session compacts; the arguments of `LedgerSession` with these meanings."""

    client: Any
    model: str
    mode: Mode
    hook: Hook | None


class CompactionRequest(NamedTuple):
    """What a call asks for."""

    response_id: str | None
    mode: str
    force: bool
    store: bool | None


class HistoryState(NamedTuple):
    """A history as a compaction finds it.

    Attributes:
        view: All that it shows; the compaction is conditional on its token.
        window: The places of what the hook is shown, and of what a compaction by hand covers.
        known: The places of what the run read and appended.
        stale: Whether the history was changed after the run read it, so that nothing can be compacted.
    """

    view: History
    window: range
    known: frozenset[int]
    stale: bool


class Plan(NamedTuple):
    """What is to be compacted.

    Attributes:
        covered: The places of the items, ascending.
        items: Those, as the provider is sent them.
        mode: How: `input`, or `previous_response_id`.
    """

    covered: tuple[int, ...]
    items: list[Any]
    mode: str


def plan_of(look: HistoryState, proof: Proof, mode: str) -> Plan:
    """Return what is to be compacted by a proof; reasoning is sent with its id only if the model was sent it so."""
    items = [sendable(look.view.items[at]) for at in proof.covered]
    sent = [without_id(one) if at in proof.bare else one for at, one in zip(proof.covered, items, strict=True)]
    return Plan(proof.covered, sent, mode)


def is_output(item: Any) -> bool:  # noqa: ANN401 - content
    """Return whether an item is no word of the model: it came after the response, or before."""
    if not isinstance(item, dict):
        return True
    kind = str(item.get("type"))
    return kind.endswith("_output") or kind == "mcp_approval_response" or item.get("role") in ("user", "tool")


def seen_by(ledger: Ledger, session: str, view: History, response_id: str | None) -> set[int]:
    """Return the places in a view of what a response has seen and said, by the batches that came with it.

    Between the ends of a range may stand by now what did not then: a summary of more, or what was put back.

    Raises:
        CompactionRefusedError: Something was taken back since that it may have seen, and would tell of again.
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
    """Return whether items are what the SDK's `EncryptedSession` makes of them."""
    return any(isinstance(item, dict) and item.get("__enc__") == 1 and "payload" in item for item in items)


def checked_mode(mode: Mode) -> Mode:
    """Return a compaction mode.

    Raises:
        UsageError: There is none of that name.
    """
    if mode not in MODES:
        raise UsageError(f"{mode!r} is not a compaction mode. Nothing was done. Use one of {', '.join(MODES)}.")
    return mode


def checked_hook(hook: Any) -> Hook | None:  # noqa: ANN401 - whatever the caller gave
    """Return what decides about a compaction.

    Raises:
        UsageError: It cannot be called, or only be awaited.
    """
    found: Hook | None = hook
    if hook is None or (callable(hook) and not inspect.iscoroutinefunction(hook)):
        return found
    raise UsageError(
        "should_trigger_compaction is not a synchronous function. Nothing was done. Pass a function that takes a dict "
        "and returns True or False, or None."
    )


def checked_model(model: object) -> str:
    """Return the name of a model that compacts.

    Raises:
        UsageError: The provider compacts with none of that name.
    """
    if not isinstance(model, str) or not provider.compacts(model):
        raise UsageError(
            f"{model!r} is not a model that compacts. Nothing was done. Use one of OpenAI's: gpt-…, o…, or ft:gpt-…."
        )
    return model
