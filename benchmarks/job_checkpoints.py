"""The cost of interruptions for a job: lost time, simulated; and the cost of checkpoints for a training."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from barograph.jobs.simulation.simulate import simulate
from barograph.jobs.simulation.trace import random_traces
from barograph.jobs.simulation.virtual import Training
from barograph.jobs.spec import JobSpec
from benchmarks.interleave import interval_of, paired_ratios
from benchmarks.processes import run_worker
from benchmarks.tables import Table, note, progress, ratio_text

_HOUR_SECS = 3600.0
_MTBF_HOURS = 2.0
_AUTO = {"auto": True, "mtbf_hours": _MTBF_HOURS, "on_sigterm": False, "keep": 1}
_CASES: Mapping[str, tuple[Mapping[str, Any] | None, float]] = {
    "automatic, with a notice of two minutes": (_AUTO, 120.0),
    "automatic": (_AUTO, 0.0),
    "automatic, learned": (None, 0.0),
    "hourly": ({"every_minutes": 60.0}, 0.0),
}
"""Settings of the checkpoints (None: those of a spot job), and the seconds from a notice to the interruption."""


@dataclass(frozen=True, slots=True)
class Effort:
    """Number of simulations, and length of trainings.

    Attributes:
        traces: Number of simulations.
        workloads: The workloads to train.
        rounds: Trainings with checkpoints per workload; there is one more without.
        secs: Length of each.
    """

    traces: int = 1000
    workloads: Sequence[str] = ("mlp", "resnet")
    rounds: int = 3
    secs: float = 90.0


QUICK = Effort(workloads=("resnet",), rounds=1, secs=60.0)


def measure_job_checkpoints(effort: Effort) -> dict[str, Any]:
    """Return the forecasts of a job of 8 h, and for each workload the trainings in measured order."""
    progress("job-checkpoints, simulations")
    traces = random_traces(effort.traces, mtbf_secs=_MTBF_HOURS * _HOUR_SECS)
    simulated = {
        name: simulate(JobSpec(("train.py",), spot=True, settings={"checkpoints": settings}), traces,
                       Training(8 * _HOUR_SECS, start_secs=120.0, checkpoint_secs=5.0, notice_secs=notice)).to_json()
        for name, (settings, notice) in _CASES.items()}
    trained = {}
    for workload in effort.workloads:
        progress(f"job-checkpoints, {workload}")
        trained[workload] = [_trained(workload, name, effort.secs)
                             for name in ["none", *["auto", "none"] * effort.rounds]]
    return {"simulated": simulated, "trained": trained}


def print_job_checkpoints(report: Mapping[str, Any]) -> None:
    """Print both tables."""
    table = Table("checkpoints", "every", "time lost", "repeated steps", "interruptions")
    for name, found in report["simulated"].items():
        table.add(name, f"{found['interval_secs']:.0f} s", f"{found['lost_percent']:.1f}%",
                  f"{found['repeated_steps']['median']:.0f}", f"{found['interruptions']:.1f}")
    table.print()
    note("simulated: 8 h of training in steps of 1 s, a mean time between failures of 2 h, a restart of 120 s, a "
         "checkpoint of 5 s. Time lost: mean, beyond a start and 8 h")
    table = Table("workload", "step with checkpoints", "share in checkpoints", "checkpoints", "each", "then every")
    for workload, runs in report["trained"].items():
        ratios = paired_ratios([(run["name"], run["secs"] / run["steps"]) for run in runs], "none")["auto"]
        saved = [run for run in runs if run["name"] == "auto"]
        costs = [cost for run in saved for cost in run["costs_secs"]]
        cost = sorted(costs)[len(costs) // 2]
        table.add(workload, ratio_text(interval_of(ratios)), f"{100 * overhead(cost):.2f}%", str(len(costs)),
                  f"{1000 * cost:.0f} ms", f"{math.sqrt(2 * cost * _MTBF_HOURS * _HOUR_SECS):.0f} s")
    table.print()
    note("real trainings with checkpoints at the automatic interval, each beside trainings without. Share in "
         "checkpoints: all time between two steps, at the automatic interval for a mean time between failures of 2 h")


def overhead(cost_secs: float) -> float:
    """Return the share of time that checkpoints take at the automatic interval.

    Example:
        >>> round(overhead(5.0), 4)
        0.0183
    """
    interval = math.sqrt(2 * cost_secs * _MTBF_HOURS * _HOUR_SECS)
    return cost_secs / (interval + cost_secs)


def _trained(workload: str, name: str, secs: float) -> dict[str, Any]:
    return {"name": name, **run_worker("job_checkpoints_worker", {
        "workload": workload, "secs": secs, "checkpoints": _AUTO if name == "auto" else None})}
