"""Reads a recorded program back: correct losses and learning rates, and steps with tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

import barograph
from barograph.runs.reading.reader import RunReader

Fits = Sequence[Sequence[float]]
Recorded = Mapping[str, Mapping[int, float]]
"""By optimizer: step to value."""

_TOLERANCE = 1e-3
"""Relative tolerance: Keras logs running means in float32, from which a program computes the loss of a batch."""


def read_back(url: str, facts: Mapping[str, Any], tensors: str) -> dict[str, float]:
    """Return the shares and counts of the table for a run.

    url: URL of the run.
    facts: Measurements of the program, with `losses` and `rates` by fit.
    tensors: Kind of record in steps with tensors.
    """
    run = barograph.open(url)
    losses = matches(facts["losses"], _recorded(run, "loss", "total"))
    rates = matches(facts["rates"], _recorded(run, "learning_rate", "group0"))
    steps = [len(fit) for fit in facts["losses"]]
    table = run.arrow(tensors, mode="train", columns=["optimizer", "step"])
    seen = set(zip(table["optimizer"].to_pylist(), table["step"].to_pylist(), strict=True))
    return {
        "losses": sum(losses) / sum(steps),
        "rates": sum(rates) / sum(steps),
        "fits": sum(map(int.__eq__, losses, steps)),
        "tensor_steps": len(seen),
        "longest_gap": longest_gap([step for _, step in seen], steps[0]) if len(steps) == 1 else float("nan"),
    }


def matches(fits: Fits, recorded: Recorded) -> list[int]:
    """Return the number of correctly recorded values of each fit.

    A fit is compared with every recorded series, and matches the one that agrees most often: the recorded name of a
    training does not matter.

    Example:
        >>> matches([[0.5, 0.25], [0.75, 0.5]], {"#2": {0: 0.75, 1: 0.5}, "": {0: 0.5, 1: 9.0}})
        [1, 2]
    """
    longest = max(map(len, fits))
    values = np.full((max(len(recorded), 1), longest), np.nan)
    for row, series in zip(values, recorded.values(), strict=False):
        for step, value in series.items():
            if step < longest:
                row[step] = value
    return [int(np.isclose(values[:, : len(fit)], fit, rtol=_TOLERANCE, atol=1e-9).sum(1).max()) for fit in fits]


def longest_gap(seen: Sequence[int], steps: int) -> float:
    """Return the longest range of steps without tensors as a share of all steps, including both ends.

    Example:
        >>> longest_gap([0, 1, 5], 10)
        0.4
    """
    edges = [-1, *sorted(seen), steps]
    return max(after - before - 1 for before, after in pairwise(edges)) / steps


def _recorded(run: RunReader, kind: str, path: str) -> Recorded:
    found: dict[str, dict[int, float]] = {}
    for row in run.arrow(kind, path, mode="train", columns=["optimizer", "step", "value"]).to_pylist():
        found.setdefault(row["optimizer"], {})[row["step"]] = row["value"]
    return found
