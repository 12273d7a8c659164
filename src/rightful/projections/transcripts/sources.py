"""Which producer's history is told, where several tell of one session."""

from __future__ import annotations

from rightful.projections.transcripts.parts import Part


class Sources:
    """The parts of a session that are told.

    Events of their own are always told. A batch of a history's items says again what another producer's
    events, or another's batches, may have said already, and most items have no id by which that could be seen.

    Attributes:
        parts: What is told, in order.
        left_out: For each producer whose items are not all told, how many are not.
    """

    def __init__(self, parts: list[Part]) -> None:
        self._tellers = dict.fromkeys(_producer(one) for one in parts if one.kind == "message" and one.ordinal is None)
        batches = dict.fromkeys(_producer(one) for one in parts if one.ordinal is not None)
        self._lead = next((one for one in batches if one in self._tellers or not self._tellers), None)
        self.left_out: dict[str, int] = {}
        own = {one for one in batches if one in self._tellers or one == self._lead}
        if not batches.keys() - own:
            self.parts = parts
            return
        known = {name for one in parts if one.ordinal is None or _producer(one) in own for name in _names(one)}
        sharing = {_producer(one) for one in parts if one.ordinal is not None and not known.isdisjoint(_names(one))}
        self.parts = [one for one in parts if one.ordinal is None or self._is_told(one, own, sharing)]

    def tells_messages(self, producer: str) -> bool:
        """Say whether a producer tells the messages of the session."""
        return producer in self._tellers or producer == self._lead

    def _is_told(self, part: Part, own: set[str], sharing: set[str]) -> bool:
        producer = _producer(part)
        if producer in own or (producer in sharing and _names(part)):
            return True
        self.left_out[producer] = self.left_out.get(producer, 0) + 1
        return False


def _producer(part: Part) -> str:
    return part.fact.producer


def _names(part: Part) -> list[tuple[str, str]]:
    """Return the ids by which a part can be known as another's: a call's, or the item's own."""
    return [(name, part.said[name]) for name in ("call", "id", "interaction") if isinstance(part.said.get(name), str)]
