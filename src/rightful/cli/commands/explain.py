"""Explain an arm, a session or an event: where each number comes from, and why a grade was credited or not.

WHAT is a position (#12), an event id (at least its first 8 digits), a session name or value, or an arm name or
suffix. The first sentence gives the result; the tables list every credit, exposure, grade and link with its reason.
Only the projection is written, which can be rebuilt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from rightful.cli.output import decay_notice, terminal
from rightful.cli.support import explain_target, ledger_choice, options, what_if
from rightful.cli.support.options import NamedPolicy
from rightful.errors import UpgradeError, UsageError

if TYPE_CHECKING:
    import argparse

    from rightful.cli.support.explain_target import Target
    from rightful.ledger import Ledger
    from rightful.reports.explain import ArmExplained, EventExplained, SessionExplained

    Explained = ArmExplained | SessionExplained | EventExplained

_ROWS = 20


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what is explained, the policy, the position, how much is shown."""
    parser.add_argument("what", metavar="WHAT", help="arm, session or event (#12, or an event id or its beginning)")
    kind = parser.add_mutually_exclusive_group()
    for name in (explain_target.ARM, explain_target.SESSION, explain_target.EVENT):
        kind.add_argument(
            f"--{name}",
            dest="kind",
            action="store_const",
            const=name,
            help=f"treat WHAT as an {name}".replace("an s", "a s"),
        )
    parser.add_argument(
        "--policy", default="bound", metavar="NAME|FILE|JSON", help="policy to explain (default: bound)"
    )
    options.add_position(parser)
    parser.add_argument(
        "--limit",
        type=int,
        default=_ROWS,
        metavar="N",
        help="number of latest rows per table; 0 for all (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Print the explanation."""
    if args.limit < 0:
        raise UsageError("--limit must be 0 (all rows) or more; nothing was explained.")
    policy = options.policy_named(args.policy)
    try:
        with options.open_folded(args) as ledger:
            policy = _over_the_log(policy, ledger)
            what = explain_target.resolve(ledger, args.what, args.kind, policy.policy)
            _print(args, policy, _answer(args, ledger, policy, what))
    except UpgradeError as error:
        if args.kind not in {None, explain_target.EVENT} or not explain_target.is_event(args.what):
            raise
        terminal.warn_stderr(str(error))
        _without_projection(args, policy)
    return terminal.DONE


def _over_the_log(policy: NamedPolicy, ledger: Ledger) -> NamedPolicy:
    """Return a newest-file rule without opening balances, as in an audit: they are what that updater made of it.

    A grade that its own sum already contains would be in-balance, and nothing would be explained.
    """
    rule = policy.policy
    if rule.join != "newest" or rule.balances is not None or not ledger.projected().facts.balances:
        return policy
    terminal.note_stderr("opening balances are ignored, as in an audit of a newest-file rule.")
    label = f"{policy.label}, {what_if.NO_BALANCES}"
    return NamedPolicy(label, None, structs.replace(rule, balances=()))


def _without_projection(args: argparse.Namespace, policy: NamedPolicy) -> None:
    """Explain an event of a ledger that holds rows of a newer program: the row, not its use."""
    from rightful.reports.explain import explain_event

    with ledger_choice.open_ledger(args, readonly=True) as ledger:
        found = explain_target.events(ledger.log, args.what)
        if len(found) != 1:
            raise UsageError(f"no single event {args.what!r} is in this ledger; nothing was explained.")
        answer = explain_event(None, ledger.log, policy.policy, found[0].position)
        _print(args, policy, answer)


def _answer(args: argparse.Namespace, ledger: Ledger, policy: NamedPolicy, what: Target) -> Explained:
    from rightful.reports import explain

    as_of, rule = options.as_of(args), policy.policy
    decay_at = options.decay_at(args, rule)
    match what.kind:
        case explain_target.ARM:
            answer = explain.explain_arm(ledger.projected(), rule, what.name, as_of=as_of, decay_at=decay_at)
            decay_notice.note_far(args, ledger, answer.through, rule)
            return answer
        case explain_target.SESSION:
            return explain.explain_session(ledger.projected(), rule, what.name, as_of=as_of)
        case _:
            return explain.explain_event(ledger.projected(), ledger.log, rule, what.position, as_of=as_of)


def _print(args: argparse.Namespace, policy: NamedPolicy, answer: Explained) -> None:
    if args.json:
        terminal.print_json(answer)
        return
    from rightful.cli.show import show_explanation

    show_explanation.show(answer, policy.title, args.limit)
