"""The state files of bandits, read as beliefs: gptme-sessions, the lesson hook, gptme's matcher, pm-dispatch.

All four are an object with `arms` by name; one also has `contextual_arms` by name and by a JSON
list. The fields of an arm besides alpha and beta differ, and are optional.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from rightful import content
from rightful.errors import InvalidEventError, UsageError
from rightful.importers.bandits.bandit_documents import ParsedState
from rightful.importers.bandits.bandit_file import PM
from rightful.importers.bandits.bandit_state import through
from rightful.importers.shared.foreign_fields import moment_us
from rightful.projections.arithmetic.sums import Key


class FileBelief(NamedTuple):
    """What a file says of one arm; selections where it counts them, and the time of its last update where valid."""

    alpha: float
    beta: float
    n: int | None
    last_us: int | None


class StateFile(NamedTuple):
    """What a state file says.

    Attributes:
        beliefs: By arm, and by arm and context.
        last_us: Its newest time, its own or an arm's; microseconds since 1970, UTC. None without one.
        notes: What was skipped; sentences.
    """

    beliefs: dict[Key, FileBelief]
    last_us: int | None
    notes: list[str]

    def accepts(self, arm: str) -> bool:
        """Return whether an arm belongs to this file: models to that of pm-dispatch, all others to the rest.

        A file that contains both, or none, accepts all.
        """
        held = {name.startswith(PM) for name, _ in self.beliefs}
        return len(held) != 1 or arm.startswith(PM) in held


def parse_state_file(data: bytes) -> StateFile:
    """Parse a state file in the same way as its import.

    Raises:
        UsageError: It is not a bandit state.
    """
    try:
        document = content.parse_json(data)
    except InvalidEventError as error:
        raise UsageError(f"the file is not a bandit state: {error.what}; nothing was compared.") from None
    if not isinstance(document, dict) or not isinstance(document.get("arms"), dict):
        raise UsageError("the file is not a bandit state: it has no object `arms`; nothing was compared.")
    opened = ParsedState(document)
    beliefs: dict[Key, FileBelief] = {}
    for arm, entry in opened.arms.items():
        beliefs[arm, None] = _file_belief(entry, counted="total_selections" in document["arms"][arm])
    for entry in opened.contexts:
        beliefs[entry["arm"], tuple(entry["context"])] = _file_belief(entry, counted=True)
    last_us, _ = through(document, opened)
    judged = len(opened.judge.keys() - opened.arms.keys())
    return StateFile(beliefs, last_us, [*_notes(judged, opened.problems, last_us)])


def _file_belief(arm: Mapping[str, Any], *, counted: bool) -> FileBelief:
    last_us = None
    with suppress(InvalidEventError):
        last_us = moment_us(arm.get("last_updated", ""), "$.last_updated")[0]
    return FileBelief(arm["alpha"], arm["beta"], arm["n"] if counted else None, last_us)


def _notes(judged: int, unread: list[InvalidEventError], last_us: int | None) -> Iterator[str]:
    if judged:
        yield f"{judged:,} of its arms have only a judge's counts, which are not a belief, and were skipped."
    if unread:
        yield f"{len(unread):,} of its arms could not be read and were skipped; the first: {unread[0]}."
    if last_us is None:
        yield "The file has no time of its last update, so it is compared with the whole log."
