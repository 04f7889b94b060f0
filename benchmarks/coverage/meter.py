"""Counts the steps of a program, notes its losses, and measures processor time from within.

It knows nothing of Barograph, and loads nothing that a plain script would not have.
"""

from __future__ import annotations

import json
import os
import resource
import time
from pathlib import Path
from typing import Any

FACTS = "BAROGRAPH_BENCH_FACTS"
"""Environment variable: the file that the program writes its facts to. It also marks every process of a measurement."""


_TOGETHER = 100


class Meter:
    """Measures a program: it calls `step` after each training step, and `done` at the end.

    Losses are converted a hundred at a time. Asking for a number at each step is work that a program need not do, and
    thousands of small tensors that are kept between larger ones that are freed fragment the memory.
    """

    def __init__(self) -> None:
        self._losses: list[list[Any]] = [[]]
        self._rates: list[list[float]] = [[]]
        self._first: dict[str, float] = {}

    def step(self, loss: Any, rate: float) -> None:
        """Note that a training step has ended, with its loss and the learning rate that it used."""
        if not self._first:
            self._first = processor_secs()
        self._losses[-1].append(loss)
        self._rates[-1].append(rate)
        if len(self._losses[-1]) % _TOGETHER == 0:
            self._convert()

    def next_fit(self) -> None:
        """Begin the next of several trainings."""
        self._convert()
        self._losses.append([])
        self._rates.append([])

    def done(self) -> None:
        """Write what was measured."""
        end = processor_secs()
        self._convert()
        losses = [fit for fit in self._losses if fit]
        rates = [fit for fit in self._rates if fit]
        facts = {"losses": losses, "rates": rates, "first_step": self._first, "end": end}
        Path(os.environ[FACTS]).write_text(json.dumps(facts), encoding="utf-8")


    def _convert(self) -> None:
        self._losses[-1][-_TOGETHER:] = map(float, self._losses[-1][-_TOGETHER:])


def processor_secs() -> dict[str, float]:
    """Return processor seconds: of this process, and of all others of its measurement, ended ones included."""
    script = time.process_time()
    return {"script": script, "beside": beside_secs(f"{FACTS}={os.environ[FACTS]}")}


def beside_secs(mark: str) -> float:
    """Return the processor seconds of all other processes whose environment holds `mark`, and of their children.

    Children count once they have ended and were waited for; until then they have the mark themselves.
    """
    ticks = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) * os.sysconf("SC_CLK_TCK")
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            if mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                fields = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
                ticks += sum(map(int, fields[11:15]))  # user and system, its own and of its children
        except OSError:  # it has ended meanwhile, or is somebody else's
            continue
    return float(ticks / os.sysconf("SC_CLK_TCK"))
