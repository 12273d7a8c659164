"""What a compaction is asked for, what it finds, and what it is going to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rightful.errors import UsageError
from rightful.producers.openai_agents import provider
from rightful.producers.openai_agents.proof import Proof, sendable

if TYPE_CHECKING:
    from rightful.histories.history import History

Mode = Literal["previous_response_id", "input", "auto"]
"""How a compaction can be asked for; `auto` finds out."""

MODES: tuple[Mode, ...] = ("auto", "input", "previous_response_id")
"""All of them."""


class Asked(NamedTuple):
    """What a call asks for."""

    response_id: str | None
    mode: str
    force: bool
    store: bool | None


class Look(NamedTuple):
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


def plan_of(look: Look, proof: Proof, mode: str) -> Plan:
    """Return what is to be compacted by a proof; reasoning is sent with its id only if the model was sent it so."""
    items = [sendable(look.view.items[at]) for at in proof.covered]
    sent = [_without_id(one) if at in proof.bare else one for at, one in zip(proof.covered, items, strict=True)]
    return Plan(proof.covered, sent, mode)


def _without_id(item: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key != "id"}


def is_output(item: Any) -> bool:  # noqa: ANN401 - content
    """Return whether an item is no word of the model: it came after the response, or before."""
    if not isinstance(item, dict):
        return True
    kind = str(item.get("type"))
    return kind.endswith("_output") or kind == "mcp_approval_response" or item.get("role") == "user"


def checked_mode(mode: Mode) -> Mode:
    """Return a compaction mode.

    Raises:
        UsageError: There is none of that name.
    """
    if mode not in MODES:
        raise UsageError(f"{mode!r} is no compaction mode; nothing was done. Give one of {', '.join(MODES)}.")
    return mode


def checked_model(model: object) -> str:
    """Return the name of a model that compacts.

    Raises:
        UsageError: The provider compacts with none of that name.
    """
    if not isinstance(model, str) or not provider.compacts(model):
        raise UsageError(
            f"{model!r} is no model that compacts; nothing was done. Give one of OpenAI's: gpt-…, o…, or ft:gpt-…."
        )
    return model
