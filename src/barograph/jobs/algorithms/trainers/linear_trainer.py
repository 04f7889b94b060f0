"""Trains a linear model on a table with scikit-learn: `Ridge`, or for classes `LogisticRegression`.

    SM_CHANNEL_TRAIN=houses.parquet SM_MODEL_DIR=model SM_OUTPUT_DATA_DIR=output \\
        python linear_trainer.py --target price --alpha 0.1

Parameters are scikit-learn's own. Numbers are standardized, missing ones are the mean, and each category of a text
column is a feature. The weights are in `model.npz`, which `predict.py` evaluates with NumPy alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge

from barograph.errors import SettingsError
from barograph.jobs.algorithms.contract import log_step, run_trainer
from barograph.jobs.algorithms.estimators import estimator, fitted
from barograph.jobs.algorithms.table_training import Part, finish, prepare


def train(arguments: Sequence[str]) -> None:
    """Train and save a model."""
    task = prepare("linear", arguments, one_hot=True)
    kind: Any = LogisticRegression if task.classes else Ridge
    model = estimator(kind, {"random_state": task.options.seed, **task.parameters})
    if len(task.classes) > 2 and model.get_params().get("solver") == "liblinear":
        raise SettingsError("The solver liblinear fits one class against the rest, which is no distribution over "
                            f"{len(task.classes)} classes. Use another solver, such as lbfgs.")

    def fit(part: Part) -> None:
        with fitted(kind):
            model.fit(part.matrix, part.target)
        np.savez(task.folders.model / "model.npz", weight0=np.atleast_2d(model.coef_).T,
                 bias0=np.atleast_1d(model.intercept_))

    of_folds = []
    for part, validation in task.splits if task.folds else ():
        with fitted(kind):
            model.fit(part.matrix, part.target)
        of_folds.append((model.predict_proba if task.classes else model.predict)(validation.matrix))
    if not task.folds:
        fit(task.train)
    task.model.update(activation="identity", target_mean=0.0, target_scale=1.0,
                      output=("softmax" if len(task.classes) > 2 else "logistic") if task.classes else "identity")
    metrics = finish(task, fit, of_folds)
    log_step(metrics["train"]["loss"], metrics["validation"]["loss"])


if __name__ == "__main__":
    run_trainer(train)
