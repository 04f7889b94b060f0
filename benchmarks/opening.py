"""How long opening a run keeps the script that opens it, the first time in a process and again; beside MLflow."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.environments import OWN
from benchmarks.interleave import interval_of
from benchmarks.processes import Result, WorkerFailed, run_worker
from benchmarks.tables import Table, note, progress, span_text

WAYS: Mapping[str, str] = {"attach": OWN, "Run": OWN, "mlflow": "mlflow"}
"""What opens a run, and the environment that it is in."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured: processes of each way, and runs that each opens after its first."""

    rounds: int = 7
    times: int = 10


QUICK = Effort(rounds=3, times=5)


def measure_opening(ways: Mapping[str, str], effort: Effort, *, seed: int = 0) -> dict[str, Any]:
    """Return what each process of each way took; ways that fail are named in `failures`, with the reason."""
    generator = random.Random(seed)
    measured: dict[str, list[Result]] = defaultdict(list)
    failures: dict[str, str] = {}
    for number in range(effort.rounds):
        for way in generator.sample(list(ways), len(ways)):
            if way in failures:
                continue
            progress(f"open, round {number + 1} of {effort.rounds}: {way}")
            try:
                measured[way].append(run_worker("opening_worker", {"way": way, "times": effort.times},
                                                environment=ways[way]))
            except WorkerFailed as error:
                failures[way] = str(error)
    return {"measured": dict(measured), "failures": failures}


def print_opening(report: Mapping[str, Any]) -> None:
    """Print the table."""
    table = Table("a run is opened by", "the first of a process, imports included", "again")
    for way, rounds in report["measured"].items():
        first = interval_of([item["first_secs"] for item in rounds])
        again = interval_of([secs for item in rounds for secs in item["again_secs"]])
        table.add(way, *(span_text(value, "ms", scale=1e3, digits=1) for value in (first, again)))
    table.print()
    note("until the script goes on; in a repository with changes. attach keeps what made the run, and finds "
         "torch and an optimizer there; Run is a run that a program writes itself; MLflow keeps its runs in SQLite")
    for way, reason in report["failures"].items():
        note(f"{way} failed: {reason}")
