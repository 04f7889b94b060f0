"""Figures of the machine, tallied over windows of so many samples: what the rules about it judge."""

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
"""Of a GPU's memory. What works on one takes more, before its first tensor; one that nobody uses holds a few MiB."""

Tally = dict[str, Any]
"""Plain data: what a rule keeps of the samples of a window."""


def samples_of(view: StepView) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield what each worker told of its machine in this view: name to figure."""
    keys = view.scalars(Kind.MACHINE)
    for worker in view.workers:
        # What is no number was not measured: a driver that failed for a moment says so.
        figures = {key.path: values[worker] for key in keys
                   if math.isfinite((values := view.worker_scalars(key)).get(worker, math.nan))}
        if figures:
            yield worker, figures


def gpus_in(figures: dict[str, float]) -> list[str]:
    """Return the names of the GPUs that were told of.

    Example:
        >>> gpus_in({"gpu[0]": 7.0, "gpu_memory[0]": 3.0, "cpu[1]": 2.0})
        ['0']
    """
    return [name[4:-1] for name in figures if name.startswith("gpu[")]


def count_percent(counts: list[int] | None, value: float) -> list[int]:
    """Return a histogram of whole percents with one more value in it."""
    counts = counts or [0] * 101
    counts[min(100, max(0, round(value)))] += 1
    return counts


def quantile(counts: list[int], share: float) -> float:
    """Return the percent below or at which that share of the values lies.

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
    """Return the key of a figure of the machine."""
    return Key(Kind.MACHINE, name)


@dataclass(frozen=True, kw_only=True)
class WindowedRule(Rule):
    """A rule that judges the machine of each worker window by window.

    What each worker's last whole window showed stands until its next one is whole.
    """

    window: int = parameter(500, "Samples of the machine in a window: at the usual two a second, 250 seconds.",
                            at_least=2)
    skip: int = parameter(
        240, "Samples after the first step that are passed over: caches are filled, kernels chosen.", at_least=0,
    )

    @abstractmethod
    def tally(self, kept: Tally, figures: dict[str, float]) -> bool:
        """Add a sample to what is kept of the window; return whether it counts."""

    @abstractmethod
    def symptom(self, kept: Tally, step: int, machine: str) -> Symptom | None:
        """Return what a whole window shows; None: all is well.

        Args:
            kept: Of the window.
            step: The step that is going on.
            machine: " of r3", where there may be several; else "".
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
            yield Unjudged(f"the first {self.skip + self.window} samples of the machine that it needs had not come")
            return
        done = {worker: mine["last"] for worker, mine in memory.items() if mine["last"] is not None}
        for worker, last in done.items():
            name = worker if view.group == "r" else ""
            found = self.symptom(last, view.step.number, f" of {name}" if name else "")
            if found is not None:
                yield replace(found, subject=name)


def tally_gpus(kept: Tally, figures: dict[str, float], *, memory: bool = False) -> list[str]:
    """Add how busy each GPU is to `kept`, and how full; return the GPUs that training uses, as far as is seen."""
    used = [gpu for gpu in gpus_in(figures) if figures.get(f"gpu_memory_bytes[{gpu}]", 0.0) >= IN_USE_BYTES
            and (not memory or f"gpu_memory[{gpu}]" in figures)]
    for gpu in used:
        busy = kept.setdefault("busy", {})
        busy[gpu] = count_percent(busy.get(gpu), figures[f"gpu[{gpu}]"])
        if memory:
            full = kept.setdefault("full", {})
            full[gpu] = count_percent(full.get(gpu), figures[f"gpu_memory[{gpu}]"])
    return used
