"""Rounds of measurements of several things, in random order; what fails is left out from then on, and named."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from benchmarks.processes import WorkerFailed
from benchmarks.tables import progress


def in_rounds(
    part: str, names: Sequence[str], rounds: int, measure: Callable[[str, int], object], *, seed: int
) -> dict[str, str]:
    """Measure each thing once a round; return those that failed, with the reason.

    Args:
        part: Of the bench, for people.
        names: Of the things.
        rounds: How many.
        measure: Does it, given the name and the number of the round, and keeps what comes out.
        seed: Of the order.
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
