"""The events about a run: its start is recorded before the command starts, the rest after it ended.

| event | key |
|---|---|
| `session.started` | session, `started`, nonce |
| `session.ended` | session, `ended`, nonce |
| `session.linked` | session, `linked`, the tool's name, nonce |
| `transcript.bound` | session, `bound`, URI, SHA-256 |
| `data.recorded` `commits` | session, `commits`, nonce |
| `data.recorded` `transcript-candidates` | session, `transcript-candidates`, nonce |

A run that another run started names it in `extra.started_by`. No link is written for that: it would merge
both into one run, and a dispatcher's grade would credit everything that its sessions were shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from eventsourcing.dcb.api import DCBQuery, DCBQueryItem

from rightful import limits, times
from rightful.errors import ConditionFailedError, OutcomeUnknownError
from rightful.events import SessionLinked, SessionStarted, TranscriptBound
from rightful.importers.shared.foreign_fields import key_of
from rightful.log.rows import valid
from rightful.runs.run_identity import PRODUCER, Identity

if TYPE_CHECKING:
    from rightful.log.log import Log
    from rightful.runs.git import Repository
    from rightful.runs.run_commits import Commit, RunCommits
    from rightful.runs.run_transcripts import OwnTranscript, TranscriptSearch

Wire = dict[str, Any]

STARTED, LINKED, BOUND = "session.started", "session.linked", "transcript.bound"

_TRIES = 50


class NameTakenError(Exception):
    """Another run was started under this name."""


def start_event(identity: Identity, at_us: int, facts: Mapping[str, Any], extra: Mapping[str, Any]) -> Wire:
    """Return the event for the start of a run.

    Args:
        identity: The run's identity.
        at_us: When it started; microseconds since 1970, UTC.
        facts: `harness`, `model`, `cwd`, `work_item`; None values are omitted.
        extra: Fields that the type does not define; None values are omitted.
    """
    event = _event(identity, STARTED, at_us, "started", identity.nonce) | _without_none(facts)
    return event | {"run_nonce": identity.nonce, "extra": _without_none(extra)}


def end_event(identity: Identity, at_us: int, exit_code: int) -> Wire:
    """Return the event for the end of a run."""
    return _event(identity, "session.ended", at_us, "ended", identity.nonce) | {"exit_code": exit_code}


def link_event(identity: Identity, at_us: int, other: str, as_: str, evidence: str) -> Wire:
    """Return the event that links a run to its tool's name for it."""
    event = _event(identity, LINKED, at_us, "linked", other, identity.nonce)
    return event | {"other": other, "as": as_, "evidence": evidence}


def binding_event(identity: Identity, at_us: int, own: OwnTranscript) -> Wire:
    """Return the event that binds a run's transcript."""
    begins = own.file.started_at_us
    return _event(identity, BOUND, at_us, "bound", own.uri, own.content.sha256) | _without_none(
        {
            "uri": own.uri,
            "bytes": own.content.bytes,
            "sha256": own.content.sha256,
            "evidence": own.evidence,
            "started_at": None if begins is None else times.text_of(begins),
        }
    )


def candidates_event(identity: Identity, at_us: int, found: TranscriptSearch) -> Wire:
    """Return the event with the reason why no transcript was bound, and the candidate files."""
    return _event(identity, "data.recorded", at_us, "transcript-candidates", identity.nonce) | {
        "name": "transcript-candidates",
        "data": {"why": found.why, "candidates": list(found.candidates[: limits.RUN_COMMITS])},
    }


def commits_event(
    identity: Identity, at_us: int, repository: Repository, made: RunCommits, facts: Mapping[str, Any]
) -> Wire:
    """Return the event with the commits of a run.

    Args:
        identity: The run's identity.
        at_us: When it ended; microseconds since 1970, UTC.
        repository: The repository.
        made: The commits found.
        facts: Further fields of the repository: `origin`, `branch`, `head_before`, `head_after`.
    """
    data: Wire = {
        "repository": str(repository.common),
        "worktree": None if repository.top is None else str(repository.top),
        **facts,
        "commits": [_commit(commit) for commit in made.commits],
        "candidates": [_commit(commit) for commit in made.candidates],
        "why": made.why,
        "more": made.more,
    }
    return _event(identity, "data.recorded", at_us, "commits", identity.nonce) | {"name": "commits", "data": data}


def _commit(commit: Commit) -> Wire:
    return {"sha": commit.sha, "subject": commit.subject, "committed_at": times.text_of(commit.committed_s * 1_000_000)}


def _event(identity: Identity, kind: str, at_us: int, *parts: str) -> Wire:
    return {
        "type": kind,
        "producer": PRODUCER,
        "session": identity.session,
        "key": key_of(identity.session, *parts),
        "at": times.text_of(at_us),
    }


def _without_none(facts: Mapping[str, Any]) -> Wire:
    return {name: value for name, value in facts.items() if value is not None}


def begin(log: Log, event: Wire, *, timeout_s: float) -> int:
    """Record a run's start and return its position.

    Raises:
        NameTakenError: Another run was started under this name. Nothing was written.
        InvalidEventError: The event is not valid for its type. Nothing was written.
        StorageError: The event cannot be written.
    """
    session = event["session"]
    query = DCBQuery(items=[DCBQueryItem(types=[STARTED], tags=[f"session:{session}"])])
    for _ in range(_TRIES):
        head = log.head()
        starts = (row.event for row in log.read(session=session, types=[STARTED]))
        if any(
            isinstance(start, SessionStarted) and start.run_nonce not in {None, event["run_nonce"]} for start in starts
        ):
            raise NameTakenError(session)
        try:
            [receipt] = log.append([event], unless=query, after=head, timeout_s=timeout_s)
        except ConditionFailedError:
            continue
        return valid(receipt).position or 0
    raise NameTakenError(session)


def finish(
    log: Log, identity: Identity, certain: list[Wire], claims: list[Wire], no_claim: Wire, *, timeout_s: float
) -> str | None:
    """Record a run's end, and claim its transcript unless another run did.

    Args:
        log: The ledger's log.
        identity: The run's identity.
        certain: The events to record in any case.
        claims: The link and the binding of its transcript.
        no_claim: The event to record instead of `claims` if another run made the same claim. The reason is set here.
        timeout_s: The maximum wait for other writers, for each attempt; seconds.

    Returns:
        The reason why the transcript was not claimed; None if it was, or none was found.

    Raises:
        StorageError: The events cannot be written. Appending them again is safe.
    """
    for _ in range(_TRIES):
        head = log.head()
        if claims and (taken := _conflict(log, identity, claims)) is not None:
            no_claim["data"]["why"] = taken
            _append(log, [*certain, no_claim], timeout_s=timeout_s)
            return taken
        condition = {"unless": DCBQuery(items=[DCBQueryItem(types=[LINKED, BOUND])]), "after": head} if claims else {}
        try:
            _append(log, [*certain, *claims], timeout_s=timeout_s, **condition)
        except ConditionFailedError:
            continue
        return None
    no_claim["data"]["why"] = (
        "others claimed transcripts all the time, so that it could not be made sure that this is free"
    )
    _append(log, [*certain, no_claim], timeout_s=timeout_s)
    return str(no_claim["data"]["why"])


def _append(log: Log, events: list[Wire], **options: Any) -> None:  # noqa: ANN401 - the arguments of `Log.append`
    try:
        receipts = log.append(events, **options)
    except OutcomeUnknownError:
        receipts = log.append(events, timeout_s=options["timeout_s"])  # queued after the first attempt
    for receipt in receipts:
        valid(receipt)


def _conflict(log: Log, identity: Identity, claims: list[Wire]) -> str | None:
    """Return why the transcript, or the tool's session name, belongs to another run; None if it does not."""
    names = {event["other"] for event in claims if event["type"] == LINKED}
    uris = {event["uri"] for event in claims if event["type"] == BOUND}
    is_weak = any(event["evidence"] == "cwd-window" for event in claims)
    for row in log.read(types=[LINKED, BOUND]):
        event = row.event
        if row.session == identity.session:
            continue
        if not isinstance(event, SessionLinked | TranscriptBound) or (event.evidence == "cwd-window" and not is_weak):
            continue  # the weaker claim yields to ours
        if isinstance(event, SessionLinked) and event.other in names:
            return f"{event.session} is linked to {event.other} already"
        if isinstance(event, TranscriptBound) and event.uri in uris:
            return f"{event.session} is bound to this transcript already"
    return None
