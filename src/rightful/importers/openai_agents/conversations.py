"""The conversations of a database: its sessions, and the branches of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from rightful.identity import is_session
from rightful.importers.openai_agents.known_rows import NAMESPACE
from rightful.importers.openai_agents.sdk_tables import MAIN, Store, branches_of, sessions_of, stores_of
from rightful.importers.sources.text_files import Problem

if TYPE_CHECKING:
    from sqlite3 import Connection

    from rightful.importers.engine.file_import import FileImport


class Conversation(NamedTuple):
    """One history: a session, or one of its branches.

    Attributes:
        name: Its session name in the ledger.
        session_id: The SDK's id.
        branch: The branch; None for a session without branches.
        created: When the session was created, as stored.
        base: The session itself, or the session of which it is a branch.
    """

    name: str
    store: Store
    session_id: str
    branch: str | None
    created: Any
    base: str

    @property
    def parent(self) -> str | None:
        """The session of which it is a branch; None if it is the session itself."""
        return None if self.branch in (None, MAIN) else self.base


def conversations_of(run: FileImport, connection: Connection, prefix: str) -> Iterator[Conversation]:
    """Yield each session and each branch, a session before its branches; no name twice. Report the others."""
    seen: set[str] = set()
    for store in stores_of(connection):
        for session_id, created in sessions_of(connection, store):
            for conversation in _of_session(run, connection, store, session_id, created, prefix):
                if conversation.name in seen:
                    what = f"{conversation.name} is in this database twice"
                    run.report.add_problem(Problem(None, f"{what}; the one in `{store.messages}` was not imported"))
                else:
                    seen.add(conversation.name)
                    yield conversation


def _of_session(
    run: FileImport, connection: Connection, store: Store, session_id: str | None, created: object, prefix: str
) -> Iterator[Conversation]:
    name = f"{NAMESPACE}:{prefix}{session_id}"
    if session_id is None or not is_session(name):
        what = _invalid_id(session_id, "is a placeholder or not a valid name")
        run.report.add_problem(Problem(None, f"a session of `{store.messages}` has {what}; it was not imported"))
        return
    branches = branches_of(connection, store, session_id)
    yield Conversation(name, store, session_id, MAIN if branches else None, created, name)
    for branch in branches:
        if branch is None or not is_session(own := f"{name}/branch/{branch}"):
            what = _invalid_id(branch, "is not valid in a name")
            run.report.add_problem(Problem(None, f"a branch of {name} has {what}; it was not imported"))
        elif branch != MAIN:
            yield Conversation(own, store, session_id, branch, created, name)


def _invalid_id(found: str | None, why: str) -> str:
    return "an id that is not text" if found is None else f"the id {found[:64]!r}, which {why}"
