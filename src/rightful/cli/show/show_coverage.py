"""Coverage for people: a row a producer and day, columns of nothing left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rightful.cli.output import tables, terminal

if TYPE_CHECKING:
    from rightful.reports.session_coverage import Day

_BAR_CHARS = 5
_HIGHEST = 8


def show(rows: list[Day], days: int, policy: str) -> None:
    """Print the last days.

    Args:
        rows: All rows, by producer and day.
        days: How many days are shown; 0 for all.
        policy: What the policy of the bins is called.
    """
    from rightful.projections.credit.inputs import BINS
    from rightful.reports.session_coverage import MEASURES, newest

    kept = sorted(newest(rows, days), key=lambda row: (row.day, row.producer))
    measures = [name for name in MEASURES if any(getattr(row, name) for row in kept)]
    transcripts = ["transcripts"] * any(row.transcripts.keys() - {"unknown"} for row in kept)
    bins = [name for name in BINS if any(name in row.bins for row in kept)]
    columns = {"day": "", "producer": "", "sessions": "n"}
    columns |= dict.fromkeys(measures, "with")
    columns |= dict.fromkeys(transcripts, "complete")
    columns |= {name.replace("_", "-"): "grades" for name in bins}
    cells = [
        [
            row.day if row.complete else f"{row.day} (so far)",
            row.producer,
            f"{row.sessions:,}",
            *(_share(*row.measured(name)) for name in measures),
            *(_share(*row.measured("transcript")) if row.transcripts.keys() - {"unknown"} else "" for _ in transcripts),
            *(f"{row.bins[name]:,}" if name in row.bins else "" for name in bins),
        ]
        for row in kept
    ]
    left = len({row.day for row in rows}) - len({row.day for row in kept})
    more = f"{terminal.plural(left, 'earlier day')}; --days 0 or --json shows all" if left else ""
    counted = "a session counts under each of its names" if "binding" in measures else ""
    note = "; ".join(part for part in (f"bins under policy {policy}", counted, more) if part)
    tables.show_table(columns, cells, title="Coverage", note=note)


def show_transcripts(rows: list[Day]) -> None:
    """Say of how many sessions the transcript is complete, incomplete or unknown, if there is any."""
    from rightful.reports.session_coverage import transcripts

    counts = transcripts(rows)
    if any(counts.values()):
        said = ", ".join(f"{number:,} {state}" for state, number in counts.items())
        why = " Unknown: nothing counts what was said, so a gap would not show." if counts["unknown"] else ""
        terminal.wrap_stdout(f"\nTranscripts of {terminal.plural(sum(counts.values()), 'session')}: {said}.{why}")


def _share(part: int, whole: int) -> str:
    """Return a count, its share and a bar of it; nothing of nothing is nothing."""
    if not whole:
        return ""
    share = part / whole
    text = f"{part:,} {share:>4.0%}"
    return f"{text} {_bar(share)}" if tables.draws() else text


def _bar(share: float) -> str:
    eighths = round(share * _BAR_CHARS * _HIGHEST)
    whole, rest = divmod(eighths, _HIGHEST)
    return ("█" * whole + (" ▏▎▍▌▋▊▉"[rest] if rest else "")).ljust(_BAR_CHARS, "·")
