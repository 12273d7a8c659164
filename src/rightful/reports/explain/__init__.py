"""Explain: what every number rests on, for an arm, a session or an event.

Three questions, each answered from the facts and one settlement: `explain_arm` (every credit and
the belief after it), `explain_session` (its run, what it was shown, every grade and its bin, what
would have to be recorded) and `explain_event` (its row, its revisions, what used it).
"""

from __future__ import annotations

from rightful.reports.explain.explain_arm import ArmExplained, Step, explain_arm
from rightful.reports.explain.explain_event import EventExplained, Revision, explain_event, position_of
from rightful.reports.explain.explain_session import SessionExplained, explain_session
from rightful.reports.explain.explained_rows import ExposureRow, GradeRow
from rightful.reports.explain.phrases import WHY, Remedy

__all__ = [
    "WHY",
    "ArmExplained",
    "EventExplained",
    "ExposureRow",
    "GradeRow",
    "Remedy",
    "Revision",
    "SessionExplained",
    "Step",
    "explain_arm",
    "explain_event",
    "explain_session",
    "position_of",
]
