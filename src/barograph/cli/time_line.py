"""Where the time of a run's steps goes, in one line."""

from __future__ import annotations

from collections import defaultdict

from barograph.cli.figures import duration, share
from barograph.model.key import Kind
from barograph.runs.reader import Run

_WORDS = {"data": "waiting for data", "capture": "Barograph"}
_PARTS = ("data", "forward", "backward", "optimizer", "capture", "other")


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
    for name in ("step", *_PARTS):
        # A part that some tellings do not know is the mean of those that do.
        known = [times for times in told.values() if name in times and "steps" in times]
        count = sum(times["steps"] for times in known)
        if count:
            found[name] = sum(times[name] * times["steps"] for times in known) / count
    return found


def time_line(times: dict[str, float]) -> str:
    """Return it for a person, the greatest part first; "" of nothing.

    Example:
        >>> time_line({"step": 0.2, "data": 0.05, "forward": 0.05, "backward": 0.1})
        'backward 50.0%, waiting for data 25.0%, forward 25.0% of 200.0 ms a step'
    """
    if not times.get("step"):
        return ""
    parts = sorted(((secs, name) for name, secs in times.items() if name != "step"), key=lambda item: -item[0])
    shown = [f"{_WORDS.get(name, name)} {share(secs / times['step'])}" for secs, name in parts if secs > 0]
    return f"{', '.join(shown)} of {duration(times['step'])} a step" if shown else f"{duration(times['step'])} a step"
