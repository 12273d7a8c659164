"""The pages of a store's map that count as this process's memory, though the system can take them back at any time.

LMDB reads through one map of the whole file, so that who writes much has nearly all of it resident in the
end: 1 GB of transcripts made a process of 1 GB, of which 42 MB were its own. Where that is counted against
it (a container's statistics, a watchdog, a person who looks), it is better taken out of the process now
and then. Nothing is lost by it: what is read again comes from the system's cache.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from rightful import limits

_MAPS, _STATM = "/proc/self/maps", "/proc/self/statm"
_DONT_NEED = 4  # MADV_DONTNEED; of a shared map it only takes pages out of the process


def give_back(file: Path) -> None:
    """Take the pages of a file's shared maps out of this process, if it has `limits.RESIDENT_BYTES` of files in it.

    Where the system has no such call, and where it refuses, nothing is done: it is a courtesy.
    """
    if sys.platform != "linux" or _resident() < limits.RESIDENT_BYTES:
        return
    import ctypes

    with contextlib.suppress(OSError, ValueError, AttributeError):
        advise = ctypes.CDLL(None).madvise
        for start, end in _maps(os.fsencode(file)):
            advise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _DONT_NEED)


def _resident() -> int:
    """Return how much of files this process has resident; bytes."""
    try:
        pages = int(Path(_STATM).read_bytes().split()[2])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _maps(name: bytes) -> list[tuple[int, int]]:
    """Return where a file is mapped and shared; addresses."""
    found = []
    for line in Path(_MAPS).read_bytes().splitlines():
        fields = line.split(b" ", 5)
        if line.endswith(b" " + name) and fields[1].endswith(b"s"):
            start, _, end = fields[0].partition(b"-")
            found.append((int(start, 16), int(end, 16)))
    return found
