"""Reports what the training did about requested actions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from barograph.errors import StoreError
from barograph.model.clock import Clock
from barograph.model.finding import Finding
from barograph.runs.state.control import read_answers
from barograph.store.base import Store
from barograph.watch.announcer import Announcer
from barograph.watch.notices import Event, Notice

LOOK_SECS = 0.5
"""Minimum time between two reads of the results; each is a request to the store."""

_UNREADABLE = "Responses of the training cannot be read"


class ActionResults:
    """Reports the result of each requested action, once.

    Args:
        store: The run.
        announcer: Gets the results.
        clock: Time between two reads.
    """

    def __init__(self, store: Store, announcer: Announcer, clock: Clock) -> None:
        self._store = store
        self._announcer = announcer
        self._clock = clock
        self._reported: dict[str, None] = {}
        self._read_at = -math.inf

    def report(self, attempt: int, leads: Callable[[], Mapping[str, Finding]], *, at_once: bool) -> bool:
        """Report new results; return whether there were any.

        Args:
            attempt: Attempt whose actions they are results of.
            leads: Returns the main finding of each finding's problem, see `problems.lead_findings`.
            at_once: Read even if the last read was a moment ago.
        """
        now = self._clock.monotonic()
        if now - self._read_at < LOOK_SECS and not at_once:
            return False
        self._read_at = now
        try:
            results = read_answers(self._store, attempt=attempt, known=self._reported)
        except StoreError as error:
            self._announcer.away(_UNREADABLE, error)
            return False
        self._announcer.back(_UNREADABLE)
        known = leads() if results else {}
        for name, done in results.items():
            self._reported[name] = None
            finding = known.get(done.finding_id)
            why = f", because of {finding.code} {finding.rule}" if finding else ""
            text = f"{done.worker} {done.result} after {done.step} steps{why}"
            self._announcer.notify(Notice(Event.ACTION, text, finding))
        return bool(results)

    def to_json(self) -> list[str]:
        """Return the names of the reported results."""
        return list(self._reported)

    def load(self, names: Iterable[str]) -> None:
        """Load what `to_json` returned."""
        self._reported = dict.fromkeys(names)
