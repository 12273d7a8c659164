"""What a kind of source is: how its files are recognised, read, and planned into the log.

A kind that an importer adds implements `Kind` and `Reader`, or, where its files grow,
`GrowingKind` and `GrowingReader`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeGuard

from rightful.errors import InvalidEventError

if TYPE_CHECKING:
    from eventsourcing.dcb.api import DCBQuery

    from rightful.importers.sources.text_files import Found, Problem
    from rightful.log.log import Log
    from rightful.log.rows import Receipt

Grows = Literal["appended", "rewritten"]
APPENDED: Grows = "appended"
REWRITTEN: Grows = "rewritten"
"""How the files of a kind grow."""

Wire = dict[str, Any]

KINDS = {
    "lesson-hook": "rightful.importers.lesson_hook.artifacts:LessonHook",
    "session-records": "rightful.importers.session_records:SessionRecords",
    "bandit-state": "rightful.importers.bandits.bandit_state:BanditState",
    "gptme": "rightful.importers.gptme.conversation:Gptme",
    "claude-code": "rightful.importers.claude_code.claude_transcript:ClaudeCode",
    "codex": "rightful.importers.codex.rollout:Codex",
    "copilot": "rightful.importers.copilot.copilot_session:Copilot",
    "grok": "rightful.importers.grok.grok_stream:Grok",
    "openai-agents": "rightful.importers.openai_agents.sdk_databases:OpenAIAgents",
    "agenta": "rightful.importers.agenta.agenta_records:Agenta",
    "manifest": "rightful.importers.gptme_records.manifest:GptmeManifest",
    "receipts": "rightful.importers.gptme_records.receipts:GptmeReceipts",
}
"""The class of each kind, as `module:class`; `kinds` imports it on demand."""

AUTO = "auto"
"""The name that means every kind: each file is recognised by its content."""


class Origin(NamedTuple):
    """Where rows come from.

    Attributes:
        path: The file as it was named or found; `-` for standard input.
        mtime_us: When the file was last written; microseconds since 1970, UTC; None for a pipe.
        is_named: Whether somebody named it; else it was found in a folder, where it may be foreign.
    """

    path: str
    mtime_us: int | None
    is_named: bool = True

    @property
    def name(self) -> str:
        """The file's own name."""
        return os.path.basename(self.path)  # noqa: PTH119 - a name is compared, no path is built


class Plan(NamedTuple):
    """Events that are ready to be appended, and what must not have been written since they were made.

    Attributes:
        events: The events.
        unless: What must not have been written behind `after`.
        after: The position up to which the log was read.
        existing: The receipt of each event, by its place, that is not appended, since the log
            has the same fact in another form, or (`stale`, without a position) a later one.
        notes: What is worth knowing of events that stand in the log already, or will.
    """

    events: list[Wire]
    unless: DCBQuery | None = None
    after: int | None = None
    existing: Mapping[int, Receipt] = {}
    notes: tuple[Problem, ...] = ()


class End(NamedTuple):
    """How the reading of a file ended.

    Attributes:
        sha256: SHA-256 of its bytes as they were read, in hexadecimal; empty for a file that is only
            ever appended to, of which not all is read.
        is_whole: Whether all of it could be read.
    """

    sha256: str
    is_whole: bool


class Reader(Protocol):
    """Turns the objects of one file into events."""

    def events(self, found: Found) -> Iterable[Wire | Problem]:
        """Yield the events of one object, in wire form.

        Raises:
            InvalidEventError: The object has not the form it should have. Its neighbours are read on.
        """

    def finish(self, end: End) -> Iterable[Wire | Problem]:
        """Yield what can be said only when the file was read to its end.

        Raises:
            InvalidEventError: The file as a whole has not the form it should have.
        """
        del end
        return ()

    def plan(self, log: Log, events: list[Wire]) -> Plan:
        """Return events as they are to be appended, after a look at what stands in the log."""
        del log
        return Plan(events)

    def after(self, log: Log, events: Sequence[Wire], receipts: Sequence[Receipt]) -> list[Wire]:
        """Return what is to be recorded of how events were received; nothing for most kinds."""
        del log, events, receipts
        return []


class NotYetError(InvalidEventError):
    """A file cannot be read now, since what it is held against is being written; the next import reads it."""


class Kind(Protocol):
    """One kind of source.

    Attributes:
        NAME: What the command line calls it.
    """

    NAME: str

    def recognises(self, value: Mapping[str, Any]) -> bool:
        """Say whether an object is of this kind, by its shape alone."""

    def reader(self, origin: Origin) -> Reader:
        """Return the reader of one file.

        Raises:
            InvalidEventError: A file of that name cannot be read as this kind.
            NotYetError: It cannot be read as long as what stands beside it is being written.
        """


class PlacedKind(Kind, Protocol):
    """A kind whose files can be told by where they are."""

    def knows(self, path: str) -> bool:
        """Say whether a file's path alone shows that it is of this kind, whatever its objects look like."""


class OlderReading(NamedTuple):
    """What an older reader appended of one session, where a newer one reads the same bytes again.

    Attributes:
        reader: The version of the older reader.
        positions: The first position of each event, by its id.
        popped: The items that it popped since they were not in the file any more, and that nothing put back.
    """

    reader: int
    positions: Mapping[str, int]
    popped: frozenset[str]


class GrowingReader(Reader, Protocol):
    """The reader of a file that grows: it can stop behind any object, and go on there another day.

    Its events depend on the objects it has seen alone, in this process or an earlier one, never on
    where a reading stopped; `finish` yields notes, and events only of a file that was not what it
    was (`restart`), since every reading has an end and one reading of the whole file has but one.
    """

    def state(self) -> dict[str, Any]:
        """Return what is needed to go on behind the last object; JSON, small, whatever the file's size."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where the reader stopped that said this `state`; called before the first object."""

    def restart(self, state: Mapping[str, Any]) -> None:
        """Read from the first line, since the file is not any more what it was when `state` was said.

        Called before the first object; `state` tells what was read then, so that what vanished can
        be said. If the import is interrupted, it is called with the same state again.
        """
        del state

    def changes(self, former: OlderReading) -> Iterable[Wire]:
        """Yield each `history.compacted` that an older reader did not derive of how a rewritten file changed.

        Called after `finish`, if an older reader had read the same bytes. Each pop whose items these events cover is
        withdrawn. The same rows give the same events, also after an import that was interrupted.
        """
        del former
        return ()


class GrowingKind(Kind, Protocol):
    """A kind whose files are read on from where the last import stopped.

    Its reader's state may change its form from one version to the next: a class attribute
    `STATE_VERSION`, 1 if there is none, is raised then, and files are read from their beginning.

    The class attribute `READER_VERSION`, 1 if there is none, is raised with every change of what is derived from the
    same bytes: then files are read from their beginning, and what is derived no longer is withdrawn (`renewal`).
    Change no text that an event or a key of an earlier version holds: derive an event of another key instead.

    Attributes:
        GROWS: `APPENDED` where the tool only ever appends to a file, `REWRITTEN` where it may write
            it anew: then all that was read is compared before reading goes on.
    """

    GROWS: Grows

    def reader(self, origin: Origin) -> GrowingReader:
        """Return the reader of one file, as `Kind.reader` does."""


def is_placed(kind: Kind) -> TypeGuard[PlacedKind]:
    """Say whether files of a kind can be told by where they are."""
    return hasattr(kind, "knows")


def is_growing(kind: Kind) -> TypeGuard[GrowingKind]:
    """Say whether the files of a kind are read on from where the last import stopped."""
    return getattr(kind, "GROWS", None) in (APPENDED, REWRITTEN)


def kinds(name: str) -> list[Kind]:
    """Return the kind with a name, or all kinds for `auto`."""
    wanted = KINDS if name == AUTO else {name: KINDS[name]}
    found: list[Kind] = []
    for place in wanted.values():
        module, _, attribute = place.partition(":")
        found.append(getattr(import_module(module), attribute)())
    return found
