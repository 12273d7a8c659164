"""What a transcript is made of: entries, what contradicts them, and the whole."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct, UnsetType, field

from rightful import content as contents
from rightful import times
from rightful.projections.facts.completeness import Hole, State


class Row(Struct, frozen=True, kw_only=True):
    """One row that tells an entry, or contradicts it.

    Attributes:
        position: Where it stands.
        outcome: How it was classified when it came.
        at_us: When it happened; microseconds since 1970, UTC.
        producer: Who wrote it.
        said: What it says, field by field; None once it is erased.
    """

    position: int
    outcome: str
    at_us: int
    producer: str
    said: dict[str, Any] | None

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        said = None if self.said is None else {name: jsonable(value) for name, value in self.said.items()}
        return {
            "position": self.position,
            "outcome": self.outcome,
            "at": times.text_of(self.at_us),
            "producer": self.producer,
            "said": said,
        }


class Entry(Struct, kw_only=True):
    """One thing that a session said or did. A field that does not apply is `UNSET`.

    Attributes:
        kind: `message`, `thought`, `tool_call`, `usage`, `error`, `interaction_requested`, `interaction_answered`,
            `data`, `turn_ended`, `history_compacted`, `history_popped`, `history_cleared`, `history_forked`,
            `compaction_deferred` or `history_appended` (items that were erased).
        id: The event id of its first row; of what is an item of the history by itself, that is `[id, 0]`.
        role: Of a message: `user`, `assistant` …
        text: What was said; of a list of parts the text parts, joined by newlines.
        content: The parts, if the content is not a text.
        call: The call's own id.
        calls: All its ids, where a resume raised it again under another one.
        name: The tool; what a `data` is.
        arguments: What the tool was given.
        output: The call's result; not there while it has none.
        is_error: Whether that is a failure.
        placeholder: The result only stands in for one that never came.
        unpaired: A result whose call is not there.
        interaction: The id of a request and of its answer.
        asked: What was asked for, in the producer's word.
        payload: What was asked, or answered.
        counts: Of usage: numbers by name.
        of: The response or message that they count; not there for the turn. Of a fork the session that it was begun of.
        through: The position of that session's history at which a fork was begun.
        cumulative: They count since the session began.
        data: What a `data` holds.
        stop_reason: Why a turn ended.
        event_count: How many events its producer counted.
        dropped_count: How many it says it lost.
        previous: The turn before it.
        mode: How a history was compacted, in the tool's word.
        covers: The items that were compacted or retracted.
        covered: The entries that those are: ranges of positions, both ends in it, as items follow each other here.
        unresolved: How many of `covers` name what is not there, or not told.
        covered_places: The places of both ends of each of them in their batches; None for an entry outside of a batch.
        elsewhere: How many of `covers` are in the history that this one started from.
        items: The items that replace them.
        reason: Why a compaction that was due could not be done.
        agent: Which agent of a run spoke.
        response_id: The provider's response that it came with, or was compacted from, or at which a compaction was due.
        turn: The turn it belongs to.
        position: Its first position; with several producers, that of the producer whose messages are shown.
        result_position: The first position of the shown result.
        result_id: The event id of that result.
        revisions: How many rows it has.
        result_revisions: How many rows its result has.
        at_us: When it happened; microseconds since 1970, UTC.
        at_basis: `file` when that is a file's time, an upper bound.
        producer: The producer of its first row.
        session: Whose entry it is, where a transcript is of several names.
        extra: Metadata of its producer.
        result_extra: Metadata of the result.
        hidden: The tool did not show it, or it was withdrawn.
        meta: The tool wrote it; it is not a message of a user or an agent.
        summary: It sums up what came before.
        late: It came after its turn was closed.
        result_late: Its result did.
        erased: Its content was erased.
        result_erased: Its result was erased.
        withdrawn: Every row of it was withdrawn.
        taken_back: It was retracted later: the model no longer sees it.
        holes_before: What is missing right before it, in its turn.
        holes_behind: What is missing right behind it, at the end of its turn.
        conflicts: Rows in quarantine that contradict it.
        rows: All its rows, if requested.
        item: The id of the history's item that it is.
        result_item: The id of the history's item that its result is.
    """

    kind: str
    id: str
    role: str | UnsetType = UNSET
    text: str | UnsetType = UNSET
    content: Any = UNSET
    call: str | UnsetType = UNSET
    calls: list[str] | UnsetType = UNSET
    name: str | UnsetType = UNSET
    arguments: Any = UNSET
    output: Any = UNSET
    is_error: bool | UnsetType = UNSET
    placeholder: bool | UnsetType = UNSET
    unpaired: bool | UnsetType = UNSET
    interaction: str | UnsetType = UNSET
    asked: str | UnsetType = UNSET
    payload: Any = UNSET
    counts: dict[str, Any] | UnsetType = UNSET
    of: str | UnsetType = UNSET
    through: int | UnsetType = UNSET
    cumulative: bool | UnsetType = UNSET
    data: Any = UNSET
    stop_reason: str | UnsetType = UNSET
    event_count: int | UnsetType = UNSET
    dropped_count: int | UnsetType = UNSET
    previous: str | UnsetType = UNSET
    mode: str | UnsetType = UNSET
    covers: list[Any] | UnsetType = UNSET
    covered: list[list[int]] | UnsetType = UNSET
    covered_places: list[list[int | None]] | UnsetType = UNSET
    unresolved: int | UnsetType = UNSET
    elsewhere: int | UnsetType = UNSET
    items: list[Any] | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    agent: str | UnsetType = UNSET
    response_id: str | UnsetType = UNSET
    turn: str | UnsetType = UNSET
    position: int
    result_position: int | UnsetType = UNSET
    result_id: str | UnsetType = UNSET
    revisions: int = 1
    result_revisions: int | UnsetType = UNSET
    at_us: int
    at_basis: str | UnsetType = UNSET
    producer: str
    session: str | UnsetType = UNSET
    extra: Any = UNSET
    result_extra: Any = UNSET
    hidden: bool | UnsetType = UNSET
    meta: bool | UnsetType = UNSET
    summary: bool | UnsetType = UNSET
    late: bool | UnsetType = UNSET
    result_late: bool | UnsetType = UNSET
    erased: bool | UnsetType = UNSET
    result_erased: bool | UnsetType = UNSET
    withdrawn: bool | UnsetType = UNSET
    taken_back: bool | UnsetType = UNSET
    holes_before: list[Hole] | UnsetType = UNSET
    holes_behind: list[Hole] | UnsetType = UNSET
    conflicts: list[Row] | UnsetType = UNSET
    rows: list[Row] | UnsetType = UNSET
    item: list[Any] | UnsetType = UNSET
    result_item: list[Any] | UnsetType = UNSET

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON object; what does not apply is absent.

        Content is in the stored form (`rightful.content`), which any JSON can hold. `escaped` says where that
        is another than what was said.
        """
        out: dict[str, Any] = {}
        escaped = False
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is UNSET:
                continue
            if name == "at_us":
                out["at"] = times.text_of(value)
            elif name in {"conflicts", "rows"}:
                out[name] = [row.as_dict() for row in value]
            elif name in {"holes_before", "holes_behind"}:
                out[name] = [_hole(hole) for hole in value]
            else:
                out[name], hit = contents.escape(value)
                escaped = escaped or hit
        return out | ({"escaped": True} if escaped else {})


class Started(Struct, kw_only=True):
    """What is known of how a session began: each field as the last start that gives it says.

    Attributes:
        at_us: When it first started, by the best that is known; microseconds since 1970, UTC.
        at_basis: `file` where that is a file's time, an upper bound.
        harness: The agent tool.
        model: The model.
        cwd: The working folder.
        work_item: What it was started for.
        extra: Metadata of the tool, such as which session it resumes.
    """

    at_us: int
    at_basis: str | UnsetType = UNSET
    harness: str | UnsetType = UNSET
    model: str | UnsetType = UNSET
    cwd: str | UnsetType = UNSET
    work_item: str | UnsetType = UNSET
    extra: dict[str, Any] | UnsetType = UNSET


class Ended(Struct, kw_only=True):
    """What is known of how a session ended.

    Attributes:
        at_us: When it last ended, by the best that is known; microseconds since 1970, UTC.
        at_basis: `file` where that is a file's time, an upper bound.
        turns: How many turns it had.
        exit_code: What its process returned.
    """

    at_us: int
    at_basis: str | UnsetType = UNSET
    turns: int | UnsetType = UNSET
    exit_code: int | UnsetType = UNSET


class Usage(Struct, kw_only=True):
    """What a session used.

    Attributes:
        total: Each number summed over turns and responses, each counted once.
        cumulative: The last number of each name that counts since the session began; no part of a sum.
    """

    total: dict[str, Any] = field(default_factory=dict)
    cumulative: dict[str, Any] = field(default_factory=dict)


class Transcript(Struct, kw_only=True):
    """Everything that a session said and did, in order.

    Attributes:
        session: Whose.
        names: The names whose rows are shown: its own, or if it has no entries those that links join to it.
        ambiguous: Why no other name's rows are shown, if links join several names and the run is not known.
        completeness: `complete`, `incomplete` or `unknown`.
        why: Why that is unknown; None otherwise.
        holes: What is missing, and what came late.
        entries: What was said and done.
        usage: What it used.
        started: How it began, where that is known.
        ended: How it ended, where that is known.
        subagents: The names of its subagents, whose transcripts are their own.
        left_out: For each producer whose history's items are not told, how many: another tells the same session.
        is_overwritten: Records come from a store that overwrites: earlier snapshots are unknown, and their order is
            that of the last write.
    """

    session: str
    names: list[str] = field(default_factory=list)
    ambiguous: str | None = None
    completeness: State = "unknown"
    why: str | None = None
    holes: list[Hole] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    started: Started | None = None
    ended: Ended | None = None
    subagents: list[str] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=dict)
    is_overwritten: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return it as one JSON document."""
        out: dict[str, Any] = {"session": self.session, "completeness": self.completeness}
        if self.why is not None:
            out["why"] = self.why
        out["holes"] = [_hole(hole) for hole in self.holes]
        out["entries"] = [entry.as_dict() for entry in self.entries]
        out["usage"] = {"total": jsonable(self.usage.total), "cumulative": jsonable(self.usage.cumulative)}
        for name, value in (("started", self.started), ("ended", self.ended)):
            if value is not None:
                out[name] = _dated(value)
        names = self.names if self.names != [self.session] else []
        optional: dict[str, Any] = {"names": names, "ambiguous": self.ambiguous}
        optional |= {"subagents": self.subagents, "left_out": self.left_out}
        if self.is_overwritten:
            optional |= {"snapshots": "unknown", "order": "last-write"}
        return out | {name: value for name, value in optional.items() if value}


def jsonable(value: Any) -> Any:  # noqa: ANN401 - content is any JSON value
    """Return content in the stored form, which any JSON can hold."""
    return contents.escape(value)[0]


def _hole(hole: Hole) -> dict[str, Any]:
    out: dict[str, Any] = {"turn": hole.turn, "kind": hole.kind, "indexes": [list(span) for span in hole.indexes]}
    return out | ({} if hole.count is None else {"count": hole.count})


def _dated(value: Started | Ended) -> dict[str, Any]:
    fields = {name: getattr(value, name) for name in value.__struct_fields__ if name != "at_us"}
    kept = {name: jsonable(field) for name, field in fields.items() if field is not UNSET}
    return {"at": times.text_of(value.at_us)} | kept
