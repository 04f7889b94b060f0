"""The interface of the models that a portfolio chooses from, and the data they see."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from barograph.tune.strategies.positions import Floats, Positions


@dataclass(frozen=True, slots=True)
class Data:
    """Training data of a model.

    Attributes:
        positions: The positions of the space.
        units: Position of each trial that ended, in the order in which they did.
        losses: Their losses: finite, lower is better.
        pending: Positions of the trials that run.
        seen: Keys of all positions that were tried.
        running: Keys of the pending ones.
    """

    positions: Positions
    units: Floats
    losses: Floats
    pending: Floats
    seen: Set[bytes]
    running: frozenset[bytes]

    def may_be_tried(self, row: Floats) -> bool:
        """Return whether a position meets the constraints and is new."""
        space = self.positions.space
        key = self.positions.keys(row[None])[0]
        if key in self.seen or key in self.running:
            return False
        return not space.constraints or space.allows(space.values(list(row)))


class Model(Protocol):
    """Proposes positions, and predicts how good one is.

    Attributes:
        name: Its name.
        least, most: Number of trials for which it is suited.
    """

    name: str
    least: int
    most: int

    def fit(self, data: Data) -> None:
        """Learn from the data."""
        ...

    def proposal(self, generator: np.random.Generator) -> Floats | None:
        """Return the position to try next; None if the model knows none."""
        ...

    def scores(self, units: Floats) -> Floats:
        """Return how good positions are expected to be; lower is better, on any scale."""
        ...

    @property
    def why(self) -> str:
        """How the last proposal was made, for people."""
        ...

    @property
    def has_converged(self) -> bool:
        """Whether the last proposal is not expected to improve on the best trial."""
        ...
