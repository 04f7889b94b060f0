"""How many numbers a second many processes log into one run, until all lie in its store, and whether any is lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.interleave import interval_of
from benchmarks.processes import Result, run_worker
from benchmarks.tables import Table, note, progress, span_text


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured: times, processes, and numbers that each of them logs, so many a call."""

    rounds: int = 5
    processes: int = 16
    points: int = 1_000_000
    a_call: tuple[int, ...] = (1, 10)


QUICK = Effort(rounds=2, processes=4, points=50_000)


def measure_together(effort: Effort) -> dict[str, Any]:
    """Return as `measured` what each round took and kept, by numbers a call."""
    measured: dict[str, list[Result]] = {}
    for number in range(effort.rounds):
        for a_call in effort.a_call:
            progress(f"together, round {number + 1} of {effort.rounds}: {a_call} a call")
            measured.setdefault(f"{a_call}", []).append(run_worker("together_worker", {
                "processes": effort.processes, "points": effort.points, "a_call": a_call,
            }))  # fmt: skip
    return {"processes": effort.processes, "points": effort.points, "measured": measured}


def print_together(report: Mapping[str, Any]) -> None:
    """Print the table."""
    table = Table("numbers a call", "points a second, all on disk", "while they log", "lost")
    for a_call, rounds in report["measured"].items():
        rates = [interval_of([item["points"] / item[name] for item in rounds]) for name in ("secs", "logging_secs")]
        table.add(a_call, *(span_text(rate, "M/s", scale=1e-6, digits=2) for rate in rates),
                  f"{sum(item['points'] - item['kept'] for item in rounds):,}")
    table.print()
    note(f"{report['processes']} processes that log {report['points']:,} numbers each into one run; from the moment "
         "that all may begin until the last has closed the run; read back and counted")
