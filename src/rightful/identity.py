r"""Event ids and session names, which a producer in any language can compute again.

`event id = uuid5(NAMESPACE, producer + "\n" + key)` (RFC 9562, version 5). A producer that
writes the same fact twice computes the same id, and the ledger returns `duplicate`.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from typing import TYPE_CHECKING

import msgspec

from rightful import limits
from rightful.errors import InvalidEventError

if TYPE_CHECKING:
    from collections.abc import Callable

NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "rightful.events")
"""The UUID namespace of event ids: 6f755e93-65bf-5c91-8aee-d0333c05205d."""

_begun = hashlib.sha1(NAMESPACE.bytes, usedforsecurity=False)

_VARIANT = {digit: "89ab"[at % 4] for at, digit in enumerate("0123456789abcdef")}  # its two high bits are 10

PRODUCER = r"^[A-Za-z0-9][A-Za-z0-9._/:@-]{0,127}\Z"
"""Form of a producer's name."""

SESSION = r"^[A-Za-z][A-Za-z0-9._-]{0,63}:[^\x00-\x1f\x7f-\x9f]+\Z"
"""Form of a session name: `namespace:value`, the value exactly as its writer knows it."""

NOT_A_SESSION = frozenset({"unknown"})
"""Values that tools write when they do not know the session; they do not name a session."""

_CONTROL = r"[\x00-\x1f\x7f-\x9f]"  # compiled when used, which is only for a text that may contain one

RUN_PRODUCER = "rightful-run"
"""The producer of what `rightful run` records."""

RUNS_FOLDER, RUN_LOGS_FOLDER = "runs", "logs"
"""The folder in a ledger with one folder for each run; each of those has a folder for its tool's log."""


def event_id(producer: str, key: str) -> str:
    """Return the event id of a producer's key, as UUID text.

    Args:
        producer: The producer's name.
        key: The producer's own stable key of the fact; `composite_key` builds one from several parts.

    Raises:
        InvalidEventError: The key is empty, too long or contains a control character. Choose another key.
    """
    if not key:
        raise InvalidEventError("Expected `key` of length >= 1", "$.key")
    if has_control(key):
        raise InvalidEventError("Expected `key` without control characters", "$.key")
    try:
        name = f"{producer}\n{key}".encode()
    except UnicodeEncodeError:
        raise InvalidEventError("Expected `key` without lone surrogates", "$.key") from None
    if len(name) > limits.KEY_BYTES + len(producer) + 1:
        raise InvalidEventError(f"Expected `key` of at most {limits.KEY_BYTES} bytes", "$.key")
    digest = _begun.copy()
    digest.update(name)
    text = digest.hexdigest()
    return f"{text[:8]}-{text[8:12]}-5{text[13:16]}-{_VARIANT[text[16]]}{text[17:20]}-{text[20:32]}"


def composite_key(*parts: str | int | None) -> str:
    """Return a key built from several parts: their JSON array, compact, in UTF-8.

    Two different lists of parts never give the same key, whatever the parts contain.

    Raises:
        InvalidEventError: A part contains a lone surrogate, which is not a character.
    """
    try:
        return msgspec.json.encode(parts).decode()
    except UnicodeEncodeError as error:
        raise InvalidEventError(f"Expected text, got a lone surrogate ({error.object[:64]!r})", "$.key") from None


def canonical_id(text: str) -> str:
    """Return a UUID's text in its canonical form (lower case, hyphens).

    Raises:
        InvalidEventError: It is not a UUID.
    """
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise InvalidEventError(f"Expected `uuid`, got {text[:64]!r}", "$.id") from None


def split_session(name: str) -> tuple[str, str]:
    """Return a session name's namespace and value."""
    namespace, _, value = name.partition(":")
    return namespace, value


def is_session(name: str) -> bool:
    """Return whether a text can be a session name: it has a namespace, and its value names a session."""
    if not re.match(SESSION, name) or split_session(name)[1] in NOT_A_SESSION:
        return False
    try:
        return len(name.encode()) <= limits.SESSION_BYTES
    except UnicodeEncodeError:
        return False


def has_control(text: str) -> bool:
    """Return whether a text has a control character, which no name may have."""
    return not text.isprintable() and re.search(_CONTROL, text) is not None  # the fast check suffices for most


# Compiled when used: a process that only appends does not need them.
_HOOK, _CURSOR, _SLUG = r"[^a-zA-Z0-9_-]", r"[^a-zA-Z0-9._-]", r"[^a-zA-Z0-9]"

SANITISERS: dict[str, Callable[[str], str]] = {
    "hook": lambda value: re.sub(_HOOK, "_", value),
    "cursor": lambda value: re.sub(_CURSOR, "_", value),
    "slug": lambda value: re.sub(_SLUG, "-", value),
}
"""The closed list of sanitisers that make an alias.

`hook` is gptme-contrib's match-lessons.py (state files), `cursor` its aw-watcher cursor,
`slug` Claude Code's project folder. All are lossy: `a/b` and `a_b` become equal.
"""


HOOK_READERS = frozenset({"lesson-hook-state", "lesson-hook-events"})
"""Producers of exposures whose session was read from a file name made by the sanitiser `hook`."""


def is_exact(producer: str, session: str) -> bool:
    """Return whether an exposure marked `alias` has the exact name of its session nevertheless.

    The sanitiser `hook` maps every other character to `_`, so a name without `_` has one preimage: itself.
    """
    return producer in HOOK_READERS and "_" not in split_session(session)[1]


def sanitised(value: str) -> frozenset[str]:
    """Return the forms of a session value that the known sanitisers make."""
    return frozenset(sanitise(value) for sanitise in SANITISERS.values())
