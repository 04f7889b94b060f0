"""The time to read a million points of one series from disk into NumPy."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.interleave import interval_of
from benchmarks.processes import run_worker, size_of
from benchmarks.tables import Table, note, progress, span_text


@dataclass(frozen=True, slots=True)
class Effort:
    """Size of the measurement: processes that read, reads in each, and the parts in which the series is written."""

    rounds: int = 5
    times: int = 6
    points: int = 1_000_000
    parts: int = 20


QUICK = Effort(rounds=2, times=4, parts=4)

PAUSE_SECS = 0.8
"""Pause after each part: longer than the default `flush_secs`, so that each becomes a separate chunk."""


def measure_reading(effort: Effort) -> dict[str, Any]:
    """Return the seconds of the first and of later reads, each in fresh processes."""
    with tempfile.TemporaryDirectory(prefix="barograph-bench-") as directory:
        url = str(Path(directory, "run"))
        progress(f"read: writing {effort.points:,} points")
        run_worker("read_worker", {
            "verb": "write", "url": url, "points": effort.points, "parts": effort.parts, "pause_secs": PAUSE_SECS,
        })  # fmt: skip
        rounds = []
        for number in range(effort.rounds):
            progress(f"read, round {number + 1} of {effort.rounds}")
            rounds.append(run_worker("read_worker", {
                "verb": "read", "url": url, "points": effort.points, "times": effort.times,
            }))  # fmt: skip
        files = len(list(Path(url).rglob("*.parquet")))
        return {"points": effort.points, "files": files, "bytes": size_of(url), "rounds": rounds}


def print_reading(report: Mapping[str, Any]) -> None:
    """Print the table."""
    first = interval_of([entry["first_secs"] for entry in report["rounds"]])
    later = interval_of([secs for entry in report["rounds"] for secs in entry["later_secs"]])
    table = Table("read", "open and series, to NumPy")
    table.add("first of a process, with what it imports", span_text(first, "ms", scale=1e3))
    table.add("later", span_text(later, "ms", scale=1e3))
    table.print()
    weight = report["bytes"] / report["points"]
    note(f"{report['points']:,} points in {report['files']} files, {weight:.1f} bytes per point; all values checked")
