"""The time from the end of a bad step to its finding on the terminal, with the default settings."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.environments import ROOT
from benchmarks.interleave import interval_of
from benchmarks.processes import WorkerFailed, clean_environment
from benchmarks.tables import Table, note, progress, span_text

SCRIPT = ROOT / "benchmarks" / "scripts" / "nan_at_step.py"

STEP_ENDED = re.compile(r"bad step ended at ([\d.]+)")

FINDING = re.compile(r"\bN101\b")
"""Matches the watcher's line of the finding: the code of the rule that detects non-finite values."""


@dataclass(frozen=True, slots=True)
class Effort:
    """Size of the measurement: runs, steps of each, and the bad step."""

    rounds: int = 7
    steps: int = 1000
    bad_step: int = 200


QUICK = Effort(rounds=3)


def measure_findings(effort: Effort) -> dict[str, Any]:
    """Return, for each run, the seconds from the end of the bad step to the line of its finding."""
    latencies = []
    for number in range(effort.rounds):
        progress(f"finding, round {number + 1} of {effort.rounds}")
        latencies.append(_latency(effort))
    return {"latencies": latencies}


def _latency(effort: Effort) -> Mapping[str, Any]:
    with tempfile.TemporaryDirectory(prefix="barograph-bench-", ignore_cleanup_errors=True) as scratch:
        command = [sys.executable, "-m", "barograph", "run", "--to", f"{scratch}/run", str(SCRIPT)]
        lines = _lines_with_times([*command, str(effort.bad_step), str(effort.steps)], Path(scratch))
    return latency_of(lines)


def _lines_with_times(command: Sequence[str], home: Path, timeout_secs: float = 120.0) -> list[tuple[float, str]]:
    """Return every line that the command prints to either stream, with its time of arrival."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=clean_environment(home), cwd=home
    )
    assert process.stdout is not None
    deadline = time.monotonic() + timeout_secs
    lines = []
    for line in process.stdout:
        lines.append((time.time(), line.rstrip("\n")))
        if time.monotonic() > deadline:
            process.kill()
            raise WorkerFailed(f"not done within {timeout_secs:.0f} s; last it said: {line.strip()}")
    process.wait()
    return lines


def latency_of(lines: Sequence[tuple[float, str]]) -> Mapping[str, Any]:
    """Return the seconds from the end of the bad step to the watcher's first line that names a finding after it.

    Args:
        lines: (time of arrival, text), in the order of arrival.

    Raises:
        WorkerFailed: The script never reached the step, or no finding followed; the message contains the output.
    """
    ended = next((float(match[1]) for _, text in lines if (match := STEP_ENDED.search(text))), None)
    if ended is None:
        raise WorkerFailed(f"the script never reached its bad step: {' | '.join(text for _, text in lines[-3:])}")
    for arrived, text in lines:
        if arrived >= ended and FINDING.search(text):
            return {"secs": arrived - ended, "line": text.strip()}
    raise WorkerFailed(f"no finding followed: {' | '.join(text for _, text in lines[-5:])}")


def print_findings(report: Mapping[str, Any]) -> None:
    """Print the table."""
    interval = interval_of([entry["secs"] for entry in report["latencies"]])
    table = Table("from", "to", "time")
    table.add("end of the step", "finding in the terminal", span_text(interval, "s", digits=2))
    table.print()
    note(f"printed line: {report['latencies'][-1]['line']}")
