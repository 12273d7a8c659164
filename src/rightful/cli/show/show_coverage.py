"""Text output of coverage: a row per producer and day; columns without a count are omitted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rightful.cli.output import tables, terminal

if TYPE_CHECKING:
    from rightful.reports.session_coverage import Day

_BAR_CHARS = 5
_EIGHTHS = 8  # of a character, the step of a bar


def show(rows: list[Day], days: int, policy: str) -> None:
    """Print the last `days` days (all if 0), with the bins under the policy of that title."""
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
    """Print how many transcripts are complete, incomplete or unknown, if there are any."""
    from rightful.reports.session_coverage import transcripts

    counts = transcripts(rows)
    if any(counts.values()):
        states = ", ".join(f"{number:,} {state}" for state, number in counts.items())
        why = " Unknown: nothing counts what was said, so a gap would not show." if counts["unknown"] else ""
        terminal.wrap_stdout(f"\nTranscripts of {terminal.plural(sum(counts.values()), 'session')}: {states}.{why}")


def _share(part: int, whole: int) -> str:
    """Return a count, its share and a bar; an empty text if `whole` is 0."""
    if not whole:
        return ""
    text = f"{part:,} {part / whole:>4.0%}"
    full, rest = divmod(round(part / whole * _BAR_CHARS * _EIGHTHS), _EIGHTHS)
    bar = ("█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "")).ljust(_BAR_CHARS, "·")
    return f"{text} {bar}" if tables.draws() else text
