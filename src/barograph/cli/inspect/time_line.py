"""Where the time of a run's steps goes, in one line."""

from __future__ import annotations

from barograph.watch.figures import duration, share

_WORDS = {"data": "waiting for data", "capture": "Barograph"}


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
