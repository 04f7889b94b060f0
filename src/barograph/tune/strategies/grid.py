"""Grid search: every combination once."""

from __future__ import annotations

from barograph.tune.history import History
from barograph.tune.parameter import Value
from barograph.tune.strategies.base import Proposal, generator
from barograph.tune.trial import Origin

_POINTS = 5


class GridSearch:
    """Goes through the grid in a drawn order, so that a study that ends early has seen all of the space.

    Args:
        seed: Seed of the study.
        points: Values of each range.
    """

    def __init__(self, seed: int, points: int = _POINTS) -> None:
        self._seed, self._points = seed, points
        self._grid: list[dict[str, Value]] = []

    def propose(self, history: History, number: int) -> Proposal | None:
        """See `Strategy.propose`."""
        if not self._grid:
            self._grid = list(history.space.grid(self._points))
            generator(self._seed, 0, "grid").shuffle(self._grid)
        return Proposal(dict(self._grid[number]), Origin("grid")) if number < len(self._grid) else None

    @property
    def has_converged(self) -> bool:
        """See `Strategy.has_converged`."""
        return False
