"""The suite that every recorder passes, beyond the library's own `DCBRecorderTestCase`.

A new recorder gets a class of its own that derives from `RecorderSuite` and gives a `place`.
"""

from __future__ import annotations

from tests.contracts.living import Living
from tests.contracts.reading import Reading
from tests.contracts.writing import Writing


class RecorderSuite(Writing, Reading, Living):
    """Facts about any recorder that stores plain events."""
