"""The import path of version 0.1, kept for one version: use `rightful.errors`."""

from rightful.errors import (
    BacklogError,
    CompactionRefusedError,
    HandoffMismatchError,
    IncompleteTranscriptError,
    NothingToTakeError,
    NotJsonError,
    RunDiffersError,
    SessionClosedError,
    StaleTokenError,
    VoidTokenError,
)

__all__ = [
    "BacklogError",
    "CompactionRefusedError",
    "HandoffMismatchError",
    "IncompleteTranscriptError",
    "NotJsonError",
    "NothingToTakeError",
    "RunDiffersError",
    "SessionClosedError",
    "StaleTokenError",
    "VoidTokenError",
]
