"""A bounded search for transcripts in the folders of the tools; each file is read once for all sessions.

The result does not depend on the order of a folder's entries, or on file times.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from rightful import limits
from rightful.importers.sources.text_files import opened
from rightful.locate import layouts
from rightful.locate.evidence import FileEvidence, evidence_of
from rightful.locate.layouts import Root

Progress = Callable[[int], object]
"""Called with the number of files read since the last call."""

_WHOLE = frozenset({"transcript", "stream", "rollout", "events", "conversation"})


class Pointer(NamedTuple):
    """A small file with the path of a session's transcript.

    Attributes:
        path: The pointer file.
        tool: The tool of that transcript.
        session: The session in its file name, as its launcher calls it.
        target: The path in it; None if it contains none.
        found: The path of its transcript; None if that does not exist.
        is_ours: Whether it belongs to the searching user or to root; in a shared folder any user can write one.
        moved: Whether the named file is missing and `found` only has the same name.
    """

    path: str
    tool: str
    session: str
    target: str | None
    is_ours: bool = True
    found: str | None = None
    moved: bool = False


class Scan(NamedTuple):
    """What a search found.

    Attributes:
        files: The transcripts, by path.
        pointers: The pointer files, in the order of their paths.
        problems: Folders that could not be read, each with why.
        is_partial: Whether a limit ended the search, so there may be more.
        passed: The number of other files in the folders, which were skipped.
    """

    files: dict[str, FileEvidence]
    pointers: tuple[Pointer, ...]
    problems: tuple[str, ...]
    is_partial: bool
    passed: int = 0


def scan_folders(
    roots: Iterable[Root],
    *,
    extra: Iterable[str] = (),
    elsewhere: bool = False,
    on_progress: Progress = int,
) -> Scan:
    """Search folders for transcripts and pointers.

    Symbolic links below a root are not followed, and reading never blocks. If the folders replace those of the
    tools, paths and names of transcripts do not matter: only the content of a file counts.

    Args:
        roots: The folders.
        extra: Further transcripts, in any folder.
        elsewhere: The folders replace the tools' own, as in a copy: the file that a pointer or a record names is
            searched only in them, by the end of its path.
        on_progress: Called with the number of files read since the last call.
    """
    problems: list[str] = []
    is_possible = layouts.may_be_transcript if elsewhere else layouts.is_transcript
    paths, pointer_paths, count, is_partial = _list_paths(roots, problems, is_possible)
    files: dict[str, FileEvidence] = {}

    def read_transcript(path: str) -> None:
        on_progress(1)
        found = None if path in files else evidence_of(path, follow=False)
        if found is not None and found.form in _WHOLE:
            files[path] = found
        elif path in paths and not layouts.is_transcript(path):
            pass  # nothing says that it is one, so that it cannot be read leaves no doubt
        elif found is None and os.path.isfile(path) and not os.access(path, os.R_OK):  # noqa: PTH113 - text
            problems.append(f"{path} cannot be read by you")

    for path in sorted(paths):
        read_transcript(path)
    passed = count - len(pointer_paths) - len(files)
    pointers = [pointer for path in sorted(pointer_paths) if (pointer := _pointer(path)) is not None]
    targets = [pointer.target for pointer in pointers if pointer.target is not None]
    if not elsewhere:
        for target in sorted({layouts.real_path(path) for path in (*targets, *extra) if os.path.isabs(path)}):  # noqa: PTH117 - text, as everywhere here
            read_transcript(target)
    ends = _Ends(files)
    resolved = (_with_target(pointer, files, ends, elsewhere=elsewhere) for pointer in pointers)
    return Scan(files, tuple(resolved), tuple(problems), is_partial, passed)


class _Ends:
    """Transcripts by the end of their paths, for names that come from another machine or another place."""

    def __init__(self, files: dict[str, FileEvidence]) -> None:
        self._files = files
        self._by_name: dict[str, list[str]] = {}
        for path in files:
            self._by_name.setdefault(_end(path), []).append(path)

    def find(self, target: str, tool: str) -> str | None:
        """Return the only transcript whose path ends like this one; None where there is none, or several."""
        alike = [path for path in self._by_name.get(_end(target), ()) if self._files[path].tool == tool]
        return alike[0] if len(alike) == 1 else None


def _end(path: str) -> str:
    """Return the part of a path that names its session: for a conversation with its folder, else the file name."""
    folder, name = os.path.split(path)
    own = name in {"conversation.jsonl", "events.jsonl"}
    return f"{os.path.basename(folder)}/{name}" if own else name  # noqa: PTH119 - text


def _pointer(path: str) -> Pointer | None:
    named = layouts.pointer_of(path)
    if named is None:
        return None
    try:
        with opened(path, follow=False) as file:
            data = file.stream.read(limits.LOCATE_POINTER_BYTES + 1)
            owner = os.fstat(file.stream.fileno()).st_uid
    except OSError:
        return None
    text = os.fsdecode(data).strip()
    is_path = len(data) <= limits.LOCATE_POINTER_BYTES and text and "\0" not in text and "\n" not in text
    return Pointer(path, *named, text if is_path else None, is_ours=owner in {0, os.geteuid()})


def _with_target(pointer: Pointer, files: dict[str, FileEvidence], ends: _Ends, *, elsewhere: bool) -> Pointer:
    """Return a pointer with the path of its transcript, if that was found."""
    if pointer.target is None:
        return pointer
    normal = layouts.real_path(pointer.target)
    if normal in files:
        return pointer._replace(found=normal)
    found = ends.find(normal, pointer.tool)
    return pointer._replace(found=found, moved=found is not None and not elsewhere)


def _list_paths(
    roots: Iterable[Root], problems: list[str], is_possible: Callable[[str], bool]
) -> tuple[set[str], set[str], int, bool]:
    """Return possible transcripts, pointer files, the number of files, and whether a limit was reached."""
    paths: set[str] = set()
    pointer_paths: set[str] = set()
    seen: set[str] = set()
    listed: set[str] = set()
    budget = limits.WALK_ENTRIES
    is_partial = False
    for root in roots:
        real = os.path.realpath(root.path)
        if real in seen or not os.path.isdir(real):  # noqa: PTH112 - text
            continue
        seen.add(real)
        for path in _walk(real, root.depth, budget, problems, listed):
            budget -= 1
            if budget <= 0:
                is_partial = True
                problems.append(f"{root.path}: more than {limits.WALK_ENTRIES} entries; the rest was not searched")
                break
            if layouts.pointer_of(path) is not None:
                pointer_paths.add(path)
            elif is_possible(path):
                paths.add(path)
    if len(paths) > limits.LOCATE_FILES:
        is_partial = True
        problems.append(
            f"more than {limits.LOCATE_FILES} transcripts; {len(paths) - limits.LOCATE_FILES} were not read"
        )
        paths = set(sorted(paths, key=lambda path: (not layouts.is_transcript(path), path))[: limits.LOCATE_FILES])
    return paths, pointer_paths, limits.WALK_ENTRIES - budget, is_partial


def _walk(folder: str, depth: int, limit: int, problems: list[str], listed: set[str]) -> Iterator[str]:
    """Yield the regular files in and below a folder, except in folders already listed; links are skipped."""
    waiting = [(folder, depth)]
    while waiting:
        current, left = waiting.pop()
        try:
            with os.scandir(current) as listing:
                entries = sorted(islice(listing, limit), key=lambda entry: entry.name)
            folders = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
            if current not in listed:
                listed.add(current)
                yield from (entry.path for entry in entries if entry.is_file(follow_symlinks=False))
        except OSError as error:
            problems.append(f"{current} could not be read: {error.strerror}")
            continue
        if left > 1:
            waiting.extend((path, left - 1) for path in reversed(folders))
