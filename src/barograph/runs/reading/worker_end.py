"""When a worker of an attempt that is over has published all that it ever will."""

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

LONGEST_LAST_WORDS_SECS = 300.0
"""A run whose settings speak of a longer `close_timeout_secs` is taken to speak of none: nobody waits for ever."""


class WorkerEnd:
    """Says of the workers of an attempt, after which a later one was begun, whether anything more can come.

    What a killed worker had handed over is still being published for a while, by another process.

    Args:
        clock: The reader's own.
        vitals: Which workers are silent.
        heartbeat_of: Reads the heartbeat of a worker, by name and attempt; None where that cannot be read.
        dead_secs: See `vitals.DEAD_SECS`.
        patient: Wait for what may come yet; else what is there now is all there is.

    Attributes:
        settings: Of the run, as its manifest has them.
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

    def look_anew(self) -> None:
        """Forget what was answered: the next questions are about a later moment."""
        self._outlived.clear()

    def are_said(self, worker: Worker, found: Survey) -> bool:
        """Return whether nothing more comes from a worker without ending.

        Raises:
            StoreError: A heartbeat cannot be read now.
        """
        return not self._patient or self._vitals.has_settled(worker) or self._is_outlived_now(worker.attempt, found)

    def _is_outlived_now(self, attempt: int, found: Survey) -> bool:
        # Many workers may wait for the answer.
        if attempt not in self._outlived:
            self._outlived[attempt] = self._is_outlived(attempt, found)
        return self._outlived[attempt]

    def _is_outlived(self, attempt: int, found: Survey) -> bool:
        """Return whether later attempts have lived for longer than anybody of this one may go on publishing.

        Told by how long they have been known here, or by their own heartbeats, which come a second apart at
        least: where they have beaten so often, so long have they lived, whatever anybody's clock says.
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
        """How long at most what a killed worker handed over is still being published."""
        told = self.settings.get("close_timeout_secs")
        secs = float(told) if isinstance(told, int | float) else math.nan
        if not 0 <= secs <= LONGEST_LAST_WORDS_SECS:
            secs = Settings().close_timeout_secs
        # Twice: it may have to wait for the worker's name first.
        return 2 * secs + self._dead_secs
