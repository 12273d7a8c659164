"""The design's rules for transcripts once more, as plainly as they can be said: lists, loops, nothing kept by index.

Takes rows as the ledger gives them back to a reader, and says of each entry what it shows. Slow on purpose.
"""

from __future__ import annotations

from typing import Any

from rightful.log.refine import grows

Row = dict[str, Any]
ACCEPTED = ("appended", "refined", "reemitted")
STANDS_IN = ("DEFERRED_NOT_EXECUTED", "APPROVED_EXECUTION_RESULT_UNKNOWN", "INTERRUPTED_BY_USER")


def told(rows: list[Row]) -> list[tuple[Any, ...]]:
    """What is shown: for each entry its kind and its words, in order."""
    facts = in_order(rows)
    tellers = {fact["producer"] for fact in facts if fact["type"] == "message.recorded"}
    calls = all_calls(facts)
    entries = [*(shown_call(group, tellers) for group in calls), *everything_else(facts, calls)]
    return [entry for _, entry in sorted(entries, key=lambda one: one[0])]


def in_order(rows: list[Row]) -> list[Row]:
    """One fact an id, with what it says now, in the order of the conversation."""
    facts = []
    for id_ in dict.fromkeys(row["id"] for row in rows):
        mine = [row for row in rows if row["id"] == id_]
        now = [row for row in mine if row["outcome"] in ACCEPTED][-1]
        indexes = [row["index"] for row in mine if row["turn"] == mine[0]["turn"] and row["index"] is not None]
        place = {"turn": mine[0]["turn"], "position": mine[0]["position"], "index": min(indexes, default=None)}
        contradicted = sum(row["outcome"] == "conflict" for row in mine)
        facts.append(now | place | {"contradicted": contradicted})

    def key(fact: Row) -> tuple[int, ...]:
        if fact["turn"] is None:
            return (fact["position"], 0, 0, fact["position"])
        start = min(row["position"] for row in rows if row["turn"] == fact["turn"])
        if fact["index"] is not None:
            return (start, fact["index"], 0, fact["position"])
        before = [
            one["index"]
            for one in facts
            if one["turn"] == fact["turn"] and one["position"] < fact["position"] and one["index"] is not None
        ]
        return (start, max(before, default=-1), 1, fact["position"])

    ordered = sorted(facts, key=key)
    for at, fact in enumerate(ordered):
        fact["at"] = at
    return ordered


def stands_in(result: Row) -> bool:
    return bool(result["is_error"]) and isinstance(result["output"], str) and result["output"].startswith(STANDS_IN)


def says_more(one: Row, other: Row) -> bool:
    """A result may turn out to be a failure, and a failure is not taken back by more output."""
    return one["is_error"] >= other["is_error"] and grows(one["output"], other["output"])


def says_same(one: Row, other: Row) -> bool:
    return says_more(one, other) or says_more(other, one)


def answer(call: Row) -> Row | None:
    """The real result that says most."""
    best: Row | None = None
    for one in call["results"]:
        fits = best is None or says_more(one, best)
        if not stands_in(one) and fits:
            best = one
    return best


def state(call: Row) -> Row | None:
    """The state of the call that says most."""
    best: Row | None = None
    for one in call["calls"]:
        if best is None or (grows(one["arguments"], best["arguments"]) and (one["name"] or not best["name"])):
            best = one
    return best


def could_be(one: Row, other: Row) -> bool:
    same_name = one["name"] == other["name"] or not one["name"] or not other["name"]
    a, b = one["arguments"], other["arguments"]
    return same_name and (grows(a, b) or grows(b, a))


def all_calls(facts: list[Row]) -> list[list[Row]]:
    """Each call, as each producer tells it."""
    mine = [fact for fact in facts if fact["type"].startswith("tool_")]
    alias = raised_again(facts)
    for fact in mine:
        fact["known_as"] = alias.get(fact["call"], fact["call"])
    groups: list[list[Row]] = []
    for call in dict.fromkeys(fact["known_as"] for fact in mine):
        producers = dict.fromkeys(fact["producer"] for fact in mine if fact["known_as"] == call)
        told = [one_producers([f for f in mine if f["known_as"] == call and f["producer"] == p]) for p in producers]
        told.sort(key=lambda calls: first_of(calls[0])["at"])
        laid = [[one] for one in told[0]]
        for others in told[1:]:
            free = list(laid)
            for other in others:
                fits = next((one for one in free if name_of(one[0]) == name_of(other)), None)
                if fits is None and name_of(other) is None:
                    fits = next(iter(free), None)
                elif fits is None:
                    fits = next((one for one in free if name_of(one[0]) is None), None)
                if fits is None:
                    laid.append([other])
                else:
                    free.remove(fits)
                    fits.append(other)
        groups += laid
    return groups


def raised_again(facts: list[Row]) -> dict[str, str]:
    """Every call id by the first that the interactions, taken together, name for its call."""
    first: dict[str, str] = {}
    label: dict[str, str] = {}
    for fact in facts:
        named = (fact.get("payload") or {}).get("toolCallId") if fact["type"].startswith("interaction.") else None
        if named is None:
            continue
        known = first.setdefault(fact["interaction"], named)
        old, new = label.setdefault(named, named), label.setdefault(known, known)
        label = {call: new if one == old else one for call, one in label.items()}
    return label


def name_of(call: Row) -> str | None:
    best = state(call)
    return best["name"] if best else None


def first_of(call: Row) -> Row:
    return min(call["calls"] or call["results"], key=lambda one: one["at"])


def one_producers(facts: list[Row]) -> list[Row]:
    """Pair one producer's calls and results of one id."""
    pairing = Pairing()
    for fact in facts:
        if fact["type"] == "tool_call.snapshotted":
            pairing.call(fact)
        else:
            pairing.result(fact)
    return pairing.ended()


class Pairing:
    def __init__(self) -> None:
        self.calls: list[Row] = []
        self.alone: list[Row] = []
        self.last_in: dict[str | None, Row] = {}

    def call(self, fact: Row) -> None:
        last = self.calls[-1] if self.calls else None
        same = last is not None and could_be(fact, state(last) or fact)
        if last is not None and same and answer(last) is None:
            last["calls"].append(fact)
            self.last_in[fact["turn"]] = last
            return
        doubt = last if last is not None and same and last["calls"][0]["call"] == fact["call"] else None
        self.settle()
        self.calls.append({"calls": [fact], "results": [], "doubt": doubt})
        self.last_in[fact["turn"]] = self.calls[-1]

    def settle(self) -> None:
        """A call told again that nothing else answered is the call that it repeats."""
        if self.calls and self.calls[-1]["doubt"] is not None and answer(self.calls[-1]) is None:
            self.join(self.calls[-1], self.calls[-1]["doubt"])

    def join(self, call: Row, to: Row) -> None:
        to["calls"] += call["calls"]
        to["results"] += call["results"]
        self.calls.remove(call)
        for one in call["calls"]:
            self.last_in[one["turn"]] = to

    def result(self, fact: Row) -> None:
        turn = fact["turn"]
        here = self.last_in.get(turn)
        if own := self.waiting_in(turn):
            self.answered(own[-1], fact)
        elif here is not None and repeats(fact, here):
            here["results"].append(fact)
        elif waiting := [one for one in self.calls if answer(one) is None]:
            self.answered(waiting[-1], fact)
        elif self.calls and repeats(fact, self.calls[-1]):
            self.calls[-1]["results"].append(fact)
        elif self.alone and self.alone[-1]["results"][0]["turn"] == turn and repeats(fact, self.alone[-1]):
            self.alone[-1]["results"].append(fact)
        else:
            self.alone.append({"calls": [], "results": [fact], "doubt": None})

    def waiting_in(self, turn: str | None) -> list[Row]:
        """Unanswered calls of a turn, by when they were last told in it."""
        here = [
            (max(call["at"] for call in one["calls"] if call["turn"] == turn), one)
            for one in self.calls
            if answer(one) is None and any(call["turn"] == turn for call in one["calls"])
        ]
        return [one for _, one in sorted(here, key=lambda pair: pair[0])]

    def answered(self, call: Row, fact: Row) -> None:
        before = call["doubt"]
        if before is not None and not stands_in(fact):
            if repeats(fact, before):
                before["results"].append(fact)
                self.join(call, before)
                return
            call["doubt"] = None
        call["results"].append(fact)
        self.last_in[fact["turn"]] = call

    def ended(self) -> list[Row]:
        self.settle()
        taken: list[Row] = []
        left = []
        for alone in self.alone:
            turn, at = alone["results"][0]["turn"], alone["results"][0]["at"]
            behind = [
                one
                for one in self.calls
                if one not in taken
                and answer(one) is None
                and one["calls"][0]["turn"] == turn
                and one["calls"][-1]["at"] > at
            ]
            if behind:
                behind[0]["results"] += alone["results"]
                taken.append(behind[0])
            else:
                left.append(alone)
        return sorted([*self.calls, *left], key=lambda one: first_of(one)["at"])


def repeats(fact: Row, call: Row) -> bool:
    """A result says again what answered a call; a placeholder says nothing."""
    real = answer(call)
    return stands_in(fact) or real is None or says_same(fact, real)


def shown_call(group: list[Row], tellers: set[str]) -> tuple[int, tuple[Any, ...]]:
    """One call as it is shown, whoever told it."""

    def teller(call: Row) -> bool:
        return (call["calls"] or call["results"])[0]["producer"] in tellers

    by_word = sorted(group, key=lambda one: (answer(one) is None, not teller(one), first_of(one)["at"]))
    placed = [one for one in group if one["calls"]] or group
    place = min(placed, key=lambda one: (not teller(one), first_of(one)["at"]))
    given = next((state(one) for one in by_word if one["calls"]), None)
    name = next((name_of(one) for one in by_word if name_of(one)), None)
    results = [result for one in by_word for result in one["results"]]
    result = next((answer(one) for one in by_word if answer(one)), None) or (results[-1] if results else None)
    facts = [fact for one in group for fact in one["calls"] + one["results"]]
    told = sorted((fact for one in group for fact in one["calls"]), key=lambda fact: fact["position"]) or results
    entry = (
        "tool_call",
        told[0]["call"],
        name,
        given["arguments"] if given else None,
        result["output"] if result else None,
        given is None,
        sum(fact["contradicted"] for fact in facts),
        told[0]["position"],
    )
    return first_of(place)["at"], entry


def everything_else(facts: list[Row], calls: list[list[Row]]) -> list[tuple[int, tuple[Any, ...]]]:
    """Messages, ends, interactions and usage: what says the same again is shown once."""
    kept: list[Row] = []
    found: list[list[Row]] = []
    for fact in facts:
        if fact["type"].startswith("tool_"):
            continue
        for group in found:
            if is_again(fact, group, calls):
                group.append(fact)
                break
        else:
            found.append([fact])
            kept.append(fact)
    return [(group[0]["at"], shown(group)) for group in found]


def is_again(fact: Row, group: list[Row], calls: list[list[Row]]) -> bool:
    before = group[0]
    if fact["type"] != before["type"]:
        return False
    match fact["type"]:
        case "turn.ended":
            return bool(fact["turn"] == before["turn"])
        case "interaction.requested" | "interaction.answered":
            about, same = named_call(fact, calls), fact["interaction"] == before["interaction"]
            a, b = plain(fact["payload"]), plain(group[-1]["payload"])
            return same and about == named_call(before, calls) and (grows(a, b) or grows(b, a))
        case "usage.recorded":
            if fact["of"] is not None or before["of"] is not None:
                return bool(fact["of"] == before["of"])
            key = ("producer", "turn")
            return fact["turn"] is not None and all(fact[name] == before[name] for name in key)
        case _:
            place = ("producer", "turn", "index")
            is_placed = fact["turn"] is not None and fact["index"] is not None
            same = all(fact[name] == before[name] for name in (*place, "role", "content"))
            return is_placed and same


def plain(payload: Row) -> Row:
    return {name: value for name, value in payload.items() if name != "toolCallId"}


def named_call(fact: Row, calls: list[list[Row]]) -> object:
    """Which call an interaction is about: the last of that id before it, else the first."""
    name = fact["payload"].get("toolCallId")
    states = [
        (call["at"], n)
        for n, group in enumerate(calls)
        for one in group
        for call in one["calls"]
        if call["call"] == name
    ]
    before = [pair for pair in states if pair[0] <= fact["at"]]
    if not states:
        return name
    return max(before)[1] if before else min(states)[1]


def shown(group: list[Row]) -> tuple[Any, ...]:
    fact = group[0]
    contradicted, position = sum(one["contradicted"] for one in group), fact["position"]
    match fact["type"]:
        case "message.recorded":
            return ("message", fact["role"], fact["content"], contradicted, position)
        case "turn.ended":
            reasons = [one["stop_reason"] for one in group if one["stop_reason"] is not None]
            return ("turn_ended", fact["turn"], reasons[-1] if reasons else None, contradicted, position)
        case "usage.recorded":
            counts: Row = {}
            is_ordered = all(one["turn"] is not None and one["index"] is not None for one in group)
            for one in group:
                for name, count in one["counts"].items():
                    counts[name] = count if is_ordered else max(count, counts.get(name, count))
            return ("usage", fact["of"], counts, contradicted, position)
        case _:
            kind = fact["type"].replace(".", "_")
            return (kind, fact["interaction"], fact["payload"], contradicted, position)
