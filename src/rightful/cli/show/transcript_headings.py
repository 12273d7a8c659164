"""What the headings of a transcript say shorter, or in words. Loads rich, so it is imported when it is drawn."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rightful.cli.output import tables
from rightful.projections.transcripts.entries import Entry

PLACEHOLDER = "stands in for a result that never came"
"""The mark of such a result."""

_CALL_CHARS = 12
_UNREADABLE = {
    "encrypted_content": "encrypted",
    "args_hash": "of its arguments only a hash is known",
    "result_hash": "only its hash is known",
}
"""What a producer says beside, and what it means for who reads."""


def short_calls(entries: Iterable[Entry]) -> dict[str, str]:
    """Return the ends of long ids of calls, as long as it takes to tell them apart."""
    ids = {
        one
        for entry in entries
        for one in (entry.call, *(entry.calls or ()))
        if isinstance(one, str) and len(one) > _CALL_CHARS
    }
    longest, kept = max(map(len, ids), default=0), _CALL_CHARS
    while kept < longest and len({one[-kept:] for one in ids}) < len(ids):
        kept *= 2
    mark = "…" if tables.draws() else "..."
    return {one: f"{mark}{one[-kept:]}" for one in ids if len(one) > kept + len(mark)}


def unreadable(extra: Any) -> list[str]:  # noqa: ANN401 - content is any JSON value
    """Return in words what is known only in a form that nobody can read."""
    return [words for name, words in _UNREADABLE.items() if isinstance(extra, dict) and extra.get(name) is not None]


def continues(how: str, of: str) -> str:
    """Return in words whose continuation a session is, as its tool says; of what came before nothing stands in it."""
    return f"{how.replace('_', ' ')} {of}: what was said before stands there"
