"""The formats of bandit files, one module each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rightful.importers.bandits.bandit_file import Format
from rightful.importers.bandits.gptme_hybrid_format import GPTME_HYBRID
from rightful.importers.bandits.gptme_sessions_format import GPTME_SESSIONS
from rightful.importers.bandits.lesson_hook_format import LESSON_HOOK
from rightful.importers.bandits.pm_dispatch_format import PM_DISPATCH

FORMATS: Mapping[str, Format] = {form.name: form for form in (GPTME_SESSIONS, LESSON_HOOK, GPTME_HYBRID, PM_DISPATCH)}
"""The formats, by the name of their reader."""

_BY_PRECEDENCE = (GPTME_HYBRID, GPTME_SESSIONS, LESSON_HOOK, PM_DISPATCH)


def form_of(document: Mapping[str, Any]) -> str:
    """Return the stored name of the format of a bandit file; `empty` if no arm shows one."""
    arms = document.get("arms")
    keys = [entry.keys() for entry in arms.values() if isinstance(entry, dict)] if isinstance(arms, dict) else []
    seen: frozenset[str] = frozenset().union(*keys)
    if not seen:
        return "empty"
    names = (form.recognise(seen) for form in _BY_PRECEDENCE)
    return next(name for name in names if name is not None)
