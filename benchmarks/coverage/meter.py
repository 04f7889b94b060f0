"""Counts the steps of a program, notes its losses, and measures its processor time.

It does not use Barograph, and imports nothing that a plain script would not.
"""

from __future__ import annotations

import json
import os
import resource
import time
from pathlib import Path
from typing import Any

FACTS = "BAROGRAPH_BENCH_FACTS"
"""Environment variable: output file of the program's measurements. It also marks all processes of a measurement."""


_TOGETHER = 100


class Meter:
    """Measures a program: it calls `step` after each training step, and `done` at the end.

    Losses are converted a hundred at a time. Converting at each step is work that a program need not do, and thousands
    of small tensors between larger ones that are freed would fragment the memory.
    """

    def __init__(self) -> None:
        self._losses: list[list[Any]] = [[]]
        self._rates: list[list[float]] = [[]]
        self._first: dict[str, float] = {}

    def step(self, loss: Any, rate: float) -> None:
        """Note that a training step has ended, with its loss and learning rate."""
        if not self._first:
            self._first = processor_secs()
        self._losses[-1].append(loss)
        self._rates[-1].append(rate)
        if len(self._losses[-1]) % _TOGETHER == 0:
            self._convert()

    def next_fit(self) -> None:
        """Start the next of several trainings."""
        self._convert()
        self._losses.append([])
        self._rates.append([])

    def done(self) -> None:
        """Write the measurements."""
        end = processor_secs()
        self._convert()
        losses = [fit for fit in self._losses if fit]
        rates = [fit for fit in self._rates if fit]
        facts = {"losses": losses, "rates": rates, "first_step": self._first, "end": end}
        Path(os.environ[FACTS]).write_text(json.dumps(facts), encoding="utf-8")


    def _convert(self) -> None:
        self._losses[-1][-_TOGETHER:] = map(float, self._losses[-1][-_TOGETHER:])


def processor_secs() -> dict[str, float]:
    """Return processor seconds of this process, and of all others of its measurement, including ended ones."""
    script = time.process_time()
    return {"script": script, "beside": beside_secs(f"{FACTS}={os.environ[FACTS]}")}


def beside_secs(mark: str) -> float:
    """Return the processor seconds of all other processes whose environment contains `mark`, and of their children.

    Children count once they have ended and were waited for; until then their environment contains the mark.
    """
    ticks = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) * os.sysconf("SC_CLK_TCK")
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            if mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                fields = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
                ticks += sum(map(int, fields[11:15]))  # user and system time, its own and its children's
        except OSError:  # it has ended meanwhile, or belongs to another user
            continue
    return float(ticks / os.sysconf("SC_CLK_TCK"))
