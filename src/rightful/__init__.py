"""Rightful: an append-only ledger that gives every agent session its rightful credit.

Public names load when they are first used, so that a hook pays for what it needs and no more.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rightful.errors import InvalidEventError, RightfulError
    from rightful.events import (
        Event,
        EventWithdrawn,
        ExposureRecorded,
        GradeRecorded,
        GradeRetracted,
        MessageRecorded,
        SessionEnded,
        SessionLinked,
        SessionStarted,
        ToolCallSnapshotted,
        ToolResultSnapshotted,
    )
    from rightful.field_types import ArmShown
    from rightful.identity import composite_key, event_id
    from rightful.ledger import Ledger, open  # noqa: A004 - the name that others rely on
    from rightful.log.rows import RawEvent, Receipt, Recorded
    from rightful.policies import Policy
    from rightful.projections.credit.posteriors import Posteriors
    from rightful.recording.producer import Producer
    from rightful.reports.beta_math.beta import compare

__all__ = [
    "ArmShown",
    "Event",
    "EventWithdrawn",
    "ExposureRecorded",
    "GradeRecorded",
    "GradeRetracted",
    "InvalidEventError",
    "Ledger",
    "MessageRecorded",
    "Policy",
    "Posteriors",
    "Producer",
    "RawEvent",
    "Receipt",
    "Recorded",
    "RightfulError",
    "SessionEnded",
    "SessionLinked",
    "SessionStarted",
    "ToolCallSnapshotted",
    "ToolResultSnapshotted",
    "compare",
    "composite_key",
    "event_id",
    "open",
]

_HOMES: dict[str, tuple[str, ...]] = {
    "rightful.ledger": ("Ledger", "open"),
    "rightful.errors": ("InvalidEventError", "RightfulError"),
    "rightful.identity": ("composite_key", "event_id"),
    "rightful.log.rows": ("RawEvent", "Receipt", "Recorded"),
    "rightful.field_types": ("ArmShown",),
    "rightful.policies": ("Policy",),
    "rightful.recording.producer": ("Producer",),
    "rightful.projections.credit.posteriors": ("Posteriors",),
    "rightful.reports.beta_math.beta": ("compare",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(importlib.import_module(_HOME_OF.get(name, "rightful.events")), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
