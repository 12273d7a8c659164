"""Release the resident pages of a store's map, which count as this process's memory although they are only cache.

LMDB reads through one map of the whole file, so a process that writes much has nearly all of it resident in the
end: 1 GB of transcripts made a process of 1 GB, of which 42 MB were its own. Container statistics, watchdogs and
people count those pages as memory of the process, so they are released now and
then. No data is lost: a later read gets them from the system's cache.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from rightful import limits

_MAPS, _STATM = "/proc/self/maps", "/proc/self/statm"
_DONT_NEED = 4  # MADV_DONTNEED; a shared map only loses the process's pages


def give_back(file: Path) -> None:
    """Release the pages of a file's shared maps, if this process has `limits.RESIDENT_BYTES` of files resident.

    Does nothing where the system has no such call or refuses it, since this is only an optimisation.
    """
    if sys.platform != "linux" or _resident() < limits.RESIDENT_BYTES:
        return
    import ctypes

    with contextlib.suppress(OSError, ValueError, AttributeError):
        advise = ctypes.CDLL(None).madvise
        for start, end in _maps(os.fsencode(file)):
            advise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _DONT_NEED)


def _resident() -> int:
    """Return how many bytes of files this process has resident."""
    try:
        pages = int(Path(_STATM).read_bytes().split()[2])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _maps(name: bytes) -> list[tuple[int, int]]:
    """Return the address ranges at which a file is mapped shared."""
    found = []
    for line in Path(_MAPS).read_bytes().splitlines():
        fields = line.split(b" ", 5)
        if line.endswith(b" " + name) and fields[1].endswith(b"s"):
            start, _, end = fields[0].partition(b"-")
            found.append((int(start, 16), int(end, 16)))
    return found
