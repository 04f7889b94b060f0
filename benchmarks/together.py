"""The speed of many processes that log to one run, until everything is in its store, and whether numbers are lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.interleave import interval_of
from benchmarks.processes import Result, run_worker
from benchmarks.tables import Table, note, progress, span_text


@dataclass(frozen=True, slots=True)
class Way:
    """How they log: numbers per call; total number of names, divided among the processes or logged by each."""

    a_call: int
    names: int
    by_each: bool = True

    def __str__(self) -> str:
        if self.names == self.a_call:
            return f"{self.a_call}"
        return f"{self.a_call}, {self.names:,} names, {'all by each process' if self.by_each else 'split'}"


@dataclass(frozen=True, slots=True)
class Effort:
    """Size of the measurement: repetitions, processes, numbers per process, and ways."""

    rounds: int = 3
    processes: int = 16
    points: int = 1_000_000
    ways: tuple[Way, ...] = (Way(1, 1), Way(10, 10), Way(10, 100_000, by_each=False), Way(10, 100_000))


QUICK = Effort(rounds=2, processes=4, points=50_000, ways=(Way(1, 1), Way(10, 10), Way(10, 10_000, by_each=False)))


def measure_together(effort: Effort) -> dict[str, Any]:
    """Return as `measured` the times and stored numbers of each round, by way."""
    measured: dict[str, list[Result]] = {}
    for number in range(effort.rounds):
        for way in effort.ways:
            progress(f"together, round {number + 1} of {effort.rounds}: {way} a call")
            measured.setdefault(str(way), []).append(run_worker("together_worker", {
                "processes": effort.processes, "points": effort.points, "a_call": way.a_call, "names": way.names,
                "by_each": way.by_each,
            }))  # fmt: skip
    return {"processes": effort.processes, "points": effort.points, "measured": measured}


def print_together(report: Mapping[str, Any]) -> None:
    """Print the table."""
    table = Table("numbers per call", "points/s until on disk", "points/s while logging", "lost")
    for way, rounds in report["measured"].items():
        rates = [interval_of([item["points"] / item[name] for item in rounds]) for name in ("secs", "logging_secs")]
        table.add(way, *(span_text(rate, "M/s", scale=1e-6, digits=2) for rate in rates),
                  f"{sum(item['points'] - item['kept'] for item in rounds):,}")
    table.print()
    note(f"{report['processes']} processes log {report['points']:,} numbers each to one run; timed from the start "
         "until the last one closed the run; points were read back and counted")
