"""Show, hash and compare policies, and propose aliases for arms that have several names.

A POLICY is a preset, a JSON file or a JSON object (default: `bound`). `show` lists the fields that differ from the
defaults, explains them and prints the whole object; `hash` prints its hash; `diff` compares two policies field by
field; `aliases` finds lessons that the ledger knows under several paths and proposes `arm_aliases`. No alias is
applied automatically: `--out FILE` writes a policy, and other commands use it with `--policy FILE`.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rightful.cli.output import terminal
from rightful.cli.support import options, what_if
from rightful.cli.support.parsing import add_subcommands
from rightful.errors import UsageError
from rightful.policies import PRESETS

if TYPE_CHECKING:
    from rightful.cli.support.options import NamedPolicy
    from rightful.reports.aliases.arm_aliases import Group, Proposals

_WHATS = {
    "show": "show a policy and how it differs from the defaults",
    "hash": "print a policy's hash",
    "diff": "compare two policies field by field; exit code 1 if they differ",
    "aliases": "propose aliases for arms that have several paths; nothing is applied",
}
_SHOWN = 30

MEANINGS: dict[str, dict[object, str] | str] = {
    "join": {
        "bound": "a grade pays the exposures of its own run",
        "newest": "a grade pays the newest session with exposures at its time",
    },
    "revision": {
        "last_wins": "one effective grade a run",
        "additive": "every grade event pays, and retractions are ignored",
    },
    "credit": {
        "full": "each arm gets the whole reward",
        "split": "each of k arms gets 1/k of it",
        "salience_weight": "each arm by the grade's salience",
        "salience_split": "each arm by its share of the salience",
    },
    "decay": "how evidence loses weight",
    "prior": "alpha and beta of an arm without evidence",
    "causal_order": {
        "strict": "an exposure after the grade does not count",
        "lenient": "an exposure counts whenever it was",
    },
    "skew_s": "seconds that an exposure may be stamped after the grade",
    "marginals": "beliefs for single dimensions of a context too",
    "graders": "who pays, in order",
    "outcomes": "what an outcome word is worth",
    "arm_aliases": "other names of arms",
    "arithmetic": {
        "exact": "exact sums, rounded once",
        "sequential": "float operations in log order, as an updater does them",
    },
    "without_sessions": "sessions left out, as if they had never been",
    "without_graders": "graders who are recorded and do not pay",
    "balances": "sources whose opening balances count; null is all of them",
}
"""What each field, or each value of it, means."""

DECAYS: dict[str | None, str] = {
    None: "evidence never loses weight",
    "time": "evidence halves with its age",
    "session": "everything decays once a credited run",
    "arm": "an arm decays with each of its own credits",
    "events": "decays and prunes of another updater, call by call",
}
"""What each mode of a decay means."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what can be done, and what each takes."""
    for name, command in add_subcommands(parser, _WHATS):
        _OPTIONS[name](command)


def _add_policy(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "policy", nargs="?", default="bound", metavar="POLICY", help="preset, JSON file or JSON object (default: bound)"
    )
    what_if.add(parser)


def _add_two_policies(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("policy", metavar="POLICY", help="first policy: preset, JSON file or JSON object")
    parser.add_argument("other", metavar="OTHER", help="second policy: preset, JSON file or JSON object")


def _add_alias_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--policy", default="bound", metavar="NAME|FILE|JSON", help="policy to add the aliases to (default: bound)"
    )
    parser.add_argument(
        "--prefer", metavar="PREFIX", help="beginning of the name to keep (default: name with most evidence)"
    )
    parser.add_argument("--out", metavar="FILE", help="file for the policy with the proposed aliases")
    parser.add_argument("--force", action="store_true", help="allow --out to replace an existing file")


_OPTIONS = {"show": _add_policy, "hash": _add_policy, "diff": _add_two_policies, "aliases": _add_alias_options}


def run(args: argparse.Namespace) -> int:
    """Run the subcommand and return the exit code."""
    match args.what:
        case "show":
            return _show(args)
        case "hash":
            named = _named(args)
            if args.json:
                terminal.print_json({"name": named.label, "hash": named.policy.hash})
            else:
                terminal.print_stdout(named.policy.hash)
            return terminal.DONE
        case "diff":
            return _diff(args)
        case _:
            return _aliases(args)


def _named(args: argparse.Namespace) -> NamedPolicy:
    return what_if.apply_options(args, options.policy_named(args.policy, "POLICY"))


def _show(args: argparse.Namespace) -> int:
    from rightful.cli.output import tables

    named = _named(args)
    differs = what_if.differences(PRESETS["bound"], named.policy)
    whole = named.policy.as_dict()
    if args.json:
        document = {"name": named.label, "hash": named.policy.hash, "policy": whole, "differs": differs}
        terminal.print_json(document)
        return terminal.DONE
    if differs:
        terminal.wrap_stdout(
            f"{terminal.safe(named.label)} differs from the defaults in {terminal.plural(len(differs), 'field')}."
        )
        columns = {"field": "", "value": "", "default": "", "what that means": ""}
        rows = [[name, _text(value), _text(old), _meaning(name, value)] for name, (old, value) in differs.items()]
        tables.show_table(columns, rows, drop=["default"])
    else:
        terminal.wrap_stdout(f"{terminal.safe(named.label)} has the defaults in every field.")
    tables.show_facts({"hash": named.policy.hash})
    terminal.print_stdout(terminal.json_text(whole))
    return terminal.DONE


def _diff(args: argparse.Namespace) -> int:
    from rightful.cli.output import tables

    first, second = options.policy_named(args.policy, "POLICY"), options.policy_named(args.other, "OTHER")
    differs = what_if.differences(first.policy, second.policy)
    if args.json:
        hashes = [first.policy.hash, second.policy.hash]
        terminal.print_json({"policies": [first.label, second.label], "hashes": hashes, "differs": differs})
    elif differs:
        terminal.wrap_stdout(
            f"{terminal.safe(first.title)} and {second.title} differ in {terminal.plural(len(differs), 'field')}."
        )
        labels = f"{terminal.safe(first.label)} (1)", f"{terminal.safe(second.label)} (2)"
        columns = {"field": "", **dict.fromkeys(labels, ""), "what the second means": ""}
        rows = [[name, _text(old), _text(new), _meaning(name, new)] for name, (old, new) in differs.items()]
        tables.show_table(columns, rows, drop=["what the second means"])
    else:
        terminal.wrap_stdout(f"{terminal.safe(first.label)} and {second.label} are one rule, {first.policy.hash}.")
    return terminal.CHECK_SAID_NO if differs else terminal.DONE


def _text(value: Any) -> str:  # noqa: ANN401 - any JSON value
    return value if isinstance(value, str) else terminal.json_text(value)


def _meaning(name: str, value: Any) -> str:  # noqa: ANN401 - any JSON value
    meaning = MEANINGS[name]
    if name == "decay":
        return DECAYS[None if value is None else value["mode"]]
    return meaning if isinstance(meaning, str) else meaning[value]


def _aliases(args: argparse.Namespace) -> int:
    import msgspec

    from rightful.reports.aliases import arm_aliases

    if args.force and args.out is None:
        raise UsageError("--force needs --out FILE; nothing was written.")
    named = options.policy_named(args.policy)
    if args.out is not None and not args.force and os.path.lexists(args.out):
        raise _in_the_way(args.out)
    with options.open_folded(args) as ledger:
        found = arm_aliases.proposals(ledger.projected(), named.policy, prefer=args.prefer)
    pairs = found.arm_aliases
    if pairs and args.out is not None:
        whole = named.policy.as_dict()
        _write(Path(args.out), {**whole, "arm_aliases": {**whole["arm_aliases"], **pairs}}, force=args.force)
    written = args.out if pairs else None
    if args.json:
        head = {"policy": named.label, "policy_hash": named.policy.hash, "written": written}
        terminal.print_json(head | msgspec.to_builtins(found))
    else:
        _show_proposals(found, written)
    if args.out is not None and written is None:
        terminal.note_stderr(f"there is no alias to propose; nothing was written to {args.out}.")
    return terminal.DONE


def _write(path: Path, policy: dict[str, Any], *, force: bool) -> None:
    """Write a policy atomically; an existing file is kept unless `force`."""
    import msgspec

    from rightful.policies import policy_of

    policy_of(policy)  # only a valid policy is written
    text = msgspec.json.format(msgspec.json.encode(policy, order="deterministic"), indent=2) + b"\n"
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name[:64]}.", delete=False) as file:
            try:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
                Path(file.name).chmod(0o666 & ~_umask())
                if force:
                    Path(file.name).replace(path)
                else:
                    os.link(file.name, path)
            finally:
                Path(file.name).unlink(missing_ok=True)
    except FileExistsError:
        raise _in_the_way(str(path)) from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"--out {path} cannot be written: {why}; nothing was written.") from None


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _in_the_way(path: str) -> UsageError:
    return UsageError(f"--out {path} already exists; nothing was written. Name another file, or add --force.")


def _show_proposals(found: Proposals, written: str | None) -> None:
    from rightful.cli.output import tables

    pairs, lessons = found.arm_aliases, terminal.plural(len(found.groups), "lesson")
    if pairs:
        have = "has" if len(found.groups) == 1 else "have"
        names = sum(len(group.spellings) for group in found.groups)
        terminal.wrap_stdout(
            f"{lessons} {have} {names:,} names: {terminal.plural(len(pairs), 'alias', 'aliases')} proposed."
        )
    else:
        terminal.wrap_stdout("No arm was found under a second name, so no alias is proposed.")
    if found.groups:
        note = "an alias gets the credits of its own and its arm's exposures together, once a policy says so"
        rows = [row for group in found.groups[:_SHOWN] for row in _rows(group)]
        tables.show_table({"name": "", "would be": "", **_COUNTS}, rows, title="Proposed", note=note)
        for group in found.groups[:_SHOWN]:
            terminal.print_stdout(f"{group.arm}: {group.why}.")
    if found.not_proposed:
        rows = [row for group in found.not_proposed[:_SHOWN] for row in _rows(group)]
        tables.show_table({"name": "", "path": "", **_COUNTS}, rows, title="Not proposed")
        for group in found.not_proposed[:_SHOWN]:
            terminal.print_stdout(f"{group.path}: {group.why}.")
    more = max(len(found.groups) - _SHOWN, 0) + max(len(found.not_proposed) - _SHOWN, 0)
    if more:
        terminal.note_stderr(f"{more:,} more are in --json.")
    if written is not None:
        terminal.wrap_stdout(
            f"Written to {written}; nothing is applied. Use it with `rightful posteriors --policy {written}`."
        )
    elif pairs:
        terminal.wrap_stdout("Nothing is applied. `rightful policy aliases --out FILE` writes a policy with them.")


_COUNTS = {"exposures": "n", "withheld": "n", "credits": "n"}


def _rows(group: Group) -> list[list[object]]:
    return [
        [
            spelling.arm,
            group.path if group.arm is None else "the arm" if spelling.arm == group.arm else "an alias",
            spelling.exposures,
            spelling.withheld,
            spelling.credits,
        ]
        for spelling in group.spellings
    ]
