"""The cost of the data trace per step, and its size on disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.interleave import interval_of, paired_ratios
from benchmarks.processes import run_worker
from benchmarks.tables import Table, note, progress, ratio_text, span_text


@dataclass(frozen=True, slots=True)
class Effort:
    """Size of the measurement: rounds of off, on, off; steps per process; batch size; steps whose bytes are counted;
    blocks of batches alone."""

    rounds: int = 15
    steps: int = 5000
    batch: int = 64
    traced_steps: int = 2000
    blocks: int = 100


QUICK = Effort(rounds=5, steps=2000)

STEP_SAMPLES = 60_000

ORDERS = (
    ("in order", 60_000), ("shuffled", 60_000), ("shuffled", 1_000_000), ("with replacement", 1_000_000),
    ("another sampler", 60_000), ("another sampler", 1_000_000), ("weighted", 1_000_000),
)
"""Orders of samples, and number of samples."""


def measure_trace(effort: Effort) -> dict[str, Any]:
    """Return seconds per step without and with the trace, alternating in fresh processes, and bytes per sample."""
    rounds = []
    for number in range(effort.rounds):
        progress(f"trace, round {number + 1} of {effort.rounds}")
        rounds.append([_step(name, effort) for name in ("off", "on", "off")])
    progress("trace: a batch by itself")
    batches = [{name: _batch(name, effort) for name in ("off", "on")} for _ in range(effort.rounds)]
    sizes = []
    for order, samples in ORDERS:
        progress(f"trace: bytes of {samples:,} samples, {order}")
        found = run_worker("trace_worker", {"verb": "bytes", "order": order, "samples": samples, "batch": effort.batch,
                                            "steps": effort.traced_steps})
        sizes.append({"order": order, "samples": samples, "bytes_per_sample": found["bytes"] / found["samples"]})
    return {"rounds": rounds, "batches": batches, "sizes": sizes}


def print_trace(report: Mapping[str, Any]) -> None:
    """Print both tables."""
    table = Table("per step", "without", "with ÷ without", "added")
    for key, name in (("mean_secs", "wall"), ("thread_secs", "thread CPU"), ("cpu_secs", "total CPU")):
        without = [entry[key] for entries in report["rounds"] for entry in entries if entry["variant"] == "off"]
        measured = [[(entry["variant"], entry[key]) for entry in entries] for entries in report["rounds"]]
        ratios = [ratio for entries in measured for ratio in paired_ratios(entries, "off").get("on", ())]
        more = [(on - (before + after) / 2) for (_, before), (_, on), (_, after) in measured]
        table.add(name, span_text(interval_of(without), "ms", scale=1e3, digits=3), ratio_text(interval_of(ratios)),
                  span_text(interval_of(more), "µs", scale=1e6))
    table.print()
    note("two-layer network, batches of 64 from a shuffled in-memory data set of 60,000; otherwise only the loss is "
         "recorded")
    more = [pair["on"] - pair["off"] for pair in report["batches"]]
    note(f"a single batch, fastest of many: {span_text(interval_of(more), 'µs', scale=1e6)} of the training thread, up "
         "to the writer's queue")
    sizes = Table("order", "samples", "bytes/sample on disk")
    for entry in report["sizes"]:
        sizes.add(entry["order"], f"{entry['samples']:,}", f"{entry['bytes_per_sample']:.3f}")
    sizes.print()


def _batch(variant: str, effort: Effort) -> float:
    found = run_worker("trace_worker", {"verb": "batches", "batch": effort.batch, "blocks": effort.blocks,
                                        "trace": variant == "on"})
    return float(found["least_secs"])


def _step(variant: str, effort: Effort) -> dict[str, Any]:
    found = run_worker("trace_worker", {"verb": "steps", "samples": STEP_SAMPLES, "batch": effort.batch,
                                        "steps": effort.steps, "trace": variant == "on"})
    return {"variant": variant, **found}
