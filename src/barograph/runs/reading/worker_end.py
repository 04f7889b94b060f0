"""Decides whether a worker of a past attempt has published everything."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from barograph.model.clock import Clock
from barograph.model.manifest import Heartbeat, Worker
from barograph.model.settings import Settings
from barograph.runs.format.layout import HEARTBEATS
from barograph.runs.state.survey import Survey
from barograph.runs.state.vitals import Vitals

MAX_CLOSE_SECS = 300.0
"""Upper limit for `close_timeout_secs` of a run: longer ones are ignored, so that nobody waits forever."""


class WorkerEnd:
    """Decides whether workers of an attempt with a successor may still publish.

    The writer process of a killed worker keeps publishing for a while.

    Args:
        clock: Clock of the reader.
        vitals: Heartbeats of workers.
        heartbeat_of: Reads the heartbeat of a worker, by name and attempt; None if unreadable.
        dead_secs: See `vitals.DEAD_SECS`.
        patient: Wait for data that may still come; otherwise the present data is complete.

    Attributes:
        settings: Settings of the run, from its manifest.
    """

    def __init__(
        self,
        clock: Clock,
        vitals: Vitals,
        heartbeat_of: Callable[[str, int], Heartbeat | None],
        *,
        dead_secs: float,
        patient: bool,
    ) -> None:
        self.settings: Mapping[str, Any] = {}
        self._clock = clock
        self._vitals = vitals
        self._heartbeat_of = heartbeat_of
        self._dead_secs = dead_secs
        self._patient = patient
        self._over_since: dict[int, float] = {}
        self._outlived: dict[int, bool] = {}

    def clear_cache(self) -> None:
        """Clear cached results before the next poll."""
        self._outlived.clear()

    def are_over(self, worker: Worker, found: Survey) -> bool:
        """Return whether workers without ending publish no more.

        Raises:
            StoreError: A heartbeat cannot be read.
        """
        return not self._patient or self._vitals.has_settled(worker) or self._is_outlived_now(worker.attempt, found)

    def _is_outlived_now(self, attempt: int, found: Survey) -> bool:
        # Many workers may wait for the answer.
        if attempt not in self._outlived:
            self._outlived[attempt] = self._is_outlived(attempt, found)
        return self._outlived[attempt]

    def _is_outlived(self, attempt: int, found: Survey) -> bool:
        """Return whether later attempts have run longer than workers of this one may keep publishing.

        Measured by how long they have been known here, or by the number of their heartbeats, which are at least a
        second apart, independent of any clock.
        """
        now = self._clock.monotonic()
        if now - self._over_since.setdefault(attempt, now) >= self._longest_secs:
            return True
        beats: dict[int, int] = {}
        for folder, name, later in found.metadata:
            if folder == HEARTBEATS and later > attempt:
                heartbeat = self._heartbeat_of(name, later)
                beats[later] = max(beats.get(later, 0), heartbeat.beat if heartbeat else 0)
        return sum(beats.values()) >= self._longest_secs

    @property
    def _longest_secs(self) -> float:
        """Longest time for which a writer process publishes records of a killed worker."""
        stored = self.settings.get("close_timeout_secs")
        secs = float(stored) if isinstance(stored, int | float) else math.nan
        if not 0 <= secs <= MAX_CLOSE_SECS:
            secs = Settings().close_timeout_secs
        # Twice: it may have to wait for the worker's name first.
        return 2 * secs + self._dead_secs
