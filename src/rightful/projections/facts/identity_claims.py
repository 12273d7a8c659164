"""Rows that contradict themselves on whose they are: recorded under one session, with the transcript of another.

A hook of Claude Code may be called with the `session_id` of one session and the `transcript_path` of another
(claude-code issue 8564). What is recorded under that `session_id` may then be of either, so such a name is treated like
one that two runs used. So is a session of Codex or Copilot CLI whose file is named after another session than the one
inside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from rightful.encoding.envelope import SALT_BYTES, body_of
from rightful.identity import split_session
from rightful.log.rows import Page
from rightful.projections.facts.facts import Facts, IdentityClaim

FIELD = "transcript_path"
"""The field of `extra` in which producers keep the path that a hook was given."""

FILE_FIELD = "file_id"
"""The field of `extra` in which importers keep the session id in a file's name, if another id is inside the file."""

_MARK, _FILE_MARK = f'"{FIELD}"'.encode(), f'"{FILE_FIELD}"'.encode()
_FILE = re.compile(r"(?:\A|/)([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})\.jsonl\Z")
_NAMESPACE = "claude-code"
_FILE_NAMESPACES = frozenset({"codex", "copilot"})


def named_by(session: str, path: object) -> tuple[str, str] | None:
    """Return the id of a session of Claude Code and the id that the path of a transcript names; None without both."""
    namespace, value = split_session(session)
    found = _FILE.search(path) if namespace == _NAMESPACE and isinstance(path, str) else None
    return None if found is None else (value.partition("/")[0], found[1])


def named_by_file(session: str, extra: object) -> tuple[str, str] | None:
    """Return the id inside a transcript of Codex or Copilot CLI and the id in its file's name; None without both."""
    namespace, value = split_session(session)
    named = extra.get(FILE_FIELD) if namespace in _FILE_NAMESPACES and isinstance(extra, Mapping) else None
    return (value.partition("/")[0], named) if isinstance(named, str) else None


def collect(facts: Facts, page: Page) -> None:
    """Add the claims of a page of folded rows."""
    payloads = b"".join(filter(None, page.payloads))  # one search for each mark; most pages have none
    if _MARK not in payloads and _FILE_MARK not in payloads:
        return
    for position, envelope, payload in page.rows():
        session = envelope.session
        if payload is None or session is None:
            continue
        is_file = envelope.type == "session.started" and _FILE_MARK in payload
        if not is_file and _MARK not in payload:
            continue
        body = body_of(envelope, payload[SALT_BYTES:], position)
        extra = getattr(body, "extra", None)
        ids = named_by(session, extra.get(FIELD)) if isinstance(extra, Mapping) else None
        ids = named_by_file(session, extra) if is_file and ids is None else ids
        if ids is not None and ids[0] != ids[1] and not body.alias:
            claim = IdentityClaim(position, facts.names.of(session), ids[1], envelope.id, envelope.revision)
            facts.claims.append(claim)


def in_force(facts: Facts, through: int) -> Iterator[IdentityClaim]:
    """Yield the claims up to a position that no withdrawal settles."""
    for claim in facts.claims:
        if claim.position > through:
            return
        if claim.revision not in {revision for _, revision in facts.withdrawals(claim.event, through)}:
            yield claim
