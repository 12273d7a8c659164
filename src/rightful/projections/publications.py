"""What was published to a tool's file: the chain of `posterior.published`, and which of them is in force.

Each publication of a target names the one before it (`supersedes`). A rollback is a publication
too: its `extra` names the publication that it rolls back, and its new bytes are the earlier ones.

Anybody may tell a ledger of a posterior that was published. Ours are those whose event id is what
our own key gives: their producer is `backfill`, and what they say is what the id was made of.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from rightful.errors import InvalidEventError
from rightful.events import PosteriorPublished
from rightful.identity import composite_key, event_id
from rightful.log.log import Log

PRODUCER = "backfill"
"""The producer of publications."""

NO_BYTES = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
"""SHA-256 of nothing: what a rollback publishes that removes a file which was not there before."""

TYPE = "posterior.published"


class Published(NamedTuple):
    """A publication in the ledger.

    Attributes:
        id: Its event id.
        position: Where it stands.
        event: What it says.
    """

    id: str
    position: int
    event: PosteriorPublished

    @property
    def said(self) -> dict[str, Any]:
        """What it says beyond the fields of its type."""
        return self.event.extra or {}

    @property
    def rolled_back(self) -> str | None:
        """The publication that this one rolls back; None if it is not a rollback."""
        found = self.said.get("rolled_back")
        return found if isinstance(found, str) else None

    @property
    def new(self) -> str | None:
        """SHA-256 of the published bytes; None for no file."""
        return None if self.said.get("removed") is True else self.event.new_sha256

    @property
    def rules(self) -> int:
        """Version of the rules of attribution that it was computed by."""
        return self.event.rules or 1

    @property
    def previous(self) -> str | None:
        """SHA-256 of the earlier bytes; None for no file."""
        return self.event.previous_sha256


def publication_key(event: PosteriorPublished) -> str:
    """Return the key of a publication, or of a rollback, which is made of what it says."""
    said = event.extra or {}
    if isinstance(back := said.get("rolled_back"), str):
        return composite_key("rollback", event.target, back, event.supersedes)
    reader = said.get("reader")
    return composite_key(
        "publish", event.target, reader if isinstance(reader, str) else None, event.policy, event.through,
        event.new_sha256, event.previous_sha256, event.supersedes,
    )  # fmt: skip


def _is_ours(identity: str, event: PosteriorPublished) -> bool:
    try:
        return identity == event_id(PRODUCER, publication_key(event))
    except InvalidEventError:
        return False


def publications(log: Log, target: str | None = None) -> dict[str, list[Published]]:
    """Return the publications of a backfill by target, in order; those of one target where it is named."""
    found: dict[str, list[Published]] = {} if target is None else {target: []}
    for row in log.read(types=[TYPE]):
        event = row.event
        if not isinstance(event, PosteriorPublished) or row.outcome != "appended":
            continue
        if (target is None or event.target == target) and _is_ours(row.id, event):
            found.setdefault(event.target, []).append(Published(row.id, row.position, event))
    return found


def in_force(chain: list[Published]) -> list[Published]:
    """Return the publications that were not rolled back, the newest last."""
    gone = {publication.rolled_back for publication in chain}
    return [publication for publication in chain if publication.rolled_back is None and publication.id not in gone]
