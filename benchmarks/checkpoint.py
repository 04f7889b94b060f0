"""The cost of a checkpoint for its training, compared with `torch.save` and a plain write of as many bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.processes import run_worker
from benchmarks.tables import Table, note, progress


@dataclass(frozen=True, slots=True)
class Effort:
    """What to save, and how often."""

    workloads: Sequence[str] = ("mlp", "resnet", "gpt")
    rounds: int = 9


QUICK = Effort(workloads=("resnet",), rounds=5)


def measure_checkpoint(effort: Effort) -> dict[str, Any]:
    """Return, for each workload, the seconds of each round by way, and the bytes."""
    found = {}
    for name in effort.workloads:
        progress(f"checkpoint, {name}")
        found[name] = run_worker("checkpoint_worker", {"workload": name, "rounds": effort.rounds})
    return found


def print_checkpoint(report: Mapping[str, Any]) -> None:
    """Print the table."""
    table = Table("workload", "MB", "barograph", "torch.save", "plain write", "read by resume")
    for name, found in report.items():
        secs = {way: sorted(values)[len(values) // 2] for way, values in found["secs"].items()}
        table.add(name, f"{found['bytes'] / 1e6:.0f}", *(f"{1000 * secs[way]:.0f} ms" for way in
                                                         ("barograph", "torch.save", "plain", "read")))
    table.print()
    note("median of interleaved rounds. barograph: all time between two steps, with digests; torch.save: state dicts "
         "of model and optimizer; plain write: the same number of bytes")
