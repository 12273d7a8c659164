"""What the SDK tells of a run without being asked: which agent speaks, and what it has used."""

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
    """Return the agent that spoke a batch, by the current span; None if nobody says so, or only the user spoke.

    The spans tell it with tracing on and off, but not outside a turn.
    """
    if all(isinstance(item, dict) and item.get("role") in _NOT_THE_AGENT for item in items):
        return None
    data = getattr(get_current_span(), "span_data", None)
    name = data.name if isinstance(data, AgentSpanData) else getattr(data, "agent_name", None)
    return str.__str__(name) if isinstance(name, str) else None


def valid_word(usage_counts: object) -> str | None:
    """Return a word that the SDK tells, a response id, as an event holds it; None if it is none.

    A model of one's own may tell anything, or nothing in the form of an empty text; the run does not end for that.
    """
    if not isinstance(usage_counts, str) or not 0 < len(usage_counts) <= limits.WORD_CHARS or not is_utf8(usage_counts):
        return None
    return str.__str__(usage_counts)


def usage_since(run: Run, wrapper: RunContextWrapper[Any] | None) -> dict[str, Any] | None:
    """Return what a run has used since it was last looked at; None if that is nothing, or not known.

    A run that goes on from a written state comes with what it had used before: its first look tells nothing.
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
    """Return a usage as a batch or a compaction tells it; None if it is nothing."""
    return {name: count for name, count in counted(usage).items() if count} or None
