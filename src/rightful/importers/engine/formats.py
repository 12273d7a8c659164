"""The interface of a format: how its files are recognised, read, and planned into the log.

An importer implements `Kind` and `Reader`, or, if its files grow, `GrowingKind` and `GrowingReader`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, cast

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
        is_named: Whether the user named the file. If not, it was found in a folder and may belong to another tool.
    """

    path: str
    mtime_us: int | None
    is_named: bool = True

    @property
    def name(self) -> str:
        """The file's own name."""
        return os.path.basename(self.path)  # noqa: PTH119 - a name is compared, no path is built


class Plan(NamedTuple):
    """Events that are ready to be appended, and the append condition that they depend on.

    Attributes:
        events: The events.
        unless: Rows that must not have been written after position `after`.
        after: The position up to which the log was read.
        existing: Receipts, by index in `events`, of events that are not appended: the log has the
            same fact in another form, or (`stale`, without a position) a later one.
        notes: Notes on the planned and the existing events.
    """

    events: list[Wire]
    unless: DCBQuery | None = None
    after: int | None = None
    existing: Mapping[int, Receipt] = {}
    notes: tuple[Problem, ...] = ()


class End(NamedTuple):
    """How the reading of a file ended.

    Attributes:
        sha256: SHA-256 of the bytes that were read, in hexadecimal; empty for an append-only file, which is
            not read from its beginning.
        is_whole: Whether all of it could be read.
        has_grown: Whether it has other bytes than at the last import.
    """

    sha256: str
    is_whole: bool
    has_grown: bool = True


class Reader(Protocol):
    """Turns the objects of one file into events."""

    def events(self, found: Found) -> Iterable[Wire | Problem]:
        """Yield the events of one object, in wire form.

        Raises:
            InvalidEventError: The object is not valid. The other objects of the file are still read.
        """

    def finish(self, end: End) -> Iterable[Wire | Problem]:
        """Yield the events and problems that are known only after the whole file was read.

        Raises:
            InvalidEventError: The file as a whole is not valid.
        """
        del end
        return ()

    def plan(self, log: Log, events: list[Wire]) -> Plan:
        """Return the events to append, after comparing them with the log."""
        del log
        return Plan(events)

    def after(self, log: Log, events: Sequence[Wire], receipts: Sequence[Receipt]) -> list[Wire]:
        """Return further events that depend on the receipts; none for most kinds."""
        del log, events, receipts
        return []


class NotYetError(InvalidEventError):
    """A file cannot be read now, because a file it is compared with is being written. The next import reads it."""


class Kind(Protocol):
    """One kind of source.

    Attributes:
        NAME: Its name on the command line.
    """

    NAME: str

    def recognises(self, value: Mapping[str, Any]) -> bool:
        """Return whether an object is of this kind, by its shape alone."""

    def reader(self, origin: Origin) -> Reader:
        """Return the reader of one file.

        Raises:
            InvalidEventError: A file of that name cannot be read as this kind.
            NotYetError: It cannot be read while a file it depends on is being written.
        """


class OlderReading(NamedTuple):
    """The events that an older reader appended for one session from the same bytes.

    Attributes:
        reader: The version of the older reader.
        positions: The first position of each event, by its id.
        popped: The items that it popped because they were no longer in the file, and that were not restored.
    """

    reader: int
    positions: Mapping[str, int]
    popped: frozenset[str]


class GrowingReader(Reader, Protocol):
    """The reader of a growing file: it can stop after any object and continue there in a later import.

    Its events depend only on the objects read so far, in this process or an earlier one, never on where a
    reading stopped. So `finish` yields notes; it yields events only for a file that was rewritten (`restart`).
    """

    def state(self) -> dict[str, Any]:
        """Return the state needed to continue after the last object: JSON, small whatever the file's size."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state` that `state()` returned. Called before the first object."""

    def restart(self, state: Mapping[str, Any]) -> None:
        """Read from the first line, because the file was rewritten after `state` was returned.

        Called before the first object. `state` describes the earlier content, so that the reader can report what
        was removed. If the import is interrupted, it is called with the same state again.
        """
        del state

    def changes(self, former: OlderReading) -> Iterable[Wire]:
        """Yield each `history.compacted` that an older reader did not derive from the changes of a rewritten file.

        Called after `finish`, if an older reader had read the same bytes. Pops whose items these events cover are
        withdrawn. The same rows give the same events, also after an interrupted import.
        """
        del former
        return ()


class GrowingKind(Kind, Protocol):
    """A kind whose files are read from where the last import stopped.

    Raise `STATE_VERSION` when the form of the reader's state changes. Files are then read from their beginning.

    Raise `READER_VERSION` with every change of what is derived from the same bytes. Files are then read from their
    beginning, and events that are no longer derived are withdrawn (see `renewal`).
    Never change a text that an event or a key of an earlier version contains; derive an event with another key.

    Attributes:
        GROWS: `APPENDED` if the tool only ever appends to a file, `REWRITTEN` if it may rewrite the file. The
            content read before is then compared before reading continues.
    """

    GROWS: Grows
    STATE_VERSION: int = 1
    READER_VERSION: int = 1

    def reader(self, origin: Origin) -> GrowingReader:
        """Return the reader of one file, as `Kind.reader` does."""


def growing_kinds(kinds: Iterable[Kind]) -> list[GrowingKind]:
    """Return the kinds whose files are read from where the last import stopped."""
    return [cast("GrowingKind", kind) for kind in kinds if hasattr(kind, "GROWS")]


def kinds(name: str) -> list[Kind]:
    """Return the kind with a name, or all kinds for `auto`."""
    wanted = KINDS if name == AUTO else {name: KINDS[name]}
    found: list[Kind] = []
    for place in wanted.values():
        module, _, attribute = place.partition(":")
        found.append(getattr(import_module(module), attribute)())
    return found
