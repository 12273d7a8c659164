"""Tool calls and their results: which result answers which call, and which calls are one.

One producer at a time, and one call id at a time, in the order of the conversation:

- A call is repeated if its name is the same (or not known yet) and one's arguments grow from the other's.
  With another name or other arguments the id was used for another call.
- A result answers the newest unanswered call of its own turn, else it repeats the answer of that turn's last
  call, else it answers the newest unanswered call of another turn, else it repeats an answer there. What is
  left answers nothing: it stands alone, or with a call of its turn that comes behind it and has no other answer.
- A call that is repeated after its answer is the same call, unless a different real result answers it.
- A result that only stands in for another never covers a real one.

Then the calls of several producers are laid upon each other: the first of one on the first of the other of
that id and name. An id that a resume replaced is the id that its interaction named first.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping

from rightful.log.refine import grows
from rightful.projections.transcripts.entry_parts import Part


class Call:
    """One call as one producer tells it.

    Attributes:
        calls: What tells the call, in order; empty for a result whose call is not there.
        results: What tells its results, in order.
        shown: The state of the call that says most; None without one.
        real: The real result that says most; None without one.
        doubt: The answered call that this one repeats, unless a different result answers it.
        others: The same call as other producers tell it.
    """

    __slots__ = ("calls", "doubt", "others", "real", "results", "shown")

    def __init__(self, call: Part | None = None, doubt: Call | None = None) -> None:
        self.calls: list[Part] = []
        self.results: list[Part] = []
        self.shown: Part | None = None
        self.real: Part | None = None
        self.doubt = doubt
        self.others: list[Call] = []
        if call is not None:
            self.take_call(call)

    @property
    def first(self) -> Part:
        """Its first part: its call, or else its result."""
        return min(self.calls or self.results, key=lambda part: part.at)

    @property
    def producer(self) -> str:
        """Who tells it."""
        return (self.calls or self.results)[0].fact.producer

    @property
    def versions(self) -> list[Call]:
        """The call as each producer tells it."""
        return [self, *self.others]

    @property
    def name(self) -> str | None:
        """The tool, where that is known."""
        return self.shown.fields.get("name") if self.shown else None

    def take_call(self, part: Part) -> None:
        """Add a state of the call."""
        self.calls.append(part)
        if self.shown is None or _says_more(part, self.shown):
            self.shown = part

    def take_result(self, part: Part) -> None:
        """Add a result of the call."""
        self.results.append(part)
        if not part.is_placeholder and (self.real is None or _answers_more(part, self.real)):
            self.real = part

    def take_all(self, other: Call) -> None:
        """Merge another record of the same call."""
        for call in other.calls:
            self.take_call(call)
        for result in other.results:
            self.take_result(result)


def withdrawn_calls(parts: Iterable[Part]) -> list[Call]:
    """Return the calls and results that were withdrawn, each for itself: nothing answers them."""
    found: list[Call] = []
    for part in parts:
        if part.fact.withdrawn and part.kind in {"tool_call", "tool_result"}:
            found.append(Call())
            (found[-1].take_call if part.kind == "tool_call" else found[-1].take_result)(part)
    return found


def calls_of(parts: Iterable[Part]) -> list[Call]:
    """Return the calls in some parts; other parts are skipped."""
    known = list(parts)
    alias = _raised_again(known)
    by_id: dict[str, list[Part]] = {}
    for part in known:
        if part.kind in {"tool_call", "tool_result"}:
            own = part.fields.get("call") or f"\0{part.fact.id}"  # erased: nothing says whose it was
            by_id.setdefault(alias.get(own, own), []).append(part)
    return [call for of_id in by_id.values() for call in _merged(_paired(of_id))]


def _paired(parts: Iterable[Part]) -> list[list[Call]]:
    streams: defaultdict[str, _Stream] = defaultdict(_Stream)
    for part in parts:
        stream = streams[part.fact.producer]
        if part.kind == "tool_call":
            stream.take_call(part)
        else:
            stream.take_result(part)
    return [stream.ended() for stream in streams.values()]


def _raised_again(parts: Iterable[Part]) -> dict[str, str]:
    """Return for each call id that an interaction names second the one that it named first."""
    first: dict[str, str] = {}
    raised: dict[str, str] = {}

    def root(call: str) -> str:
        while call in raised:
            raised[call] = raised.get(raised[call], raised[call])  # path halving (union-find)
            call = raised[call]
        return call

    for part in parts:
        if part.kind in {"interaction_requested", "interaction_answered"}:
            own, call = part.fields.get("interaction"), named_call(part.fields.get("payload"))
            if own is None or call is None:
                continue
            again, known = root(call), root(first.setdefault(own, call))
            if again != known:
                raised[again] = known
    return {call: root(call) for call in raised}


def named_call(payload: object) -> str | None:
    """Return the call id that an interaction names, if any."""
    if not isinstance(payload, Mapping):
        return None
    inner = payload.get("toolCall")
    places = [payload.get("toolCallId")]
    if isinstance(inner, Mapping):
        places += [inner.get("toolCallId"), inner.get("id")]
    return next((place for place in places if isinstance(place, str) and place), None)


def _newest_open(calls: list[Call], joined: Mapping[int, Call]) -> Call | None:
    """Return the newest call without a real result; those that were answered or joined since are removed."""
    while calls and (calls[-1].real is not None or id(calls[-1]) in joined):
        calls.pop()
    return calls[-1] if calls else None


class _Stream:
    def __init__(self) -> None:
        self._calls: list[Call] = []
        self._open: list[Call] = []
        self._open_in: dict[str | None, list[Call]] = {}
        self._last_in: dict[str | None, Call] = {}
        self._alone: list[Call] = []
        self._joined: dict[int, Call] = {}  # by `id`, which stays theirs as long as they are here

    def take_call(self, part: Part) -> None:
        last = self._calls[-1] if self._calls else None
        if last is not None and last.shown is not None and _fits(part, last.shown):
            is_other_id = part.fields.get("call") != last.calls[0].fields.get("call")
            if last.real is None:
                last.take_call(part)
                self._place(last, part.turn)
                return
            if not is_other_id:
                self._begin(Call(part, doubt=last), part.turn)
                return
        self._begin(Call(part), part.turn)

    def _begin(self, call: Call, turn: str | None) -> None:
        self._settle()
        self._calls.append(call)
        self._open.append(call)
        self._place(call, turn)

    def _place(self, call: Call, turn: str | None) -> None:
        self._open_in.setdefault(turn, []).append(call)
        self._last_in[turn] = call

    def _settle(self) -> None:
        """Join the last call to the answered one that it repeats: nothing else answered it."""
        last = self._calls[-1] if self._calls else None
        if last is not None and last.doubt is not None and last.real is None:
            self._join(last, last.doubt)

    def _join(self, call: Call, to: Call) -> None:
        to.take_all(call)
        assert self._calls[-1] is call, "only the last call is in doubt: the next one settles it"
        self._calls.pop()
        self._joined[id(call)] = call
        for part in call.calls:
            self._last_in[part.turn] = to

    def take_result(self, part: Part) -> None:
        own = _newest_open(self._open_in.get(part.turn, []), self._joined)
        here = self._last_in.get(part.turn)
        if own is not None:
            self._answer(own, part)
        elif here is not None and _repeats(part, here):
            here.take_result(part)
        elif (unanswered := _newest_open(self._open, self._joined)) is not None:
            self._answer(unanswered, part)
        elif self._calls and _repeats(part, self._calls[-1]):
            self._calls[-1].take_result(part)
        else:
            self._stand_alone(part)

    def _answer(self, call: Call, part: Part) -> None:
        before = call.doubt
        if before is not None and not part.is_placeholder:
            if _repeats(part, before):
                before.take_result(part)
                self._join(call, before)
                return
            call.doubt = None
        call.take_result(part)
        self._last_in[part.turn] = call

    def _stand_alone(self, part: Part) -> None:
        last = self._alone[-1] if self._alone else None
        if last is not None and last.results[0].turn == part.turn and (last.real is None or _repeats(part, last)):
            last.take_result(part)
            return
        alone = Call()
        alone.take_result(part)
        self._alone.append(alone)

    def ended(self) -> list[Call]:
        """Return its calls in order, once nothing more will come."""
        self._settle()
        waiting: dict[str | None, deque[Call]] = {}
        for call in self._calls:
            if call.real is None:
                waiting.setdefault(call.calls[0].turn, deque()).append(call)
        left = []
        for alone in self._alone:
            behind = waiting.get(alone.results[0].turn)  # what waited before it, it would have answered
            if behind:
                behind.popleft().take_all(alone)
            else:
                left.append(alone)
        return sorted([*self._calls, *left], key=lambda call: call.first.at)


def _merged(by_id: list[list[Call]]) -> list[Call]:
    if len(by_id) == 1:
        return by_id[0]
    lead = {calls[0].first.at: calls for calls in by_id}
    found = list(lead.pop(min(lead)))
    for calls in lead.values():
        waiting: dict[str | None, deque[Call]] = {}
        for lead_call in found:
            waiting.setdefault(lead_call.name, deque()).append(lead_call)
        for call in calls:
            fitting = waiting.get(call.name) or (_any(waiting) if call.name is None else waiting.get(None))
            if fitting:
                fitting.popleft().others.append(call)
            else:
                found.append(call)
    return found


def _any(waiting: Mapping[str | None, deque[Call]]) -> deque[Call] | None:
    left = {calls[0].first.at: calls for calls in waiting.values() if calls}
    return left[min(left)] if left else None


def versions_by_rank(call: Call, shows_messages: Callable[[str], bool]) -> list[Call]:
    """Return the versions of a call by producer; the one whose result counts comes first.

    That is one that tells messages too, since it has the tool's own text; else the first with a real result.
    """
    return sorted(
        call.versions,
        key=lambda version: (version.real is None, not shows_messages(version.producer), version.first.at),
    )


def place_of(call: Call, shows_messages: Callable[[str], bool]) -> Part:
    """Return the part that gives a call its place: that of the producer whose messages are shown, if it has one."""
    by_id = [version for version in call.versions if version.calls] or call.versions
    return min((version.first for version in by_id), key=lambda part: (not shows_messages(part.fact.producer), part.at))


def _fits(part: Part, other: Part) -> bool:
    if not part.fields or not other.fields:  # erased
        return True
    a, b = part.fields, other.fields
    same_name = a["name"] == b["name"] or not a["name"] or not b["name"]
    return same_name and (grows(a["arguments"], b["arguments"]) or grows(b["arguments"], a["arguments"]))


def _says_more(new: Part, old: Part) -> bool:
    if not new.fields:
        return False
    return not old.fields or (
        grows(new.fields["arguments"], old.fields["arguments"]) and bool(new.fields["name"] or not old.fields["name"])
    )


def _answers_more(new: Part, old: Part) -> bool:
    if not new.fields:
        return False
    a, b = new.fields, old.fields
    return not b or (a["is_error"] >= b["is_error"] and grows(a["output"], b["output"]))


def _repeats(part: Part, call: Call) -> bool:
    """Return whether a result repeats the answer of a call, in part or with more; a placeholder does not.

    As with rows of one id, a failure may follow a part of the same output, and never the other way round.
    """
    if part.is_placeholder or call.real is None or not part.fields or not call.real.fields:
        return True
    return _answers_more(part, call.real) or _answers_more(call.real, part)
