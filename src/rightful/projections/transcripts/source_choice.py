"""Which producer's history is shown, if several recorded one session."""

from __future__ import annotations

from rightful.projections.transcripts.entry_parts import Part


class Sources:
    """The parts of a session that are shown.

    Single events are always shown. A batch of a history's items says again what another producer's
    events, or another's batches, may have said already, and most items have no id by which that could be seen.
    A run that appends as it goes (it says which run it is, or what it had read) says nothing again: it goes on with
    what others' batches say, such as those of an import.

    Attributes:
        parts: The shown parts, in order.
        together: The producers whose batches make one history.
        left_out: For each producer with omitted items, how many.
    """

    def __init__(self, parts: list[Part]) -> None:
        self._tellers = dict.fromkeys(
            part.fact.producer for part in parts if part.kind == "message" and part.ordinal is None
        )
        batches = dict.fromkeys(part.fact.producer for part in parts if part.ordinal is not None)
        self._lead = next((producer for producer in batches if producer in self._tellers or not self._tellers), None)
        self.left_out: dict[str, int] = {}
        going_on = frozenset() if self._tellers else {part.fact.producer for part in parts if _goes_on(part)}
        self.together = frozenset({producer for producer in batches if producer == self._lead or producer in going_on})
        own = self.together.union(producer for producer in batches if producer in self._tellers)
        if not batches.keys() - own:
            self.parts = parts
            return
        known = {name for part in parts if part.ordinal is None or part.fact.producer in own for name in _names(part)}
        sharing = {
            part.fact.producer for part in parts if part.ordinal is not None and not known.isdisjoint(_names(part))
        }
        self.parts = [part for part in parts if part.ordinal is None or self._is_told(part, own, sharing)]

    def shows_messages(self, producer: str) -> bool:
        """Return whether the messages of a producer are shown."""
        return producer in self._tellers or producer in self.together

    def _is_told(self, part: Part, own: frozenset[str], sharing: set[str]) -> bool:
        producer = part.fact.producer
        if producer in own or (producer in sharing and _names(part)):
            return True
        self.left_out[producer] = self.left_out.get(producer, 0) + 1
        return False


def _goes_on(part: Part) -> bool:
    body = part.fact.body
    is_item = part.ordinal is not None and body is not None
    return is_item and (getattr(body, "run", None) is not None or getattr(body, "read", None) is not None)


def _names(part: Part) -> list[tuple[str, str]]:
    """Return the ids by which a part can be known as another's: a call's, or the item's own."""
    return [
        (name, part.fields[name]) for name in ("call", "id", "interaction") if isinstance(part.fields.get(name), str)
    ]
