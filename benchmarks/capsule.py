"""The cost of writing a withheld step, compared with a plain write of the same bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.interleave import interval_of
from benchmarks.processes import run_worker
from benchmarks.tables import Table, note, progress, ratio_text, span_text


@dataclass(frozen=True, slots=True)
class Effort:
    """Size of the measurement: fresh processes, and capsules in each."""

    processes: int = 3
    rounds: int = 7


QUICK = Effort(processes=1, rounds=5)


def measure_capsule(effort: Effort) -> dict[str, Any]:
    """Return the seconds of each capsule and of the plain writes around it."""
    rounds: list[Mapping[str, Any]] = []
    for number in range(effort.processes):
        progress(f"capsule, process {number + 1} of {effort.processes}")
        rounds += run_worker("capsule_worker", {"rounds": effort.rounds})["rounds"]
    return {"rounds": rounds}


def print_capsule(report: Mapping[str, Any]) -> None:
    """Print the table."""
    rounds = report["rounds"]
    plain = [secs for entry in rounds for secs in entry["plain"]]
    ratios = [entry["capsule"] / (sum(entry["plain"]) / 2) for entry in rounds]
    table = Table("bytes", "plain write", "capsule", "capsule ÷ plain")
    table.add(f"{rounds[0]['bytes'] / 1e6:,.0f} MB", span_text(interval_of(plain), "ms", scale=1e3),
              span_text(interval_of([entry["capsule"] for entry in rounds]), "ms", scale=1e3),
              ratio_text(interval_of(ratios)))
    table.print()
    note("MLP with 10 M parameters and Adam: total time of saving a failing step instead of its update")
