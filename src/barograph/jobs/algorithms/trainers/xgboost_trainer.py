"""Trains gradient-boosted trees on a table with XGBoost.

    SM_CHANNEL_TRAIN=houses.parquet SM_MODEL_DIR=model SM_OUTPUT_DATA_DIR=output \\
        python xgboost_trainer.py --target price --eta 0.1 --max_depth 4

Parameters are XGBoost's own. Columns of text are categories, which XGBoost splits itself; missing values stay missing.
For its linear booster, numbers are standardized, and each category is a feature of 0 and 1.
The model is in XGBoost's format, `model.ubj`, with the best round as the last if training stopped early.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xgboost

from barograph.errors import SettingsError, UnknownName, nearest
from barograph.jobs.algorithms.boosting import objective_of, rounds_of
from barograph.jobs.algorithms.checkpoints import Checkpoints
from barograph.jobs.algorithms.contract import log, options, run_trainer
from barograph.jobs.algorithms.parameters import XGBOOST
from barograph.jobs.algorithms.registry import algorithm_named
from barograph.jobs.algorithms.results import say
from barograph.jobs.algorithms.table_prediction import shaped
from barograph.jobs.algorithms.table_training import Part, Task, finish, prepare

ROUNDS = ("num_boost_round", "num_round", "n_estimators")
"""Names of the number of rounds: of `xgboost.train`, of SageMaker, of XGBoost's scikit-learn classes."""

LINEAR = "gblinear"
"""XGBoost's linear booster."""

STOPPING = ("stopping_history", "best_scores", "current_rounds", "maximize")
"""State of XGBoost's early stopping callback."""


def train(arguments: Sequence[str]) -> None:
    """Train and save a model."""
    task = prepare("xgboost", arguments, one_hot=is_linear(arguments))
    rounds, stop_after = rounds_of(task.parameters, ROUNDS)
    parameters = parameters_of(task, {"seed": task.options.seed})
    data = _matrix(task, task.train)
    _expect_known(parameters, data)
    file, of_folds = task.folders.model / "model.ubj", list[Any]()

    def fit(part: Part) -> None:
        matrix = _matrix(task, part)
        xgboost.train(dict(parameters), matrix, rounds, evals=[(matrix, "train")], verbose_eval=False).save_model(file)

    if task.folds:
        rounds, of_folds = cross_validated(task, parameters, rounds, stop_after)
    else:
        with Checkpoints(task.digest) as checkpoints:
            booster = _boosted(parameters, {"train": data, "validation": _matrix(task, task.validation)}, rounds,
                               stop_after, checkpoints)
        if stop_after:
            rounds = booster.best_iteration + 1
            booster = first_rounds(booster, rounds, parameters, data)
        booster.save_model(file)
    if stop_after:
        say(f"Best round: {rounds - 1}.")
    finish(task, fit, of_folds, rounds=rounds)


def is_linear(arguments: Sequence[str]) -> bool:
    """Return whether the arguments ask for XGBoost's linear booster."""
    return options(algorithm_named("xgboost"), arguments).parameters.get("booster") == LINEAR


def parameters_of(task: Task, general: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters for XGBoost: the objective, `general` ones, and those of the job, which count most."""
    objective = objective_of(task, "reg:squarederror", ("binary:logistic",), ("multi:softprob",))
    # Its default for a linear model, "shotgun", gives other weights each time.
    linear = {"updater": "coord_descent"} if task.parameters.get("booster") == LINEAR else {}
    return {**general, **objective, **linear, **task.parameters}


def cross_validated(
    task: Task, parameters: Mapping[str, Any], rounds: int, stop_after: int
) -> tuple[int, list[Any]]:
    """Return the best number of rounds by the mean metric of all folds, and the predictions for each fold.

    From a checkpoint on, if there is one.
    """
    stopping = xgboost.callback.EarlyStopping(rounds=stop_after) if stop_after else None
    monitor = xgboost.callback.EvaluationMonitor(period=max(1, rounds // 20))
    with Checkpoints(task.digest) as checkpoints:
        folds = _Folds(task, checkpoints, stopping)
        given = {**parameters, "seed": int(parameters["seed"]) + folds.done}  # as in `_boosted`
        xgboost.cv(given, _matrix(task, task.train), rounds - folds.done, folds=list(task.folds), as_pandas=False,
                   callbacks=[_Start(folds.models, given), monitor, *([stopping] if stopping else []), folds])
    return folds.rounds, folds.predictions


def first_rounds(booster: Any, rounds: int, parameters: Mapping[str, Any], data: Any) -> Any:
    """Return a model after its first rounds. A linear one keeps no earlier rounds, so it is trained again."""
    if parameters.get("booster") == LINEAR:
        return xgboost.train(dict(parameters), data, rounds)
    return booster[:rounds]


def _boosted(
    parameters: Mapping[str, Any], data: Mapping[str, Any], rounds: int, stop_after: int, checkpoints: Checkpoints
) -> Any:
    """Return the trained booster; from a checkpoint on, if there is one."""
    stopping = xgboost.callback.EarlyStopping(rounds=stop_after) if stop_after else None
    start, done = None, 0
    if (saved := checkpoints.load()) is not None:
        facts, arrays = saved
        start = xgboost.Booster(dict(parameters), model_file=bytearray(arrays["model"].tobytes()))
        done = start.num_boosted_rounds()
        if stopping:
            vars(stopping).update(facts["stopping"])
        say(f"Resumed after {done:,} rounds.")
    # XGBoost would draw the rows and columns of the first rounds again.
    return xgboost.train(
        {**parameters, "seed": int(parameters["seed"]) + done}, data["train"], rounds - done,
        evals=[(data["train"], "train"), (data["validation"], "validation")], verbose_eval=max(1, rounds // 20),
        callbacks=[*([stopping] if stopping else []), _Saving(checkpoints, stopping)], xgb_model=start)


class _Folds(xgboost.callback.TrainingCallback):  # type: ignore[misc, unused-ignore]
    """Records the means of a cross-validation, and keeps the predictions after its best round: the last without early
    stopping, whose callback comes before. Saves checkpoints.

    Attributes:
        models: Model of each fold in a checkpoint; empty without one.
        done: Rounds that they have.
    """

    def __init__(self, task: Task, checkpoints: Checkpoints, stopping: Any) -> None:
        super().__init__()
        self._task, self._checkpoints, self._stopping = task, checkpoints, stopping
        self.rounds, self.done = 0, 0
        self.models: list[Any] = []
        self.predictions: list[Any] = []
        if (saved := checkpoints.load()) is not None:
            facts, arrays = saved
            self.rounds, self.done = facts["rounds"], facts["done"]
            self.models, self.predictions = ([arrays[f"{what}{place}"] for place in range(len(task.folds))]
                                             for what in ("model", "predictions"))
            if stopping:
                vars(stopping).update(facts["stopping"])
            say(f"Resumed after {self.done:,} rounds.")

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        epoch += self.done
        log({f"validation.{name}": values[-1][0] for name, values in evals_log["test"].items()}, epoch)
        if model.attr("best_iteration") in (None, str(epoch)):
            self.rounds = epoch + 1
            self.predictions = [shaped(fold.bst.predict(fold.dtest), self._task.model) for fold in model.cvfolds]
        if self._checkpoints.due:
            self._save([fold.bst for fold in model.cvfolds], epoch + 1)
        return False

    def _save(self, boosters: Sequence[Any], done: int) -> None:
        models = {f"model{place}": _bytes_of(booster) for place, booster in enumerate(boosters)}
        predictions = {f"predictions{place}": made for place, made in enumerate(self.predictions)}
        self._checkpoints.save({"rounds": self.rounds, "done": done, "stopping": _state_of(self._stopping)},
                               {**models, **predictions})


class _Start(xgboost.callback.TrainingCallback):  # type: ignore[misc, unused-ignore]
    """Begins a cross-validation with the models of a checkpoint; before early stopping, which counts their rounds."""

    def __init__(self, models: Sequence[Any], parameters: Mapping[str, Any]) -> None:
        super().__init__()
        self._models, self._parameters = models, parameters

    def before_training(self, model: Any) -> Any:
        for fold, saved in zip(model.cvfolds, self._models, strict=False):
            fold.bst.load_model(bytearray(saved.tobytes()))
            fold.bst.set_param(dict(self._parameters))
        return model


class _Saving(xgboost.callback.TrainingCallback):  # type: ignore[misc, unused-ignore]
    """Saves checkpoints, with the state of early stopping, which XGBoost does not save."""

    def __init__(self, checkpoints: Checkpoints, stopping: Any) -> None:
        super().__init__()
        self._checkpoints, self._stopping = checkpoints, stopping

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        if self._checkpoints.due:
            self._checkpoints.save({"stopping": _state_of(self._stopping)}, {"model": _bytes_of(model)})
        return False


def _state_of(stopping: Any) -> dict[str, Any]:
    """Return the state of early stopping as JSON data; of a mean with its deviation, only the mean counts."""
    if not stopping:
        return {}
    state = {name: getattr(stopping, name) for name in STOPPING}
    return {**state, **{name: {data: {metric: [score[0] if isinstance(score, tuple) else score for score in scores]
                                      for metric, scores in metrics.items()} for data, metrics in state[name].items()}
                        for name in ("stopping_history", "best_scores")}}


def _bytes_of(booster: Any) -> Any:
    return np.frombuffer(booster.save_raw("ubj"), np.uint8)


def _matrix(task: Task, part: Part) -> Any:
    if task.parameters.get("booster") == LINEAR:
        return xgboost.DMatrix(part.matrix, label=part.target)
    types = ["c" if column["kind"] == "category" else "q" for column in task.model["columns"]]
    return xgboost.DMatrix(part.matrix, label=part.target, feature_names=task.model["feature_names"],
                           feature_types=types, enable_categorical=True)


def _expect_known(parameters: Mapping[str, Any], data: Any) -> None:
    """Refuse what XGBoost refuses, and parameters that it does not use, of which it only warns."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            config = xgboost.Booster(dict(parameters), [data]).save_config()
        except xgboost.core.XGBoostError as error:
            raise SettingsError(f"XGBoost refuses the parameters: {str(error).strip().splitlines()[-1]}") from error
    lines = [line for warning in caught
             for line in re.findall(r"Parameters: \{(.*)\} are not used", str(warning.message))]
    unused = [name for line in lines for name in re.findall(r'"([^"]*)"', line)]
    if unused:
        known = {*ROUNDS, *(item.name for item in XGBOOST), *_names_in(json.loads(config))}
        raise UnknownName(f'XGBoost does not use the parameter "{unused[0]}" here. {nearest(unused[0], known)}')


def _names_in(config: Any) -> set[str]:
    if not isinstance(config, dict):
        return set()
    return {str(name) for name, value in config.items() if not isinstance(value, dict | list)}.union(
        *(_names_in(value) for value in config.values()))


if __name__ == "__main__":
    run_trainer(train)
