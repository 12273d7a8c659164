"""Which rows make a session known of which some rows were withdrawn: a withdrawn row and a withdrawal do not."""

from __future__ import annotations

import numpy as np

from rightful.encoding.envelope import body_of
from rightful.identity import is_exact
from rightful.log.log import Log
from rightful.log.rows import Stored
from rightful.log.withdrawals import WITHDRAWAL
from rightful.projections.facts.facts import LINKS, Facts, Mention

_START = "session.started"


def find(log: Log, facts: Facts) -> None:
    """Read the rows of the sessions that newly withdrawn rows name, and of those that have no other row yet."""
    rows = (row for event_id in facts.met_links for row in log.of_id(event_id))
    links = (row for row in rows if row.envelope.type in LINKS)  # a row in conflict may be of any type
    others = {body_of(row.envelope, row.body, row.position).other for row in links if row.body is not None}
    numbers = {number for text in facts.met_sessions | others for number in _numbers(facts, text)}
    numbers |= {number for number, mentions in facts.mentions.items() if not _is_settled(facts, mentions)}
    for number in sorted(numbers):
        facts.mentions[number] = _mentions(log, facts, number)
    facts.met_sessions.clear()
    facts.met_links.clear()


def _numbers(facts: Facts, text: str) -> list[int]:
    found = (facts.names.texts.find(key) for key in (text, f"\0{text}"))
    return [number for number in found if number is not None]


def _is_settled(facts: Facts, mentions: list[Mention]) -> bool:
    return any(mention.id not in facts.awaited for mention in mentions)


def _mentions(log: Log, facts: Facts, number: int) -> list[Mention]:
    """Return the rows that name a session through the first that no withdrawal names, and all its starts."""
    text, until = facts.names.text(number), facts.watermark
    alias = bool(facts.names.alias[number])
    found = [] if alias else _as_other(log, facts, number)
    last = next((mention.position for mention in found if mention.id not in facts.awaited), until)
    for row in (row for page in log.of_session(text, until=last) for row in page):
        if _is_alias(row) == alias and row.envelope.type != WITHDRAWAL:
            found.append(Mention(row.position, is_start=row.envelope.type == _START, id=row.envelope.id))
            if row.envelope.id not in facts.awaited:
                last = row.position
                break
    starts = (row for page in log.of_session(text, [_START], until=until) for row in page)
    found += [Mention(row.position, is_start=True, id=row.envelope.id) for row in starts if _is_alias(row) == alias]
    return sorted({mention for mention in found if mention.is_start or mention.position <= last})


def _as_other(log: Log, facts: Facts, number: int) -> list[Mention]:
    positions = facts.links["pos"][np.flatnonzero(facts.links["other"] == number)].tolist()
    positions += [position for position, other in facts.alias_links if other == number]
    rows = (next(iter(log.scan(position - 1, position)))[0] for position in positions)
    return [Mention(row.position, is_start=False, id=row.envelope.id) for row in rows]


def _is_alias(row: Stored) -> bool:
    """Return whether a row names its session by a sanitised form."""
    if row.body is None or b'"alias":true' not in row.body:
        return False
    exact = row.envelope.type == "exposure.recorded" and is_exact(row.envelope.producer, row.envelope.session or "")
    return bool(body_of(row.envelope, row.body, row.position).alias) and not exact
