"""Rounds of measurements of several items, in random order; failing items are left out from then on, and named."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from benchmarks.processes import WorkerFailed
from benchmarks.tables import progress


def in_rounds(
    part: str, names: Sequence[str], rounds: int, measure: Callable[[str, int], object], *, seed: int
) -> dict[str, str]:
    """Measure each item once per round; return those that failed, with the reason.

    Args:
        part: Displayed name of the benchmark's part.
        names: Names of the items.
        rounds: Number of rounds.
        measure: Measures an item, given its name and the number of the round, and stores the result.
        seed: Seed of the order.
    """
    generator = random.Random(seed)
    failures: dict[str, str] = {}
    for number in range(rounds):
        for name in generator.sample(names, len(names)):
            if name in failures:
                continue
            progress(f"{part}, round {number + 1} of {rounds}: {name}")
            try:
                measure(name, number)
            except WorkerFailed as error:
                failures[name] = str(error)
    return failures
