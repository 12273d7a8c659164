"""Items whose whole content is a short name, so that an outcome can be read: `u1`, `a1`, `S(u1 a1)`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any


def item(name: str) -> Any:
    """Return the message of that name: an assistant's if it begins with `a`, else a user's."""
    if not name.startswith("a"):
        return {"role": "user", "content": name}
    content = [{"type": "output_text", "text": name, "annotations": [], "logprobs": []}]
    return {"type": "message", "id": f"msg_{name}", "role": "assistant", "status": "completed", "content": content}


def summary(names: Iterable[str]) -> Any:
    """Return what a provider's compaction of these items says: their names in `S(…)`."""
    return {"type": "compaction", "id": "cmp_1", "encrypted_content": f"S({' '.join(names)})"}


def name(one: Any) -> str:
    """Return an item's name; an output has its call's, with `=`."""
    match one.get("type"):
        case "compaction":
            return str(one["encrypted_content"])
        case "reasoning":
            return str(one["id"])
        case "function_call":
            return str(one["call_id"])
        case "function_call_output":
            return f"{one['call_id']}="
        case _:
            pass
    content = one["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def names(items: Iterable[Any]) -> list[str]:
    """Return the names of items, in order."""
    return [name(one) for one in items]


def told(shown: Iterable[str]) -> set[str]:
    """Return the names that these items and the summaries among them tell of."""
    return {word for one in shown for word in re.findall(r"[^\s()]+", one)} - {"S"}
