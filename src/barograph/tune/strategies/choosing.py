"""The strategy of a study."""

from __future__ import annotations

import importlib.util
from dataclasses import replace

from barograph.tune.history import History
from barograph.tune.spec import StudySpec
from barograph.tune.strategies.base import Strategy
from barograph.tune.strategies.grid import GridSearch
from barograph.tune.strategies.models import Model
from barograph.tune.strategies.uniform import Hyperband, RandomSearch


def strategy_of(spec: StudySpec) -> Strategy:
    """Return the strategy that a study names.

    Raises:
        MissingExtra: It needs Optuna, which is not installed.
    """
    if spec.strategy == "grid":
        return GridSearch(spec.seed)
    if spec.strategy == "random":
        return RandomSearch(spec.seed)
    if spec.strategy == "hyperband":
        return Hyperband(spec.seed)
    # Loaded here: random and grid search need no arrays.
    from barograph.tune.strategies.portfolio import Portfolio

    return Portfolio(spec.seed, _models(spec))


def check_not_empty(spec: StudySpec) -> None:
    """Raise `BadSpace` if the strategy finds no combination that the constraints allow."""
    if spec.space.constraints:
        strategy_of(replace(spec, strategy="grid" if spec.strategy == "grid" else "random")).propose(
            History(spec.space, spec.objectives), 0)


def _models(spec: StudySpec) -> list[Model]:
    from barograph.tune.strategies.cma import CmaModel
    from barograph.tune.strategies.gp import GaussianModel
    from barograph.tune.strategies.tpe import TpeModel

    if spec.strategy == "tpe":
        return [TpeModel(always=True)]
    if spec.strategy == "cma-es":
        return [CmaModel(always=True)]
    if spec.strategy == "bayesian":
        return [GaussianModel(always=True)]
    return [GaussianModel(), *([TpeModel()] if importlib.util.find_spec("optuna") else []), CmaModel()]
