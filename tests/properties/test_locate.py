"""Whose a transcript is depends on no order and no file's time; and no transcript ever has two owners."""

from __future__ import annotations

import os
import random
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.amounts import examples
from tests.importers import transcript_writers as write
from tests.locate.searching import WRITERS, pointer, run

from rightful import times
from rightful.locate import find_transcripts
from rightful.locate.layouts import Root
from rightful.locate.ownership_claims import Index, group_of
from rightful.locate.ranks import Rank
from rightful.locate.scan import Scan, scan_folders
from rightful.locate.verdicts import Answer, OwnershipResolver
from rightful.locate.wanted_sessions import WantedSession

UUIDS = [f"b381dcfa-da0b-5cf5-849f-5787aaac92{n:02d}" for n in range(3)]
LABELS = ["41c2", "36d9", *UUIDS[:2]]
START_US = times.us_from("2026-08-01T10:15:00Z")

_times = st.integers(-2, 8).map(lambda half: START_US + half * 500_000)
_files = st.fixed_dictionaries(
    {
        "tool": st.sampled_from(list(WRITERS)),
        "native": st.sampled_from(UUIDS),
        "at": _times,
        "mark": st.none() | st.sampled_from(LABELS),
        "quoted": st.booleans(),
        "pointed": st.none() | st.sampled_from(LABELS),
    }
)
_runs = st.fixed_dictionaries(
    {
        "label": st.sampled_from(LABELS),
        "at": _times,
        "tool": st.none() | st.sampled_from(list(WRITERS)),
        "cwd": st.none() | st.just(write.CWD),
        "native": st.none() | st.tuples(st.sampled_from(UUIDS), st.sampled_from([Rank.NATIVE, Rank.POINTER])),
    }
)


def make(root: Path, files: list[dict[str, Any]]) -> None:
    for one in files:
        prompt = "Fix it" if one["mark"] is None else write.marker(one["mark"], one["tool"])
        prompt = f"Look: {prompt}" if one["quoted"] else prompt
        path = WRITERS[one["tool"]](root, one["native"], times.text_of(one["at"]), prompt)
        if one["pointed"] is not None:
            name = {"gptme": "gptme-traj-%s.path", "claude-code": "cc-session-log-ref-%s.txt"}.get(one["tool"])
            if name is not None:
                pointer(root, name % one["pointed"], path)


def sessions(runs: list[dict[str, Any]]) -> dict[str, WantedSession]:
    found = {}
    for of in runs:
        one = run(of["label"], times.text_of(of["at"]), tool=of["tool"], cwd=of["cwd"])
        if of["native"] is not None:
            one.natives = {f"{of['tool'] or 'codex'}:{of['native'][0]}": of["native"][1]}
        found[one.name] = one
    return found


def judged(scanned: Scan, of: dict[str, WantedSession]) -> dict[str, Answer]:
    resolver = OwnershipResolver(Index(scanned, of.values()), of, {}, find_transcripts._have_equal_bytes)
    return {name: resolver.answer(name) for name in sorted(of)}


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(files=st.lists(_files, max_size=6), runs=st.lists(_runs, min_size=1, max_size=4), seed=st.integers(0, 2**32))
def test_order_and_file_times_do_not_matter_and_no_file_has_two_owners(
    files: list[dict[str, Any]], runs: list[dict[str, Any]], seed: int
) -> None:
    shuffle = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve()
        make(root, files)
        scanned = scan_folders([Root(str(root), 8)], elsewhere=True)
        first = judged(scanned, sessions(runs))
        for path in root.rglob("*"):
            os.utime(path, (shuffle.randrange(2**31),) * 2)
        paths = list(scanned.files.values())
        again = scan_folders([Root(str(root), 8)], elsewhere=True)
        shuffle.shuffle(paths)
        mixed = Scan({one.path: one for one in paths}, again.pointers[::-1], (), False)
        others = runs.copy()
        shuffle.shuffle(others)
        assert again == scanned
        ordered = {one.name: one for one in sessions(runs).values()}
        items = list(ordered.items())
        shuffle.shuffle(items)
        assert judged(mixed, dict(items)) == first
        owned = [group_of(one.owner.file) for one in first.values() if one.owner is not None]
        assert len(owned) == len(set(owned))
