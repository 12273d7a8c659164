"""Content: what a session said and did, stored whatever characters and numbers it contains.

Text, arguments, outputs and `extra` are never refused for their characters or numbers. Whatever
JSON or UTF-8 cannot represent is stored as an escape that `restore` reverses:

| content | stored as |
|---|---|
| a lone surrogate, NUL, or U+001A inside a text | U+001A and four hexadecimal digits |
| NaN, infinity | `{"$float": "nan"}`, `"inf"`, `"-inf"` |
| an integer beyond 64 bits | `{"$int": "123…"}` |
| a key that is `$float` or `$int`, or such a key with more `$` in front | the key with one more `$` |
"""

from __future__ import annotations

import json
import math
import os
import re
from typing import Any

from rightful import limits
from rightful.errors import InvalidEventError

# Compiled when used: a call of a hook does not need them.
_UNSAFE = "[\x00\x1a\ud800-\udfff]"
_ESCAPED = "\x1a([0-9a-f]{4})"
_RESERVED = r"\$+(?:float|int)\Z"
_LONE = "([\ud800-\udbff])([\udc80-\udcff])|[\ud800-\udfff]"
_READABLE_DIGITS = 4_000  # Python refuses to read 4,300 (CVE-2020-10735)
_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1


class _BigInt(str):
    """An integer literal that Python refuses to parse (more than 4,300 digits)."""

    __slots__ = ()


def escape(value: object, place: str = "$", depth: int = 0) -> tuple[Any, bool]:
    """Return content in its storable form, and whether anything had to be escaped.

    Content that needs no escape, which is nearly all, is returned unchanged; other content is copied.

    Raises:
        InvalidEventError: It is not JSON content (bytes, a set, an object …) or is nested deeper
            than `limits.NESTING_DEPTH`. Convert it before recording it.
    """
    if not depth and is_plain(value):
        return value, False
    if depth > limits.NESTING_DEPTH:
        raise InvalidEventError(f"Expected content nested at most {limits.NESTING_DEPTH} levels deep", place)
    match value:
        case None | bool():
            return value, False
        case _BigInt():
            return {"$int": str(value)}, True
        case str():
            return _escape_text(value)
        case int():
            return (value, False) if _INT_MIN <= value <= _INT_MAX else ({"$int": _digits(value)}, True)
        case float():
            return (value, False) if math.isfinite(value) else ({"$float": str(value)}, True)
        case list() | tuple():
            return _escape_list(value, place, depth)
        case dict():
            return _escape_dict(value, place, depth)
        case _:
            raise InvalidEventError(f"Expected JSON content, got `{type(value).__name__}`", place)


def json_type(value: object) -> str:
    """Return the JSON type of a value, named as `msgspec` does; the Python type's name if JSON has none."""
    return _JSON_TYPES.get(type(value), type(value).__name__)


_JSON_TYPES = {type(None): "null", _BigInt: "int", dict: "object", list: "array", tuple: "array"}


def is_plain(value: object, depth: int = 0) -> bool:
    """Return whether content certainly needs no escape. False if `escape` would refuse it and raise the error."""
    kind = type(value)
    if kind is str:
        return _is_safe(value)  # type: ignore[arg-type]
    if kind is dict or kind is list:
        if depth >= limits.NESTING_DEPTH or (kind is dict and not _has_plain_keys(value)):  # type: ignore[arg-type]
            return False
        items: Any = value.values() if kind is dict else value  # type: ignore[attr-defined]
        for item in items:  # noqa: SIM110 - a generator would take a third longer, for each value of each event
            if not (is_plain(item, depth + 1) if type(item) is not str else _is_safe(item)):
                return False
        return True
    if kind is int:
        return _INT_MIN <= value <= _INT_MAX  # type: ignore[operator]
    return value is None or kind is bool or (kind is float and math.isfinite(value))  # type: ignore[arg-type]


def _has_plain_keys(value: dict[Any, Any]) -> bool:
    """Return whether all keys are texts that need no escape; they are joined and checked as one text."""
    try:
        keys = "".join(value)
    except TypeError:
        return False
    return "$" not in keys and _is_safe(keys)


def _is_safe(text: str) -> bool:
    """Return whether a text needs no escape: two character searches, and UTF-8 refuses lone surrogates.

    `_UNSAFE` gives the same result, but takes forty times as long for a text that is not all ASCII.
    """
    if "\x00" in text or "\x1a" in text:
        return False
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _digits(value: int) -> str:
    return str(value) if abs(value) < 10**_READABLE_DIGITS else hex(value)


def _escape_text(text: str) -> tuple[str, bool]:
    if _is_safe(text):
        return text, False
    return re.sub(_UNSAFE, lambda hit: f"\x1a{ord(hit.group()):04x}", text), True


def _escape_list(values: list[Any] | tuple[Any, ...], place: str, depth: int) -> tuple[list[Any], bool]:
    pairs = [escape(item, f"{place}[{at}]", depth + 1) for at, item in enumerate(values)]
    return [item for item, _ in pairs], any(hit for _, hit in pairs)


def _escape_dict(values: dict[Any, Any], place: str, depth: int) -> tuple[dict[str, Any], bool]:
    out: dict[str, Any] = {}
    flagged = False
    for key, item in values.items():
        if not isinstance(key, str):
            raise InvalidEventError(f"Expected `str` keys, got `{type(key).__name__}`", place)
        kept, key_hit = _escape_text(f"${key}" if key[:1] == "$" and re.match(_RESERVED, key) else key)
        out[kept], item_hit = escape(item, f"{place}.{kept}", depth + 1)
        flagged = flagged or key_hit or item_hit or kept != key
    return out, flagged


def restore(value: Any) -> Any:  # noqa: ANN401 - content is any JSON value
    """Return stored content as it was recorded; the inverse of `escape`."""
    match value:
        case str():
            return re.sub(_ESCAPED, lambda hit: chr(int(hit.group(1), 16)), value) if "\x1a" in value else value
        case list():
            return [restore(item) for item in value]
        case {"$float": str() as number} if len(value) == 1:
            return float(number)
        case {"$int": str() as number} if len(value) == 1:
            return (
                int(number, 0)
                if len(number) < limits.KEY_BYTES or number.lower().lstrip("-").startswith("0x")
                else number
            )
        case dict():
            return {_restore_key(key): restore(item) for key, item in value.items()}
        case _:
            return value


def _restore_key(key: str) -> str:
    return restore(key[1:] if key[:1] == "$" and re.match(_RESERVED, key[1:]) else key)  # type: ignore[no-any-return]


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise InvalidEventError(f"Expected each key once, got {twice[:64]!r} twice", "$")
    return out


def _int(digits: str) -> int | _BigInt:
    return int(digits) if len(digits) <= _READABLE_DIGITS else _BigInt(digits)


_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_STRING_BYTES = re.compile(_STRING.pattern.encode(), re.DOTALL)
TOO_MANY = f"Expected at most {limits.JSON_VALUES:,} values in one JSON text"
"""The reason reported for a text that is refused before it is decoded."""


def has_too_many_values(text: str | bytes) -> bool:
    """Return whether a JSON text has more than `limits.JSON_VALUES` commas and opening brackets outside strings.

    They are counted before the text is decoded: 15 MB of empty arrays take 400 MB as objects.
    """
    if isinstance(text, bytes):
        if text.count(b",") + text.count(b"[") + text.count(b"{") <= limits.JSON_VALUES:
            return False
        bare = _STRING_BYTES.sub(b"", text)
        return bare.count(b",") + bare.count(b"[") + bare.count(b"{") > limits.JSON_VALUES
    if text.count(",") + text.count("[") + text.count("{") <= limits.JSON_VALUES:
        return False
    outside = _STRING.sub("", text)
    return outside.count(",") + outside.count("[") + outside.count("{") > limits.JSON_VALUES


def parse_line(text: str | bytes) -> Any:  # noqa: ANN401 - any JSON value
    """Parse one line or message as `parse_json` does, with a limit on its number of values.

    Raises:
        InvalidEventError: As `parse_json`; or it has more than `limits.JSON_VALUES` values, and was not decoded.
    """
    if has_too_many_values(text):
        raise InvalidEventError(TOO_MANY, "$")
    return parse_json(text)


def parse_json(text: str | bytes) -> Any:  # noqa: ANN401 - any JSON value
    """Parse JSON as real tools write it, including NaN, lone surrogates and huge integers.

    Bytes may begin with a byte order mark and may be UTF-8 with bad bytes (kept as lone
    surrogates), UTF-16 or UTF-32. A key that occurs twice in one object is refused, because
    two readers would disagree about it.

    Raises:
        InvalidEventError: It is not valid JSON (the error has the line and column), or it is nested too deeply.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode(json.detect_encoding(text), "surrogateescape")
        return json.loads(text, object_pairs_hook=_no_duplicates, parse_int=_int)
    except json.JSONDecodeError as error:
        raise InvalidEventError(f"Expected JSON: {error.msg}, line {error.lineno} column {error.colno}", "$") from None
    except UnicodeDecodeError as error:
        raise InvalidEventError(f"Expected JSON: {error.reason}", "$") from None
    except RecursionError:
        raise InvalidEventError(f"Expected JSON nested at most {limits.NESTING_DEPTH} levels deep", "$") from None


def to_json(value: object) -> bytes:
    """Return JSON on one line that `parse_json` parses to the same value; its inverse.

    Every value of `parse_json` is preserved: NaN, huge integers, and bad bytes after a lone
    surrogate too. No escape can represent those, so they are written as the original bytes.

    Raises:
        RecursionError: It is nested too deeply.
    """
    literals: dict[str, str] = {}
    text = json.dumps(_marked(value, literals), ensure_ascii=False)
    for mark, digits in literals.items():
        text = text.replace(f'"{mark}"', digits)
    return re.sub(_LONE, _spelled, text).encode("utf-8", "surrogateescape")


def _marked(value: object, literals: dict[str, str]) -> object:
    """Return the value with a placeholder for each integer that Python refuses to write."""
    match value:
        case _BigInt():
            mark = f"{os.urandom(16).hex()}"
            literals[mark] = str(value)
            return mark
        case list() | tuple():
            return [_marked(item, literals) for item in value]
        case dict():
            return {key: _marked(item, literals) for key, item in value.items()}
        case _:
            return value


def _spelled(hit: re.Match[str]) -> str:
    high, low = hit.groups()
    return f"\\u{ord(high):04x}{low}" if high else f"\\u{ord(hit.group()):04x}"
