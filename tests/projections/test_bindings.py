from __future__ import annotations

from tests.ledger.memory import *  # noqa: F403
