"""The number of summaries per second that all rules judge, and the cost of a watcher that follows a long run."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.interleave import interval_of
from benchmarks.processes import run_worker
from benchmarks.tables import Table, note, progress, span_text


@dataclass(frozen=True, slots=True)
class Effort:
    """Size of the measurement.

    Attributes:
        rounds: Number of processes that judge each run.
        recorded: Number of recorded training steps.
        judged: (towers, steps) of each run to judge: a model with about a thousand tensors per tower.
        followed: Number of steps of the run that a watcher follows.
        block: Number of steps written at a time while it follows; its cost is reported per block.
    """

    rounds: int = 5
    recorded: int = 200
    judged: tuple[tuple[int, int], ...] = ((1, 2000), (3, 1000), (10, 500))
    followed: int = 100_000
    block: int = 1000


QUICK = Effort(rounds=2, recorded=60, judged=((1, 500), (10, 100)), followed=10_000)


def measure_judging(effort: Effort) -> dict[str, Any]:
    """Return times of reading and judging runs of several sizes, each in fresh processes."""
    with tempfile.TemporaryDirectory(prefix="barograph-bench-") as directory:
        recorded = _recorded(directory, effort)
        runs = []
        for towers, steps in effort.judged:
            url = str(Path(directory, f"run{towers}"))
            progress(f"judge: writing {steps} steps of {towers} × 1,000 keys")
            run_worker("judging_worker", {
                "verb": "repeat", "recorded": recorded, "url": url, "towers": towers, "steps": steps,
            })  # fmt: skip
            rounds = []
            for number in range(effort.rounds):
                progress(f"judge, round {number + 1} of {effort.rounds}")
                rounds.append(run_worker("judging_worker", {"verb": "judge", "url": url}))
            runs.append({"towers": towers, "steps": steps, "rounds": rounds})
        return {"runs": runs}


def print_judging(report: Mapping[str, Any]) -> None:
    """Print the table."""
    table = Table("keys per step", "from memory", "from disk", "time per step")
    for run in report["runs"]:
        rates = {name: interval_of([item["judged"]["summaries"] / item[name]["cpu_secs"] for item in run["rounds"]])
                 for name in ("judged", "watched")}
        each = interval_of([item["judged"]["cpu_secs"] / run["steps"] for item in run["rounds"]])
        keys = run["rounds"][0]["judged"]["summaries"] / run["steps"]
        shown = [span_text(rates[name], "M/s", scale=1e-6, digits=2) for name in ("judged", "watched")]
        table.add(f"{keys:,.0f}", *shown, span_text(each, "ms", scale=1e3, digits=2))
    table.print()
    first = report["runs"][0]["rounds"][0]["watched"]
    note(f"summaries (one per tensor and step) evaluated per CPU second, one thread, {first['rules']} rules; every "
         f"step recorded completely. Findings: {', '.join(first['findings']) or 'nothing'}")


def measure_following(effort: Effort) -> dict[str, Any]:
    """Return the memory and the cost of a watcher per block, while it follows a growing run."""
    with tempfile.TemporaryDirectory(prefix="barograph-bench-") as directory:
        recorded = _recorded(directory, effort)
        progress(f"follow: {effort.followed:,} steps")
        return run_worker("following_worker", {
            "recorded": recorded, "steps": effort.followed, "block": effort.block,
        }, timeout_secs=3600)  # fmt: skip


def print_following(report: Mapping[str, Any]) -> None:
    """Print the table."""
    blocks = report["blocks"]
    # The first block includes the watcher's start, which is not the cost of a further step.
    tenth = max(1, len(blocks) // 10)
    early, late = blocks[1 : 1 + tenth], blocks[-tenth:]
    first, last = (interval_of([block["cpu_secs"] / block["steps"] for block in part]) for part in (early, late))
    table = Table("after steps", "watcher time per step", "watcher memory")
    for part, interval in ((early, first), (late, last)):
        table.add(f"{part[-1]['through']:,}", span_text(interval, "ms", scale=1e3, digits=2), _megabytes(part[-1]))
    table.print()
    ratio = last.median / first.median
    note(f"steps of the last tenth cost ×{ratio:.3f} of those of the first; peak memory "
         f"{report['peak_bytes'] / 1e6:,.0f} MB; {report['keys']:,.0f} keys per step, each step recorded completely; "
         f"the run keeps the last {report['keep_last']:,}. Findings: {', '.join(report['findings']) or 'nothing'}")


def _megabytes(block: Mapping[str, Any]) -> str:
    return f"{block['resident_bytes'] / 1e6:,.0f} MB"


def _recorded(directory: str, effort: Effort) -> str:
    """Return the URL of a recorded training."""
    url = str(Path(directory, "recorded"))
    progress(f"recording a training of {effort.recorded} steps")
    run_worker("judging_worker", {"verb": "record", "recorded": url, "steps": effort.recorded})
    return url
