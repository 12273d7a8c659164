"""The provider's compaction: what it can reduce, and the conversion of its answer to items of a history."""

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


def replayed(output: Any) -> list[Any]:  # noqa: ANN401 - normally a list
    """Convert a provider's output to items that can be sent to a model again.

    If an answer's reasoning is missing, the answer's id is removed: a request with the id alone is refused.

    Raises:
        ValueError: The output contains a value that is not an item, or an image or file without a reference.
    """
    if not isinstance(output, list | tuple):
        raise _not_an_item(output)
    items = [_sendable_message(item) for item in map(_plain, output)]
    if any(isinstance(item, dict) and item.get("type") == "reasoning" for item in items):
        return items
    return [without_id(item) if isinstance(item, dict) and item.get("role") == "assistant" else item for item in items]


def _plain(output: Any) -> dict[str, Any]:  # noqa: ANN401 - a pydantic model, or JSON
    dump = getattr(output, "model_dump", None)
    item = dump(mode="json", exclude_unset=True, warnings=False) if callable(dump) else output
    if not isinstance(item, dict) or not (isinstance(item.get("type"), str) or isinstance(item.get("role"), str)):
        raise _not_an_item(output)
    return item


def _not_an_item(found: object) -> ValueError:
    return ValueError(
        f"The provider's compaction contains a {type(found).__name__} where an item was expected. "
        "The history was not changed. Check the output of the client."
    )


def _sendable_message(item: Any) -> Any:  # noqa: ANN401 - content
    if not isinstance(item, dict) or (item.get("type"), item.get("role")) != ("message", "user"):
        return item
    parts = item.get("content")
    return {**item, "content": [_sendable_part(part) for part in parts]} if isinstance(parts, list) else item


_REFERENCES = {"input_image": ("image_url", "file_id"), "input_file": ("file_data", "file_url", "file_id")}
_OTHER_FIELDS = {"input_image": ("detail",), "input_file": ("filename", "detail")}


def _sendable_part(part: Any) -> Any:  # noqa: ANN401 - content
    """Return a part of a message with only the fields that a request accepts: one reference, no empty fields."""
    kind = part.get("type") if isinstance(part, dict) else None
    if kind not in _REFERENCES:
        return part
    fields = {key: value for key, value in part.items() if isinstance(value, str) and value}
    reference = next((key for key in _REFERENCES[kind] if key in fields), None)
    if reference is None:
        wanted = ", ".join(_REFERENCES[kind])
        raise ValueError(
            f"The provider's compaction contains an {kind} without any of {wanted}. The history was not changed. "
            "Compact again, or remove that item from the history."
        )
    kept = ("type", reference, *_OTHER_FIELDS[kind])
    return {key: fields[key] for key in kept if key in fields}
