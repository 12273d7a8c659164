"""`python -m rightful` is the command line."""

from __future__ import annotations

import sys

try:
    from rightful.cli import main
except KeyboardInterrupt:
    sys.stderr.write("rightful: interrupted; nothing was done.\n")
    sys.exit(130)

sys.exit(main())
