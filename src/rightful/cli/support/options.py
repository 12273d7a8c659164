"""Options of the commands that query the projections: policy, position, time of decay, sessions."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rightful import content, limits, times
from rightful.cli.output import logs, terminal
from rightful.cli.support import ledger_choice
from rightful.errors import InvalidEventError, PolicyError, ReadOnlyStoreError, UsageError
from rightful.identity import split_session
from rightful.policies import PRESETS, Policy, TimeDecay, policy_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from rightful.cli.output.logs import Log
    from rightful.ledger import Ledger
    from rightful.projections.facts.facts import Facts

_WHOLE_FROM = 1_000
_HASH_DIGITS = 12
_POSITION_DIGITS = 18
_NEAR_NAMES = 5
_PREFIX_CHARS = 4
_FIELDS = 3  # of a policy that differ, in its description
_VALUE_CHARS = 40

IN_BALANCE = (
    "In-balance grades are already counted in the numbers of a bandit's file; --balances none ignores those numbers "
    "and credits the grades from the log."
)
"""The meaning of in-balance grades for an answer; they could look lost."""

PROGRESS_ROWS = 50_000
"""The number of rows to fold from which on progress is shown."""


def add_position(parser: argparse.ArgumentParser) -> None:
    """Declare `--as-of` and `--decay-at`."""
    parser.add_argument(
        "--as-of", metavar="POSITION|TIME",
        help="last position, or time of recording, to include (default: everything)",
    )  # fmt: skip
    parser.add_argument(
        "--decay-at", metavar="TIME", help="time as of which evidence is decayed (default: latest event)"
    )


class NamedPolicy(NamedTuple):
    """A policy, and the name under which it is shown.

    Attributes:
        label: The preset's name, the file's name, or how it differs from the nearest preset.
        preset: The preset's name; None for a policy of a file or of the command line.
        policy: The rule.
    """

    label: str
    preset: str | None
    policy: Policy

    @property
    def title(self) -> str:
        """The label and the first digits of the hash."""
        return f"{self.label} ({self.policy.hash[:_HASH_DIGITS]})"

    @property
    def for_ledger(self) -> str | Policy:
        """The argument for the ledger: the name of a preset, so that its answers name it too, else the policy."""
        return self.preset or self.policy


def policy_named(text: str, option: str = "--policy") -> NamedPolicy:
    """Return the policy of an option: a preset's name, a JSON object, or a file that contains one.

    Args:
        text: The value of the option.
        option: The name of the option, for error messages.

    Raises:
        PolicyError: It is not one of these; the message names the option, and the file.
    """
    path = Path(text)
    try:
        if text.lstrip().startswith(("{", "[")):
            policy = _policy(text.encode("utf-8", "surrogateescape"))
            return NamedPolicy(description_of(policy), None, policy)
        if text not in PRESETS and (path.suffix or "/" in text or path.is_file()):
            option = f"{option} {text}"
            with path.open("rb") as file:
                return NamedPolicy(path.name, None, _policy(file.read(limits.EVENT_BYTES + 1)))
        return NamedPolicy(text, text, policy_of(text))
    except PolicyError as error:
        raise PolicyError(f"{option}: {error.what}") from None
    except (OSError, ValueError) as error:  # a NUL in a path is a ValueError
        raise PolicyError(f"{option} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def description_of(policy: Policy) -> str:
    """Return a description of a policy without a name: the nearest preset, and the fields that differ."""
    wire = policy.as_dict()
    name, differing = "", dict[str, object]()
    for preset, rule in PRESETS.items():
        own = rule.as_dict()
        differs = {field: wire.get(field) for field in {**own, **wire} if own.get(field) != wire.get(field)}
        if not name or len(differs) < len(differing):
            name, differing = preset, differs
    parts = [f"{field} {_value(value)}" for field, value in list(differing.items())[:_FIELDS]]
    more = len(differing) - len(parts)
    return ", ".join([name, *parts, *([f"{more} more"] if more else [])])


def with_fields_of(named: NamedPolicy, shared: NamedPolicy) -> NamedPolicy:
    """Return a policy with the fields in which another one differs from `bound`, such as its aliases and graders.

    Raises:
        PolicyError: The result is not a valid policy.
    """
    base, wire = PRESETS["bound"].as_dict(), shared.policy.as_dict()
    changes = {field: value for field, value in wire.items() if base.get(field) != value}
    label = f"{named.label} with {shared.label}"
    try:
        policy = policy_of({**named.policy.as_dict(), **changes})
    except PolicyError as error:
        raise PolicyError(f"{label}: {error.what}") from None
    return named if policy == named.policy else NamedPolicy(label, None, policy)


def _value(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _VALUE_CHARS else f"{text[: _VALUE_CHARS - 1]}…"


def _policy(text: bytes) -> Policy:
    if len(text) > limits.EVENT_BYTES:
        raise PolicyError(f"Expected a JSON object of at most {limits.EVENT_BYTES} bytes")
    if not text.strip():
        raise PolicyError("Expected a JSON object, got nothing")
    try:
        found = content.parse_json(text)
    except InvalidEventError as error:
        raise PolicyError(f"Expected a JSON object; {error.what}") from None
    if not isinstance(found, dict):
        raise PolicyError(f"Expected a JSON object, got `{content.json_type(found)}`")
    return policy_of(found)


def open_for_reading(args: argparse.Namespace) -> Ledger:
    """Open the ledger for reading, after draining the spool of hooks if the ledger can be written."""
    try:
        return ledger_choice.open_ledger(args)
    except ReadOnlyStoreError:
        return ledger_choice.open_ledger(args, readonly=True)


def session_with_rows(ledger: Ledger, text: str) -> str:
    """Return the session's full name. If `text` is a name with rows, the rest of the ledger is not folded.

    Raises:
        UsageError: As `session_named`.
    """
    if ":" in text and any(ledger.log.of_session(text)):
        return text
    catch_up(ledger)
    return session_named(ledger, text)


def session_or_new(ledger: Ledger, text: str) -> str:
    """Return the session's full name. A name with a namespace means itself, also if the ledger has no such session.

    Raises:
        UsageError: As `session_named`, for anything else.
    """
    return text if ":" in text else session_named(ledger, text)


def session_named(ledger: Ledger, text: str) -> str:
    """Return the full name of a session, from its name, its value or the beginning of one.

    A full name is returned unchanged. Any other text is a value in any namespace, or if no session has it, the
    beginning of one.

    Raises:
        UsageError: No session has that name, or several namespaces have that value, or several begin so.
    """
    facts = ledger.projected().catch_up()
    if fitting := sessions_with(facts, text):
        if len(fitting) > 1:
            raise UsageError(
                f"{text!r} is the value of {len(fitting)} sessions: {names_text(fitting)}. Type one in full."
            )
        note_others(facts, text, fitting[0])
        return fitting[0]
    fitting = sessions_beginning(facts, text)
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise UsageError(
            f"{text!r} is the beginning of {len(fitting):,} sessions: {names_text(fitting)}. "
            f"Type more characters of one."
        )
    raise UsageError(f"no session is named {text!r} in this ledger. {_near(facts, text)}")


def sessions_with(facts: Facts, text: str) -> list[str]:
    """Return the session with exactly this name, else the sessions of any namespace with exactly this value."""
    names, through = facts.names, facts.watermark
    known = [number for key in (text, f"\0{text}") if (number := names.texts.find(key)) is not None]
    if any(names.first[number] <= through for number in known):
        return [text]
    return names.with_value(text, through) if text else []


def sessions_beginning(facts: Facts, text: str) -> list[str]:
    """Return the sessions whose name or value begins with a text; none if the text is too short."""
    return facts.names.beginning_with(text, facts.watermark, _PREFIX_CHARS)


def note_others(facts: Facts, text: str, session: str) -> None:
    """Print a note if the value of one session is also the beginning of others: one of those may be meant."""
    if text == session or split_session(session)[1] != text:
        return
    if others := [name for name in sessions_beginning(facts, text) if name != session]:
        terminal.note_stderr(
            f"{text!r} is treated as {session}, which has this value; it is also the beginning of {names_text(others)}."
        )


def _near(facts: Facts, text: str) -> str:
    near = facts.names.containing(text, facts.watermark) if text else []
    if not near:
        return "`rightful status --sessions` lists them."
    return f"Names that contain it: {names_text(near)}. Type one of them, or its beginning."


def names_text(names: list[str]) -> str:
    """Return the first names, and the number of others."""
    first = ", ".join(names[:_NEAR_NAMES])
    return f"{first}, and {len(names) - _NEAR_NAMES:,} more" if len(names) > _NEAR_NAMES else first


def as_of(args: argparse.Namespace) -> int | str | None:
    """Return the position or time that `--as-of` gives.

    Raises:
        UsageError: It is neither.
    """
    return None if args.as_of is None else position_or_time(args.as_of, "--as-of", "computed")


def position_or_time(given: str, option: str, done: str) -> int | str:
    """Return the position or the time of recording that an option gives.

    Args:
        given: The value of the option.
        option: The option, for error messages.
        done: The participle for the error message: nothing was `done`.

    Raises:
        UsageError: It is neither.
    """
    if given.isdecimal() and given.isascii():
        return int(given.lstrip("0")[:_POSITION_DIGITS] or 0)
    try:
        times.us_from(given)
    except UsageError as error:
        if "has no UTC offset" in str(error):
            raise
        raise UsageError(
            f"{option} expects a position or a time, got {given!r}; nothing was {done}. "
            f"Write a position as 12, a time as 2026-08-01T10:15:00Z."
        ) from None
    return given


def decay_at(args: argparse.Namespace, *policies: Policy) -> str | None:
    """Return the time of `--decay-at`; print a note if it has no effect.

    Raises:
        UsageError: It is not a time; an empty one would mean the default.
    """
    given: str | None = args.decay_at
    if given is None:
        return None
    if not given.strip():
        raise UsageError("--decay-at is empty; nothing was computed. Write it as 2026-08-01T10:15:00Z, or omit it.")
    if not any(isinstance(policy.decay, TimeDecay) for policy in policies):
        terminal.note_stderr("--decay-at has no effect: no policy of this command decays with time.")
    return given


def hint_before_first_row(args: argparse.Namespace, through: int, ledger: Ledger) -> str | None:
    """Return a hint if `--as-of` is a time before the first row: it could be meant as an event's time."""
    if through or args.as_of is None or args.as_of.isdecimal() or not ledger.log.head():
        return None
    return "Nothing had been recorded by then; --as-of is a time of recording, not the time of an event."


@contextmanager
def open_folded(args: argparse.Namespace) -> Iterator[Ledger]:
    """Open the ledger and bring its projections up to date, with progress on long work."""
    with open_for_reading(args) as ledger:
        log = logs.of(args)
        behind, began = ledger.projected().behind(), time.monotonic()
        catch_up(ledger)
        log.step("folded", rows=behind, took_s=round(time.monotonic() - began, 3))
        yield ledger
        _save(ledger, log)


def _save(ledger: Ledger, log: Log) -> None:
    """Save the projection for the next command; nothing depends on it."""
    watermark = ledger.projected().facts.watermark
    if (is_saved := ledger.projected().save()) is False:
        log.warning("the projection was not saved; the next command folds again", folder=str(ledger.path))
    elif is_saved:
        log.step("saved", watermark=watermark)


def catch_up(ledger: Ledger) -> None:
    """Bring the projections up to date, with progress on long work."""
    projected = ledger.projected()
    if (missing := projected.behind()) < PROGRESS_ROWS:
        projected.catch_up()
        return
    from rightful.cli.output import tables

    with tables.progress("folding", missing, "rows") as advance:
        done = projected.facts.watermark

        def report(position: int, _: int) -> None:
            nonlocal done
            advance(position - done)
            done = position

        projected.catch_up(report)


def number(value: float) -> str:
    """Return a number as text: three significant digits, whole from 1,000 on."""
    return f"{value:.3g}" if abs(value) < _WHOLE_FROM else f"{value:,.0f}"


def fixed(value: float, *, sign: bool = False) -> str:
    """Return a mean, a rate or a distance as text: three decimals; 0 has no sign."""
    text = f"{value:+.3f}" if sign else f"{value:.3f}"
    return text if text.strip("+-") != "0.000" else "0.000"
