"""Text output and JSON documents of `locate`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rightful.cli.output import tables, terminal

if TYPE_CHECKING:
    from rightful.backfill.reference_repair import Repair
    from rightful.locate.bind import BindingResult
    from rightful.locate.check_bound import CheckedBinding
    from rightful.locate.find_transcripts import MissingTranscripts
    from rightful.locate.record_lines import RecordRow, RecordRows
    from rightful.locate.scan import Scan
    from rightful.locate.verdicts import Answer, ClaimVerdict
    from rightful.projections.bindings import Binding

_PROBLEMS = 5
_CANDIDATES = 20


def failed(bound: tuple[BindingResult, ...]) -> int:
    """Return the exit code for the bindings: a conflict, an invalid event, or a file that could not be read."""
    outcomes = _outcomes(bound)
    if outcomes["conflict"] or outcomes["invalid"]:
        return terminal.CONFLICT if outcomes["conflict"] else terminal.INVALID
    return terminal.STORAGE if any(bound_file.why is not None for bound_file in bound) else terminal.DONE


def _outcomes(bound: tuple[BindingResult, ...]) -> Counter[str]:
    return Counter(bound_file.receipt.outcome for bound_file in bound if bound_file.receipt is not None)


def answer_document(
    answer: Answer, scan: Scan, before: tuple[Binding, ...], bound: tuple[BindingResult, ...]
) -> dict[str, Any]:
    """Return what was found for one session, and what was bound to it before."""
    return {
        **_answer(answer),
        "searched": _searched(scan),
        "bound_before": [
            {"uri": binding.uri, "evidence": binding.evidence, "position": binding.position} for binding in before
        ],
        "bound": [_bound(bound_file) for bound_file in bound],
    }


def _answer(answer: Answer) -> dict[str, Any]:
    owner = None if answer.owner is None else answer.owner.file.path
    claims = [_claim(judged) for judged in answer.judged]
    return {
        "session": answer.session, "found": answer.found, "owner": owner, "why": answer.why, "claims": claims,
        "lost": answer.lost,
    }  # fmt: skip


def _claim(judged: ClaimVerdict) -> dict[str, Any]:
    from rightful import times

    file = judged.claim.file
    return {
        "rank": int(judged.claim.rank),
        "verdict": judged.verdict,
        "tool": file.tool,
        "native_id": file.native_id,
        "path": file.path,
        "bytes": file.size,
        "started_at": None if file.started_at_us is None else times.text_of(file.started_at_us),
        "evidence": judged.claim.words,
        "why": judged.why,
    }


def _searched(scan: Scan) -> dict[str, Any]:
    return {
        "transcripts": len(scan.files),
        "pointers": len(scan.pointers),
        "passed_over": scan.passed,
        "whole": not scan.is_partial,
        "problems": scan.problems,
    }


def _bound(bound: BindingResult) -> dict[str, Any]:
    receipt = bound.receipt
    return {
        "session": bound.session,
        "path": bound.path,
        "outcome": None if receipt is None else receipt.outcome,
        "position": None if receipt is None else receipt.position,
        "why": bound.why if receipt is None else receipt.reason,
    }


def show_answer(answer: Answer, scan: Scan, before: tuple[Binding, ...], bound: tuple[BindingResult, ...]) -> None:
    """Print what was found for one session."""
    from rightful.locate.wanted_sessions import time_text

    none = "not shown" if answer.found else "none"
    own = none if answer.owner is None else answer.owner.file.path
    found = "yes" if answer.found else "no"
    tables.show_facts({"session": answer.session, "found": found, "its own": own, "because": answer.why})
    if answer.judged:
        rows = [
            (
                judged.claim.file.path,
                int(judged.claim.rank),
                judged.verdict,
                judged.claim.file.tool,
                tables.size(judged.claim.file.size),
                time_text(judged.claim.file.started_at_us),
                judged.claim.words,
            )
            for judged in answer.judged[:_CANDIDATES]
        ]
        columns = {"transcript": "", "rank": "", "verdict": "", "tool": "", "size": "", "began": "", "evidence": ""}
        rest = len(answer.judged) - len(rows)
        note = f"{rest} more are in --json" if rest else None
        tables.show_table(columns, rows, note=note, drop=("evidence",))
        for place, judged in enumerate(answer.judged[:_CANDIDATES], 1):
            terminal.wrap_stdout(f"{place}. {judged.claim.words}{f'; but {judged.why}' if judged.why else ''}.")
    terminal.wrap_stdout(*(f"{reason}." for reason in answer.lost))
    _print_search(scan)
    for binding in before:
        terminal.wrap_stdout(
            f"Bound before, by {binding.evidence}: {binding.uri}. Check it with `rightful locate --check`."
        )
    _print_bound(bound)


def _print_search(scan: Scan) -> None:
    others = f"; {terminal.plural(scan.passed, 'other file')} skipped: no transcript of a tool that is known"
    terminal.wrap_stdout(
        f"Searched: {terminal.plural(len(scan.files), 'transcript')}, "
        f"{terminal.plural(len(scan.pointers), 'pointer file')}"
        f"{others if scan.passed else ''}."
    )
    for problem in scan.problems[:_PROBLEMS]:
        terminal.note_stderr(problem)
    if len(scan.problems) > _PROBLEMS:
        terminal.note_stderr(f"{len(scan.problems) - _PROBLEMS} more folders could not be read.")


def _print_bound(bound: tuple[BindingResult, ...]) -> None:
    for bound_file in bound:
        if bound_file.why is not None:
            terminal.warn_stderr(f"{bound_file.path} was not bound to {bound_file.session}: {bound_file.why}.")
        elif bound_file.receipt is not None and bound_file.receipt.outcome in {"conflict", "invalid"}:
            terminal.warn_stderr(f"{bound_file.path}, {bound_file.session}: {terminal.problem_of(bound_file.receipt)}.")
    if bound:
        terminal.wrap_stdout(f"Bound: {terminal.counts_text(_outcomes(bound))}.")


def missing_document(
    path: str, read: RecordRows, found: MissingTranscripts, bound: tuple[BindingResult, ...], written: Repair | None
) -> dict[str, Any]:
    """Return what was found for the records of a file."""
    return {
        "path": path,
        "records": len(read.rows),
        "missing": [_missing_row(row, found) for row in found.rows],
        "problems": [{"line": problem.line, "what": problem.what} for problem in read.problems],
        "searched": _searched(found.scan),
        "bound": [_bound(bound_file) for bound_file in bound],
        "written": written,
    }


def _missing_row(row: RecordRow, found: MissingTranscripts) -> dict[str, Any]:
    if row.session is None:
        unnamed = {"session": None, "found": False, "owner": None, "why": _no_session(row)}
        return {"line": row.line, **unnamed, "claims": [], "lost": []}
    return {"line": row.line, **_answer(found.answers[row.session.name])}


def _no_session(row: RecordRow) -> str:
    return f"the row names no session ({row.why})"


def show_missing(
    path: str, read: RecordRows, found: MissingTranscripts, bound: tuple[BindingResult, ...], written: Repair | None
) -> None:
    """Print what was found for the records of a file."""
    rows = []
    for row in found.rows:
        if row.session is None:
            rows.append(("-", row.line, "none", _no_session(row), "-"))
            continue
        answer = found.answers[row.session.name]
        verdict = "owner" if answer.owner is not None else "candidate" if answer.found else "none"
        first = answer.judged[0].claim.file.path if answer.judged else "-"
        place = answer.owner.file.path if answer.owner is not None else first
        rows.append((row.session.name, row.line, verdict, answer.why, place))
    owned = sum(row[2] == "owner" for row in rows)
    terminal.wrap_stdout(
        f"{path}: {terminal.plural(len(read.rows), 'record')}, {len(rows)} of them without their transcript, "
        f"{owned} of those with an owner."
    )
    if rows:
        columns = {"transcript": "", "line": "number", "session": "", "verdict": ""}
        tables.show_table(columns, [(path, line, name, verdict) for name, line, verdict, _, path in rows])
        terminal.wrap_stdout(
            *dict.fromkeys(f"{f'line {line}' if name == '-' else name}: {why}." for name, line, _, why, _ in rows)
        )
    for problem in read.problems[:_PROBLEMS]:
        terminal.note_stderr(f"line {problem.line}: {problem.what}; it was not changed.")
    _print_search(found.scan)
    _print_bound(bound)
    if written is not None:
        _print_written(written)


def _print_written(repaired: Repair) -> None:
    if repaired.left is not None:
        terminal.note_stderr(
            f"an interrupted write left bytes next to the file that exist nowhere else; they are kept as "
            f"{repaired.left}."
        )
    if repaired.glued:
        lines = ", ".join(map(str, repaired.glued))
        terminal.note_stderr(
            f"on line {lines} several objects share a line, or the file is not UTF-8; readers ignore them, and they "
            f"were not changed."
        )
    if repaired.backup is None:
        terminal.wrap_stdout("Nothing was written back: no record without its transcript has an owner.")
        return
    terminal.wrap_stdout(
        f"Written back: {terminal.plural(len(repaired.lines), 'record')}. The previous file is kept as "
        f"{repaired.backup}."
    )


def check_document(found: tuple[CheckedBinding, ...], split: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    """Return the state of each bound transcript."""
    return {
        "ok": all(checked.is_good for checked in found),
        "transcripts": [
            {
                "session": checked.binding.session,
                "uri": checked.binding.uri,
                "state": checked.state,
                "path": checked.path,
                "why": checked.why,
                "bytes": checked.binding.bytes,
                "sha256": checked.binding.sha256,
                "evidence": checked.binding.evidence,
                "position": checked.binding.position,
                "others": checked.others,
            }
            for checked in found
        ],
        "several": split,
    }


def show_check(found: tuple[CheckedBinding, ...], split: Mapping[str, tuple[str, ...]]) -> None:
    """Print the state of each bound transcript."""
    if not found:
        terminal.wrap_stdout("No transcript is bound. `rightful locate SESSION --bind` binds one.")
        return
    rows = [
        (checked.path, checked.state, checked.binding.session, checked.binding.evidence, checked.why)
        for checked in found
    ]
    columns = {"transcript": "", "state": "", "session": "", "evidence": "", "why": ""}
    tables.show_table(columns, rows, drop=("evidence",))
    for name, uris in split.items():
        terminal.note_stderr(f"{name} has {len(uris)} transcripts bound to it.")
