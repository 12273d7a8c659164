"""The names under which tools know their own sessions, as their paths show them."""

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
    """Return the name under which the tool itself knows a row's session, where its path shows one.

    A path is read as text. Whether a file stands there is not asked, and no path is made of an id.
    """
    path = row.get("trajectory_path")
    if path is None:
        path = row.get("journal_path")  # old rows keep it there; a journal's own name shows no tool
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
