"""Search space and metric of a built-in algorithm, so that tuning it needs no ranges."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from barograph.errors import TuneError
from barograph.jobs.algorithms.parameters import Parameter as AlgorithmParameter
from barograph.jobs.algorithms.registry import CHANNELS, Algorithm, algorithm_named
from barograph.jobs.spec import JobSpec
from barograph.tune.parameter import Choice, Domain, FloatRange, IntRange, Scale
from barograph.tune.space import Condition, Parameter, Space

_STOP_AFTER = ("early_stopping_rounds", "20")
"""The number of rounds is found by early stopping, not by trials."""
_ROUNDS = ("num_boost_round", "num_iterations")
_MOST_ROUNDS = "1000"
_FOLDS = "folds"
OPTION = "refit"
"""Option of the algorithms that trains the model again on all rows."""


def space_of_algorithm(name: str, given: Mapping[str, str]) -> Space:
    """Return the ranges of an algorithm, without the parameters whose values are given.

    Example:
        >>> print(*space_of_algorithm("mlp", {"activation": "relu", "solver": "adam"}))
        learning_rate_init=1e-05..0.01:log alpha=1e-06..0.001:log
    """
    algorithm = algorithm_named(name)
    return Space(Parameter(item.name, domain, _condition(item, given)) for item in algorithm.parameters
                 if item.name not in given and not _stops_early(algorithm, item.name)
                 and item.task in ("", given.get("task", ""))
                 and item.booster in ("", given.get("booster", item.booster)) and (domain := _domain(item)) is not None)


def fixed_parameters(name: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return values of an algorithm that tuning sets for every trial, without those that are given.

    Example:
        >>> fixed_parameters("xgboost", {})
        {'early_stopping_rounds': '20', 'num_boost_round': '1000'}
    """
    names = {item.name for item in algorithm_named(name).parameters}
    if _STOP_AFTER[0] not in names or _STOP_AFTER[0] in given:
        return {}
    rounds = {item: _MOST_ROUNDS for item in _ROUNDS if item in names and item not in given}
    return {_STOP_AFTER[0]: _STOP_AFTER[1], **rounds}


def autotuned(options: Mapping[str, Any], spec: JobSpec) -> tuple[dict[str, Any], JobSpec]:
    """Return the options of a study of an algorithm and its job, with what the user has not chosen.

    Few rows are cross-validated, because one part of them cannot tell a good trial from a lucky one. The best value of
    the metric counts, because the algorithms keep their best model.

    Args:
        options: Options of `barograph tune`, by their names with underscores.
        spec: The job of the algorithm.

    Raises:
        TuneError: The ranges depend on the task, which is not given.
    """
    algorithm, found = algorithm_named(spec.algorithm), dict(options)
    if not found.get("vary"):
        if "task" not in spec.hyperparameters and all(item.task for item in _tuned(algorithm)):
            raise TuneError(f"The parameters of {algorithm.name} depend on the task. Add task=classification or "
                            "task=regression.")
        found["vary"] = [str(parameter) for parameter in space_of_algorithm(spec.algorithm, spec.hyperparameters)]
        spec = spec.changed(fixed_parameters(spec.algorithm, spec.hyperparameters))
    if _cross_validates(algorithm, spec):
        spec = spec.changed({_FOLDS: "auto"})
    if not found.get("maximize") and not found.get("minimize"):
        found["maximize" if algorithm.maximize else "minimize"] = [algorithm.metric]
        found.setdefault("value", "best")
    return found, spec


def refits(options: Mapping[str, Any], spec: JobSpec) -> bool:
    """Return whether the best trial is to be trained again on the rows for validation as well.

    By default if Barograph took these rows from the training data.

    Args:
        options: Options of `barograph tune`, by their names with underscores.
        spec: The job.

    Raises:
        TuneError: `--refit` is set, and the job is no built-in algorithm or there are several objectives.
    """
    count = len(options.get("maximize") or ()) + len(options.get("minimize") or ())
    wanted = options.get("refit")
    if wanted and not spec.algorithm:
        raise TuneError("--refit is for the built-in algorithms: a script decides itself which rows it trains on.")
    if wanted and count > 1:
        raise TuneError("--refit needs one objective: with several there is no single best trial.")
    if wanted is not None:
        return bool(wanted)
    return bool(spec.algorithm) and count == 1 and OPTION not in spec.hyperparameters and not _has_validation(spec)


def _has_validation(spec: JobSpec) -> bool:
    return "validation" in {CHANNELS.get(name, name) for name in spec.data}


def _cross_validates(algorithm: Algorithm, spec: JobSpec) -> bool:
    """Return whether the trainer is to decide about cross-validation, because the user has not."""
    given = {name.replace("-", "_") for name in spec.hyperparameters}
    return (any(option.name == _FOLDS for option in algorithm.options)
            and given.isdisjoint((_FOLDS, "validation_fraction")) and not _has_validation(spec))


def _tuned(algorithm: Algorithm) -> list[AlgorithmParameter]:
    return [item for item in algorithm.parameters if _domain(item) is not None]


def _stops_early(algorithm: Algorithm, name: str) -> bool:
    return name in _ROUNDS and any(item.name == _STOP_AFTER[0] for item in algorithm.parameters)


def _condition(item: AlgorithmParameter, given: Mapping[str, str]) -> Condition | None:
    return Condition("booster", (item.booster,)) if item.booster and "booster" not in given else None


def _domain(item: AlgorithmParameter) -> Domain | None:
    if item.kind == "choice":
        return Choice(item.choices)
    if math.isnan(item.low):
        return None
    scale = Scale.LOG if item.scale == "log" else Scale.LINEAR
    return IntRange(int(item.low), int(item.high), scale) if item.kind == "int" else FloatRange(
        item.low, item.high, scale)
