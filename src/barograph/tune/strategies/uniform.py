"""Random search: every trial is drawn by itself."""

from __future__ import annotations

from barograph.tune.history import History
from barograph.tune.strategies.base import Proposal, drawn, generator
from barograph.tune.trial import Origin


class RandomSearch:
    """Draws every position evenly.

    Args:
        seed: Seed of the study.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def propose(self, history: History, number: int) -> Proposal:
        """See `Strategy.propose`."""
        draw = generator(self._seed, number).random
        size = len(history.space)
        return Proposal(drawn(history.space, lambda: [draw() for _ in range(size)]), Origin("random"))

    @property
    def has_converged(self) -> bool:
        """See `Strategy.has_converged`."""
        return False
