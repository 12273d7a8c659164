"""What the rows of the ledger say about attribution, as columns; no policy is applied yet.

`Facts` is the state of one fold. Each step takes one row and changes only this state. What an
event means under a policy is decided by `settle`, from these columns, for any prefix of the log.
"""

from __future__ import annotations

from array import array
from typing import Any, NamedTuple

import msgspec
import numpy as np

from rightful import times
from rightful.encoding.envelope import Envelope
from rightful.events import NOT_OURS
from rightful.field_types import BalanceArm, BalanceContext
from rightful.identity import is_exact
from rightful.log.classify import ACCEPTED
from rightful.projections.facts import turn_rows
from rightful.projections.facts.columns import Ints, Mask, Places, Table
from rightful.projections.facts.session_names import NO_TIME, NOT_MENTIONED, Names

GRADE, RETRACTION, ERASED = 0, 1, 2
FILE_TIME, ERASED_EXPOSURE, DRAW = 1, 2, 4
UNKNOWN = "unknown"
_NAN = float("nan")
CLOCK_ROWS = 1_024


class Numbering:
    """Values as numbers, in order of first mention.

    Attributes:
        values: The values, by number.
    """

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._numbers: dict[Any, int] = {}

    def number(self, value: Any) -> int:  # noqa: ANN401 - any hashable value
        """Return a value's number; a new one if need be."""
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = len(self.values)
            self.values.append(value)
        return number

    def load(self, values: list[Any]) -> None:
        """Replace the values by stored ones."""
        self.values = values
        self._numbers = {value: number for number, value in enumerate(values)}


class Aside(msgspec.Struct, frozen=True, omit_defaults=True):
    """What few grades have: rewards of single arms, salience, a decay of another updater."""

    per_arm: dict[str, float] | None = None
    salience: dict[str, float] | None = None
    decay_rate: float | None = None


class Correction(NamedTuple):
    """A grade that another one, at `position`, of the same grader and session replaces, since its time was wrong."""

    position: int
    name: int
    grader: int
    seq: int


class Mention(NamedTuple):
    """A row that names a session."""

    position: int
    is_start: bool
    id: str


class IdentityClaim(NamedTuple):
    """A row whose transcript path, or whose file's name, has the id of another session than its own: `named`."""

    position: int
    name: int
    named: str
    event: str
    revision: int


class Start(NamedTuple):
    """A `session.started` with a nonce."""

    position: int
    name: int
    nonce: str


class Decay(NamedTuple):
    """A `bandit.decayed`."""

    position: int
    at_us: int
    producer: str
    gamma: float


class Prune(NamedTuple):
    """A `bandit.pruned`."""

    position: int
    at_us: int
    producer: str
    arms: list[str]
    contexts: list[tuple[str, tuple[str | None, ...]]]


class OpeningValues(NamedTuple):
    """The values of one arm in a bandit file; `rewards` and `last_updated` as in the file, None if missing."""

    alpha: float
    beta: float
    n: int
    rewards: int | None
    last_updated: str | None


class Retirement(NamedTuple):
    """A publication that rebuilt a file from the log: the balances by these event ids do not count any more."""

    position: int
    id: str
    balances: list[str]


class Balance(NamedTuple):
    """A `balance.opened`."""

    id: str
    position: int
    at_us: int
    through_us: int
    source: str
    sha256: str
    arms: dict[str, OpeningValues]
    contexts: list[tuple[str, tuple[str | None, ...], OpeningValues]]


class Facts:
    """The columns of everything that attribution needs.

    Attributes:
        watermark: The position folded through.
        names: The session names.
        shown: One row an exposure: name, time, position, context, flags, where its arms stand.
        arms_shown: The arms of all exposures, one after the other.
        withheld: (row of `shown`, arm) of what was held back.
        shown_of: Finds a name's rows of `shown`.
        grades: One row a grade or retraction.
        grades_of: Finds a name's rows of `grades`.
        corrected: Which grades were said again with another time.
        links: One row a link or unlink: position, session, other, relation, evidence, unlink.
        quarantine: For each id in conflict, {revision: position} of its rows.
        withdrawn: For each id, the position of each withdrawal of it, the revision, the withdrawal's own id and who
            wrote it.
        named: For each id that a withdrawal names, the position and the producer of each accepted revision, if
            attribution reads its type.
        unread: The same for rows of other types, such as messages, which only show that a session exists.
        awaited: The ids that withdrawals name, also those of rows that are not folded yet.
        met_sessions: The sessions of withdrawn rows and of withdrawals that have no `mentions` yet.
        alias_links: (position, other session) of each link of a sanitised name, which joins no run.
        met_links: The ids of withdrawn links whose other sessions have no `mentions` yet.
        mentions: For each name of which a row was withdrawn, or is a withdrawal, the rows that make it known, through
            the first that no withdrawal names, and all its starts; by position.
        claims: Which rows contradict themselves on whose they are.
        turns: What came of the turns of transcripts (`turn_rows`).
        clock: The largest event time up to the end of each block of `CLOCK_ROWS` positions.
    """

    def __init__(self) -> None:  # noqa: PLR0915 - one statement a column
        self.watermark = 0
        self.names = Names()
        self.arms = Numbering()
        self.contexts = Numbering()
        self.graders = Numbering()
        self.producers = Numbering()
        self.outcomes = Numbering()
        self.shown = Table(name="i4", at="i8", pos="u4", ctx="i4", flags="u1", start="u4", count="u2")
        self.shown_of = Places(self.shown, "name")
        self.arms_shown = Table(arm="i4")
        self.withheld = Table(row="i4", arm="i4")
        self.grades = Table(
            name="i4", grader="i4", at="i8", pos="u4", seq="i8", reward="f8",
            outcome="i4", target="i4", aside="i4", kind="u1", flags="u1",
        )  # fmt: skip
        self.grades_of = Places(self.grades, "name")
        self.links = Table(pos="u4", session="i4", other="i4", relation="u1", evidence="u1", unlink="u1")
        self.turns = turn_rows.table()
        self.asides: list[Aside] = []
        self.corrected: list[Correction] = []
        self.starts: list[Start] = []
        self.claims: list[IdentityClaim] = []
        self.decayed: list[Decay] = []
        self.pruned: list[Prune] = []
        self.balances: list[Balance] = []
        self.published: list[tuple[int, str]] = []
        self.retired: list[Retirement] = []
        self.taken_back: list[tuple[int, str]] = []
        self.alias_links: list[tuple[int, int]] = []
        self.quarantine: dict[str, dict[int, int]] = {}
        self.withdrawn: dict[str, list[tuple[int, int, str, str]]] = {}
        self.named: dict[str, dict[int, tuple[int, str]]] = {}
        self.unread: dict[str, dict[int, tuple[int, str]]] = {}
        self.awaited: set[str] = set()
        self.met_sessions: set[str] = set()
        self.met_links: set[str] = set()
        self.mentions: dict[int, list[Mention]] = {}
        self.names.first_left = self.first_left
        self.clock = array("q")
        self._block_end = 0
        self._latest_us = 0
        self.touched: set[int] | None = None
        self.all_touched = False

    def freeze(self) -> None:
        """Make columns of the rows that were added; readers see none of them before."""
        for table in (self.shown, self.arms_shown, self.withheld, self.grades, self.links, self.turns):
            table.freeze()

    def load_clock(self, blocks: bytes, watermark: int) -> None:
        """Replace the clock by a stored one."""
        self.watermark = watermark
        self.clock = array("q", blocks)
        self._block_end = len(self.clock) * CLOCK_ROWS
        self._latest_us = self.clock[-1] if self.clock else 0

    def context_rank(self) -> Ints:
        """Return each context's place among all, by what it says; one more for none (-1), which comes last.

        Numbers are given by arrival, which must decide nothing.
        """
        order = sorted(range(len(self.contexts.values)), key=lambda number: repr(self.contexts.values[number]))
        rank = np.full(len(order) + 1, len(order), np.int64)
        rank[order] = np.arange(len(order))
        return rank

    def touch(self, number: int) -> None:
        """Note that a name's credits may have changed."""
        if self.touched is not None:
            self.touched.add(number)

    def touch_all(self, numbers: list[int]) -> None:
        """Note that the credits of several names may have changed."""
        if self.touched is not None:
            self.touched.update(number for number in numbers if number >= 0)

    def exposure(self, envelope: Envelope, body: Any, position: int) -> None:  # noqa: ANN401 - the body's struct
        """An exposure: its arms, what was withheld."""
        if body is None:
            name = self.names.number(_session(envelope), position)
            self._add_shown(name, envelope.at_us, position, -1, ERASED_EXPOSURE, ())
            return
        alias = body.alias and not is_exact(envelope.producer, _session(envelope))
        name = self.names.number(_session(envelope), position, alias=alias)
        context = -1 if body.context is None else self.contexts.number(body.context)
        row = self._add_shown(name, envelope.at_us, position, context, flags_of(envelope, body), body.arms)
        for held in body.withheld:
            self.withheld.append(row, self.arms.number(held.arm))

    def _add_shown(self, name: int, at_us: int, position: int, context: int, flags: int, arms: tuple[Any, ...]) -> int:
        number, start = self.arms.number, len(self.arms_shown)
        self.arms_shown.extend(array("i", [number(listed.arm) for listed in arms]))
        self.touch(name)
        return self.shown.append(name, at_us, position, context, flags, start, len(arms))

    def grade(self, envelope: Envelope, body: Any, position: int) -> None:  # noqa: ANN401 - the body's struct
        """A grade: its reward, its target, what it says of single arms."""
        if body is None:
            self._add_grade(envelope, "overall", (position, 0, _NAN, -1, -1, -1, ERASED), alias=False)
            return
        reward, word = body.reward, body.outcome
        if reward is None:
            if word == UNKNOWN:
                self.mention(envelope, body, position)
                return
            reward = _NAN
        target = -1 if body.exposure_session is None else self.names.target(body.exposure_session)
        outcome = -1 if word is None else self.outcomes.number(word)
        values = (position, body.seq, reward, outcome, target, self.aside(body), GRADE)
        name = self._add_grade(envelope, body.rubric, values, alias=body.alias)
        self.correct(name, self.graders.number((envelope.producer, body.rubric)), body, position)
        if target >= 0:
            self.names.connect(name, target)

    def aside(self, body: Any) -> int:  # noqa: ANN401 - the body's struct
        """Return the number of what few grades have; -1 if this one has none of it."""
        if body.per_arm is None and body.salience is None and body.decay_rate is None:
            return -1
        self.asides.append(Aside(body.per_arm, body.salience, body.decay_rate))
        return len(self.asides) - 1

    def correct(self, name: int, grader: int, body: Any, position: int) -> None:  # noqa: ANN401 - the body's struct
        """Note which earlier grade of the same grader and session a grade replaces, if it says so."""
        seq = None if body.extra is None else body.extra.get("corrects")
        if isinstance(seq, int) and seq < body.seq:
            self.corrected.append(Correction(position, name, grader, seq))

    def retraction(self, envelope: Envelope, body: Any, position: int) -> None:  # noqa: ANN401 - the body's struct
        """Add a retraction."""
        if body is None:
            self.mention(envelope, body, position)
            return
        values = (position, body.seq, _NAN, -1, -1, -1, RETRACTION)
        self._add_grade(envelope, body.rubric, values, alias=body.alias)

    def _add_grade(
        self, envelope: Envelope, rubric: str, values: tuple[int, int, float, int, int, int, int], *, alias: bool
    ) -> int:
        """Add a row of `grades`: name, grader and time, then what it says."""
        name = self.names.number(_session(envelope), values[0], alias=alias)
        grader = self.graders.number((envelope.producer, rubric))
        self.grades.append(name, grader, envelope.at_us, *values, FILE_TIME if envelope.at_basis else 0)
        self.touch(name)
        return name

    def link(self, envelope: Envelope, body: Any, position: int) -> None:  # noqa: ANN401 - the body's struct
        """A link, or the withdrawal of a pair's links."""
        if body is None:
            self.mention(envelope, body, position)
            return
        session = self.names.number(_session(envelope), position, alias=body.alias)
        other = self.names.number(body.other, position)
        if body.alias:  # it may be another session's name, and no alias goes through a link
            self.alias_links.append((position, other))
            self.touch_all([session, other])
            return
        unlink = envelope.type == "session.unlinked"
        relation = RELATIONS.index(body.as_) if body.as_ else 0
        evidence = EVIDENCE.index(body.evidence) if body.evidence else 0
        self.links.append(position, session, other, relation, evidence, unlink)
        self.names.connect(session, other)
        self.touch_all([session, other])

    def start(self, envelope: Envelope, body: Any, position: int) -> None:  # noqa: ANN401 - the body's struct
        """A session's start; two nonces under one name make its run ambiguous."""
        alias = body is not None and body.alias
        name = self.names.number(_session(envelope), position, alias=alias)
        if not alias:
            self.names.start(name, position, NO_TIME if envelope.at_basis else envelope.at_us)
            if name in self.mentions:
                self.mentions[name].append(Mention(position, is_start=True, id=envelope.id))
        if body is not None and body.run_nonce is not None:
            self.starts.append(Start(position, name, body.run_nonce))
        self.touch(name)

    def mention(self, envelope: Envelope, body: Any, position: int) -> None:  # noqa: ANN401 - the body's struct
        """A row that only shows that the session exists."""
        alias = body is not None and body.alias
        self.touch(self.names.number(_session(envelope), position, alias=alias))

    def decay(self, envelope: Envelope, body: Any, position: int) -> None:  # noqa: ANN401 - the body's struct
        """What another updater decayed."""
        self.mention(envelope, body, position)
        if body is not None:
            self.decayed.append(Decay(position, envelope.at_us, envelope.producer, body.gamma))

    def prune(self, envelope: Envelope, body: Any, position: int) -> None:  # noqa: ANN401 - the body's struct
        """What another updater dropped."""
        self.mention(envelope, body, position)
        if body is not None:
            contexts = [(dropped.arm, dropped.context) for dropped in body.contexts]
            self.pruned.append(Prune(position, envelope.at_us, envelope.producer, list(body.arms), contexts))

    def balance(self, envelope: Envelope, body: Any, position: int) -> None:  # noqa: ANN401 - the body's struct
        """What a bandit file held when the ledger began."""
        if body is None:
            return
        self.all_touched = True
        self.balances.append(
            Balance(
                envelope.id,
                position,
                envelope.at_us,
                -1 if body.through is None else times.us_of(body.through),
                body.source,
                body.sha256,
                {arm: _opening_values(entry) for arm, entry in body.arms.items()},
                [(entry.arm, entry.context, _opening_values(entry)) for entry in body.contexts],
            )
        )

    def publish(self, envelope: Envelope, body: Any, position: int) -> None:  # noqa: ANN401 - the body's struct
        """A posterior that we wrote ourselves; a balance of the same bytes is not a new one.

        What a rollback puts back is a tool's own again, or ours because it was published before; and
        a posterior can come out as the very bytes that a balance was opened of. The event says both,
        so that the order of arrival decides nothing. It names the balances too that it retires, as
        long as it is not rolled back.
        """
        if body is None:
            return
        values = body.extra or {}
        self.all_touched = True
        if NOT_OURS.isdisjoint(values):
            self.published.append((position, body.new_sha256))
        if isinstance(retires := values.get("retires"), list):
            self.retired.append(
                Retirement(position, envelope.id, [balance for balance in retires if isinstance(balance, str)])
            )
        if isinstance(back := values.get("rolled_back"), str):
            self.taken_back.append((position, back))

    def withdraw(self, envelope: Envelope, body: Any, position: int) -> None:  # noqa: ANN401 - the body's struct
        """A revision withdrawn, by its own producer or to settle a conflict. It does not make its session known."""
        self.mention(envelope, body, position)
        self.met_sessions.add(_session(envelope))
        if body is not None:
            self.all_touched = True
            of = body.id.lower()
            self.awaited.add(of)
            self.withdrawn.setdefault(of, []).append((position, body.revision, envelope.id, envelope.producer))

    def note_withdrawn_row(self, envelope: Envelope, position: int, *, is_read: bool) -> None:
        """Record a row, or a repeat of it, of an id that a withdrawal names; attribution may read its type or not."""
        if envelope.outcome in ACCEPTED:
            rows = self.named if is_read else self.unread
            rows.setdefault(envelope.id, {})[envelope.revision] = position, envelope.producer
            if envelope.session is not None:
                self.met_sessions.add(envelope.session)
            if envelope.type in LINKS:
                self.met_links.add(envelope.id)

    def first_left(self, number: int, through: int, *, is_start: bool) -> int:
        """Return the first row up to a position that names or starts a session and was not withdrawn by then.

        Without one, `NOT_MENTIONED`.
        """
        mentions = self.mentions.get(number)
        if mentions is None:
            first = self.names.started[number] if is_start else self.names.first[number]
            return first if first <= through else NOT_MENTIONED
        for mention in mentions:
            if mention.position > through:
                break
            if (mention.is_start or not is_start) and not self._is_void(mention, through):
                return mention.position
        return NOT_MENTIONED

    def known_names(self, through: int) -> Mask:
        """Return which names a row up to a position makes known, apart from withdrawn rows."""
        known: Mask = np.array(self.names.first, np.int64) <= through
        for number in self.mentions:
            known[number] = self.names.is_known(number, through)
        return known

    def _is_void(self, mention: Mention, through: int) -> bool:
        known = self.conflicting(mention.id, through)
        if not known:
            return mention.position in self.withdrawn_rows(mention.id, through)
        gone = {revision for _, revision in self.withdrawals(mention.id, through)}
        return any(position == mention.position for revision, position in known.items() if revision in gone)

    def withdrawn_rows(self, event_id: str, through: int) -> list[int]:
        """Return the positions of an event's rows if its own producer withdrew all of them, else none."""
        known = self.named.get(event_id) or self.unread.get(event_id, {})
        rows = {revision: row for revision, row in known.items() if row[0] <= through}
        for revision, (_, producer) in rows.items():
            if all(of != revision for _, of in self.withdrawals(event_id, through, producer)):
                return []
        return [position for position, _ in rows.values()]

    def withdrawals(self, event_id: str, through: int, by: str | None = None) -> list[tuple[int, int]]:
        """Return (position, revision) of each withdrawal of an id in force at a position, `by` one producer or all."""

        def values(of: str) -> list[tuple[int, int, str, str]]:
            return [row for row in self.withdrawn.get(of, ()) if row[0] <= through and by in {None, row[3]}]

        return [(position, revision) for position, revision, own, _ in values(event_id) if not values(own)]

    def conflicting(self, event_id: str, through: int) -> dict[int, int]:
        """Return {revision: position} of the rows of an id in conflict at a position; empty without one."""
        known = {revision: at for revision, at in self.quarantine.get(event_id, {}).items() if at <= through}
        return known if len(known) > 1 else {}

    def conflict(self, envelope: Envelope, position: int) -> None:
        """A row that stands in quarantine, and with it the first row of its id."""
        self.all_touched = True
        rows = self.quarantine.setdefault(envelope.id, {1: envelope.first})
        rows[envelope.revision] = position

    def tick(self, at_us: int, position: int) -> None:
        """Record that a row is folded, and the largest event time of each block of positions."""
        self.watermark = position
        if position > self._block_end:
            self._block_end += CLOCK_ROWS
            self.clock.append(max(at_us, self._latest_us))
            self._latest_us = self.clock[-1]
        elif at_us > self._latest_us:
            self.clock[-1] = self._latest_us = at_us

    def tick_all(self, at_us: list[int], position: int) -> None:
        """As `tick` for rows from a position on."""
        done = 0
        while done < len(at_us):
            end = done + CLOCK_ROWS - (position + done - 1) % CLOCK_ROWS
            self.tick(max(at_us[done:end]), position + done)
            done = end
        self.watermark = max(self.watermark, position + len(at_us) - 1)


def _opening_values(entry: BalanceArm | BalanceContext) -> OpeningValues:
    return OpeningValues(entry.alpha, entry.beta, entry.n, entry.rewards, entry.last_updated)


def flags_of(envelope: Envelope, body: Any) -> int:  # noqa: ANN401 - the body's struct
    """Return the flags of an exposure: its time is a file's; it only says what a draw withheld.

    A dropout log has a line for each draw, also where nothing was withheld. None of them shows an arm.
    """
    flags = FILE_TIME if envelope.at_basis else 0
    if not body.arms and (body.withheld or (body.extra is not None and "withheld" in body.extra)):
        flags |= DRAW
    return flags


def _session(envelope: Envelope) -> str:
    assert envelope.session is not None, "an event of a session has a session"
    return envelope.session


LINKS = frozenset({"session.linked", "session.unlinked"})
RELATIONS = ("native", "resume", "retry", "subagent")
EVIDENCE = ("native-id", "sentinel", "pointer", "directory", "cwd-window", "manual")
CWD_WINDOW = EVIDENCE.index("cwd-window")
NATIVE = RELATIONS.index("native")
