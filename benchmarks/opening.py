"""The time to open a run, the first time in a process and again; compared with MLflow."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.environments import OWN
from benchmarks.interleave import interval_of
from benchmarks.processes import Result, run_worker
from benchmarks.rounds import in_rounds
from benchmarks.tables import Table, note, span_text

WAYS: Mapping[str, str] = {"attach": OWN, "Run": OWN, "mlflow": "mlflow"}
"""Ways to open a run, and the environment of each."""


@dataclass(frozen=True, slots=True)
class Effort:
    """Size of the measurement: processes per way, and runs that each opens after its first."""

    rounds: int = 7
    times: int = 10


QUICK = Effort(rounds=3, times=5)


def measure_opening(ways: Mapping[str, str], effort: Effort, *, seed: int = 0) -> dict[str, Any]:
    """Return the times of each process of each way; `failures` has ways that fail, with the reason."""
    measured: dict[str, list[Result]] = defaultdict(list)

    def measure(way: str, _: int) -> None:
        measured[way].append(run_worker("opening_worker", {"way": way, "times": effort.times}, environment=ways[way]))

    failures = in_rounds("open", list(ways), effort.rounds, measure, seed=seed)
    return {"measured": dict(measured), "failures": failures}


def print_opening(report: Mapping[str, Any]) -> None:
    """Print the table."""
    table = Table("opened by", "first in a process, with imports", "again")
    for way, rounds in report["measured"].items():
        first = interval_of([item["first_secs"] for item in rounds])
        again = interval_of([secs for item in rounds for secs in item["again_secs"]])
        table.add(way, *(span_text(value, "ms", scale=1e3, digits=1) for value in (first, again)))
    table.print()
    note("time until the script continues, in a repository with changes. attach records the origin of the run and "
         "finds torch and an optimizer loaded; Run is a run written by a program; MLflow stores its runs in SQLite")
    for way, reason in report["failures"].items():
        note(f"{way} failed: {reason}")
