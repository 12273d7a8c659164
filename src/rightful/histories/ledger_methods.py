"""The methods of `Ledger` for histories; they load what they need when they are first called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rightful.histories.history_model import FullHistory, History
    from rightful.histories.service import Histories
    from rightful.log.log import Clock, Log
    from rightful.log.rows import Receipt
    from rightful.tokens import Batch, Token, Without


class WithHistories:
    """What a ledger can do with histories."""

    log: Log
    id: str
    _clock: Clock
    _histories: Histories | None = None

    def histories(self) -> Histories:
        """Return what reads and writes histories; it keeps the views that it has folded."""
        if self._histories is None:
            from rightful.histories.service import Histories

            self._histories = Histories(self.log, ledger_id=self.id, clock=self._clock)
        return self._histories

    def history(
        self, session: str, limit: int | None = None, *, without: tuple[str, int] | Without | None = None
    ) -> History:
        """Return what the model would see next: its items and a token; see `Histories.history`."""
        return self.histories().history(session, limit, without=without)

    def full_history(self, session: str, *, at: int | None = None) -> FullHistory:
        """Return everything that a history ever held, and what became of it; see `Histories.full`."""
        return self.histories().full(session, at=at)

    def extend(self, to: Token | str, items: Iterable[Any], batch: Batch | None = None) -> Token:
        """Append items to a history, and return a token that also covers them; see `Histories.extend`."""
        return self.histories().extend(to, items, batch)

    def pop(self, session: str, *, key: str | None = None) -> Any:  # noqa: ANN401 - content
        """Take the last item of a history back, and return it; see `Histories.pop`."""
        return self.histories().pop(session, key=key)

    def clear(self, session: str, *, key: str | None = None) -> Receipt:
        """Take all that a history shows out of it; see `Histories.clear`."""
        return self.histories().clear(session, key=key)

    def compact(  # noqa: PLR0913 - as many facts as the event has
        self,
        token: Token,
        items: Iterable[Any],
        covers: Iterable[Any] | None = None,
        *,
        mode: str = "input",
        response_id: str | None = None,
        run: str | None = None,
        usage: Mapping[str, Any] | None = None,
        ordinal: int | None = None,
    ) -> Receipt:
        """Let items give way to others that stand for them; see `Histories.compact`."""
        return self.histories().compact(
            token, items, covers, mode=mode, response_id=response_id, run=run, usage=usage, ordinal=ordinal
        )

    def fork(self, session: str, into: str, *, at: int | None = None) -> Token:
        """Let a new history begin with what another one showed; see `Histories.fork`."""
        return self.histories().fork(session, into, at=at)
