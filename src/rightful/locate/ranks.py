"""How strong a claim on a transcript is; see docs/explanation/ownership.md."""

from __future__ import annotations

from enum import IntEnum

from rightful.field_types import Evidence


class Rank(IntEnum):
    """The kind of evidence for a claim; the lower, the stronger."""

    NATIVE = 1
    SENTINEL = 2
    POINTER = 3
    DIRECTORY = 4
    CWD = 5
    WEAK = 6


EVIDENCE: dict[str, Rank] = {
    "native-id": Rank.NATIVE,
    "manual": Rank.NATIVE,
    "sentinel": Rank.SENTINEL,
    "pointer": Rank.POINTER,
    "directory": Rank.DIRECTORY,
    "cwd-window": Rank.CWD,
}
"""The rank of each value of an event's `evidence`."""

WORDS: dict[Rank, Evidence] = {
    Rank.NATIVE: "native-id",
    Rank.SENTINEL: "sentinel",
    Rank.POINTER: "pointer",
    Rank.DIRECTORY: "directory",
    Rank.CWD: "cwd-window",
}
"""The `evidence` of each rank that can make an owner; `WEAK` has none."""
