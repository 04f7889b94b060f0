"""The CPUs that a trial reserves: as many as earlier trials used, so that trials which leave cores idle share them."""

from __future__ import annotations

import math
from collections import deque

from barograph.errors import StoreError
from barograph.jobs.job_log import EventLog, instance_folder
from barograph.jobs.job_report import JobView

_LATEST = 5
_MARGIN = 1.1
_GRAIN, _LEAST = 0.05, 0.1


class Packing:
    """Chooses how many CPUs the next trial reserves.

    Args:
        cpus: CPUs of a trial until one is measured, and the maximum.
    """

    def __init__(self, cpus: float) -> None:
        self._cpus = cpus
        self._measured: deque[float] = deque(maxlen=_LATEST)

    def add(self, cores: float) -> None:
        """Add the mean number of cores that a trial used; NaN: unknown."""
        if math.isfinite(cores):
            self._measured.append(cores)

    @property
    def cpus(self) -> float:
        """CPUs of the next trial.

        Example:
            >>> packing = Packing(1.0)
            >>> packing.add(0.21)
            >>> packing.cpus
            0.25
        """
        if not self._measured:
            return self._cpus
        wanted = math.ceil(max(self._measured) * _MARGIN / _GRAIN) * _GRAIN
        return min(round(max(wanted, _LEAST), 2), self._cpus)


def cores_used(view: JobView) -> float:
    """Return the mean number of cores that the first instance of a job used; NaN if unknown."""
    try:
        events = EventLog(view.store, instance_folder(view.state.attempt, 0)).new()
    except StoreError:
        return math.nan
    found = [event.data["cores"] for event in events if event.data.get("cores") is not None]
    return float(found[-1]) if found else math.nan
