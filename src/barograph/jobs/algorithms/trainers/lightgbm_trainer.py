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

from barograph.errors import SettingsError, UnknownName, nearest
from barograph.jobs.algorithms.boosting import objective_of, rounds_of
from barograph.jobs.algorithms.contract import run_trainer
from barograph.jobs.algorithms.parameters import LIGHTGBM
from barograph.jobs.algorithms.results import say
from barograph.jobs.algorithms.table_training import Task, finish, prepare

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
    data = lightgbm.Dataset(task.train.matrix, task.train.target, feature_name=task.model["feature_names"],
                            categorical_feature=categories)
    validation = lightgbm.Dataset(task.validation.matrix, task.validation.target, reference=data)
    callbacks = [lightgbm.log_evaluation(max(1, rounds // 20))]
    if stop_after:
        callbacks.append(lightgbm.early_stopping(stop_after, verbose=False))
    booster = lightgbm.train(parameters, data, rounds, valid_sets=[data, validation],
                             valid_names=["train", "validation"], callbacks=callbacks)
    best = booster.best_iteration if stop_after and booster.best_iteration > 0 else booster.current_iteration()
    if stop_after:
        say(f"Best round: {best - 1}.")
    booster.save_model(task.folders.model / "model.txt", num_iteration=best)
    finish(task, rounds=best)


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
