"""Trains gradient-boosted trees on a table with LightGBM.

    SM_CHANNEL_TRAIN=houses.parquet SM_MODEL_DIR=model SM_OUTPUT_DATA_DIR=output \\
        python lightgbm_trainer.py --target price --num_leaves 15

Parameters are LightGBM's own. Columns of text are categories, which LightGBM splits itself; missing values stay
missing. The model is in LightGBM's text format, `model.txt`, with the best round as the last if training stopped early.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import lightgbm
import numpy as np

from barograph.errors import SettingsError, UnknownName, nearest
from barograph.jobs.algorithms.boosting import objective_of, rounds_of
from barograph.jobs.algorithms.checkpoints import Checkpoints
from barograph.jobs.algorithms.contract import log, run_trainer
from barograph.jobs.algorithms.parameters import LIGHTGBM
from barograph.jobs.algorithms.results import say
from barograph.jobs.algorithms.table_prediction import shaped
from barograph.jobs.algorithms.table_training import Part, Task, finish, prepare

ROUNDS = ("num_iterations", "num_boost_round", "num_round", "num_rounds", "n_estimators", "n_iter", "num_iteration",
          "num_tree", "num_trees", "nrounds", "max_iter")
"""LightGBM's names of the number of rounds."""

_ROWS_TO_CHECK = 200


def train(arguments: Sequence[str]) -> None:
    """Train and save a model."""
    task = prepare("lightgbm", arguments, one_hot=False)
    rounds, stop_after = rounds_of(task.parameters, ROUNDS)
    objective = objective_of(task, "regression", ("binary",), ("multiclass", "multiclassova"))
    parameters = {"verbosity": -1, "seed": task.options.seed, **objective, **task.parameters}
    _expect_known(parameters, task)
    categories = [place for place, column in enumerate(task.model["columns"]) if column["kind"] == "category"]

    def dataset(part: Part) -> Any:
        return lightgbm.Dataset(part.matrix, part.target, feature_name=task.model["feature_names"],
                                categorical_feature=categories)

    data = dataset(task.train)
    file, of_folds = task.folders.model / "model.txt", list[Any]()

    def fit(part: Part) -> None:
        rows = dataset(part)
        lightgbm.train(parameters, rows, best, valid_sets=[rows], valid_names=["train"]).save_model(file)

    if task.folds:
        best, of_folds = _cross_validated(task, parameters, data, rounds, stop_after)
    else:
        validation = lightgbm.Dataset(task.validation.matrix, task.validation.target, reference=data)
        with Checkpoints(task.digest) as checkpoints:
            booster = _boosted(parameters, data, validation, rounds, stop_after, checkpoints)
        best = booster.best_iteration if stop_after and booster.best_iteration > 0 else booster.current_iteration()
        booster.save_model(file, num_iteration=best)
    if stop_after:
        say(f"Best round: {best - 1}.")
    finish(task, fit, of_folds, rounds=best)


def _cross_validated(
    task: Task, parameters: Mapping[str, Any], data: Any, rounds: int, stop_after: int
) -> tuple[int, list[Any]]:
    """Return the best number of rounds by the mean metric of all folds, and the predictions for each fold."""
    stopping = _Stopping(stop_after)
    callbacks = [lightgbm.log_evaluation(max(1, rounds // 20)), _record_means]
    found = lightgbm.cv(parameters, data, rounds, folds=task.folds, return_cvbooster=True,
                        callbacks=[*callbacks, stopping] if stop_after else callbacks)["cvbooster"]
    best = stopping.best_iteration + 1 if stop_after else found.boosters[0].current_iteration()
    return best, [shaped(booster.predict(task.train.matrix[validated], num_iteration=best), task.model)
                  for booster, (_, validated) in zip(found.boosters, task.folds, strict=True)]


def _record_means(env: Any) -> None:
    log({f"validation.{metric}": value for _, metric, value, *_ in env.evaluation_result_list}, env.iteration)


def _boosted(
    parameters: Mapping[str, Any], data: Any, validation: Any, rounds: int, stop_after: int, checkpoints: Checkpoints
) -> Any:
    """Return the trained booster; from a checkpoint on, if there is one."""
    stopping = _Stopping(stop_after)
    start, done = None, 0
    if (saved := checkpoints.load()) is not None:
        facts, arrays = saved
        start = lightgbm.Booster(model_str=arrays["model"].tobytes().decode("utf-8"))
        done, stopping.best = start.current_iteration(), facts["best"]
        say(f"Resumed after {done:,} rounds.")
    if start is not None and done >= rounds:
        start.best_iteration = stopping.best_iteration + 1 if stop_after else 0
        return start
    callbacks = [lightgbm.log_evaluation(max(1, rounds // 20)), _saving(checkpoints, stopping)]
    # LightGBM would draw the rows and columns of the first rounds again.
    return lightgbm.train(
        {**parameters, "seed": int(parameters["seed"]) + done}, data, rounds - done, valid_sets=[data, validation],
        valid_names=["train", "validation"], init_model=start,
        callbacks=[*callbacks, stopping] if stop_after else callbacks)


class _Stopping:
    """Stops when a metric of the validation data gets no better, as LightGBM does, which cannot resume that.

    Attributes:
        best: Metric to its best value and the round of it.
    """

    order = 30

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds
        self.best: dict[str, tuple[float, int]] = {}

    @property
    def best_iteration(self) -> int:
        """The best round by the first metric, from 0."""
        return next((at for _, at in self.best.values()), 0)

    def __call__(self, env: Any) -> None:
        for part, metric, value, is_higher_better, *_ in env.evaluation_result_list:
            if part == "train":
                continue
            known = self.best.get(metric)
            if known is None or (value > known[0] if is_higher_better else value < known[0]):
                self.best[metric] = value, env.iteration
        for _, at in self.best.values():
            if env.iteration - at >= self._rounds or env.iteration == env.end_iteration - 1:
                raise lightgbm.callback.EarlyStopException(at, env.evaluation_result_list)


def _saving(checkpoints: Checkpoints, stopping: _Stopping) -> Any:
    """Return a callback that saves checkpoints, after `stopping`."""
    def save(env: Any) -> None:
        if checkpoints.due:
            model = env.model.model_to_string(num_iteration=-1).encode("utf-8")
            checkpoints.save({"best": stopping.best}, {"model": np.frombuffer(model, np.uint8)})

    save.order = 40  # type: ignore[attr-defined]
    return save


def _expect_known(parameters: Mapping[str, Any], task: Task) -> None:
    """Refuse what LightGBM refuses, and parameters that it does not know, of which it only warns."""
    lines = _Lines()
    lightgbm.register_logger(lines)
    try:
        data = lightgbm.Dataset(task.train.matrix[:_ROWS_TO_CHECK], task.train.target[:_ROWS_TO_CHECK],
                                params={**parameters, "verbosity": 0})
        known = lightgbm.Booster({**parameters, "verbosity": 0}, data).model_to_string()
    except lightgbm.basic.LightGBMError as error:
        raise SettingsError(f"LightGBM refuses the parameters: {error}") from error
    finally:
        lightgbm.register_logger(_Printed())
    unknown = re.findall(r"Unknown parameter: (\S+)", "\n".join(lines.lines))
    if unknown:
        names = {*ROUNDS, *(item.name for item in LIGHTGBM), *re.findall(r"^\[(\w+): ", known, re.MULTILINE)}
        raise UnknownName(f'LightGBM has no parameter "{unknown[0]}". {nearest(unknown[0], names)}')


class _Lines:
    """Keeps what LightGBM logs."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def info(self, line: str) -> None:
        self.lines.append(line)

    warning = info


class _Printed:
    """Prints what LightGBM logs, as it does itself."""

    def info(self, line: str) -> None:
        say(line)

    warning = info


if __name__ == "__main__":
    run_trainer(train)
