"""Facts about a run that the SDK provides: the current agent, and the token usage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agents.tracing import AgentSpanData, get_current_span

from rightful import limits
from rightful.importers.shared.foreign_fields import is_utf8

if TYPE_CHECKING:
    from agents import RunContextWrapper

    from rightful.integrations.openai_agents.session_runs import Run

_NOT_THE_AGENT = ("user", "system", "developer")
_COUNTS = ("requests", "input_tokens", "output_tokens", "total_tokens")
_DETAILS = (("input_tokens_details", "cached_tokens"), ("output_tokens_details", "reasoning_tokens"))


def speaker(items: list[Any]) -> str | None:
    """Return the agent that produced a batch, from the current span. Return None without one, or for user input only.

    Spans exist whether tracing is on or off, but not outside a turn.
    """
    if all(isinstance(item, dict) and item.get("role") in _NOT_THE_AGENT for item in items):
        return None
    data = getattr(get_current_span(), "span_data", None)
    name = data.name if isinstance(data, AgentSpanData) else getattr(data, "agent_name", None)
    return str.__str__(name) if isinstance(name, str) else None


def valid_word(value: object) -> str | None:
    """Return a value of the SDK, such as a response id, as a plain string; None if an event cannot contain it.

    A custom model may return any value, or an empty string. That must not end the run.
    """
    if not isinstance(value, str) or not 0 < len(value) <= limits.WORD_CHARS or not is_utf8(value):
        return None
    return str.__str__(value)


def usage_since(run: Run, wrapper: RunContextWrapper[Any] | None) -> dict[str, Any] | None:
    """Return a run's token usage since the last call; None if it is zero or unknown.

    A run that resumes from a stored state starts with its earlier usage, so the first call returns None.
    """
    if wrapper is None:
        return None
    now = counted(wrapper.usage)
    before, run.usage = run.usage, now
    if before is None:
        return None
    used = {name: count - before[name] for name, count in now.items() if count != before[name]}
    return used or None


def counted(usage: Any) -> dict[str, int]:  # noqa: ANN401 - the SDK's own class, of any version
    """Return the counts of a usage."""
    counts = {name: getattr(usage, name, 0) or 0 for name in _COUNTS}
    for group, name in _DETAILS:
        counts[name] = getattr(getattr(usage, group, None), name, 0) or 0
    return counts


def usage_counts(usage: Any) -> dict[str, int] | None:  # noqa: ANN401 - as above
    """Return a usage as batches and compactions store it, without zeros; None if all counts are zero."""
    return {name: count for name, count in counted(usage).items() if count} or None
