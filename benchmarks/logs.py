"""The cost of logging a number, and the size of a point on disk, compared with other trackers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.interleave import Interval, interval_of
from benchmarks.processes import Result, run_worker
from benchmarks.rounds import in_rounds
from benchmarks.tables import Table, note

TOOLS = ("barograph", "tensorboard", "wandb", "trackio", "aim", "mlflow")

SEVERAL = 10
"""Numbers per call that logs several."""

PACE_HZ, PACED_CALLS = 20.0, 300
"""A training with 50 ms per step that logs every step: the size on disk must not depend on the speed of logging."""


@dataclass(frozen=True, slots=True)
class Effort:
    """Duration of the measurement: rounds, and seconds of logging in each."""

    rounds: int = 5
    secs: float = 1.0
    paced_calls: int = PACED_CALLS


QUICK = Effort(rounds=2, secs=0.5, paced_calls=100)


def measure_logs(tools: Sequence[str], effort: Effort, *, seed: int = 0) -> dict[str, Any]:
    """Return the raw results of each tool: one number per call, several per call, and bytes per point at a fixed pace.

    `failures` has tools that fail, with the reason.
    """
    measured: dict[str, dict[str, list[Result]]] = {tool: defaultdict(list) for tool in tools}

    def measure(tool: str, number: int) -> None:
        measured[tool]["one"].append(_measure(tool, scalars=1, secs=effort.secs))
        measured[tool]["several"].append(_measure(tool, scalars=SEVERAL, secs=effort.secs))
        if number == 0:  # the size on disk hardly differs between rounds
            measured[tool]["empty"].append(_at_a_pace(tool, 1))
            measured[tool]["paced"].append(_at_a_pace(tool, effort.paced_calls))

    failures = in_rounds("log", tools, effort.rounds, measure, seed=seed)
    return {"measured": measured, "failures": failures}


def _measure(tool: str, **request: Any) -> Result:
    return run_worker("log_worker", {"tool": tool, **request}, environment=tool)


def _at_a_pace(tool: str, calls: int) -> Result:
    return _measure(tool, scalars=SEVERAL, pace_hz=PACE_HZ, calls=calls)


def bytes_a_point(empty: Mapping[str, Any], full: Mapping[str, Any]) -> float:
    """Return the size of one more point: the difference from a log of one call, divided by the difference in points."""
    added_bytes: int = full["bytes"] - empty["bytes"]
    added_points: int = full["points"] - empty["points"]
    return added_bytes / added_points


def print_logs(report: Mapping[str, Any]) -> None:
    """Print the table."""
    table = Table(
        "tool", "calls/s, one number", f"numbers/s, {SEVERAL} per call", "bytes/point", "empty log", "close", "kept"
    )
    for tool, measured in report["measured"].items():
        if tool in report["failures"]:
            continue
        one, several, paced, empty = (measured[name] for name in ("one", "several", "paced", "empty"))
        every = [*one, *several, *paced]
        table.add(
            tool,
            _rate([entry["calls_per_sec"] for entry in one]),
            _rate([entry["calls_per_sec"] * SEVERAL for entry in several]),
            f"{bytes_a_point(empty[0], paced[0]):,.1f}",
            f"{empty[0]['bytes'] / 1e3:,.0f} kB",
            f"{max(entry['close_secs'] for entry in every):.2f} s",
            f"{sum(entry['kept'] for entry in every) / sum(entry['points'] for entry in every):.2%}",
        )
    table.print()
    note(
        f"bytes/point: {SEVERAL} numbers per step at {PACE_HZ:.0f} steps/s, after closing, minus the log of a single "
        "step; kept: share of logged points that were read back; close: longest wait at the end"
    )
    for tool, reason in report["failures"].items():
        note(f"{tool} failed: {reason}")


def _rate(values: Sequence[float]) -> str:
    interval: Interval = interval_of(values)
    return f"{interval.median:,.0f} ({interval.least:,.0f}–{interval.greatest:,.0f})"
