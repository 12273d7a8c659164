"""Access to private parts of the SDK. Each part may be missing or different in another version.

No feature depends on them. If a part is missing, its information counts as unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from importlib import import_module
from typing import Any

from agents.usage import Usage

from rightful.integrations.openai_agents.compaction.model_input import Exchange, Mark, Marker, mark_by

_EXCHANGE = "_session_compaction_model_exchange"
_COMPLETED = "_session_compaction_completed"


def _private_function(module: str, name: str) -> Callable[..., Any] | None:
    try:
        found = getattr(import_module(f"agents.{module}"), name, None)
    except ImportError:
        return None
    return found if callable(found) else None


def noted_by(wrapper: Any) -> object:  # noqa: ANN401 - the SDK's own class
    """Return the SDK's private record of a run's last request, of any type; the same object for the same request."""
    return getattr(wrapper, _EXCHANGE, None)


def exchange_of(noted: object, *, ignore_ids: bool = False) -> Exchange | None:
    """Return a run's last answered request, from the SDK's record; None if it cannot be compared."""
    digest = _private_function("run_internal.items", "digest_input_item")
    match noted:
        case (tuple(digests), _) if digest is not None and digests and all(isinstance(value, str) for value in digests):
            return Exchange(tuple(Mark(value, value) for value in digests), marker=_marker(digest, ignore_ids))
        case _:
            return None


@lru_cache(maxsize=2)
def _marker(digest: Callable[..., Any], ignore_ids: bool) -> Marker:  # noqa: FBT001 - a key of the cache
    return partial(_marked, partial(digest, ignore_ids_for_matching=ignore_ids))


def _marked(digest: Callable[[Any], Any], item: Any) -> Mark | None:  # noqa: ANN401 - content
    try:
        return mark_by(digest, item)
    except Exception:  # noqa: BLE001 - another version's function may refuse the item: then nothing is proven
        return None


def report_completed(wrapper: Any) -> None:  # noqa: ANN401 - as above
    """Notify the SDK that a compaction was written, if it asks: a resumed run uses that for its own write."""
    if getattr(wrapper, _COMPLETED, None) is False:
        setattr(wrapper, _COMPLETED, True)


def default_client() -> Any:  # noqa: ANN401 - `openai.AsyncOpenAI`
    """Return the SDK's configured default client, or a new one."""
    default = _private_function("models._openai_shared", "get_default_openai_client")
    client = None if default is None else default()
    if client is not None:
        return client
    from openai import AsyncOpenAI

    return AsyncOpenAI()


def usage_of(counts: Any) -> Usage:  # noqa: ANN401 - the provider's own class
    """Return the token usage of a request as the SDK's type."""
    convert = _private_function("usage", "_response_usage_to_usage")
    if convert is not None:
        try:
            found = convert(counts)
        except Exception:  # noqa: BLE001 - another version or provider: counted below instead
            found = None
        if isinstance(found, Usage):
            return found
    names = ("input_tokens", "output_tokens", "total_tokens")
    tokens: dict[str, Any] = {name: value for name in names if isinstance(value := getattr(counts, name, None), int)}
    return Usage(requests=1, **tokens)
