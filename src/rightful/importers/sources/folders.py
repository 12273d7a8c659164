"""Find the files of a folder to import.

Symbolic links are followed for a path that the user named, and are not followed inside a folder.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from rightful import limits
from rightful.importers.sources import sqlite_databases
from rightful.importers.sources.text_files import COMPRESSED, Problem

SUFFIXES = (".json", ".jsonl")
"""Suffixes of the files that are searched for in a folder; a file that the user names may have any name."""

_LOG = ("cc-session-", ".log")  # prefix and suffix of the stream logs of Claude Code that runners write

_MAIN = "conversation.jsonl"  # gptme's transcript; its event log and its checkpoints are in the same folder
_READ_WITH = {"config.toml": _MAIN, "summary.json": "chat_history.jsonl"}
"""Files that are read with another file of their folder: gptme's configuration, and the summary in Grok's store."""

_PACKED = ".jsonl.zst"  # suffix of a rollout that Codex compressed (codex-rs/rollout/src/compression.rs)

_OTHERS = {".git": "git's own files", "node_modules": "third-party packages"}
_LEDGER = frozenset({"ledger.lock", "store"})


def walk(
    folder: str,
    *,
    limit: int = limits.WALK_ENTRIES,
    others: Counter[str] | None = None,
    databases: bool = False,
) -> Iterator[str | tuple[str, Problem]]:
    """Yield the JSON files and stream logs below a folder in order, and the skipped entries.

    Files are ordered by name, but a tool's own transcript comes before other files of the same session: stream logs
    come last, and gptme's conversation comes before the files next to it and below it. Records without an index are
    ordered by position in a transcript, so they must be read in this order.

    Links are not followed, so there are no loops and nothing outside the folder is read.

    Args:
        folder: Where to begin.
        limit: The largest number of entries to examine.
        others: Counts the files that are not opened, by the suffix of their names.
        databases: Whether to search for databases too.

    Yields:
        A file's path, or a path and why it was not read.
    """
    logs: list[str] = []
    seen = 0
    waiting = [folder]
    while waiting:
        current = waiting.pop()
        entries = _entries(current, limit - seen + 1)
        if isinstance(entries, Problem):
            yield current, entries
            continue
        for entry in entries:
            seen += 1
            if seen > limit:
                yield folder, Problem(None, f"more than {limit} entries; the rest was not read")
                yield from logs
                return
            if entry.is_dir(follow_symlinks=False):
                if entry.name in _OTHERS:
                    yield entry.path, Problem(None, f"{_OTHERS[entry.name]}; not searched", lost=False)
            elif is_opened(entry.name, databases=databases) or entry.name.endswith(_PACKED):
                item = _file(entry)
                if isinstance(item, str) and item.endswith(_LOG[1]):
                    logs.append(item)
                else:
                    yield item
            elif others is not None:
                others[os.path.splitext(entry.name)[1]] += 1  # noqa: PTH122 - a name is counted, no path is built
        folders = (entry for entry in reversed(entries) if entry.is_dir(follow_symlinks=False))
        waiting.extend(entry.path for entry in folders if entry.name not in _OTHERS)
    yield from logs


def order_of(path: str) -> tuple[bool, str, bool, str]:
    """Return the sort key that orders changed files as `walk` does."""
    folder, _, name = path.rpartition("/")
    return name.endswith(_LOG[1]), folder, name != _MAIN, name


def is_opened(name: str, *, databases: bool = False) -> bool:
    """Return whether a file of a folder is opened, by its name."""
    if databases and name.endswith(sqlite_databases.SUFFIXES):
        return True
    return name.endswith(SUFFIXES) or (name.startswith(_LOG[0]) and name.endswith(_LOG[1]))


def would_walk(folder: str, path: str, *, databases: bool = False) -> bool:
    """Return whether `walk` would yield this file of the folder, or search this folder in it.

    Args:
        folder: Where the walk would begin.
        path: A path somewhere below it.
        databases: Whether `walk` searches for databases too.
    """
    own, root = Path(path), Path(folder)
    if root not in own.parents:
        return False
    below = [own, *(above for above in own.parents if root in above.parents)]
    if any(part.name in _OTHERS or part.is_symlink() for part in below):
        return False
    if own.name in _READ_WITH and own.with_name(_READ_WITH[own.name]).exists():
        return False
    if not own.is_dir() and not (is_opened(own.name, databases=databases) and own.is_file()):
        return False
    return not any(all((part / name).exists() for name in _LEDGER) for part in (*below, root))


def _entries(folder: str, most: int) -> list[os.DirEntry[str]] | Problem:
    """Return the first entries of a folder in order, or why it is not searched."""
    try:
        with os.scandir(folder) as listing:
            entries = sorted(islice(listing, most), key=lambda entry: (entry.name != _MAIN, entry.name))
    except OSError as error:
        return Problem(None, f"could not be read: {error.strerror}")
    names = {entry.name for entry in entries}
    if names >= _LEDGER:
        return Problem(None, "a ledger; not searched", lost=False)
    return [entry for entry in entries if _READ_WITH.get(entry.name) not in names]


def _file(entry: os.DirEntry[str]) -> str | tuple[str, Problem]:
    if entry.is_symlink():
        return entry.path, Problem(None, "a symbolic link; not followed inside a folder", lost=False)
    if not entry.is_file(follow_symlinks=False):
        return entry.path, Problem(None, "not a regular file; not read", lost=False)
    if entry.name.endswith(_PACKED):
        return entry.path, Problem(None, COMPRESSED, lost=False)
    return entry.path
