"""The state of what was published: is it in place, did a tool write since, what would a rollback restore."""

from __future__ import annotations

import os
import shlex
from datetime import datetime
from pathlib import Path
from typing import Literal

from msgspec import Struct, structs

from rightful.backfill import target_file as target
from rightful.backfill.planning import Books
from rightful.backfill.replaced_bytes import ReplacedBytes
from rightful.errors import TargetError
from rightful.projections.publications import Published, in_force, publications

Standing = Literal["in place", "changed since", "not in place", "missing", "rolled back", "not readable"]
"""The state of the file since the last publication: it is what was published; a tool has written it
since; it still has the bytes from before; there is no file; a rollback restored it; or it cannot
be read."""


class TargetStatus(Struct, frozen=True, kw_only=True):
    """One target.

    Attributes:
        target: The file.
        standing: The state of the file since the last publication.
        publication: The event id of the publication in force; None if all were rolled back.
        position: Its position.
        at: When it was published.
        reader: Whose form it took.
        policy: The hash of its policy.
        through: The position it was computed through.
        sha256: SHA-256 of the present file; None if there is none.
        restores: What a rollback would put back: `SHA-256 …`, `no file`, or None where nothing is in force.
        kept: Whether those bytes are kept.
        count: How many publications the ledger has of it, without rollbacks.
    """

    target: str
    standing: Standing
    publication: str | None = None
    position: int | None = None
    at: datetime | None = None
    reader: str | None = None
    policy: str | None = None
    through: int | None = None
    sha256: str | None = None
    restores: str | None = None
    kept: bool | None = None
    count: int = 0


def status(books: Books, named: str | None = None) -> list[TargetStatus]:
    """Return the state of a target, or of all that anything was published to."""
    real = None if named is None else target.resolved(named, makes_folder=True)
    found = publications(books.projected.log, real)
    return [_status(books, path, chain) for path, chain in sorted(found.items()) if chain]


def moved_here(books: Books, real: str) -> Published | None:
    """Return the publication in force of a file that was probably moved to this path; None if there is none.

    It has the published bytes, or its name and folder, and the path of the publication does not exist.
    """
    sha256 = target.read_state(real).sha256
    every = publications(books.projected.log).items()
    gone = [found[-1] for path, chain in every if not os.path.lexists(path) and (found := in_force(chain))]
    same = [publication for publication in gone if sha256 is not None and sha256 == publication.new]
    named = [publication for publication in gone if Path(publication.event.target).parts[-2:] == Path(real).parts[-2:]]
    return next(iter([*same, *named]), None)


def published_path(books: Books, real: str, publication: str | None) -> str:
    """Return the path under which a file was published: its own, or the one that it had before it was moved."""
    every = publications(books.projected.log)
    moved = (
        path
        for path, chain in every.items()
        if publication in {found.id for found in chain} and not os.path.lexists(path)
    )
    return real if real in every else next(moved, real)


def published_elsewhere(books: Books, real: str) -> str:
    """Return to which file nothing was published, and how to undo what was published to it before it was moved."""
    said = f"to {real} from this ledger."
    if (moved := moved_here(books, real)) is None:
        return said
    command = shlex.join(["rightful", "backfill", "rollback", "--target", real, "--publication", moved.id])
    return (
        f"{said} It published to {moved.event.target}, which does not exist. If that file was moved here, "
        f"`{command}` restores its earlier content here."
    )


def _status(books: Books, real: str, chain: list[Published]) -> TargetStatus:
    standing, sha256 = _standing(real, chain[-1])
    count = sum(publication.rolled_back is None for publication in chain)
    rolled_back = TargetStatus(target=real, standing=standing, sha256=sha256, count=count)
    if not (found := in_force(chain)):
        return rolled_back
    last = found[-1]
    return structs.replace(
        rolled_back, publication=last.id, position=last.position, at=last.event.at, reader=last.said.get("reader"),
        policy=last.event.policy, through=last.event.through, restores=last.previous or "no file",
        kept=last.previous is None or ReplacedBytes(books.folder).find(last.previous) is not None,
    )  # fmt: skip


def _standing(real: str, last: Published) -> tuple[Standing, str | None]:
    try:
        sha256 = target.read_state(real).sha256
    except (OSError, TargetError):
        return "not readable", None
    if sha256 == last.new:
        return ("in place" if last.rolled_back is None else "rolled back"), sha256
    if sha256 is None:
        return "missing", sha256
    return ("not in place" if sha256 == last.previous else "changed since"), sha256
