"""Facts about the caller of a handoff, found in its environment and not stated by itself.

| variable | meaning |
|---|---|
| `RIGHTFUL_SESSION`, `RIGHTFUL_RUN_NONCE` | the run that `rightful run` started, and its nonce |
| `CLAUDE_CODE_SESSION_ID`, `CC_SESSION_ID` | `claude-code:<id>` |
| `CODEX_THREAD_ID` | `codex:<id>` |
| `COPILOT_AGENT_SESSION_ID` | `copilot:<id>` |
| `GPTME_CONVERSATION_ID` | `gptme:<id>` |
| `GPTME_SESSION_ID` | `gptme-session:<label>` |

An agent may start another agent, so several variables may be set. The working folder is stored but proves
nothing: the steps of a run may use several folders, and several runs may use the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rightful import limits
from rightful.errors import HandoffMismatchError, UsageError
from rightful.identity import is_session, split_session

SameRun = Callable[[str, str], bool | None]
"""Returns whether links join two session names into one run; None if unknown."""

NATIVE = (
    ("CLAUDE_CODE_SESSION_ID", "claude-code"),
    ("CC_SESSION_ID", "claude-code"),
    ("CODEX_THREAD_ID", "codex"),
    ("COPILOT_AGENT_SESSION_ID", "copilot"),
    ("GPTME_CONVERSATION_ID", "gptme"),
    ("GPTME_SESSION_ID", "gptme-session"),
)
"""The variables in which agent tools pass the session to their commands, with the namespace of its name."""


class CallerFacts(NamedTuple):
    """The facts about a caller.

    Attributes:
        run: The name of its run.
        nonce: The nonce of its run.
        natives: The names that agent tools use for its session.
        cwd: Its working folder; a `file:` URI.
    """

    run: str | None = None
    nonce: str | None = None
    natives: tuple[str, ...] = ()
    cwd: str | None = None

    def found(self) -> dict[str, str]:
        """Return the value of the event's `found` field."""
        first = self.natives[0] if self.natives else None
        facts = {"run_nonce": self.nonce, "native_id": first, "cwd": self.cwd}
        return {name: value for name, value in facts.items() if value is not None}

    def extra(self) -> dict[str, Any]:
        """Return the additional facts for the event's `extra` field."""
        return {"natives": list(self.natives)} if len(self.natives) > 1 else {}


def facts_of(environ: Mapping[str, str], cwd: Path | None) -> CallerFacts:
    """Return the facts in an environment and a working folder.

    Args:
        environ: The environment.
        cwd: The working folder; None if it was removed.
    """
    names = [f"{space}:{environ[name]}" for name, space in NATIVE if environ.get(name, "").strip()]
    natives = tuple(name for name in dict.fromkeys(names) if is_session(name) and len(name) <= limits.WORD_CHARS)
    return CallerFacts(
        environ.get("RIGHTFUL_SESSION") or None,
        environ.get("RIGHTFUL_RUN_NONCE") or None,
        natives,
        None if cwd is None else cwd.absolute().as_uri(),
    )


def recorded_facts(found: Any, extra: Mapping[str, Any] | None) -> CallerFacts:  # noqa: ANN401 - the struct of an event
    """Return the facts stored in an event."""
    if found is None:
        return CallerFacts()
    natives = (extra or {}).get("natives") or ([found.native_id] if found.native_id else [])
    return CallerFacts(None, found.run_nonce, tuple(natives), found.cwd)


def check_caller(name: str, session: str, facts: CallerFacts, same_run: SameRun) -> None:
    """Refuse a session name that the facts about the caller contradict.

    Args:
        name: The handoff's name.
        session: The session name that the caller passed.
        facts: The facts about the caller.
        same_run: Looks up the links.

    Raises:
        UsageError: The session name is not valid.
        HandoffMismatchError: The caller runs in another session.
    """
    check_session(session)
    if session in facts.natives or session == facts.run:
        return
    if facts.run is not None and same_run(session, facts.run) is not True:
        raise _mismatch(name, session, f"RIGHTFUL_SESSION states that this step runs in {facts.run}")
    for native in facts.natives:
        joined = same_run(session, native)
        if joined is False:
            raise _mismatch(name, session, f"this step runs in {native}, which links join to another run")
        if joined is None and split_session(native)[0] == split_session(session)[0]:
            raise _mismatch(name, session, f"the environment states that this step runs in {native}")


def check_session(session: str) -> None:
    """Refuse an invalid session name.

    Raises:
        UsageError: The session name is not valid.
    """
    if not is_session(session):
        raise UsageError(
            f"{session!r} is not a session name. Nothing was handed over. Pass the full name, such as "
            "claude-code:7fbe4341, or the value of RIGHTFUL_SESSION."
        )


def _mismatch(name: str, session: str, why: str) -> HandoffMismatchError:
    return HandoffMismatchError(
        name, session, why, "Pass the session that this step runs in, or link the two sessions."
    )


def proof_of_other_run(own: CallerFacts, other: CallerFacts, same_run: SameRun) -> str | None:
    """Return the fact that proves that two callers with the same session name are in different runs; else None.

    Args:
        own: The facts about the caller.
        other: The facts about the other caller.
        same_run: Looks up the links.
    """
    if own.nonce is not None and other.nonce is not None:
        what = f"of the run with nonce {other.nonce}, but this step belongs to the run with nonce {own.nonce}"
        return what if own.nonce != other.nonce else None  # the steps of a run may have sessions of their own
    if set(own.natives) & set(other.natives):
        return None
    for native in other.natives:
        for own_native in own.natives:
            is_alike = split_session(own_native)[0] == split_session(native)[0]
            joined = same_run(own_native, native)
            if joined is False or (joined is None and is_alike):
                return f"in {native}, but this step runs in {own_native}"
    return None
