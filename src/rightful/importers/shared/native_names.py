"""The tools' own names of their sessions, from paths."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rightful.errors import InvalidEventError
from rightful.importers.shared.foreign_fields import session_of

_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_NATIVE = (
    ("codex", re.compile(rf"(?:\A|/)rollout-[^/]*?(?P<id>{_UUID})\.jsonl\Z")),
    ("copilot", re.compile(rf"/session-state/(?P<id>{_UUID})/events\.jsonl\Z")),
    ("claude-code", re.compile(r"/\.claude/projects/[^/]+/(?P<id>[^/]+)\.jsonl\Z")),
    ("claude-code", re.compile(rf"(?:\A|/)(?P<id>{_UUID})\.jsonl\Z")),
    ("gptme", re.compile(r"(?:\A|/)(?P<id>[^/]+)/conversation\.jsonl\Z")),
    ("gptme", re.compile(r"/(?P<id>[^/]+)/(?:branches|views)/[^/]+\.jsonl\Z")),
)


def native_name(row: Mapping[str, Any]) -> str | None:
    """Return the tool's own name of a row's session, if the row's path has one.

    A path is only read as text: the file need not exist, and no path is built from an id.
    """
    path = row.get("trajectory_path")
    if path is None:
        path = row.get("journal_path")  # old rows have it there; the name of a journal shows no tool
    if not isinstance(path, str):
        return None
    path = path.replace("\\", "/")
    for namespace, form in _NATIVE:
        if (hit := form.search(path)) is not None:
            try:
                return session_of(namespace, hit["id"], "$.trajectory_path")
            except InvalidEventError:
                return None
    return None
