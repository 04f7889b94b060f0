"""Studies of Optuna, from any of its storages."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from barograph.errors import BadSpace, ImportFailed, nearest
from barograph.store.base import Store
from barograph.tune.parameter import Choice, Domain, FloatRange, IntRange, Scale
from barograph.tune.space import Parameter, Space
from barograph.tune.strategies.optuna_library import optuna
from barograph.tune.study import Study


def study_from_optuna(
    storage: str, name: str, where: str | os.PathLike[str] | Store | None = None, *, strategy: str = "auto"
) -> Study:
    """Return a study with the trials of a study of Optuna; it can be continued.

    Args:
        storage: URL of the storage, such as "sqlite:///optuna.db", or a path of Optuna's journal.
        name: Name of the study there.
        where: As in `Study.create`.
        strategy: As in `Study.create`.

    Raises:
        MissingExtra: Optuna is not installed.
        ImportFailed: There is no such study, or its space cannot be imported.
        StudyExists: There is a study at `where`.
    """
    library = optuna()
    found = _loaded(library, storage, name)
    trials = found.get_trials(deepcopy=False)
    distributions: dict[str, Any] = {}
    for trial in trials:
        distributions |= trial.distributions
    try:
        space = Space([Parameter(one, _domain(distribution)) for one, distribution in distributions.items()])
    except BadSpace as error:
        raise ImportFailed(f"Cannot import the search space of the study {name}. {error}") from error
    names = found.metric_names or _numbered(len(found.directions))
    maximize = [one for one, direction in zip(names, found.directions, strict=True) if direction.name == "MAXIMIZE"]
    minimize = [one for one in names if one not in maximize]
    study = Study.create(where, space, maximize=maximize, minimize=minimize, strategy=strategy)
    states = library.trial.TrialState
    for trial in trials:
        parameters = _parameters(space, trial.params)
        if trial.state is states.COMPLETE:
            study.add(parameters, dict(zip(names, trial.values, strict=True)), proposer="import")
        elif trial.state is states.PRUNED:
            study.add(parameters, stopped="pruned in Optuna", curve=trial.intermediate_values, proposer="import")
        elif trial.state is states.FAIL:
            study.add(parameters, failed="failed in Optuna", proposer="import")
    return study


def _loaded(library: Any, storage: str, name: str) -> Any:
    backend: Any = storage
    if "://" not in storage:
        backend = library.storages.JournalStorage(library.storages.journal.JournalFileBackend(storage))
    try:
        names = library.get_all_study_names(storage=backend)
        if name not in names:
            raise ImportFailed(f'There is no study "{name}". {nearest(name, names)} ({storage})')
        return library.load_study(study_name=name, storage=backend)
    except ImportFailed:
        raise
    except Exception as error:  # - whatever a database or a damaged file makes Optuna raise
        raise ImportFailed(f"Cannot read the Optuna storage: {error} ({storage}).") from error


def _domain(distribution: Any) -> Domain:
    kind = type(distribution).__name__
    if kind == "CategoricalDistribution":
        return Choice(tuple(distribution.choices))
    scale = Scale.LOG if distribution.log else Scale.LINEAR
    if kind == "IntDistribution":
        if distribution.step != 1:
            return Choice(tuple(range(distribution.low, distribution.high + 1, distribution.step)))
        return IntRange(distribution.low, distribution.high, scale)
    return FloatRange(distribution.low, distribution.high, scale)


def _parameters(space: Space, parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {name: parameters[name] for name in space.names if name in parameters}


def _numbered(count: int) -> list[str]:
    return ["value"] if count == 1 else [f"value_{index}" for index in range(count)]
