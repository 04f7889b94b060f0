"""What is done about a finding, beside telling."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from barograph.model.clock import Clock, SystemClock
from barograph.model.finding import SEVERITY_ORDER, Finding, Severity
from barograph.runs.control import read_stop, request_stop
from barograph.store.base import Store


class Action(Protocol):
    """Does something when a finding opens in a run that goes on."""

    def act(self, finding: Finding, store: Store) -> str:
        """Do it, as often as it is asked with the same effect as once.

        Returns:
            One sentence that says what was done; "" if nothing.

        Raises:
            StoreError: It could not be done; the watcher tries again.
        """
        ...


@dataclass(frozen=True)
class Stop:
    """Asks the training to stop, at the first finding that is bad enough.

    Attributes:
        at_least: Mildest severity that stops.
        clock: Tells when it was asked.
    """

    at_least: Severity = Severity.COSTLY
    clock: Clock = field(default_factory=SystemClock)

    def act(self, finding: Finding, store: Store) -> str:
        """Put the request on the store; the training process looks for it and stops between two steps."""
        if SEVERITY_ORDER.index(finding.severity) > SEVERITY_ORDER.index(self.at_least):
            return ""
        if read_stop(store, attempt=finding.attempt) is not None:
            return ""
        reason = f"{finding.code} {finding.rule}: {finding.message}"
        request_stop(store, reason=reason, finding_id=finding.id, attempt=finding.attempt, clock=self.clock)
        return f"asked the training to stop, because of {finding.code} {finding.rule}"
