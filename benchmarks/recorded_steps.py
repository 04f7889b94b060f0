"""What the workers of several frameworks share: how a variant records, and the clocks around its steps."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import barograph
from barograph.attached import AttachedRun

SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "everything": {"preset": "everything", "budget": None},
    "moments": {"preset": "moments", "budget": None},
    "budget": {},
}


def attached(variant: str, directory: str) -> AttachedRun | None:
    """Return the run of a variant; None where nothing is recorded."""
    if variant == "bare":
        return None
    return barograph.attach(to=f"{directory}/run", watch=False, **SETTINGS[variant])


class Clock:
    """Times the steps after some.

    Args:
        warm_up_steps: That are not timed.
        steps: That are.
    """

    def __init__(self, warm_up_steps: int, steps: int) -> None:
        self._first, self._last = warm_up_steps, warm_up_steps + steps
        self._made = 0
        self._began = (0.0, 0.0)
        self._took = (0.0, 0.0)

    def stepped(self) -> None:
        """Note that a step was made."""
        self._made += 1
        if self._made == self._first:
            self._began = (time.perf_counter(), time.process_time())
        elif self._made == self._last:
            self._took = (time.perf_counter() - self._began[0], time.process_time() - self._began[1])

    def result(self, run: AttachedRun | None, directory: str) -> dict[str, Any]:
        """End the recording, and return seconds a step and at how many steps tensors were recorded."""
        recorded = 0
        if run is not None:
            run.close()
            (ending,) = Path(directory, "run", "endings").glob("*.json")
            recorded = json.loads(ending.read_text(encoding="utf-8"))["last"]["coverage"]["steps_seen"]
        steps = self._last - self._first
        return {"wall_secs": self._took[0] / steps, "cpu_secs": self._took[1] / steps, "recorded": recorded}
