"""Passes notices to the notifiers, and keeps the problems of the watching, each once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from barograph.errors import StoreDenied, StoreError, StoreFull
from barograph.watch.notices import Event, Notice, Notifier
from barograph.watch.notifier_queue import NotifierQueue


class Announcer:
    """Passes notices to the notifiers.

    Args:
        notifiers: Get each notice at once.
        queue: Sends notices to external recipients while the watching goes on. None: there are none.
    """

    def __init__(self, notifiers: Iterable[Notifier], queue: NotifierQueue | None) -> None:
        self._notifiers = list(notifiers)
        self._queue = queue
        self._saved_queue: Mapping[str, Any] = {}
        self._notices: list[Notice] = []
        self._problems: list[str] = []
        self._damage: list[str] = []
        self._outages: set[str] = set()
        self._refused: set[str] = set()
        self.was_full = False
        """Whether the store was full at any time."""

    @property
    def notices(self) -> tuple[Notice, ...]:
        """Notices since the poll began, in order."""
        return tuple(self._notices)

    @property
    def problems(self) -> tuple[str, ...]:
        """Problems of the watching itself, each once."""
        return tuple(self._problems)

    @property
    def damage(self) -> tuple[str, ...]:
        """Unreadable parts of the run, each once."""
        return tuple(self._damage)

    @property
    def is_refused(self) -> bool:
        """Whether the store refuses something at the moment."""
        return bool(self._refused)

    def begin_poll(self) -> None:
        """Start a new list of notices."""
        self._notices = []

    def notify(self, notice: Notice) -> None:
        """Pass a notice to all notifiers; one that raises is a problem."""
        self._notices.append(notice)
        failed = []
        for notifier in self._notifiers:
            try:
                notifier.notify(notice)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - third-party notifiers may raise anything
                failed.append(f"{type(notifier).__name__} failed: {type(error).__name__}: {error}")
        if self._queue is not None:
            self._queue.take(notice)
        for text in failed:
            self.problem(text)

    def problem(self, text: str) -> None:
        """Report a problem, the first time."""
        if text not in self._problems:
            self._problems.append(text)
            self.notify(Notice(Event.PROBLEM, text))

    def damaged(self, text: str) -> None:
        """Report an unreadable part of the run, the first time."""
        if text not in self._damage:
            self._damage.append(text)
        self.problem(text)

    def away(self, what: str, error: StoreError) -> None:
        """Report that the store cannot be reached, once per outage."""
        self.was_full = self.was_full or isinstance(error, StoreFull)
        if what not in self._outages:
            self._outages.add(what)
            self.notify(Notice(Event.PROBLEM, f"{what} now; retrying. {error}"))

    def back(self, what: str) -> None:
        """Report the end of an outage, if there was one."""
        if what in self._outages:
            self._outages.discard(what)
            self.notify(Notice(Event.PROBLEM, f"{what} no more: the store is back."))

    def denied(self, what: str, error: StoreDenied) -> None:
        """Report that the store refuses something, until it is allowed."""
        if what not in self._refused:
            self._refused.add(what)
            # A problem and not only a notice: the summary must say that something was not done.
            self.problem(f"{what}; retrying. {error}")

    def allowed(self, what: str) -> None:
        """Report that the store no longer refuses something, if it did."""
        if what in self._refused:
            self._refused.discard(what)
            self.notify(Notice(Event.PROBLEM, f"{what} no more: the store allows it again."))

    def take_delivery_reports(self) -> bool:
        """Report failed deliveries; return whether the state of the queue changed."""
        if self._queue is None:
            return False
        for text in self._queue.problems():
            self.problem(text)
        return self._queue.changed()

    def close(self) -> None:
        """Send what is waiting, for a bounded time."""
        if self._queue is not None:
            self._queue.close()

    def to_json(self) -> dict[str, Any]:
        """Return its part of the saved state."""
        return {"problems": self._problems, "damage": self._damage, "store_full": self.was_full,
                "post": self._queue.to_json() if self._queue else self._saved_queue}

    def load(self, state: Mapping[str, Any]) -> None:
        """Load problems and damage from what `to_json` returned."""
        self._problems, self._damage = state["problems"], state["damage"]
        self.was_full = bool(state.get("store_full", False))

    def load_queue(self, saved: Any) -> None:
        """Load what was sent to whom; without a queue it is kept for a later watcher."""
        self._saved_queue = saved
        if self._queue is not None:
            self._queue.load(saved)
