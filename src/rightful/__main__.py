"""`python -m rightful` is the command line."""

from __future__ import annotations

import sys

from rightful.cli import main

sys.exit(main())
