"""Find the transcript that a run's tool wrote, right after the run.

The strongest evidence decides, as everywhere (design of the ledger, *ownership*):

| evidence | when |
|---|---|
| `native-id` | the tool was started with this id, and the file contains it |
| `sentinel` | the first user turn begins with the marker in the command's own arguments |
| `pointer` | a pointer file in the run's private folder refers to it, and its content does not contradict that |
| `directory` | it is the only conversation in the run's own log folder, and began during the run |
| `cwd-window` | it is the tool's only session that began in this folder during the run, and no other run was there |

Without such evidence a file is only a candidate, and the reason is recorded. A file's modification time is
never evidence.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from rightful import limits, times
from rightful.field_types import Evidence, Relation
from rightful.identity import is_session
from rightful.importers.sources.text_files import opened
from rightful.locate.evidence import FileEvidence, Hashed, evidence_of, hashed, sentinel_in
from rightful.locate.layouts import pointer_of, real_path
from rightful.runs.run_identity import ToolSetup

_MAIN = frozenset({"transcript", "rollout", "events", "conversation"})
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_DAY_US = 86_400_000_000
_CLOCKS_US = 2_000_000  # the resolution of a file system's times may be this coarse


class FinishedRun(NamedTuple):
    """The facts about a run that select its transcript.

    Attributes:
        harness: Its tool; None if unknown.
        own: Its own session id and log folder.
        words: The command as the user entered it.
        environment: Its environment.
        temp: Its private folder.
        cwd: Its working folder.
        began_us: When it began; microseconds since 1970, UTC.
        ended_us: When it ended.
        others: The names of other runs in the same folder at the same time.
    """

    harness: str | None
    setup: ToolSetup
    words: Sequence[str]
    environment: Mapping[str, str]
    temp: Path
    cwd: Path
    began_us: int
    ended_us: int
    others: Sequence[str]


class OwnTranscript(NamedTuple):
    """A run's own transcript.

    Attributes:
        file: The facts read from the file.
        evidence: The evidence for the claim.
        native: The tool's name for the session; None if it has none.
        as_: The relation of that session to the run.
        content: Its length and hash.
    """

    file: FileEvidence
    evidence: Evidence
    native: str | None
    as_: Relation
    content: Hashed

    @property
    def uri(self) -> str:
        """The `file:` URI of the transcript."""
        return uri_of(self.file.path)


class TranscriptSearch(NamedTuple):
    """The result of the search.

    Attributes:
        owned: The run's own transcript; None without sufficient evidence.
        candidates: Files that may be the transcript.
        why: The reason why `own` is None.
    """

    own: OwnTranscript | None = None
    candidates: tuple[str, ...] = ()
    why: str | None = None


def uri_of(path: str) -> str:
    """Return the `file:` URI of a path with symbolic links resolved, as `locate` does."""
    return Path(real_path(os.path.abspath(path))).as_uri()  # noqa: PTH100 - text


def id_in_arguments(harness: str | None, words: Sequence[str]) -> tuple[str, Relation] | None:
    """Return the session named in the command's own arguments, and its relation to the run.

    Only Claude Code's `--session-id` and `--resume` contain a full id. The id of a fork is not known in advance.
    """
    if harness != "claude-code" or "--fork-session" in words:
        return None
    for word, after in zip(words, [*words[1:], ""], strict=True):
        name, is_whole, value = word.partition("=")
        if name in {"--session-id", "--resume", "-r"} and _UUID.fullmatch(value if is_whole else after):
            return value if is_whole else after, "native" if name == "--session-id" else "resume"
    return None


def find_transcript(run: FinishedRun) -> TranscriptSearch:
    """Search for the transcript of a run."""
    if (by_id := _by_id(run)) is not None:
        return by_id
    paths = islice((path for path in _files(run) if _was_written(path, run.began_us)), limits.RUN_FILES)
    files = [file for file in map(evidence_of, paths) if file is not None]
    mains = [file for file in files if file.form in _MAIN and file.tool == run.harness]
    markers = {mark.id for word in run.words if (mark := sentinel_in(word)) is not None}
    marked = [
        file for file in mains
        if file.sentinel is not None and file.sentinel.id in markers and file.sentinel.leads
        and file.inherits is None and _begins_in(run, file, unknown=True)
    ]  # fmt: skip
    if len(marked) == 1:
        return _own_transcript(marked[0], "sentinel")
    if (pointed := _by_pointer(run)) is not None:
        return pointed
    if run.setup.logs is not None:
        return _in_own_folder(run, mains)
    return _in_window(run, mains)


def _by_id(run: FinishedRun) -> TranscriptSearch | None:
    """Return the transcript with the id passed to the tool; None if no id was passed."""
    given = (run.setup.native_id, "native") if run.setup.native_id else id_in_arguments(run.harness, run.words)
    if given is None:
        return None
    native, as_ = given
    paths = sorted(_home(run, "CLAUDE_CONFIG_DIR", ".claude").glob(f"projects/*/{native}.jsonl"))
    files = [file for file in map(evidence_of, paths) if file is not None and file.native_id == native]
    if len(files) == 1 and files[0].agrees is not False:
        return _own_transcript(files[0], "native-id", as_=as_)  # type: ignore[arg-type]  # "native" or "resume"
    if files:
        return TranscriptSearch(
            None,
            tuple(file.path for file in files),
            f"more than one file, or one that says another id, is named {native}",
        )
    return TranscriptSearch(None, (), f"Claude Code left no transcript of the id {native} that it was given")


def _by_pointer(run: FinishedRun) -> TranscriptSearch | None:
    """Return the transcript that pointer files in the run's private folder refer to; None without pointers."""
    pointers = sorted(path for path in run.temp.glob("*") if pointer_of(str(path)) is not None)  # it may be gone
    paths = dict.fromkeys(path for pointer in pointers if (path := _target(pointer)))
    files = [file for file in map(evidence_of, paths) if file is not None]
    fitting = [file for file in files if not _contradicts(run, file)]
    if len(fitting) == 1:
        return _own_transcript(fitting[0], "pointer")
    if not paths:
        return None
    why = "pointers lead to several transcripts" if fitting else "what a pointer leads to is gone, or is another run's"
    return TranscriptSearch(None, tuple(file.path for file in files), why)


def _target(pointer: Path) -> str | None:
    try:
        with opened(str(pointer)) as file:
            path = os.fsdecode(file.stream.read(limits.LOCATE_POINTER_BYTES)).strip()
    except OSError:
        return None
    return path if os.path.isabs(path) and "\0" not in path else None  # noqa: PTH117 - text of a file


def _contradicts(run: FinishedRun, file: FileEvidence) -> bool:
    """Return whether a file states another tool, folder or time than the run's."""
    if run.harness not in {None, file.tool} or file.inherits is not None:
        return True
    return (file.cwd is not None and not _is_same_folder(file.cwd, run.cwd)) or not _begins_in(run, file, unknown=True)


def _in_own_folder(run: FinishedRun, files: list[FileEvidence]) -> TranscriptSearch:
    fitting = [file for file in files if _begins_in(run, file, unknown=False) and file.inherits is None]
    if len(fitting) == 1:
        return _own_transcript(fitting[0], "directory")
    candidates = tuple(file.path for file in files)
    if fitting:
        return TranscriptSearch(None, candidates, f"{len(fitting)} conversations began in the run's own log folder")
    if files:
        return TranscriptSearch(None, candidates, "what is in the run's own log folder began before the run")
    return TranscriptSearch(None, (), "the tool left nothing in the run's own log folder")


def _in_window(run: FinishedRun, files: list[FileEvidence]) -> TranscriptSearch:
    if run.harness is None:
        return TranscriptSearch(None, (), "which agent tool it was is not known; name it with --harness")
    fitting = [
        file for file in files
        if file.cwd is not None and _is_same_folder(file.cwd, run.cwd) and _begins_in(run, file, unknown=False)
    ]  # fmt: skip
    candidates = tuple(file.path for file in fitting)
    if not fitting:
        return TranscriptSearch(None, (), f"no session of {run.harness} began in this folder while the run was there")
    if len(fitting) > 1:
        return TranscriptSearch(
            None, candidates, f"{len(fitting)} sessions began in this folder while the run was there"
        )
    if run.others:
        return TranscriptSearch(None, candidates, f"other runs were in this folder meanwhile: {', '.join(run.others)}")
    if fitting[0].inherits is not None:
        return TranscriptSearch(None, candidates, "it begins with a copy of another session's lines")
    if (fitting[0].started_at_us or 0) > run.began_us + limits.LOCATE_WINDOW_S * 1_000_000:
        return TranscriptSearch(None, candidates, f"it began more than {limits.LOCATE_WINDOW_S} s after the run")
    return _own_transcript(fitting[0], "cwd-window")


def _begins_in(run: FinishedRun, file: FileEvidence, *, unknown: bool) -> bool:
    """Return whether a file's first timestamp is within the run. Tools write whole milliseconds."""
    if file.started_at_us is None:
        return unknown
    return run.began_us // 1_000 * 1_000 <= file.started_at_us <= run.ended_us


def _is_same_folder(text: str, folder: Path) -> bool:
    try:
        return Path(text).resolve() == folder.resolve()
    except (OSError, ValueError, RuntimeError):
        return False


def _own_transcript(file: FileEvidence, evidence: Evidence, as_: Relation = "native") -> TranscriptSearch:
    name = f"{file.tool}:{file.native_id}"
    native = name if file.native_id and is_session(name) else None
    try:
        return TranscriptSearch(OwnTranscript(file, evidence, native, as_, hashed(file.path)))
    except OSError as error:
        return TranscriptSearch(None, (file.path,), f"it cannot be read: {error.strerror}")


def _files(run: FinishedRun) -> Iterator[Path]:
    """Yield the files that may be the run's transcript."""
    match run.harness:
        case "claude-code":
            yield from _home(run, "CLAUDE_CONFIG_DIR", ".claude").glob("projects/*/*.jsonl")
        case "codex":
            sessions = _home(run, "CODEX_HOME", ".codex") / "sessions"
            days = {times.at_of(at).strftime("%Y/%m/%d") for at in _days(run)}
            yield from chain.from_iterable((sessions / day).glob("rollout-*.jsonl") for day in sorted(days))
        case "copilot":
            yield from _home(run, "COPILOT_HOME", ".copilot").glob("session-state/*/events.jsonl")
        case "gptme":
            yield from _gptme_logs(run).glob("*/conversation.jsonl")
        case _:
            return


def _was_written(path: Path, began_us: int) -> bool:
    """Return whether a file may have been written since the run began. Other files are excluded; it is not evidence."""
    try:
        return path.stat().st_mtime_ns // 1_000 >= began_us - _CLOCKS_US
    except OSError:
        return False


def _days(run: FinishedRun) -> Iterator[int]:
    """Yield a time in each day of a run and in the days around it, since Codex names folders by local days."""
    at = run.began_us - _DAY_US
    while at <= run.ended_us + 2 * _DAY_US:
        yield at
        at += _DAY_US


def _gptme_logs(run: FinishedRun) -> Path:
    if run.setup.logs is not None:
        return run.setup.logs
    if named := run.environment.get("GPTME_LOGS_HOME"):
        return Path(named)
    data = run.environment.get("XDG_DATA_HOME")
    return (Path(data) if data else _home_folder(run) / ".local" / "share") / "gptme" / "logs"


def _home(run: FinishedRun, variable: str, folder: str) -> Path:
    named = run.environment.get(variable)
    return Path(named) if named else _home_folder(run) / folder


def _home_folder(run: FinishedRun) -> Path:
    named = run.environment.get("HOME")
    return Path(named) if named else Path.home()
