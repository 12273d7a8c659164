"""The façade: `open` connects recorder, log and projections, and returns a `Ledger`."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec

from rightful import limits, times
from rightful.errors import UsageError
from rightful.log.log import Clock, Log, now_us

if TYPE_CHECKING:
    from rightful.events import Event
    from rightful.handoffs.handoffs import Handoff, Handoffs
    from rightful.histories.history_model import FullHistory, History
    from rightful.histories.service import Histories
    from rightful.locate.verdicts import Answer
    from rightful.log.follow import Following
    from rightful.log.rows import Receipt, Recorded
    from rightful.policies import Policy
    from rightful.projections.credit.posteriors import Posteriors
    from rightful.projections.projected import Projected
    from rightful.projections.store import Store
    from rightful.projections.transcripts.entries import Transcript
    from rightful.recording.producer import Producer
    from rightful.reports.audits.rule_audit import Audit
    from rightful.tokens import Batch, Token, Without

_SCHEME = r"([A-Za-z][A-Za-z0-9+.-]*)://"  # compiled when used, which is only for a path with a colon


def open(  # noqa: A001 - `rightful.open` is the documented name
    path_or_url: str | os.PathLike[str],
    *,
    create: bool = False,
    readonly: bool = False,
    clock: Clock = now_us,
) -> Ledger:
    """Open a ledger; use it in a `with` statement.

    Args:
        path_or_url: The ledger's folder, or `lmdb://` and the folder.
        create: Create the ledger if it does not exist.
        readonly: Open it for reading only; works in a folder that is not writable.
        clock: Returns the time at which a row is written; microseconds since 1970, UTC.

    Raises:
        UsageError: The URL scheme is not supported, or both `create` and `readonly` were passed.
        LedgerNotFoundError: The ledger does not exist. Create it with `create=True` or `rightful init`.
        ForeignStoreError: The folder is not a complete ledger. It was not changed.
        StorageError: It cannot be opened; the error states the cause and the fix.
    """
    path = folder_of(path_or_url)
    if create and readonly:
        raise UsageError("Cannot use `create` with `readonly`. Nothing was created. Pass only one of them.")
    from rightful.storage.recorder import LMDBRecorder

    recorder = LMDBRecorder(path, create=create, readonly=readonly)
    try:
        log = Log(recorder, path=str(path), clock=clock)
        return Ledger(log, path, ledger_id=recorder.ledger_id, clock=clock, readonly=readonly)
    except BaseException:
        recorder.close()
        raise


def folder_of(path_or_url: str | os.PathLike[str]) -> Path:
    """Return the folder of a ledger's path or URL; `~` and `~user` at its beginning mean a home, as in a shell.

    Raises:
        UsageError: It is empty, is not a valid path, or has a URL scheme that is not supported.
    """
    text = os.fspath(path_or_url)
    scheme = re.match(_SCHEME, text) if "://" in text else None
    if scheme and scheme[1].lower() != "lmdb":
        raise UsageError(
            f"Unsupported ledger URL scheme {scheme[1]!r}. Nothing was opened. Pass a folder path, or lmdb://<folder>."
        )
    named = text[scheme.end() :] if scheme else text
    if not named:
        raise UsageError("The ledger's path is empty. Nothing was opened. Pass the path of a folder.")
    try:
        writable = b"\0" not in os.fsencode(named)
    except UnicodeEncodeError:  # a lone surrogate, or a character that the locale lacks
        writable = False
    if not writable:
        raise UsageError(f"{named!r} is not a valid path. Nothing was opened. Pass the path of a folder.")
    folder = Path(os.path.expanduser(named))  # noqa: PTH111 - `Path("./~")` loses the dot
    return Path.cwd() / folder if str(folder).startswith("~") else folder  # so that it is not expanded again


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a ledger.

    Attributes:
        path: Its folder.
        id: Its own UUID; a copy keeps it.
        events: The number of its rows; the last position.
        last_recorded_at: When the last row was written; None if it is empty.
        watermark: The position that the stored projections have folded; 0 if none are stored.
    """

    path: str
    id: str
    events: int
    last_recorded_at: datetime | None
    watermark: int


class Ledger:
    """An open ledger. Get one from `rightful.open`.

    Attributes:
        path: Its folder.
        id: Its own UUID; a copy keeps it.
        log: The underlying log, for conditional appends and stored rows.
    """

    def __init__(
        self, log: Log, path: Path, *, ledger_id: str = "", clock: Clock = now_us, readonly: bool = False
    ) -> None:
        self.path = path
        self.id = ledger_id
        self.log = log
        self._clock = clock
        self._readonly = readonly
        self._projected: Projected | None = None
        self._histories: Histories | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Write the queued events of its turns, save the projections and release all resources; idempotent."""
        if (outboxes := sys.modules.get("rightful.recording.outbox")) is not None:  # otherwise no turn was begun
            outboxes.drain(self.log)
        try:
            if self._projected is not None:
                self._projected.save()
        finally:
            self.log.recorder.close()

    def append(
        self, events: Iterable[Event | Mapping[str, Any]], *, timeout_s: float | None = limits.WAIT_S
    ) -> list[Receipt]:
        """Append events in one transaction; return a receipt for each, in order, once they are durable.

        An invalid event gets a receipt with its place and does not affect the others. Sending a batch
        again is safe, however often.

        Args:
            events: Structs of `rightful.events` or wire objects.
            timeout_s: How long to wait for other writers; seconds. None waits forever.

        Raises:
            UsageError: There are more events than the limit of one transaction. Nothing was written.
            BusyError: Another writer had the write lock for that long. Nothing was written; send it again.
            OutcomeUnknownError: It is not known whether it was written. Send the same events again.
            StorageError: The store failed. Nothing was written.
        """
        return self.log.append(events, timeout_s=timeout_s)

    def read(
        self,
        *,
        session: str | None = None,
        types: Iterable[str] | None = None,
        after: int = 0,
        until: int | None = None,
    ) -> Iterator[Recorded]:
        """Yield recorded events of every outcome, by ascending position.

        Args:
            session: Only those of this session, named in full.
            types: Only those of these types.
            after: Start after this position.
            until: End with this position.

        Raises:
            DamagedRowError: A row does not match its checksum. Rows before it and after it can be read.
        """
        return self.log.read(session=session, types=types, after=after, until=until)

    def follow(
        self,
        after: int = 0,
        *,
        session: str | None = None,
        types: Iterable[str] | None = None,
        timeout_s: float | None = None,
    ) -> Following:
        """Follow the ledger: first the stored events after a position, then new events of any process.

        Args:
            after: Start after this position; to resume, pass the last position that you processed.
            session: Only events of this session, named in full.
            types: Only events of these types.
            timeout_s: End after this time without a new event; seconds. None follows forever.

        Returns:
            An iterator that blocks; its `stop()` ends it from any thread.
        """
        return self.log.follow(after, session=session, types=types, timeout_s=timeout_s)

    def producer(self, name: str) -> Producer:
        """Return the producer of that name, for hooks and runners: a method for each kind of fact.

        Raises:
            InvalidEventError: The name is not a valid producer name.
        """
        from rightful.recording.producer import Producer

        return Producer(self.log, name, clock=self._clock)

    def put_handoff(self, name: str, payload: Any, *, session: str, key: str | None = None) -> Receipt:  # noqa: ANN401 - content
        """Store a payload for the next step of a session, or for another session; see `take_handoff`.

        Args:
            name: The name of the handoff. It replaces an earlier handoff of this name, which can no longer be taken.
            payload: Text, bytes or a JSON value.
            session: The session that the caller runs in; there is no default.
            key: A key of your own, which makes the call repeatable.

        Raises:
            UsageError: `session` is not a session name.
            InvalidEventError: The payload is not valid content, or is too long.
            HandoffMismatchError: The caller runs in another session, another run's handoff waits under
                that name, or the key was used for another payload. Nothing was stored.
        """
        return self.handoffs().put(name, payload, session=session, key=key)

    def take_handoff(self, name: str, *, session: str, put_by: str | None = None, key: str | None = None) -> Handoff:
        """Take the last payload stored under a name; of several takers exactly one gets it.

        Args:
            name: The name of the handoff.
            session: The session that the caller runs in; there is no default.
            put_by: The session that stored it, if it is another one.
            key: A key of your own: another take with it returns the same payload, until a new one is stored.

        Raises:
            UsageError: `session` is not a session name.
            NothingToTakeError: No handoff waits under that name.
            HandoffMismatchError: The caller runs in another session, another run stored it, or the payload taken
                with the key is older than the last one stored. Nothing was taken.
        """
        return self.handoffs().take(name, session=session, put_by=put_by, key=key)

    def handoffs(self) -> Handoffs:
        """Return the object that stores and takes handoffs for this process, its environment and its working folder."""
        from rightful.handoffs.handoffs import Handoffs

        def same_run(one: str, other: str) -> bool | None:
            from rightful.projections.credit.linked_names import same_run

            return same_run(self.projected().catch_up(), one, other)

        return Handoffs(self.log, clock=self._clock, same_run=same_run)

    def status(self) -> Status:
        """Return the state of the ledger."""
        head = self.log.head()
        last = [row for page in self.log.scan(max(head - 1, 0), head) for row in page]
        return Status(
            path=str(self.path),
            id=self.id,
            events=head,
            last_recorded_at=times.at_of(last[-1].envelope.recorded_at_us) if last else None,
            watermark=self._store().watermark(),
        )

    def projected(self) -> Projected:
        """Return the projections, which answer under any policy and at any position."""
        if self._projected is None:
            from rightful.projections.projected import Projected

            self._projected = Projected(self.log, self._store())
        return self._projected

    def _store(self) -> Store:
        from rightful.projections.store import Store

        return Store(self.path / "projections", self.id, writable=not self._readonly)

    def locate(self, session: str, *, roots: Iterable[str | os.PathLike[str]] = ()) -> Answer:
        """Search for a session's transcript, and check whether it belongs to the session.

        Args:
            session: The session: a full name, or a value over all namespaces.
            roots: Folders to search, and no others; the folders that the tools use here if empty.

        Raises:
            UsageError: No session has that name, several have that value, or a folder does not exist.
            UpgradeError: A row was written by a newer program.
        """
        from rightful.locate import find_transcripts

        known = find_transcripts.ledger_sessions(self.log)
        where = find_transcripts.search_folders(
            [os.fspath(root) for root in roots], os.environ, Path.home(), [Path.cwd()]
        )
        return find_transcripts.locate(known, find_transcripts.resolve_name(known, session), where)[0]

    def posteriors(
        self,
        policy: str | Mapping[str, Any] | Policy = "bound",
        *,
        as_of: int | str | datetime | None = None,
        decay_at: datetime | str | float | None = None,
    ) -> Posteriors:
        """Return the posteriors of a policy, which are the sums of its credits.

        Args:
            policy: A preset's name, a JSON object or a policy.
            as_of: A position, or a time: the longest prefix in which every row was recorded by then.
                The whole ledger if None.
            decay_at: The time of the decay: a datetime, RFC 3339 text, or seconds since 1970. The
                largest event time up to the position if None.

        Raises:
            PolicyError: It is not a valid policy.
            UsageError: `as_of` is beyond the end of the ledger, or a time cannot be parsed.
            UpgradeError: A row was written by a newer program. Upgrade and run it again.
            DamagedRowError: A row does not match its checksum.
        """
        from rightful.policies import policy_of

        return self.projected().posteriors(policy_of(policy), as_of=as_of, decay_at=decay_at)

    def audit(
        self,
        policy: str | Mapping[str, Any] | Policy,
        against: str | Mapping[str, Any] | Policy = "bound",
        *,
        as_of: int | str | datetime | None = None,
        decay_at: datetime | str | float | None = None,
        balances: Sequence[str] = (),
    ) -> Audit:
        """Compare the credit that a policy gives with the credit of another policy, on the same log.

        Opening balances count on neither side unless `balances` names them; the policies' own field
        `balances` is ignored here.

        Args:
            policy: The policy to audit: a preset's name, a JSON object or a policy.
            against: The reference, in the same forms.
            as_of: As in `posteriors`.
            decay_at: As in `posteriors`.
            balances: Patterns of the sources whose opening balances count on both sides.

        Raises:
            PolicyError: One of the two is not a valid policy.
            UsageError: `as_of` is beyond the end of the ledger, or a time cannot be parsed.
            UpgradeError: A row was written by a newer program. Upgrade and run it again.
        """
        from rightful.reports.audits.rule_audit import audit

        projected, sides = self.projected(), (_named(policy), _named(against))
        return audit(projected, *sides, as_of=as_of, decay_at=decay_at, balances=balances)

    def transcript(self, session: str, *, require_complete: bool = False, revisions: bool = False) -> Transcript:
        """Return everything that a session said and did, each thing once and in order.

        If the session has no entries of its own, those of the names that links join to it are returned.

        Args:
            session: Its name in full.
            require_complete: Refuse a transcript that is not known to be complete.
            revisions: Add to each entry every row that recorded it.

        Raises:
            UsageError: No row names the session.
            IncompleteTranscriptError: It is not known to be complete; the error lists what is missing.
            UpgradeError: A row of it was written by a newer program. Upgrade and run it again.
            DamagedRowError: A row does not match its checksum.
        """
        from rightful.projections.transcripts.session_rows import transcript_of

        return transcript_of(self.projected(), session, require_complete=require_complete, revisions=revisions)

    def histories(self) -> Histories:
        """Return the object that reads and writes histories; it caches their views."""
        if self._histories is None:
            from rightful.histories.service import Histories

            self._histories = Histories(self.log, ledger_id=self.id, clock=self._clock)
        return self._histories

    def history(
        self, session: str, limit: int | None = None, *, without: tuple[str, int] | Without | None = None
    ) -> History:
        """Return what the model would see next: its items and a token; see `Histories.history`."""
        return self.histories().history(session, limit, without=without)

    def full_history(self, session: str, *, at: int | None = None) -> FullHistory:
        """Return all items that a history ever had, and the state of each item; see `Histories.full`."""
        return self.histories().full(session, at=at)

    def extend(self, to: Token | str, items: Iterable[Any], batch: Batch | None = None) -> Token:
        """Append items to a history, and return a token that also covers them; see `Histories.extend`."""
        return self.histories().extend(to, items, batch)

    def pop(self, session: str, *, key: str | None = None) -> Any:  # noqa: ANN401 - content
        """Remove the last item from a history's view, and return it; see `Histories.pop`."""
        return self.histories().pop(session, key=key)

    def clear(self, session: str, *, key: str | None = None) -> Receipt:
        """Remove all items from a history's view; see `Histories.clear`."""
        return self.histories().clear(session, key=key)

    def compact(  # noqa: PLR0913 - as many facts as the event has
        self,
        token: Token,
        items: Iterable[Any],
        covers: Iterable[Any] | None = None,
        *,
        mode: str = "input",
        response_id: str | None = None,
        run: str | None = None,
        usage: Mapping[str, Any] | None = None,
        ordinal: int | None = None,
    ) -> Receipt:
        """Replace items with a summary of them; see `Histories.compact`."""
        return self.histories().compact(
            token, items, covers, mode=mode, response_id=response_id, run=run, usage=usage, ordinal=ordinal
        )

    def fork(self, session: str, into: str, *, at: int | None = None) -> Token:
        """Begin a new history with the view of another one; see `Histories.fork`."""
        return self.histories().fork(session, into, at=at)


def _named(asked: str | Mapping[str, Any] | Policy) -> tuple[str, Policy]:
    """Return a policy and its label: its preset's name, otherwise its hash."""
    from rightful.policies import policy_of

    policy = policy_of(asked)
    return (asked if isinstance(asked, str) else policy.hash), policy
