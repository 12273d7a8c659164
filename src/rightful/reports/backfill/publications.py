"""What was published to a tool's file: the chain of `posterior.published`, and which of them is in force.

Each publication of a target names the one before it (`supersedes`). A rollback is a publication
too: its `extra` says which one it takes back, and its new bytes are those that stood before.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from rightful.events import PosteriorPublished
from rightful.ledger.log import Log

PRODUCER = "backfill"
"""The producer of publications."""

NO_BYTES = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
"""SHA-256 of nothing: what a rollback publishes that removes a file which was not there before."""

TYPE = "posterior.published"


class Published(NamedTuple):
    """A publication that stands in the ledger.

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
        """The publication that this one takes back; None where it is none such."""
        found = self.said.get("rolled_back")
        return found if isinstance(found, str) else None

    @property
    def new(self) -> str | None:
        """SHA-256 of the bytes that should stand there; None for no file."""
        return None if self.said.get("removed") is True else self.event.new_sha256

    @property
    def previous(self) -> str | None:
        """SHA-256 of the bytes that stood there; None for no file."""
        return self.event.previous_sha256


def publications(log: Log, target: str | None = None) -> dict[str, list[Published]]:
    """Return the publications by target, in order; those of one target where it is named."""
    found: dict[str, list[Published]] = {} if target is None else {target: []}
    for row in log.read(types=[TYPE]):
        event = row.event
        if not isinstance(event, PosteriorPublished) or row.outcome != "appended":
            continue
        if target is None or event.target == target:
            found.setdefault(event.target, []).append(Published(row.id, row.position, event))
    return found


def up_to(chain: list[Published], last: str | None) -> list[Published]:
    """Return the publications up to one, by its id; none where none is named."""
    places = [place for place, one in enumerate(chain, 1) if one.id == last]
    return chain[: places[0]] if places else []


def in_force(chain: list[Published]) -> list[Published]:
    """Return the publications that no rollback has taken back, the newest last."""
    gone = {one.rolled_back for one in chain}
    return [one for one in chain if one.rolled_back is None and one.id not in gone]
