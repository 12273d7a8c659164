"""The fixtures of the importers' tests serve this room too."""

from __future__ import annotations

from tests.importers.conftest import gate, golden, imported, ledger, take

__all__ = ["gate", "golden", "imported", "ledger", "take"]
