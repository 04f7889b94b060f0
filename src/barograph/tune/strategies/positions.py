"""Positions of a space as arrays: snapped to the values that exist, and as features of a model."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from barograph.tune.parameter import Choice, IntRange
from barograph.tune.space import Space

Floats = NDArray[np.float64]
_MOST_LEVELS = 1000
"""Integer ranges with more values are treated as real numbers."""
_DIGITS = 9
INACTIVE = 0.5
"""Position of a parameter that does not apply, as in `Space.units`."""


class Positions:
    """The positions of a space.

    Args:
        space: The space.
    """

    def __init__(self, space: Space) -> None:
        self.space = space
        self._levels = [_levels(parameter.domain) for parameter in space]
        self._unordered = [not parameter.domain.is_ordered and (parameter.domain.levels or 0) > 2
                           for parameter in space]
        index = {name: place for place, name in enumerate(space.names)}
        self._conditions = [
            (place, index[parameter.condition.parameter], np.array([
                space[parameter.condition.parameter].domain.unit(value) for value in parameter.condition.values]))
            for place, parameter in enumerate(space) if parameter.condition]
        self.groups = np.repeat(np.arange(len(space)), [
            parameter.domain.levels if is_unordered else 1
            for parameter, is_unordered in zip(space, self._unordered, strict=True)])
        """Number of the parameter that each feature belongs to."""
        self.is_finite = all(levels is not None for levels in self._levels)
        """Whether there are finitely many positions."""

    def snapped(self, units: Floats) -> Floats:
        """Return the nearest positions that values have, with parameters that do not apply at 0.5."""
        found = np.clip(units, 0.0, 1.0)
        for place, levels in enumerate(self._levels):
            if levels is not None:
                edges, centers = levels
                found[:, place] = centers[np.searchsorted(edges, found[:, place], side="right")]
        active = np.ones(found.shape, bool)
        for place, parent, allowed in self._conditions:
            matches = np.abs(found[:, parent, None] - allowed[None, :]).min(axis=1) < 1e-9
            active[:, place] = active[:, parent] & matches
        found[~active] = INACTIVE
        return found

    def features(self, units: Floats) -> Floats:
        """Return the columns that models work with: unordered choices become one column for each value."""
        columns: list[Floats] = []
        for place, is_unordered in enumerate(self._unordered):
            column = units[:, place]
            if not is_unordered:
                columns.append(column[:, None])
                continue
            levels = self._levels[place]
            assert levels is not None
            # Two different values are as far apart as two ends of a range.
            columns.append((np.abs(column[:, None] - levels[1][None, :]) < 1e-9) / np.sqrt(2.0))
        return np.hstack(columns)

    def keys(self, units: Floats) -> list[bytes]:
        """Return a key for each position; equal positions have equal keys."""
        rounded = np.ascontiguousarray(np.round(units, _DIGITS) + 0.0)
        return [row.tobytes() for row in rounded]

    def even(self, count: int, shift: Floats) -> Floats:
        """Return many positions that fill the space evenly: Roberts' R sequence, shifted.

        A few of them do not: in nine dimensions, the first coordinate moves by 0.070 from one to the next.

        Source: Martin Roberts, "The Unreasonable Effectiveness of Quasirandom Sequences", 2018.
        """
        size = len(self.space)
        root = 2.0
        for _ in range(60):
            root = (1.0 + root) ** (1.0 / (size + 1))
        steps = root ** -np.arange(1.0, size + 1)
        return np.asarray((shift + np.arange(count)[:, None] * steps) % 1.0)

    def every(self, most: int) -> Floats | None:
        """Return all positions, if there are at most that many."""
        if not self.is_finite or self.space.size() > most:
            return None
        axes = [levels[1] for levels in self._levels if levels is not None]
        grid = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
        return np.unique(self.snapped(grid), axis=0)

    def moved(self, units: Floats, sigma: Floats, generator: np.random.Generator) -> Floats:
        """Return positions near others: some coordinates move by about sigma, at least to the next value."""
        count, size = units.shape
        moves = generator.random((count, size)) < max(1.0 / size, 0.4)
        moves[np.arange(count), generator.integers(size, size=count)] = True
        found = units.copy()
        steps = generator.standard_normal((count, size)) * sigma[:, None]
        for place, levels in enumerate(self._levels):
            if levels is None:
                found[:, place] += np.where(moves[:, place], steps[:, place], 0.0)
                continue
            width = len(levels[1])
            if not self.space.parameters[place].domain.is_ordered:
                drawn = levels[1][generator.integers(width, size=count)]
                found[:, place] = np.where(moves[:, place] & (generator.random(count) < 0.5), drawn, found[:, place])
                continue
            least = np.sign(steps[:, place]) / width
            step = np.where(np.abs(steps[:, place]) < 1.0 / width, least, steps[:, place])
            found[:, place] += np.where(moves[:, place], step, 0.0)
        return _reflected(found)


def _levels(domain: object) -> tuple[Floats, Floats] | None:
    """Return the inner edges between the values' intervals, and their positions; None for real numbers."""
    if isinstance(domain, Choice):
        count = domain.levels
        return np.arange(1, count) / count, (np.arange(count) + 0.5) / count
    if isinstance(domain, IntRange) and domain.levels <= _MOST_LEVELS:
        centers = np.array([domain.unit(value) for value in range(domain.low, domain.high + 1)])
        return (np.array([domain.edge(value) for value in range(domain.low, domain.high)]), centers)
    return None


def _reflected(units: Floats) -> Floats:
    return np.asarray(1.0 - np.abs(1.0 - np.abs(units) % 2.0))
