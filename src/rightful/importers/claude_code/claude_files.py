"""Find the session of a file of Claude Code, and of each of its lines.

| file | session |
|---|---|
| `<uuid>.jsonl` | `claude-code:<uuid>` |
| `<session>/subagents/agent-<id>.jsonl`, and `agent-<id>.meta.json` next to it | `claude-code:<session>/<id>` |
| `agent-<id>.jsonl` anywhere else (older versions) | `claude-code:<sessionId of its lines>/<id>` |
| anything else: a stream log, standard input, a copy under another name | that of its first line with a session id |

A line with a session id belongs to that session, whatever the file's name: a resumed file begins with a copy of its
ancestor's lines (claude-code#8524, #12235). Two parents may have subagents with the same id (#44597), so a subagent's
name includes its parent's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from rightful import content
from rightful.errors import InvalidEventError
from rightful.importers.engine.formats import Origin
from rightful.importers.shared.foreign_fields import session_of

NAMESPACE = "claude-code"
"""The namespace of the sessions; also their producer and their harness."""

_OWN = re.compile(r"(?P<id>[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})\.jsonl\Z")
_AGENT = re.compile(r"agent-(?P<id>.+?)(?:\.meta\.json|\.jsonl)\Z")
_BELOW = re.compile(r"(?:\A|/)(?P<parent>[^/]+)/subagents/(?:[^/]+/)*[^/]+\Z")
_ROOTS = 256  # lines of inline sidechains whose root is stored


class Place(NamedTuple):
    """The ids in a path.

    Attributes:
        own: The session's id, or that of a subagent's parent; None if the path has none.
        agent: The subagent's id; None if it is not a subagent's file.
    """

    own: str | None
    agent: str | None


def place_of(origin: Origin) -> Place:
    """Return the ids in a file's path."""
    path = origin.path.replace("\\", "/")
    name = path.rpartition("/")[2]
    if (agent := _AGENT.match(name)) is not None:
        below = _BELOW.search(path)
        return Place(below["parent"] if below else None, agent["id"])
    own = _OWN.match(name)
    return Place(own["id"] if own else None, None)


class Owner(NamedTuple):
    """The session of a line.

    Attributes:
        value: The session's name without its namespace: `<id>` or `<id>/<agent>`.
        session: The session's name.
        raw: The id of the session, that of the parent for a subagent.
        agent: The subagent's id.
    """

    value: str
    session: str
    raw: str
    agent: str | None


class Owners:
    """Finds the session of each line of one file.

    Args:
        place: The ids in the file's path.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self.own = place.own
        self._order: list[str] = []
        self._roots: dict[str, str] = {}
        self._known: dict[tuple[str, str | None], Owner] = {}

    @property
    def is_of_agent(self) -> bool:
        """Whether the file is a subagent's."""
        return self._place.agent is not None

    def state(self) -> dict[str, Any]:
        """Return the state needed to continue after a line."""
        return {"own": self.own, "order": self._order, "roots": self._roots}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a state."""
        self.own, self._order, self._roots = state["own"], list(state["order"]), dict(state["roots"])

    def of(self, value: Mapping[str, Any]) -> Owner:
        """Return the session of a line.

        Raises:
            InvalidEventError: Neither the line nor the file has a session id, or the id is not valid.
        """
        name = "session_id" if "sessionId" not in value and "session_id" in value else "sessionId"
        raw = value.get(name)
        if raw is None:
            raw = self.own
            if raw is None:
                raise InvalidEventError("Expected a session id: neither this line nor the file's name has one")
        elif not isinstance(raw, str):
            raise InvalidEventError(f"Expected `str`, got `{content.json_type(raw)}`", f"$.{name}")
        agent = self._agent(value)
        known = self._known.get((raw, agent))
        if known is None:
            known = self._known[raw, agent] = _owner(raw, agent, f"$.{name}")
            if self.own is None:
                self.own = raw
        if raw not in self._order and "parentUuid" in value:
            self._order.append(raw)
        return known

    def resumed(self, raw: str) -> list[str]:
        """Return the ids of the sessions whose lines precede those of this session in the file, in order."""
        return self._order[: self._order.index(raw)] if raw in self._order else []

    def _agent(self, value: Mapping[str, Any]) -> str | None:
        """Return the id of a line's subagent; the root of its chain if the line has none."""
        called = value.get("parent_tool_use_id")  # a stream log has no agent id, only the call that started it
        if isinstance(called, str) and called:
            return called
        if self._place.agent is None and value.get("isSidechain") is not True:
            return None
        said = value.get("agentId")
        if isinstance(said, str) and said:
            return said
        return self._place.agent or self._root(value)

    def _root(self, value: Mapping[str, Any]) -> str | None:
        uuid, parent = value.get("uuid"), value.get("parentUuid")
        if not isinstance(uuid, str):
            return None
        root = self._roots.get(parent, parent) if isinstance(parent, str) else uuid
        self._roots[uuid] = root
        if len(self._roots) > _ROOTS:
            del self._roots[next(iter(self._roots))]
        return root


def _owner(raw: str, agent: str | None, place: str) -> Owner:
    session_of(NAMESPACE, raw, place)
    value = raw if agent is None else f"{raw}/{agent}"
    return Owner(value, session_of(NAMESPACE, value, place), raw, agent)
