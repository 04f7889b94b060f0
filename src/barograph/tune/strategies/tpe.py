"""TPE of Optuna, through ask and tell. Its study in memory is made from our events, and its seed for every proposal.

So nothing but our own events decides what is proposed. Optuna writes nothing and prints nothing.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np

from barograph.tune.parameter import Choice
from barograph.tune.space import Parameter, Space
from barograph.tune.strategies.density import Densities
from barograph.tune.strategies.models import Data
from barograph.tune.strategies.optuna_library import optuna
from barograph.tune.strategies.positions import Floats

_TRIES = 5
_MOST_TRIALS, _STRIDE = 400, 200
_MOST_ASKED = 1000
"""Beyond, a proposal would take longer than many functions."""
_MOST_INTEGERS = 12
"""Integers from more values are positions between 0 and 1 for Optuna, so that their scale holds."""


class TpeModel:
    """See the module.

    Args:
        always: Whether to use it for any number of trials.

    Raises:
        MissingExtra: Optuna is not installed.
    """

    name, least = "tpe", 0

    def __init__(self, *, always: bool = False) -> None:
        self.most = sys.maxsize if always else _MOST_ASKED
        self._optuna = optuna()
        self._data: Data | None = None
        self._densities: Densities | None = None
        self._study: Any = None
        self._first = 0
        self._asked = 0
        self._told: Floats = np.empty(0)
        self._known: dict[str, Any] = {}

    @property
    def why(self) -> str:
        """See `Model.why`."""
        return "Optuna, multivariate"

    @property
    def has_converged(self) -> bool:
        """See `Model.has_converged`."""
        return False

    def fit(self, data: Data) -> None:
        """See `Model.fit`."""
        self._data, self._densities = data, Densities(data)

    def scores(self, units: Floats) -> Floats:
        """See `Model.scores`."""
        assert self._densities is not None
        return self._densities.scores(units)

    def proposal(self, generator: np.random.Generator) -> Floats | None:
        """See `Model.proposal`."""
        data = self._data
        assert data is not None
        self._update(data)
        study, states = self._study, self._optuna.trial.TrialState
        study.sampler = self._sampler(data, int(generator.integers(2**31)))
        running = []
        for row in data.pending:
            study.add_trial(self._trial(data.positions.space, row, None))
            running.append(len(study.get_trials(deepcopy=False)) - 1)
        found = None
        for _ in range(_TRIES):
            trial = study.ask()
            running.append(trial.number)
            values: dict[str, Any] = {}
            for parameter in data.positions.space:
                if parameter.applies(values):
                    values[parameter.name] = _suggested(trial, parameter)
            row = data.positions.snapped(np.array([data.positions.space.units(values)]))[0]
            if data.may_be_tried(row):
                found = row
                break
            # It stays among the running ones, so the next one is another.
        for number in running:
            study.tell(number, state=states.FAIL)  # hidden from the sampler, but Optuna keeps them
        self._asked += len(running)
        return found

    def _update(self, data: Data) -> None:
        """Update Optuna's study with the data; start a new one if earlier results have changed."""
        first = max(0, (len(data.losses) - _MOST_TRIALS) // _STRIDE * _STRIDE)
        units, losses = data.units[first:], data.losses[first:]
        known = len(self._told)
        is_same = self._first == first and np.array_equal(self._told, losses[:known])
        if self._study is None or not is_same or self._asked > _STRIDE:
            self._study = self._optuna.create_study(sampler=self._sampler(data, 0))
            self._first, self._asked, known = first, 0, 0
        for row, loss in zip(units[known:], losses[known:], strict=True):
            self._study.add_trial(self._trial(data.positions.space, row, float(loss)))
        self._told = losses.copy()

    def _sampler(self, data: Data, seed: int) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", self._optuna.exceptions.ExperimentalWarning)
            return self._optuna.samplers.TPESampler(
                seed=seed, n_startup_trials=0, multivariate=True, constant_liar=True,
                group=any(parameter.condition for parameter in data.positions.space))

    def _trial(self, space: Space, row: Floats, loss: float | None) -> Any:
        kinds, values = self._optuna.trial, space.values(list(row))
        return kinds.create_trial(
            state=kinds.TrialState.RUNNING if loss is None else kinds.TrialState.COMPLETE, value=loss,
            params={name: _told(space[name], value) for name, value in values.items()},
            distributions={name: self._distributions(space)[name] for name in values})

    def _distributions(self, space: Space) -> dict[str, Any]:
        if not self._known:
            self._known = {parameter.name: _distribution(self._optuna, parameter) for parameter in space}
        return self._known


def _distribution(library: Any, parameter: Parameter) -> Any:
    """Return the distribution: positions between 0 and 1 for numbers, so that our scales hold."""
    domain, kinds = parameter.domain, library.distributions
    if isinstance(domain, Choice) and not domain.is_ordered:
        return kinds.CategoricalDistribution(tuple(range(domain.levels)))
    if 0 < domain.levels <= _MOST_INTEGERS:
        return kinds.IntDistribution(0, domain.levels - 1)
    return kinds.FloatDistribution(0.0, 1.0)


def _told(parameter: Parameter, value: Any) -> Any:
    domain = parameter.domain
    if isinstance(domain, Choice):
        return int(domain.unit(value) * domain.levels)
    if 0 < domain.levels <= _MOST_INTEGERS:
        return int(value) - int(domain.low)
    return min(max(domain.unit(value), 0.0), 1.0)


def _suggested(trial: Any, parameter: Parameter) -> Any:
    domain, name = parameter.domain, parameter.name
    if isinstance(domain, Choice):
        index = (trial.suggest_int(name, 0, domain.levels - 1) if domain.is_ordered else
                 trial.suggest_categorical(name, tuple(range(domain.levels))))
        return domain.values[index]
    if 0 < domain.levels <= _MOST_INTEGERS:
        return int(domain.low) + trial.suggest_int(name, 0, domain.levels - 1)
    return domain.value(trial.suggest_float(name, 0.0, 1.0))
