"""Machine figures per window of samples, for the machine rules."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from barograph.model.finding import Symptom
from barograph.model.key import Key, Kind
from barograph.model.selection import Selection
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.runs.reading.view import StepView

GPU_NEED = Selection(kinds=frozenset({Kind.MACHINE}), include=("gpu*",))
IN_USE_BYTES = 200 * 2**20
"""GPU memory from which a GPU counts as in use. An idle one holds a few MiB; a CUDA context alone takes more."""

Tally = dict[str, Any]
"""JSON data that a rule keeps about the samples of a window."""


def samples_of(view: StepView) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield each worker with its machine figures in this view, by name."""
    keys = view.scalars(Kind.MACHINE)
    for worker in view.workers:
        # NaN means not measured, as when a driver fails for a moment.
        figures = {key.path: values[worker] for key in keys
                   if math.isfinite((values := view.worker_scalars(key)).get(worker, math.nan))}
        if figures:
            yield worker, figures


def gpus_in(figures: dict[str, float]) -> list[str]:
    """Return the names of the recorded GPUs.

    Example:
        >>> gpus_in({"gpu[0]": 7.0, "gpu_memory[0]": 3.0, "cpu[1]": 2.0})
        ['0']
    """
    return [name[4:-1] for name in figures if name.startswith("gpu[")]


def count_percent(counts: list[int] | None, value: float) -> list[int]:
    """Return a histogram of percentages with one more value."""
    counts = counts or [0] * 101
    counts[min(100, max(0, round(value)))] += 1
    return counts


def quantile(counts: list[int], share: float) -> float:
    """Return the given quantile of a histogram of percentages.

    Example:
        >>> counts = [0] * 101
        >>> counts[10], counts[90] = 94, 6
        >>> quantile(counts, 0.05), quantile(counts, 0.95)
        (10.0, 90.0)
    """
    wanted, seen = share * sum(counts), 0
    for percent, count in enumerate(counts):
        seen += count
        if seen >= wanted and seen:
            return float(percent)
    return 100.0


def machine_key(name: str) -> Key:
    """Return the key of a machine figure."""
    return Key(Kind.MACHINE, name)


@dataclass(frozen=True, kw_only=True)
class WindowedRule(Rule):
    """A rule that evaluates the machine of each worker per window.

    The result of a worker's last full window holds until its next one is full.
    """

    window: int = parameter(500, "Machine samples per window: at two per second, 250 seconds.",
                            at_least=2)
    skip: int = parameter(
        240, "Samples to skip after the first step, while caches fill and kernels are selected.", at_least=0,
    )

    @abstractmethod
    def tally(self, kept: Tally, figures: dict[str, float]) -> bool:
        """Add a sample to the window; return whether it counts."""

    @abstractmethod
    def symptom(self, kept: Tally, step: int, machine: str) -> Symptom | None:
        """Return the symptom that a full window shows, or None.

        Args:
            kept: Data of the window.
            step: The current step.
            machine: " of r3" if there may be several workers; else "".
        """

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        whole = False
        for worker, figures in samples_of(view):
            mine = memory.setdefault(worker, {"skipped": 0, "count": 0, "kept": {}, "last": None})
            if mine["skipped"] < self.skip:
                mine["skipped"] += 1
                continue
            mine["count"] += self.tally(mine["kept"], figures)
            if mine["count"] >= self.window:
                mine.update(count=0, kept={}, last=mine["kept"])
                whole = True
        if not whole:
            yield Unjudged(f"needs {self.skip + self.window} machine samples")
            return
        done = {worker: mine["last"] for worker, mine in memory.items() if mine["last"] is not None}
        for worker, last in done.items():
            name = worker if view.group == "r" else ""
            found = self.symptom(last, view.step.number, f" of {name}" if name else "")
            if found is not None:
                yield replace(found, subject=name)


def tally_gpus(kept: Tally, figures: dict[str, float], *, memory: bool = False) -> list[str]:
    """Add the utilization of each GPU to `kept`, and its memory use if asked; return the GPUs in use."""
    used = [gpu for gpu in gpus_in(figures) if figures.get(f"gpu_memory_bytes[{gpu}]", 0.0) >= IN_USE_BYTES
            and (not memory or f"gpu_memory[{gpu}]" in figures)]
    for gpu in used:
        busy = kept.setdefault("busy", {})
        busy[gpu] = count_percent(busy.get(gpu), figures[f"gpu[{gpu}]"])
        if memory:
            full = kept.setdefault("full", {})
            full[gpu] = count_percent(full.get(gpu), figures[f"gpu_memory[{gpu}]"])
    return used
