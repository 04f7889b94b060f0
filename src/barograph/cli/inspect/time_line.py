"""Formats the time per step by phase as one line."""

from __future__ import annotations

from barograph.queries.step_time import TimeOfSteps
from barograph.watch.figures import duration, share


def time_line(time: TimeOfSteps) -> str:
    """Return one line, the longest phase first; "" without data.

    Example:
        >>> time_line(TimeOfSteps({"step": 0.2, "data": 0.05, "forward": 0.05, "backward": 0.1}))
        'backward 50.0%, waiting for data 25.0%, forward 25.0% of 200 ms a step'
    """
    if not time.step_secs:
        return ""
    shown = [f"{part.name} {share(part.share)}" for part in time.parts]
    return f"{', '.join(shown)} of {duration(time.step_secs)} a step" if shown else f"{duration(time.step_secs)} a step"
