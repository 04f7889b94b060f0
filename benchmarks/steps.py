"""The cost of a training step with each tool, as a ratio to the bare step."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.interleave import Interval, interval_of, paired_ratios, round_order
from benchmarks.processes import KEEP_PAGES, Result, WorkerFailed, run_worker
from benchmarks.tables import Table, note, progress, ratio_text, span_text
from benchmarks.variants import BASE, VARIANTS, Variant


@dataclass(frozen=True, slots=True)
class Effort:
    """Size of the measurement.

    Attributes:
        rounds: Every variant is measured once per round.
        least_secs, least_steps: Each measurement exceeds both.
        warm_up_steps, warm_up_secs: Both are exceeded before the clock starts. One-time work of a tool at its start is
            measured separately: see `start`.
        between: Number of variants between two bare measurements.
        variables: Environment variables of each measurement.
    """

    rounds: int = 7
    least_secs: float = 4.0
    least_steps: int = 8
    warm_up_steps: int = 3
    warm_up_secs: float = 2.0
    between: int = 2
    variables: Mapping[str, str] = field(default_factory=lambda: KEEP_PAGES)


QUICK = Effort(rounds=3, least_secs=1.5, least_steps=4, warm_up_steps=2, warm_up_secs=1.2)


def measure_steps(
    workload: str, names: Sequence[str], effort: Effort, *, device: str = "cpu", seed: int = 0
) -> dict[str, Any]:
    """Return the step times of every variant on one workload: raw values, and ratios with their intervals.

    `failures` has variants that fail, with the reason; they have no ratio.
    """
    generator = random.Random(seed)
    rounds: list[list[dict[str, Any]]] = []
    failures: dict[str, str] = {}
    for number in range(effort.rounds):
        measured: list[dict[str, Any]] = []
        for name in round_order([name for name in names if name not in failures], BASE,
                                between=effort.between, generator=generator):  # fmt: skip
            progress(f"{workload}, round {number + 1} of {effort.rounds}: {name}")
            try:
                measured.append({"variant": name, **_measure(workload, VARIANTS[name], effort, device)})
            except WorkerFailed as error:
                failures[name] = str(error)
        rounds.append(measured)
    return {
        "workload": workload,
        "device": device,
        "effort": asdict(effort),
        "rounds": rounds,
        "failures": failures,
        "wall": _ratios(rounds, "mean_secs"),
        "thread": _ratios(rounds, "thread_secs"),
        "cpu": _ratios(rounds, "cpu_secs"),
    }


def _measure(workload: str, variant: Variant, effort: Effort, device: str) -> Result:
    request = {
        "workload": workload,
        "device": device,
        "tool": variant.tool,
        "options": dict(variant.options),
        "warm_up_steps": effort.warm_up_steps,
        "warm_up_secs": effort.warm_up_secs,
        "least_steps": effort.least_steps,
        "least_secs": effort.least_secs * variant.stretch,
    }
    return run_worker("step_worker", request, environment=variant.environment, variables=effort.variables)


def _ratios(rounds: Iterable[Sequence[Mapping[str, Any]]], figure: str) -> dict[str, dict[str, Any]]:
    collected: dict[str, list[float]] = defaultdict(list)
    for measured in rounds:
        _refuse_other_torch(measured)
        figures = [(entry["variant"], entry.get(figure, math.nan)) for entry in measured]
        for name, values in paired_ratios(figures, BASE).items():
            collected[name] += values
    return {name: asdict(interval_of(values)) for name, values in collected.items() if values}


def _refuse_other_torch(measured: Sequence[Mapping[str, Any]]) -> None:
    versions = {entry["torch"] for entry in measured}
    if len(versions) > 1:
        raise ValueError(f"steps of different torch cannot be compared: {', '.join(sorted(versions))}")


def print_steps(report: Mapping[str, Any]) -> None:
    """Print a workload's table."""
    entries = [entry for measured in report["rounds"] for entry in measured]
    bare = interval_of([entry["mean_secs"] for entry in entries if entry["variant"] == BASE])
    print(f"\n{report['workload']} on {report['device']}: bare step {span_text(bare, 'ms', scale=1e3)}")
    table = Table("variant", "step", "min–max", "thread CPU", "total CPU", "kB/step", "records")
    for name, wall in report["wall"].items():
        sizes = [entry["bytes_per_step"] for entry in entries if entry["variant"] == name]
        interval = Interval(**wall)
        table.add(
            f"{name} (control)" if name == BASE else name,
            ratio_text(interval),
            f"{interval.least:.3f}–{interval.greatest:.3f}",
            ratio_text(Interval(**report["thread"][name])),
            f"×{report['cpu'][name]['median']:.3f}",
            f"{interval_of(sizes).median / 1e3:,.1f}",
            VARIANTS[name].does,
        )
    table.print()
    rounds = report["effort"]["rounds"]
    note(
        f"step: wall time; […]: contains the true median with probability {interval_of(range(rounds)).coverage:.2f} "
        f"({rounds} rounds); thread CPU: processor time of the training thread"
    )
    if BASE in report["wall"]:
        control = Interval(**report["wall"][BASE])
        resolved = max(control.high - 1, 1 - control.low)
        note(f"the control varies by {resolved:.1%}: smaller differences of wall time are noise in this run")
    for name, shares in _own_shares(entries).items():
        note(f"{name} reports its own cost as {interval_of(shares).median:.2%} of the training time")
    for name, reason in report["failures"].items():
        note(f"{name} failed: {reason}")


def _own_shares(entries: Iterable[Mapping[str, Any]]) -> Mapping[str, list[float]]:
    """Return the self-measured cost of tools that have one, over the complete run including warm-up."""
    shares: dict[str, list[float]] = defaultdict(list)
    for entry in entries:
        if cost := entry["facts"].get("cost"):
            shares[entry["variant"]].append(cost["capture_secs"] / cost["train_secs"])
    return shares
