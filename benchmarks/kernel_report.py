"""Runs `kernel.py` in a fresh process, like every measurement, and prints its results."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.processes import WorkerFailed, clean_environment
from benchmarks.tables import Table, note


def measure_kernel(secs: float) -> dict[str, Any]:
    """Return the results of `kernel.py`, with about `secs` per workload."""
    command = [sys.executable, "-m", "benchmarks.kernel", "--json", "--secs", str(secs)]
    with tempfile.TemporaryDirectory(prefix="barograph-bench-") as home:
        environment = clean_environment(Path(home))
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise WorkerFailed(f"kernel.py ended with exit code {done.returncode}: {done.stderr.strip()[-300:]}")
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def print_kernel(report: Mapping[str, Any]) -> None:
    """Print the table."""
    table = Table("memory", "candidate", "GB/s", "spread", "relative to plain read", "time")
    for figure in report["figures"]:
        table.add(
            figure["workload"],
            figure["candidate"],
            f"{figure['gb_per_s']:.2f}",
            f"{figure['low']:.2f}–{figure['high']:.2f}",
            f"×{figure['ratio']:.3f}",
            f"{figure['secs'] * 1e6:,.0f} µs",
        )
    table.print()
    note("compiled loop" if report["native"] else "the compiled loop is not built; these numbers are of the fallback")
