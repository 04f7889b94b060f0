"""Trains a multi-layer perceptron on a table with scikit-learn: `MLPRegressor`, or for classes `MLPClassifier`.

    SM_CHANNEL_TRAIN=houses.parquet SM_MODEL_DIR=model SM_OUTPUT_DATA_DIR=output \\
        python mlp_trainer.py --target price --hidden_layer_sizes 64,32

Parameters are scikit-learn's own. Numbers and the target of a regression are standardized, missing ones are the mean,
and each category of a text column is a feature. Training stops after `n_iter_no_change` epochs without a better
validation loss; the weights of the best epoch are in `model.npz`, which `predict.py` evaluates with NumPy alone.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np
from sklearn.neural_network import MLPClassifier, MLPRegressor

from barograph.errors import SettingsError
from barograph.jobs.algorithms.checkpoints import Checkpoints
from barograph.jobs.algorithms.contract import log, run_trainer
from barograph.jobs.algorithms.estimators import estimator, fitted
from barograph.jobs.algorithms.folds import mean_scores
from barograph.jobs.algorithms.results import say
from barograph.jobs.algorithms.table_prediction import counted
from barograph.jobs.algorithms.table_training import Part, Task, finish, prepare

_COUNTS = ("n_iter_", "t_", "loss_", "loss_curve_", "best_loss_", "_no_improvement_count")
_MOMENTS = ("ms", "vs", "velocities")

Weights = tuple[list[Any], list[Any]]


def train(arguments: Sequence[str]) -> None:
    """Train and save a model."""
    task = prepare("mlp", arguments, one_hot=True)
    sizes = task.parameters.get("hidden_layer_sizes", "")
    if sizes.isdigit():
        task.parameters["hidden_layer_sizes"] = f"({sizes},)"
    kind: Any = MLPClassifier if task.classes else MLPRegressor
    given = {"random_state": task.options.seed, **task.parameters}
    splits = task.splits
    models = [estimator(kind, given) for _ in splits]
    if models[0].solver == "lbfgs" or models[0].early_stopping:
        raise SettingsError("This trainer trains epoch by epoch: use solver adam or sgd, and not early_stopping, which "
                            "it does itself after n_iter_no_change epochs.")
    with Checkpoints(task.digest) as checkpoints:
        best_epoch, losses, weights = _best_epoch(task, splits, models, checkpoints)
    task.model.update(activation=models[0].activation, output=models[0].out_activation_)
    if not task.folds:
        _save(task, task.train, weights[0])

    def fit(part: Part) -> None:
        again = estimator(kind, given)
        for epoch in range(best_epoch):
            _train_epoch(task, again, part, is_first=not epoch)
        _save(task, part, (again.coefs_, again.intercepts_))

    for model, best in zip(models, weights, strict=True):
        model.coefs_, model.intercepts_ = best
    of_folds = _predictions(task, splits, models) if task.folds else ()
    finish(task, fit, of_folds, epochs=len(losses), best_epoch=best_epoch, epoch_losses=losses)


def _save(task: Task, part: Part, weights: Weights) -> None:
    """Save a model that was trained on the rows of `part`."""
    arrays = {f"{name}{place}": array for name, found in zip(("weight", "bias"), weights, strict=True)
              for place, array in enumerate(found)}
    np.savez(task.folders.model / "model.npz", **arrays)
    mean, scale = _mean_and_scale(task, part)
    task.model.update(target_mean=mean, target_scale=scale)


def _mean_and_scale(task: Task, part: Part) -> tuple[float, float]:
    """Return what standardizes the target."""
    return (0.0, 1.0) if task.classes else (float(part.target.mean()), float(part.target.std()) or 1.0)


def _target_of(task: Task, part: Part) -> Any:
    """Return the target as the model learns it."""
    mean, scale = _mean_and_scale(task, part)
    return part.target.astype(int) if task.classes else (part.target - mean) / scale


def _train_epoch(task: Task, model: Any, part: Part, *, is_first: bool) -> None:
    with fitted(type(model)):
        model.partial_fit(part.matrix, _target_of(task, part), **_classes(task) if is_first else {})


def _classes(task: Task) -> dict[str, Any]:
    """Return the classes as `partial_fit` takes them at first."""
    return {"classes": range(len(task.classes))} if task.classes else {}


def _best_epoch(
    task: Task, splits: Sequence[tuple[Part, Part]], models: Sequence[Any], checkpoints: Checkpoints
) -> tuple[int, list[float], list[Weights]]:
    """Train until the mean validation loss gets no better.

    Returns:
        The best epoch, from 1, all losses, and the weights of each model in the best epoch.
    """
    scale, first = _mean_and_scale(task, task.train)[1], models[0]
    best, best_epoch, stalled = math.inf, 0, 0
    losses: list[float] = []
    weights: list[Weights] = []
    if (saved := checkpoints.load()) is not None:
        facts, arrays = saved
        best, best_epoch, stalled, losses = (facts[name] for name in ("best", "best_epoch", "stalled", "losses"))
        best = math.inf if best is None else best
        weights = [_restored(model, part.matrix, _target_of(task, part), _classes(task), facts["models"][place],
                             _of_model(arrays, place))
                   for place, (model, (part, _)) in enumerate(zip(models, splits, strict=True))]
        say(f"Resumed after {counted(len(losses), 'epoch')}.")
    while len(losses) < first.max_iter and stalled < first.n_iter_no_change:
        for model, (part, _) in zip(models, splits, strict=True):
            _train_epoch(task, model, part, is_first=not losses)
        losses.append(fmean(float(model.loss_) for model in models))
        loss = mean_scores([validation.target for _, validation in splits], _predictions(task, splits, models),
                           task.classes)["loss"]
        log({"epoch_loss": losses[-1], "validation_loss": loss})
        say(f"epoch {len(losses)}: loss {losses[-1]:.4g}, validation loss {loss:.4g}")
        stalled = 0 if loss < best - first.tol * scale else stalled + 1
        if loss < best:
            best, best_epoch = loss, len(losses)
            weights = [([item.copy() for item in model.coefs_], [item.copy() for item in model.intercepts_])
                       for model in models]
        if checkpoints.due:
            facts = {"best": best if best_epoch else None, "best_epoch": best_epoch, "stalled": stalled,
                     "losses": losses, "models": [_numbers(model) for model in models]}
            checkpoints.save(facts, {
                f"{place}/{name}": array for place, model in enumerate(models)
                for name, array in _arrays(model, weights[place] if weights else ([], [])).items()})
    if not best_epoch:
        raise SettingsError("The validation loss was not finite after any epoch. Lower learning_rate_init.")
    return best_epoch, losses, weights


def _predictions(task: Task, splits: Sequence[tuple[Part, Part]], models: Sequence[Any]) -> list[Any]:
    """Return what each model predicts for its rows for validation."""
    found = []
    for model, (part, validation) in zip(models, splits, strict=True):
        mean, scale = _mean_and_scale(task, part)
        found.append((model.predict_proba if task.classes else model.predict)(validation.matrix) * scale + mean)
    return found


def _numbers(model: Any) -> dict[str, Any]:
    """Return the numbers that a fitted model and its optimizer consist of, besides arrays."""
    return {"model": {name: getattr(model, name) for name in _COUNTS},
            "optimizer": {name: value for name, value in vars(model._optimizer).items()
                          if isinstance(value, int | float)}}


def _arrays(model: Any, weights: Weights) -> dict[str, Any]:
    """Return the weights of the last and of the best epoch, and the moments of the optimizer."""
    lists = {"coefs_": model.coefs_, "intercepts_": model.intercepts_, "best0": weights[0], "best1": weights[1],
             **{f"optimizer.{name}": value for name, value in vars(model._optimizer).items() if name in _MOMENTS}}
    return {f"{name}/{place}": array for name, arrays in lists.items() for place, array in enumerate(arrays)}


def _of_model(arrays: Mapping[str, Any], place: int) -> dict[str, Any]:
    """Return the arrays of one model of a checkpoint."""
    start = f"{place}/"
    return {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}


def _restored(
    model: Any, matrix: Any, target: Any, more: Mapping[str, Any], facts: Mapping[str, Any], arrays: Mapping[str, Any]
) -> Weights:
    """Bring a new model to the state of a checkpoint; return the weights of the best epoch."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.partial_fit(matrix[:2], target[:2], **more)  # creates everything that is replaced below

    def listed(name: str) -> list[Any]:
        return [arrays[f"{name}/{place}"] for place in range(sum(key.startswith(f"{name}/") for key in arrays))]

    model.coefs_, model.intercepts_ = listed("coefs_"), listed("intercepts_")
    vars(model).update(facts["model"])
    vars(model._optimizer).update(facts["optimizer"])
    for name in _MOMENTS:
        if hasattr(model._optimizer, name):
            setattr(model._optimizer, name, listed(f"optimizer.{name}"))
    return listed("best0"), listed("best1")


if __name__ == "__main__":
    run_trainer(train)
