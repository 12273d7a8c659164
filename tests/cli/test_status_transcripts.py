"""How many transcripts are complete, and the warning when they become fewer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cli.conftest import Run

import rightful

DAY = 86_400


def turn(session: str, at: float, *, whole: bool = True, counts: bool = True) -> list[dict[str, Any]]:
    """Return a turn of three messages, or of two of them."""
    common = {"producer": "my-runner", "session": session, "turn": "1", "at": rightful_time(at)}
    said = [
        common | {"type": "message.recorded", "key": f"{session} {index}", "role": "user", "index": index}
        for index in range(3)
    ]
    end = common | {"type": "turn.ended", "key": f"{session} end"} | ({"event_count": 3} if counts else {})
    return [said[0], said[2], end] if not whole else [*said, end]


def rightful_time(at: float) -> str:
    return f"1970-01-{int(at // DAY) + 1:02d}T00:00:{int(at % DAY):02d}Z"


def fill(ledger: Path, whole: list[int], sessions: int = 10) -> None:
    """Days of so many sessions, of which so many have their whole transcript; then one more, when all is recorded."""
    events: list[dict[str, Any]] = []
    for day, have in enumerate(whole):
        for at in range(sessions):
            events += turn(f"t:{day}-{at}", day * DAY + 5, whole=at < have)
    events += turn("t:last", len(whole) * DAY + 5, counts=False)
    with rightful.open(ledger, clock=lambda: (len(whole) * DAY + 9) * 1_000_000) as held:
        held.append(events)


def test_status_counts_complete_incomplete_and_unknown_transcripts(run: Run, ledger: Path) -> None:
    fill(ledger, [10, 6])

    document = run("status", "--json").document

    assert document["transcripts"] == {"complete": 16, "incomplete": 4, "unknown": 1}
    assert [row["transcripts"] for row in document["coverage"]] == [
        {"complete": 10},
        {"complete": 6, "incomplete": 4},
        {"unknown": 1},
    ]


def test_people_see_them_in_a_sentence_and_a_column(run: Run, ledger: Path) -> None:
    fill(ledger, [10, 9])

    lines = run("status").out.splitlines()

    assert (
        "Transcripts of 21 sessions: 19 complete, 1 incomplete, 1 unknown. Unknown: nothing counts what was said, "
        "so a gap would not show."
    ) in lines
    heading = next(at for at, line in enumerate(lines) if "producer" in line)
    assert lines[heading - 1].split() == ["sessions", "transcripts"]
    rows = [line.split() for line in lines if line.strip().startswith("1970")]
    assert rows[1][:5] == ["1970-01-02", "my-runner", "10", "9", "90%"]


def test_a_share_of_what_nobody_counts_is_left_out(run: Run, ledger: Path) -> None:
    with rightful.open(ledger) as held:
        held.append(turn("t:last", 5, counts=False))
    out = run("status").out

    assert "Transcripts of 1 session: 0 complete, 0 incomplete, 1 unknown." in out
    assert "transcripts" not in out
    assert "0%" not in out


def test_a_drop_of_what_is_complete_is_a_warning_and_the_check_says_no(run: Run, ledger: Path) -> None:
    fill(ledger, [10, 7])

    [alarm] = run("status", "--json").document["warnings"]

    said = "my-runner on 1970-01-02: 7 of 10 transcripts are complete (70%); the median of the 1 day before is 100%."
    assert (alarm["kind"], alarm["what"]) == ("transcript-drop", said)
    assert (alarm["share"], alarm["median"]) == (0.7, 1.0)
    assert run("status", "--check").code == 1


def test_sessions_without_a_transcript_are_no_drop(run: Run, ledger: Path) -> None:
    """Nine of ten sessions of the second day have no transcript at all, and too few are left to judge."""
    fill(ledger, [10])
    shown = [
        {"type": "exposure.recorded", "producer": "my-runner", "key": f"e{at}", "session": f"t:e{at}", "arms": []}
        | {"at": rightful_time(DAY + 5)}
        for at in range(10)
    ]
    with rightful.open(ledger, clock=lambda: 3 * DAY * 1_000_000) as held:
        held.append([*shown, shown[0] | {"key": "later", "at": rightful_time(3 * DAY)}])

    document = run("status", "--json").document

    assert [one["kind"] for one in document["warnings"]] == []
    assert document["transcripts"] == {"complete": 10, "incomplete": 0, "unknown": 1}


def test_a_ledger_without_transcripts_says_nothing_of_them(run: Run, ledger: Path) -> None:
    assert "ranscript" not in run("status").out
