"""The provider's compaction: the request, and the conversion of its answer to items of a history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rightful.integrations.openai_agents.compaction.model_input import without_id

THRESHOLD = 10
"""The default number of items (answers, calls and outputs) that makes a compaction due; the same as the SDK's."""


def compacts(model: str) -> bool:
    """Return whether a model can compact: `gpt-…`, `o1` and similar, also fine-tuned or behind a router."""
    name = model.strip().rsplit("/", 1)[-1].removeprefix("ft:").split(":", 1)[0]
    return name.startswith("gpt-") or (name.startswith("o") and name[1:2].isdigit())


def due(context: Mapping[str, Any]) -> bool:
    """Return whether the number of candidates makes a compaction due. This is the default hook."""
    return len(context["compaction_candidate_items"]) >= THRESHOLD


def candidates(items: Iterable[Any]) -> list[Any]:
    """Return the items that a compaction can reduce: all except user messages and earlier compactions."""
    return [item for item in items if not _stays(item)]


def _stays(item: Any) -> bool:  # noqa: ANN401 - content
    if not isinstance(item, dict):
        return False
    if item.get("type") == "compaction":
        return True
    return item.get("role") == "user" and (item.get("type") == "message" or "content" in item)


async def ask(
    client: Any,  # noqa: ANN401 - `openai.AsyncOpenAI`, or a compatible client
    model: str,
    items: list[Any],
    response_id: str | None,
) -> Any:  # noqa: ANN401 - the provider's own class
    """Request a compaction of a response's conversation; or, without a response id, of items.

    Raises:
        Exception: Any error of the client.
    """
    if response_id is None:
        return await client.responses.compact(model=model, input=items)
    return await client.responses.compact(model=model, previous_response_id=response_id)


def replayed(output: Any) -> list[Any]:  # noqa: ANN401 - normally a list
    """Convert a provider's output to items that can be sent to a model again.

    If an answer's reasoning is missing, the answer's id is removed: a request with the id alone is refused.

    Raises:
        ValueError: The output contains a value that is not an item, or an image or file without a reference.
    """
    if not isinstance(output, list | tuple):
        raise _no_items(output)
    items = [_user(item) for item in map(_plain, output)]
    if any(isinstance(item, dict) and item.get("type") == "reasoning" for item in items):
        return items
    return [without_id(item) if isinstance(item, dict) and item.get("role") == "assistant" else item for item in items]


def _plain(one: Any) -> dict[str, Any]:  # noqa: ANN401 - a pydantic model, or JSON
    dump = getattr(one, "model_dump", None)
    item = dump(mode="json", exclude_unset=True, warnings=False) if callable(dump) else one
    if not isinstance(item, dict) or not (isinstance(item.get("type"), str) or isinstance(item.get("role"), str)):
        raise _no_items(one)
    return item


def _no_items(found: object) -> ValueError:
    return ValueError(
        f"The provider's compaction contains a {type(found).__name__} where an item was expected. "
        "The history was not changed. Check the output of the client."
    )


def _user(item: Any) -> Any:  # noqa: ANN401 - content
    if not isinstance(item, dict) or (item.get("type"), item.get("role")) != ("message", "user"):
        return item
    parts = item.get("content")
    return {**item, "content": [_part(part) for part in parts]} if isinstance(parts, list) else item


_POINTERS = {"input_image": ("image_url", "file_id"), "input_file": ("file_data", "file_url", "file_id")}
_BESIDE = {"input_image": ("detail",), "input_file": ("filename", "detail")}


def _part(part: Any) -> Any:  # noqa: ANN401 - content
    """Return a part of a message with only the fields that a request accepts: one reference, no empty fields."""
    kind = part.get("type") if isinstance(part, dict) else None
    if kind not in _POINTERS:
        return part
    said = {key: value for key, value in part.items() if isinstance(value, str) and value}
    pointer = next((key for key in _POINTERS[kind] if key in said), None)
    if pointer is None:
        wanted = ", ".join(_POINTERS[kind])
        raise ValueError(
            f"The provider's compaction contains an {kind} without any of {wanted}. The history was not changed. "
            "Compact again, or remove that item from the history."
        )
    kept = ("type", pointer, *_BESIDE[kind])
    return {key: said[key] for key in kept if key in said}
