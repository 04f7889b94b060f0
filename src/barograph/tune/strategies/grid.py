"""Grid search: every combination once."""

from __future__ import annotations

from barograph.errors import BadSpace
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
        self._looked = self._done = 0

    def propose(self, history: History, number: int) -> Proposal | None:
        """See `Strategy.propose`."""
        if not self._grid:
            self._grid = list(history.space.grid(self._points))
            if not self._grid:
                raise BadSpace(f"No combination of the grid meets the constraints "
                               f"{'; '.join(one.text for one in history.space.constraints)}. A range has "
                               f"{self._points} values in the grid: widen a constraint, or use another strategy.")
            generator(self._seed, 0, "grid").shuffle(self._grid)
        # Trials of the user or of an import are no points of the grid.
        self._done += sum(trial.origin.proposer == "grid" and not trial.excused
                          for trial in history.trials[self._looked:])
        self._looked = len(history.trials)
        return Proposal(dict(self._grid[self._done]), Origin("grid")) if self._done < len(self._grid) else None

    @property
    def has_converged(self) -> bool:
        """See `Strategy.has_converged`."""
        return False
