"""`python -m tests.contracts.openai_agents`: run the Agents SDK's own suites on our session, and compare."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

from tests.contracts.openai_agents import fetching, running, telling
from tests.contracts.openai_agents.comparing import Comparison, compare
from tests.contracts.openai_agents.suites import PINNED, Expected, SuiteError, chosen, expected

_CACHE = fetching.ROOT / ".venv" / "openai-agents"  # below a folder that is never committed
_MEMORY = Path("/dev/shm")  # thousands of small ledgers are quicker in memory, where there is such a folder


def main(words: list[str] | None = None) -> int:
    """Run the suites; 0 when what fails is what the list says, 1 when not, 2 or 4 when nothing was compared."""
    args = _parser().parse_args(words)
    try:
        known = expected()
        found = _compared(args, known)
    except SuiteError as error:
        _say(str(error))
        return error.exit_code
    lines = [*telling.table(found), "", *telling.verdict(found, known)]
    told = json.dumps({"sdk": args.version} | found.document()) if args.json else "\n".join(lines)
    sys.stdout.write(f"{told}\n")
    return 0 if found.ok else 1


def _compared(args: argparse.Namespace, known: Expected) -> Comparison:
    files = chosen(args.only)
    python = fetching.environment(args.venv or _CACHE / args.version, args.version)
    sdist = args.sdist or fetching.download(python, args.version, _CACHE / "sdist")
    with tempfile.TemporaryDirectory(prefix="rightful-suites-", dir=_MEMORY if _MEMORY.is_dir() else None) as name:
        scratch = Path(name)
        tests = fetching.unpack(sdist, scratch / "sdk")
        here = [file for file in files if (tests / file).exists()]
        _say(f"the SDK's own stores: {len(here)} files")
        base = running.run(python, tests, here, ours=False, scratch=scratch, workers=args.workers)
        _say(f"our store: the same, {len(base)} tests")
        ours = running.run(python, tests, here, ours=True, scratch=scratch, workers=args.workers)
    return compare(files, base, ours, known)


def _say(what: str) -> None:
    sys.stderr.write(f"{what}\n")
    sys.stderr.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.contracts.openai_agents", description=__doc__)
    parser.add_argument("only", nargs="*", help="run only the suites whose path contains one of these words")
    parser.add_argument("--version", default=PINNED, help="version of openai-agents (default: %(default)s)")
    parser.add_argument("--sdist", type=Path, help="its source distribution, if you have it; else it is downloaded")
    parser.add_argument("--venv", type=Path, help=f"folder of the environment (default: below {_CACHE.parent.name})")
    parser.add_argument("--workers", type=int, default=min(os.cpu_count() or 1, 4), help="processes of pytest-xdist")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    return parser


if __name__ == "__main__":
    sys.exit(main())
