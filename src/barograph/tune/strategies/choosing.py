"""The strategy of a study."""

from __future__ import annotations

from barograph.tune.spec import StudySpec
from barograph.tune.strategies.base import Strategy
from barograph.tune.strategies.grid import GridSearch
from barograph.tune.strategies.uniform import RandomSearch


def strategy_of(spec: StudySpec) -> Strategy:
    """Return the strategy that a study names."""
    if spec.strategy == "grid":
        return GridSearch(spec.seed)
    return RandomSearch(spec.seed)
