"""Explanations for people: a sentence first, then tables; long ones end with how to see all."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rightful.cli.output import tables, terminal
from rightful.cli.support import options

if TYPE_CHECKING:
    from rightful.reports.explain import (
        ArmExplained,
        EventExplained,
        ExposureRow,
        GradeRow,
        Remedy,
        SessionExplained,
        Step,
    )

_BAR_CHARS = 16
_BODY_CHARS = 2_000
_REMEDIES = "What would have to be recorded; each removes the given reason, and another reason may remain"


def show(found: ArmExplained | SessionExplained | EventExplained, policy: str, limit: int) -> None:
    """Print an explanation."""
    from rightful.reports import explain

    match found:
        case explain.ArmExplained():
            _arm(found, policy, limit)
        case explain.SessionExplained():
            _session(found, policy, limit)
        case explain.EventExplained():
            _event(found, policy, limit)


def _arm(found: ArmExplained, policy: str, limit: int) -> None:
    low, high = found.ci95
    credits_ = sum(step.kind == "credit" for step in found.steps)
    belief = f"Beta({options.number(found.alpha)}, {options.number(found.beta)}), 95% from {low:.3f} to {high:.3f}"
    also = f" It is also known as {', '.join(found.aliases)}." if found.aliases else ""
    decayed = f", decayed as of {found.decay_at}" if found.decay_at else ""
    terminal.wrap_stdout(
        f"{terminal.safe(found.arm)} is believed to earn {found.mean:.3f}: {belief}, "
        f"from {terminal.plural(credits_, 'credit')} in this log "
        f"(n {found.n:,}, mass {options.number(found.mass)}).{also} "
        f"Policy {policy}, through position {found.through:,}{decayed}."
    )
    _steps(found, limit)
    if found.unpaid:
        states = ", ".join(f"{count:,} {state.replace('_', '-')}" for state, count in found.unpaid_states.items())
        terminal.wrap_stdout(f"\nShown {terminal.plural(len(found.unpaid), 'time')} without credit: {states}.")
        _exposures(found.unpaid, limit)
    if found.withheld:
        places = [f"#{position}" for position in found.withheld]
        terminal.wrap_stdout(
            f"\nWithheld {terminal.plural(len(places), 'time')}, never credited for it: {_some(places, limit)}."
        )


def _steps(found: ArmExplained, limit: int) -> None:
    kept, more = _last(found.steps, limit)
    if not kept:
        terminal.wrap_stdout("It still has its prior: no credit or decay has changed it.")
        return
    picture = tables.draws()
    columns = {
        "event": "", "what": "", "run": "", "by": "", "shown in": "",
        "reward": "0 to 1", "weight": "", "alpha": "after", "beta": "after", "mean": "after",
    }  # fmt: skip
    columns["weight"] = "decayed" if found.decay_at else "w"
    if picture:
        columns["0 … 1"] = ""
    rows = [[*_step(step), *([_bar(step.alpha / (step.alpha + step.beta))] if picture else [])] for step in kept]
    prior = f"from the prior, alpha {found.prior[0]:g} and beta {found.prior[1]:g}"
    tables.show_table(columns, rows, note=_note(more, prior), drop=["0 … 1", "shown in", "weight"])


def _step(step: Step) -> list[str]:
    seq = "" if step.seq is None else f" seq {step.seq}"
    reward = "" if step.reward is None else options.fixed(step.reward)
    weight = "" if step.decayed is None else options.number(step.decayed)
    shown = " ".join(f"#{position}" for position in step.exposures[:3]) + (" …" if len(step.exposures) > 3 else "")  # noqa: PLR2004 - as many as fit
    return [
        f"#{step.position}", step.kind, step.session or "", f"{step.grader or ''}{seq}", shown, reward, weight,
        options.number(step.alpha), options.number(step.beta), options.fixed(step.alpha / (step.alpha + step.beta)),
    ]  # fmt: skip


def _bar(mean: float) -> str:
    at = min(int(mean * _BAR_CHARS), _BAR_CHARS - 1)
    return "─" * at + "●" + "·" * (_BAR_CHARS - 1 - at)


def _session(found: SessionExplained, policy: str, limit: int) -> None:
    terminal.wrap_stdout(f"{found.verdict} Policy {policy}, through position {found.through:,}.")
    terminal.wrap_stdout(f"\nRun: {found.run_reason}")
    form = " as read from a file's name"
    if fits := [f"{name.session}{form if name.alias else ''}" for name in found.names if name.role == "fits"]:
        names = _some(fits, limit)
        terminal.wrap_stdout(f"Sessions whose name is a sanitised form of this one, or the reverse: {names}.")
    if found.links:
        rows = [
            [
                f"#{link.position}", link.session, link.other, link.relation, link.evidence, link.producer, link.state,
                link.reason,
            ]
            for link in found.links
        ]  # fmt: skip
        _table(
            ("link", "session", "other", "as", "evidence", "producer", "state", "reason"),
            rows,
            limit,
            "Links",
            drop=["producer"],
        )
    others = set(found.elsewhere)
    for title, elsewhere in (("Shown", False), ("Shown to other sessions, listed because of a name", True)):
        if exposures := [row for row in found.exposures if (row.position in others) == elsewhere]:
            _exposures(exposures, limit, title=title)
    for title, elsewhere in (("Grades", False), ("Grades of other sessions, listed because of a name", True)):
        if grades := [row for row in found.grades if (row.position in others) == elsewhere]:
            _grades(grades, limit, title)
    if found.asides:
        rows = [[f"#{aside.position}", aside.type, aside.reason] for aside in found.asides]
        _table(("event", "type", "reason"), rows, limit, "Changes nothing")
    _remedies(found, limit)


def _exposures(rows: Sequence[ExposureRow], limit: int, title: str | None = None) -> None:
    groups = [list(group) for _, group in groupby(rows, _group_key)]
    kept, _ = _last(groups, limit)
    more = len(rows) - sum(len(group) for group in kept)
    cells = [
        [_places(group), group[0].session, _time(group), _arms(group), group[0].state, group[0].reason]
        for group in kept
    ]
    _table(("exposure", "session", "at", "arms", "state", "reason"), cells, 0, title, more=more, drop=["at"])


def _group_key(row: ExposureRow) -> tuple[object, ...]:
    """Return what consecutive rows have in common that are shown as one; only paid rows differ by their arms."""
    arms = (row.arms, row.withheld) if row.state == "paid" else ()
    return row.session, row.state, row.reason, *arms


def _places(group: Sequence[ExposureRow]) -> str:
    """Return the positions of a group: `#7`, `#7 to #10`, `#7, #9 and 2 more`."""
    at = [row.position for row in group]
    if len(at) > 2 and at[-1] - at[0] == len(at) - 1:  # noqa: PLR2004 - two are as short by themselves
        return f"#{at[0]} to #{at[-1]}"
    return _some([f"#{position}" for position in at], 3)


def _time(group: Sequence[ExposureRow]) -> str:
    basis = " (file: at the latest)" if any(row.at_basis for row in group) else ""
    first, last = min(row.at for row in group), max(row.at for row in group)
    return f"{first}{basis}" if first == last else f"{first} to {last}{basis}"


def _arms(group: Sequence[ExposureRow]) -> str:
    arms = list(dict.fromkeys(arm for row in group for arm in row.arms))
    withheld = list(dict.fromkeys(arm for row in group for arm in row.withheld))
    shown = _some(arms, 3) if arms else "no arm"
    return f"{shown}; withheld {_some(withheld, 3)}" if withheld else shown


def _grades(rows: Sequence[GradeRow], limit: int, title: str) -> None:
    cells = [
        [
            f"#{grade.position}", grade.session, f"{grade.grader} seq {grade.seq}", grade.at, _grade_text(grade),
            grade.state, grade.reason,
        ]
        for grade in rows
    ]  # fmt: skip
    _table(("grade", "session", "grader", "at", "says", "state", "reason"), cells, limit, title, drop=["at"])


def _grade_text(row: GradeRow) -> str:
    if row.kind != "grade":
        return "retracted" if row.kind == "retraction" else "erased"
    text = row.outcome or "" if row.reward is None else options.fixed(row.reward)
    return f"{text} for {row.exposure_session}" if row.exposure_session else text


def _remedies(found: SessionExplained, limit: int) -> None:
    """Print what would have to be recorded: for the run, for grades without credit, and for pending exposures."""
    wanted = [("", remedy) for remedy in found.remedies]
    for row in found.grades:
        if row.bin is not None:
            wanted += [(f"#{row.position} {row.state}: ", remedy) for remedy in row.remedies]
    unlike = list(dict.fromkeys((start, _spelled(remedy)) for start, remedy in wanted))
    if not unlike:
        return
    terminal.wrap_stdout(f"\n{_REMEDIES}")
    shown = unlike[:limit] if limit else unlike
    for start, (what, *more) in shown:
        terminal.print_stdout(f"  {start}{what}", *more)
    if len(shown) < len(unlike):
        terminal.wrap_stdout(_note(len(unlike) - len(shown)) or "")


def _spelled(remedy: Remedy) -> tuple[str, ...]:
    lines = [remedy.what, *(f"    {json.dumps(event, ensure_ascii=False)}" for event in remedy.events)]
    if remedy.policy is not None:
        lines.append(f"    --policy '{json.dumps(remedy.policy, ensure_ascii=False)}'")
    return tuple(lines)


def _event(found: EventExplained, policy: str, limit: int) -> None:
    terminal.wrap_stdout(f"{found.verdict} Policy {policy}, through position {found.through:,}.")
    facts: dict[str, Any] = {
        "id": found.id,
        "position": found.position,
        "type": found.type,
        "outcome": found.outcome,
        "producer": found.producer,
        "session": found.session,
        "at": f"{found.at}{' (a file time: at the latest)' if found.at_basis else ''}",
        "recorded at": found.recorded_at,
        "says": _body(found.body),
    }
    tables.show_facts({name: fact for name, fact in facts.items() if fact is not None})
    rows = [
        [
            f"#{revision.position}", revision.revision, revision.outcome, revision.recorded_at,
            _revision_state(revision.shown, revision.withdrawn),
        ]
        for revision in found.revisions
    ]  # fmt: skip
    columns = ("row", "revision", "outcome", "recorded at", "")
    _table(columns, rows, limit, "Revisions of its id", drop=["recorded at"])
    if found.used_by:
        terminal.wrap_stdout("Used by")
        for use in found.used_by[:limit] if limit else found.used_by:
            terminal.wrap_stdout(f"  {use}")
    if found.grade is not None and found.grade.remedies:
        terminal.wrap_stdout(f"\n{_REMEDIES if found.grade.bin else 'What would have to be recorded for it to count'}")
        for remedy in found.grade.remedies:
            what, *events = _spelled(remedy)
            terminal.print_stdout(f"  {what}", *events)


def _revision_state(is_shown: bool, withdrawn: bool) -> str:  # noqa: FBT001 - two facts of a row
    return ", ".join(word for word, so in (("what the id says", is_shown), ("withdrawn", withdrawn)) if so)


def _body(body: object) -> str:
    if body is None:
        return "erased"
    text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
    return text if len(text) <= _BODY_CHARS else f"{text[:_BODY_CHARS]} … ({len(text):,} characters; --json has all)"


def _table(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    limit: int,
    title: str | None,
    *,
    more: int = 0,
    drop: Sequence[str] = (),
) -> None:
    """Print the last rows as texts, and how many precede them: those that are hidden, and `more`."""
    kept, hidden = _last(rows, limit)
    tables.show_table(dict.fromkeys(columns, ""), kept, title=title, note=_note(more + hidden), drop=drop)


def _last(rows: Sequence[Any], limit: int) -> tuple[Sequence[Any], int]:
    """Return the last rows that are shown, and how many are not."""
    return (rows[-limit:], max(len(rows) - limit, 0)) if limit else (rows, 0)


def _note(more: int, also: str | None = None) -> str | None:
    """Return the note below a table."""
    rest = f"{more:,} more before these; --limit 0 or --json shows all" if more else ""
    return "; ".join(part for part in (also, rest) if part) or None


def _some(names: Sequence[str], limit: int) -> str:
    kept = names[:limit] if limit else names
    more = f" and {len(names) - len(kept):,} more" if len(kept) < len(names) else ""
    return ", ".join(kept) + more
