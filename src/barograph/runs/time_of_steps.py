"""Where the time of a run's steps goes."""

from __future__ import annotations

from collections import defaultdict

from barograph.model.key import Kind
from barograph.runs.reader import Run

STEP_PARTS = ("data", "forward", "backward", "optimizer", "capture", "other")
"""What a step is made of, as `Kind.TIME` names it."""


def time_of_steps(run: Run) -> dict[str, float]:
    """Return the mean seconds of a step, under "step", and of its parts, over all that was told; {} of nothing."""
    table = run.arrow(Kind.TIME, columns=("worker", "attempt", "tick", "path", "value"))
    told: dict[tuple[str, int, int], dict[str, float]] = defaultdict(dict)
    for row in table.to_pylist():
        told[row["worker"], row["attempt"], row["tick"]][row["path"]] = row["value"]
    steps = sum(times.get("steps", 0.0) for times in told.values())
    if not steps:
        return {}
    found: dict[str, float] = {}
    for name in ("step", *STEP_PARTS):
        # A part that some tellings do not know is the mean of those that do.
        known = [times for times in told.values() if name in times and "steps" in times]
        count = sum(times["steps"] for times in known)
        if count:
            found[name] = sum(times[name] * times["steps"] for times in known) / count
    return found
