"""Verify bound transcripts: compare the bound hash with the present file."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Literal

import msgspec

from rightful import limits
from rightful.identity import split_session
from rightful.locate.evidence import hashed
from rightful.locate.find_transcripts import LedgerSessions, SearchFolders, path_of
from rightful.locate.scan import Progress, scan_folders
from rightful.locate.wanted_sessions import NATIVES
from rightful.projections.bindings import Binding

State = Literal["good", "grown", "changed", "moved", "deleted", "unreadable"]


class CheckedBinding(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one bound transcript.

    Attributes:
        binding: The binding.
        state: `good`; `grown`, which is also valid, because the bound bytes are its beginning; `changed`; `moved`;
            `deleted`; `unreadable`.
        path: Its present path, or its last one.
        why: The state as a sentence.
        others: Other sessions that it is bound to.
    """

    binding: Binding
    state: State
    path: str
    why: str
    others: tuple[str, ...] = ()

    @property
    def is_good(self) -> bool:
        """Whether the bound bytes are in place, and bound to no other session."""
        return self.state in {"good", "grown"} and not self.others


def check(
    known: LedgerSessions, folders: SearchFolders, session: str | None = None, on_progress: Progress = int
) -> tuple[CheckedBinding, ...]:
    """Verify every bound transcript, or those of one session.

    Missing transcripts are searched by hash in these folders, within the limits of a search.

    Args:
        known: The ledger's sessions and bindings.
        folders: The folders.
        session: Only this session's.
        on_progress: Called with the number of files read since the last call.
    """
    bound = known.bindings.all() if session is None else known.bindings.of(session)
    disputed = known.bindings.disputed()
    found = [_check(binding, _others(known, binding, disputed.get(binding.uri, ()))) for binding in bound]
    gone = [checked for checked in found if checked.state == "deleted"]
    if not gone:
        return tuple(found)
    moved = _moved([checked.binding for checked in gone], folders, on_progress)
    return tuple(_as_moved(checked, moved) if checked.state == "deleted" else checked for checked in found)


def _others(known: LedgerSessions, binding: Binding, names: Iterable[str]) -> tuple[str, ...]:
    """Return the other sessions of a transcript; a run and its tool's name for it count as one."""
    mine = known.sessions[binding.session].natives if binding.session in known.sessions else {}
    native = split_session(binding.session)[0] in NATIVES
    others = []
    for name in names:
        theirs = known.sessions[name].natives if name in known.sessions else {}
        is_level = native == (split_session(name)[0] in NATIVES)
        if name != binding.session and name not in mine and binding.session not in theirs and is_level:
            others.append(name)
    return tuple(others)


def _as_moved(checked: CheckedBinding, moved: dict[tuple[str, int], str]) -> CheckedBinding:
    path = moved.get((checked.binding.sha256, checked.binding.bytes))
    if path is None:
        return checked
    return msgspec.structs.replace(checked, state="moved", path=path, why=f"it was moved from {checked.path}")


def _check(binding: Binding, others: tuple[str, ...]) -> CheckedBinding:
    path = path_of(binding.uri)
    if path is None:
        why = "it is not a file on this machine"
        return CheckedBinding(binding=binding, state="unreadable", path=binding.uri, why=why, others=others)
    state, why = _state(binding, path)
    if others:
        why = f"{why}; it is also bound to {', '.join(others)}"
    return CheckedBinding(binding=binding, state=state, path=path, why=why, others=others)


def _state(binding: Binding, path: str) -> tuple[State, str]:
    try:
        size = os.stat(path).st_size  # noqa: PTH116 - text, as a URI has it
        there = hashed(path, binding.bytes)
    except (FileNotFoundError, NotADirectoryError):
        return "deleted", "the file no longer exists"
    except OSError as error:
        return "unreadable", f"it cannot be read: {error.strerror}"
    if there.bytes < binding.bytes:
        return "changed", f"it has {there.bytes} bytes, and had {binding.bytes}"
    if there.sha256 != binding.sha256:
        return "changed", "its beginning differs from the bound bytes"
    if size > binding.bytes:
        return "grown", f"{size - binding.bytes} bytes were added"
    return "good", "it matches the bound bytes"


def _moved(gone: Iterable[Binding], folders: SearchFolders, on_progress: Progress) -> dict[tuple[str, int], str]:
    """Return the new paths of moved transcripts, by hash and length. Files with the same name are read first."""
    scan = scan_folders(folders.roots, elsewhere=True, on_progress=on_progress)
    left = limits.LOCATE_HASHED_BYTES
    found: dict[tuple[str, int], str] = {}
    for binding in gone:
        name = os.path.basename(path_of(binding.uri) or "")  # noqa: PTH119 - text, as a URI has it
        able = [
            (os.path.basename(file.path) != name, file.size, file.path)  # noqa: PTH119 - as above
            for file in scan.files.values()
            if file.size >= binding.bytes
        ]
        for _, _, path in sorted(able):
            if binding.bytes > left:
                break
            left -= binding.bytes
            try:
                there = hashed(path, binding.bytes)
            except OSError:
                continue
            if there == (binding.bytes, binding.sha256):
                found[binding.sha256, binding.bytes] = path
                break
    return found
