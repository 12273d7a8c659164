"""Session names as numbers: first mention, aliases, and which names can influence each other.

Nothing here depends on a policy. A name read from a sanitised form (`alias`) is another name
than the same text read as written, because it never matches exactly.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from rightful.identity import sanitised, split_session
from rightful.log.rows import Page
from rightful.projections.facts.columns import Column, Ints, Mask
from rightful.projections.facts.text_table import Texts

NOT_MENTIONED = 2**32 - 1
"""The `first` of a name that occurs only as the `exposure_session` of a grade."""

NO_TIME = 2**63 - 1
"""The `started_us` of a name whose start is not known."""

OWN_TIME, OF_FILE, OF_MENTION = 0, 1, 2
"""What a `seen_us` rests on; the lowest is preferred."""

MANY_FITS = 2
"""How many names that fit are sought: two are ambiguous already."""

_TAIL_NAMES = 4_096
_FEW_NAMES = 256
_TEXTS_AT_ONCE = 1 << 14
_COARSE = re.compile(r"[^a-zA-Z0-9]")
_COARSE_ASCII = bytes(at if chr(at).isascii() and chr(at).isalnum() else ord("_") for at in range(256))


class Names:
    """Every session name in the ledger, numbered by first mention.

    Attributes:
        texts: The names, by number; one that was read from a sanitised form begins with NUL.
        alias: 1 where the name was read from a sanitised form.
        first: The position of the first row that names it as `session` or `other`.
        started: The position of its first `session.started`, or `NOT_MENTIONED`.
        started_us: The earliest time of a `session.started` of it that says its own time; microseconds
            since 1970, UTC; `NO_TIME` without one.
        by: The number of the producer of its first row, or -1.
        seen_us: The earliest time of its rows: of those that have a time of their own, else of those with a file's
            time, else the time of the first row that names it; microseconds since 1970, UTC; -1 without one.
        seen_basis: Which of these it is: `OWN_TIME`, `OF_FILE` or `OF_MENTION`.
    """

    COLUMNS = ("alias", "first", "started", "started_us", "by", "seen_us", "seen_basis", "_parent", "_ring")

    def __init__(self) -> None:
        self.texts = Texts()
        self.alias = array("B")
        self.first = array("I")
        self.started = array("I")
        self.started_us = array("q")
        self.by = array("i")
        self.seen_us = array("q")
        self.seen_basis = array("B")
        self.first_left: Callable[..., int] | None = None  # `Facts.first_left`
        self._without_row: list[int] = []
        self._parent = array("i")
        self._ring = array("i")
        self._spaces: dict[str, int] = {}
        self._space = array("i")
        self._sorted: tuple[Ints, Ints] = (np.empty(0, np.int64), np.empty(0, np.int32))
        self._tail: dict[int, list[int]] = {}

    def __len__(self) -> int:
        return len(self.texts)

    def number(self, text: str, position: int, *, alias: bool = False) -> int:
        """Return the number of a name that a row at `position` mentions; a new one if need be."""
        number = self.texts.find(f"\0{text}" if alias else text)
        if number is None:
            return self._add(text, position, alias=alias)
        self.first[number] = min(self.first[number], position)  # a page is not read in order of position
        return number

    def numbers(self, page: Page) -> list[int]:
        """Return the numbers of the sessions of several rows, as `number` of each; -1 where there is none."""
        find_or_add, first = self.texts.find_or_add, self.first
        sessions = [envelope.session for envelope in page.envelopes]
        numbers: dict[str | None, int] = {None: -1}
        for position, session in enumerate(sessions, page.after + 1):
            if session in numbers or session is None:
                continue
            numbers[session] = number = find_or_add(session)
            if number == len(first):
                first.append(position)
            elif first[number] > position:
                first[number] = position
        self._extend_columns()
        return [numbers[session] for session in sessions]

    def of(self, session: str) -> int:
        """Return the number of a session that a folded row named, as it was or in a sanitised form."""
        number = self._find(session)
        assert number >= 0, "a row that was folded mentions its session"
        return number

    def known_numbers(self, page: Page) -> list[int]:
        """Return the numbers of the sessions of folded rows, as `of` each; -1 where no step mentions one."""
        return [-1 if envelope.session is None else self._find(envelope.session) for envelope in page.envelopes]

    def _find(self, session: str) -> int:
        number = self.texts.find(session)
        found = self.texts.find(f"\0{session}") if number is None else number
        return -1 if found is None else found

    def target(self, text: str) -> int:
        """Return the number of a name that a grade gives as its `exposure_session`."""
        number = self.texts.find(text)
        return self._add(text, NOT_MENTIONED, alias=False) if number is None else number

    def _add(self, text: str, first: int, *, alias: bool) -> int:
        number = self.texts.find_or_add(f"\0{text}" if alias else text)
        self.first.append(first)
        self._extend_columns()
        self.alias[number] = alias
        return number

    def _extend_columns(self) -> None:
        added = len(self.first) - len(self.seen_basis)
        self._without_row += range(len(self.seen_basis), len(self.first))
        columns = self.alias, self.started, self.started_us, self.by, self.seen_us, self.seen_basis
        for column, value in zip(columns, (False, NOT_MENTIONED, NO_TIME, -1, -1, OF_MENTION), strict=True):
            column.extend(array(column.typecode, [value]) * added)

    def note_first_rows(self, page: Page, producer: Callable[[str], int]) -> None:
        """Note who wrote the first row of each name that a page named first, and when that happened."""
        waiting = []
        for number in self._without_row:
            first = self.first[number]
            if first == NOT_MENTIONED:
                waiting.append(number)
                continue
            envelope = page.envelopes[first - page.after - 1]
            self.by[number], self.seen_us[number] = producer(envelope.producer), envelope.at_us
        self._without_row = waiting

    def note_times(self, page: Page, numbers: list[int]) -> None:
        """Note the earliest time of each session with rows in a folded page; a file's time only without another.

        `numbers` has the number of each row's session, or -1.
        """
        number = np.array(numbers, np.int64)
        at_us = np.array([envelope.at_us for envelope in page.envelopes], np.int64)
        bases = [OF_FILE if envelope.at_basis else OWN_TIME for envelope in page.envelopes]
        seen_us, seen_basis = np.frombuffer(self.seen_us, np.int64), np.frombuffer(self.seen_basis, np.uint8)
        for basis in set(bases):
            rows = np.flatnonzero((np.array(bases) == basis) & (number >= 0))
            rows = rows[seen_basis[number[rows]] >= basis]
            better = number[rows][seen_basis[number[rows]] > basis]
            seen_us[better], seen_basis[better] = NO_TIME, basis
            np.minimum.at(seen_us, number[rows], at_us[rows])

    def start(self, number: int, position: int, at_us: int = NO_TIME) -> None:
        """Note that a session started under exactly this name, and when if that is known."""
        self.started[number] = min(self.started[number], position)
        self.started_us[number] = min(self.started_us[number], at_us)

    def connect(self, number: int, other: int) -> None:
        """Note that what is known of one name can change what the other earns."""
        self._extend_connections()
        a, b = self._root(number), self._root(other)
        if a == b:
            return
        self._parent[max(a, b)] = min(a, b)
        self._ring[number], self._ring[other] = self._ring[other], self._ring[number]

    def _extend_connections(self) -> None:
        for column in (self._ring, self._parent):  # each by its own length, in case an exception came between
            if len(column) < len(self.texts):
                column += array("i", range(len(column), len(self.texts)))  # noqa: PLW2901 - in place

    def _root(self, number: int) -> int:
        parent = self._parent
        while parent[number] != number:
            parent[number] = parent[parent[number]]
            number = parent[number]
        return number

    def closure(self, numbers: Iterable[int]) -> list[int]:
        """Return every name that the given ones can influence, themselves included, in order.

        Coupled names and names that one sanitised form could make of each other, until nothing
        is added.
        """
        self._extend_connections()
        found: set[int] = set()
        seen: set[int] = set()
        waiting = list(numbers)
        while waiting:
            number = waiting.pop()
            if number in found:
                continue
            found.add(number)
            at = self._ring[number]
            while at != number and at not in found:
                waiting.append(at)
                at = self._ring[at]
            coarse = _coarse_of(self.text(number))
            if coarse not in seen:
                seen.add(coarse)
                waiting.extend(self._of_coarse(coarse))
        return sorted(found)

    def labels(self) -> Column:
        """Return one number a name, the same for all names of one `closure`."""
        self.index()
        self._extend_connections()
        root: Column = np.array(self._parent, np.int32)
        while not np.array_equal(parents_of := root[root], root):
            root = parents_of
        values, order = self._sorted
        if not len(values):
            return root
        first = np.ones(len(values), np.bool_)
        np.not_equal(values[1:], values[:-1], out=first[1:])
        starts, group = np.flatnonzero(first), np.cumsum(first, dtype=np.int32) - 1
        label = root
        while True:
            lowest = np.empty_like(label)
            lowest[order] = np.minimum.reduceat(label[order], starts)[group]
            by_root = lowest.copy()
            np.minimum.at(by_root, root, lowest)
            lowest = by_root[root]
            if np.array_equal(lowest, label):
                return label
            label = lowest

    def fitting(self, number: int, through: int) -> list[int]:
        """Return the other names, mentioned up to `through`, of which this one can be an alias or reverse.

        Within one namespace, and only where one of the two is the sanitised form of the other.
        Two names that both started are two sessions, and neither is an alias of the other.
        At most two: more than one is ambiguous, however many there are.
        """
        fits: list[int] = []
        started = self.is_started(number, through)
        for other in self._candidates(number):
            if started and self.is_started(other, through):
                continue
            if other != number and self.is_known(other, through):
                fits.append(other)
                if len(fits) == MANY_FITS:
                    break
        return sorted(fits)

    def is_known(self, number: int, through: int) -> bool:
        """Return whether a row up to a position names the session, apart from withdrawn rows."""
        known = self.first[number] <= through
        return known and (self.first_left is None or self.first_left(number, through, is_start=False) <= through)

    def is_started(self, number: int, through: int) -> bool:
        """Return whether a row up to a position starts the session, apart from withdrawn rows."""
        started = self.started[number] <= through
        return started and (self.first_left is None or self.first_left(number, through, is_start=True) <= through)

    def _candidates(self, number: int) -> Iterator[int]:
        """Yield the sanitised forms of a name, then the names whose sanitised form it is; each once."""
        space, value = split_session(self.text(number))
        forms = sorted(sanitised(value))
        for form in forms:
            for key in (f"{space}:{form}", f"\0{space}:{form}"):
                if (other := self.texts.find(key)) is not None:
                    yield other
        if value in forms:
            for other in self._of_coarse(_coarse_of(self.text(number))):
                other_space, other_value = split_session(self.text(other))
                if other_space == space and other_value not in forms and value in sanitised(other_value):
                    yield other

    def may_fit(self, numbers: Ints) -> Mask:
        """Return which names share a coarse form with another one; the others fit no name."""
        if len(numbers) < _FEW_NAMES:
            return np.ones(len(numbers), np.bool_)
        self.index()
        values, _ = self._sorted
        wanted = np.array([_coarse_of(self.text(number)) for number in numbers.tolist()], np.int64)
        return np.searchsorted(values, wanted, "right") - np.searchsorted(values, wanted, "left") > 1

    def index(self, tail: int = 0) -> None:
        """Index the names by their coarse form, so that the first `closure` need not.

        With a `tail`, names are indexed only if more than so many are not indexed yet.
        """
        values, order = self._sorted
        if len(self.texts) - len(values) <= tail:
            return
        coarse = np.concatenate(
            [
                np.array(
                    [_coarse_of(text.removeprefix("\0")) for text in self.texts.between(start, start + _TEXTS_AT_ONCE)]
                )
                for start in range(len(values), len(self.texts), _TEXTS_AT_ONCE)
            ]
        )
        values = np.concatenate([values, coarse])
        order = np.concatenate([order, np.arange(len(order), len(values), dtype=np.int32)])
        place = np.argsort(values, kind="stable")
        self._tail = {}  # before: what is in neither is indexed again, also after an exception between the two
        self._sorted = (values[place], order[place])

    def _of_coarse(self, coarse: int) -> list[int]:
        self.index(_TAIL_NAMES)
        values, order = self._sorted
        begin = len(values) + sum(map(len, self._tail.values()))
        for number, text in enumerate(self.texts.between(begin), begin):
            self._tail.setdefault(_coarse_of(text.removeprefix("\0")), []).append(number)
        low, high = np.searchsorted(values, coarse, "left"), np.searchsorted(values, coarse, "right")
        return [*order[low:high].tolist(), *self._tail.get(coarse, ())]

    def spaces(self) -> Ints:
        """Return the number of each name's namespace."""
        spaces = self._spaces
        for start in range(len(self._space), len(self.texts), _TEXTS_AT_ONCE):
            for text in self.texts.between(start, start + _TEXTS_AT_ONCE):
                self._space.append(spaces.setdefault(text.partition(":")[0].removeprefix("\0"), len(spaces)))
        return np.array(self._space, np.int64)

    def column(self, name: str) -> Column:
        """Return a column as a numpy array; a copy."""
        self._extend_connections()
        return np.array(getattr(self, name))

    def text(self, number: int) -> str:
        """Return a name."""
        return self.texts[number].removeprefix("\0")

    def numbers_of(self, text: str, through: int) -> list[int]:
        """Return the numbers of a name as written; of its sanitised form too where no row bears it as written."""
        exact, alias = self.texts.find(text), self.texts.find(f"\0{text}")
        if exact is not None and self.is_known(exact, through):
            return [exact]
        return [number for number in (exact, alias) if number is not None]

    def with_value(self, value: str, through: int) -> list[str]:
        """Return the names with this value, of any namespace, that rows up to a position mention; sorted."""
        return sorted({name for name in self._mentioned(through) if split_session(name)[1] == value})

    def beginning_with(self, start: str, through: int, least: int) -> list[str]:
        """Return the names whose value begins so, with or without its namespace; sorted.

        Those of the subagents of one that begins so are left out, and those read from a sanitised form where
        one is there as it was written.

        A `start` shorter than `least` characters means no session.
        """
        found: dict[bool, set[str]] = {False: set(), True: set()}
        for name in self._mentioned(through, prefixed=True):
            text = name.removeprefix("\0")
            value = split_session(text)[1]
            behind = len(text) - len(value)  # where the value begins
            is_whole = len(start) - behind >= least and text.startswith(start)
            if is_whole or (len(start) >= least and value.startswith(start)):
                found[name != text].add(text)
        fitting = found[False] or found[True]
        return sorted(name for name in fitting if not any(parent in fitting for parent in parents_of(name)))

    def containing(self, part: str, through: int) -> list[str]:
        """Return the names that contain a text; what a person may have meant; sorted."""
        return sorted({name for name in self._mentioned(through) if part in name})

    def _mentioned(self, through: int, *, prefixed: bool = False) -> Iterator[str]:
        for start in range(0, len(self.texts), _TEXTS_AT_ONCE):
            for number, text in enumerate(self.texts.between(start, start + _TEXTS_AT_ONCE), start):
                if self.first[number] <= through:
                    yield text if prefixed else text.removeprefix("\0")

    def load(self, texts: list[str], columns: dict[str, Column]) -> None:
        """Take stored names in place of what is here."""
        self.texts = Texts(texts)
        for name in self.COLUMNS:
            mine: array[int] = getattr(self, name)
            setattr(self, name, array(mine.typecode, columns[name].astype(mine.typecode).tobytes()))
        self._without_row = np.flatnonzero(columns["first"] == NOT_MENTIONED).tolist()


def parents_of(name: str) -> Iterator[str]:
    """Yield the names of which this can be a subagent's, the nearest first."""
    at = name.rfind("/")
    while at > 0:
        yield name[:at]
        at = name.rfind("/", 0, at)


def _coarse_of(text: str) -> int:
    """Return a hash of what all sanitisers of a name agree on: two names that alias each other share it."""
    if text.isascii():
        return hash(text.encode().translate(_COARSE_ASCII))
    return hash(_COARSE.sub("_", text).encode())
