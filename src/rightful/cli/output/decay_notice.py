"""A note for a default `--decay-at` that leaves almost nothing of the evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rightful import times
from rightful.cli.output import terminal
from rightful.policies import TimeDecay

if TYPE_CHECKING:
    import argparse

    from rightful.ledger import Ledger
    from rightful.policies import Policy

_FAR = 5  # half-lives after which 3% of the newest evidence is left
_US_PER_S = 1_000_000


def note_far(args: argparse.Namespace, ledger: Ledger, through: int, *policies: Policy) -> None:
    """Print a note if the default of `--decay-at` is many half-lives after the newest exposure.

    The default is the latest time of any row, and one row of a later time, such as the time of a
    file, makes all evidence old.

    Args:
        args: The options.
        ledger: The ledger, folded.
        through: The last position that counts.
        policies: The policies of the command.
    """
    half_lives_s = [policy.decay.half_life for policy in policies if isinstance(policy.decay, TimeDecay)]
    facts = ledger.projected().facts
    exposed_at_us = facts.shown["at"][facts.shown["pos"] <= through]
    if args.decay_at is not None or not half_lives_s or not len(exposed_at_us):
        return
    from rightful.projections.facts.log_clock import latest_at_us

    newest, latest = int(exposed_at_us.max()), latest_at_us(ledger.log, facts, through)
    half_lives = (latest - newest) / _US_PER_S / min(half_lives_s)
    if half_lives > _FAR:
        terminal.note_stderr(
            f"evidence is decayed as of {times.text_of(latest)}, the latest time of any row. The newest exposure is "
            f"from {times.text_of(newest)}, {half_lives:,.0f} half-lives earlier, so almost none of its evidence is "
            f"left. Use --decay-at to choose another time."
        )
