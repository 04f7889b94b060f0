"""External requests to this training, passed between the receiving thread and the training thread."""

from __future__ import annotations

import threading
from collections.abc import Callable

from barograph.runs.state.control import STOP, Done, Request


class NotDone(Exception):
    """A request was not carried out; the message says why."""


class Orders:
    """Received requests to carry out between two steps, and their results.

    Attributes:
        waiting: Whether there are any; checked after every step.
    """

    def __init__(self) -> None:
        self.waiting = False
        self._lock = threading.Lock()
        self._known: set[tuple[str, str]] = set()
        self._orders: list[tuple[Request, int]] = []
        self._reports: list[Done] = []

    def hear(self, request: Request, after_steps: int = 0) -> None:
        """Add a request, once even if received repeatedly; thread-safe.

        Args:
            request: The request.
            after_steps: Number of steps to complete first.
        """
        with self._lock:
            name = (request.action, request.finding_id)
            if name not in self._known:
                self._known.add(name)
                self._orders.append((request, after_steps))
                self.waiting = True

    def take_due(self, steps_made: int) -> list[Request]:
        """Return the requests that are due, and remove them."""
        with self._lock:
            due = [request for request, after_steps in self._orders if steps_made >= after_steps]
            self._orders = [item for item in self._orders if steps_made < item[1]]
            self.waiting = bool(self._orders)
            return due

    def report(self, request: Request, result: str, *, done: bool, step: int, now_unix: float) -> None:
        """Report the result of a request."""
        with self._lock:
            self._reports.append(Done(request.action, request.finding_id, request.attempt, "", step, now_unix, result,
                                      done))

    def report_stop(self, finding_id: str, attempt: int, result: str, *, step: int, now_unix: float) -> None:
        """Report that training was stopped."""
        with self._lock:
            self._reports.append(Done(STOP, finding_id, attempt, "", step, now_unix, result))

    def reports(self, start: int = 0) -> tuple[Done, ...]:
        """Return the reports from index `start` on, without the worker's name."""
        with self._lock:
            return tuple(self._reports[start:])


Hand = Callable[[Request], str | None]
"""Carries out a request in the training thread, and returns one sentence about the result; None: it reports later with
`Orders.report`. Raises NotDone if it cannot."""
