"""Random search, with independent trials, and Hyperband, which is random search with brackets."""

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


_BRACKETS = (0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 2)
"""Hyperband with a factor of 3 spends about as much on each of its three brackets with these shares."""


class Hyperband:
    """Draws every position evenly, and a bracket: how long a trial trains before it may be stopped.

    The brackets are asynchronous: no trial waits for another. Source: Li et al., "Hyperband", 2018, and "A System for
    Massively Parallel Hyperparameter Tuning", 2020.

    Args:
        seed: Seed of the study.
    """

    def __init__(self, seed: int) -> None:
        self._seed, self._search = seed, RandomSearch(seed)

    def propose(self, history: History, number: int) -> Proposal:
        """See `Strategy.propose`."""
        bracket = generator(self._seed, number, "bracket").choice(_BRACKETS)
        return Proposal(self._search.propose(history, number).parameters, Origin("random", bracket=bracket))

    @property
    def has_converged(self) -> bool:
        """See `Strategy.has_converged`."""
        return False
