"""The positions of the first trials: the middle of the space, then positions that fill it evenly.

They are a Latin hypercube: of each range, every part is tried once before any is tried again. Each part is also far
from the parts just before it, so that the first few trials are spread as well. Of each choice, every value is tried
once before any is tried again. A parameter with a condition counts only the trials in which it applies.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from barograph.tune.parameter import Choice, Domain, Value
from barograph.tune.space import Space
from barograph.tune.strategies.positions import INACTIVE, Floats

_DESIGNS = 8
"""Of so many hypercubes, the one that fills the space most evenly is used."""


class Start:
    """The positions of the first trials. Each depends only on the space, the seed and its number.

    Args:
        space: Search space.
        seed: Seed of the study.
    """

    def __init__(self, space: Space, seed: int) -> None:
        numbers = range(start_count(len(space)))
        self._design = min((_Design(space, seed, index) for index in range(_DESIGNS)),
                           key=lambda design: _discrepancy(np.array([design.row(number) for number in numbers])))

    def position(self, number: int) -> Floats:
        """Return a position by its number, from 0."""
        return self._design.row(number)


def start_count(size: int) -> int:
    """Return the number of trials of the even start for so many parameters."""
    return min(max(size + 2, 4), 10)


class _Design:
    def __init__(self, space: Space, seed: int, index: int) -> None:
        self._space, self._rows = space, list[Floats]()
        parts = start_count(len(space)) // 2 * 2  # even: no part lies around the middle, which is tried anyway
        self._axes = [_axis(parameter.domain, parts, np.random.default_rng([seed, index, place]))
                      for place, parameter in enumerate(space)]

    def row(self, number: int) -> Floats:
        while len(self._rows) <= number:
            self._rows.append(self._next())
        return self._rows[number]

    def _next(self) -> Floats:
        row, values = np.full(len(self._space), INACTIVE), dict[str, Value]()
        for place, parameter in enumerate(self._space):
            if parameter.applies(values):
                row[place] = next(self._axes[place])
                values[parameter.name] = parameter.domain.value(row[place])
        return row


def _axis(domain: Domain, parts: int, random: np.random.Generator) -> Iterator[float]:
    """Yield positions of a parameter: the middle, then one in each part of its range in turn, without an end."""
    if isinstance(domain, Choice):
        first: int | None = domain.levels // 2
        while True:
            yield from ((level + 0.5) / domain.levels for level in _spread(domain.levels, random, first))
            first = None
    yield 0.5
    while True:
        # In the inner half of the part: not close to the middle of the range or to the position in the next part.
        yield from ((part + 0.25 + random.random() / 2) / parts for part in _spread(parts, random))


def _spread(count: int, random: np.random.Generator, first: int | None = None) -> Iterator[int]:
    """Yield the numbers below `count` in random order, each as far as possible from those before it, on a circle.

    On a line, the two ends would always come early, and the same gaps would remain for every parameter.
    """
    numbers = random.permutation(count)
    distances = np.full(count, count)
    for place in range(count):
        number = int(numbers[np.argmax(distances[numbers])]) if place or first is None else first
        yield number
        apart = np.abs(np.arange(count) - number)
        distances = np.minimum(distances, np.minimum(apart, count - apart))


def _discrepancy(units: Floats) -> float:
    """Return the square of the centered L2 discrepancy: 0 if positions fill the space evenly.

    Source: Hickernell, "A generalized discrepancy and quadrature error bound", 1998.
    """
    off = np.abs(units - 0.5)
    apart = np.abs(units[:, None] - units[None])
    pairs = (1 + (off[:, None] + off[None] - apart) / 2).prod(axis=2).mean()
    return float((13 / 12) ** units.shape[1] - 2 * (1 + (off - off**2) / 2).prod(axis=1).mean() + pairs)
