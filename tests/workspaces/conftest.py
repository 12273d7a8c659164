"""The command line's fixtures."""

from tests.cli.conftest import here, ledger, run

__all__ = ["here", "ledger", "run"]
