"""XGBoost tuned with `--algorithm xgboost`, beside Optuna's own XGBoost example, at equal trials.

A quarter of the rows is held out: neither search sees them. Both tune on the rest, and the model of the best trial is
judged on the rows held out. Ours runs the code of the job in this process: its reading of the table, its ranges,
cross-validation and early stopping, its trainer, the strategy `auto`, and the training of the best trial on all of its
rows. The example is written anew after `xgboost_simple.py` of Optuna's examples: its ranges, ten rounds, TPE, rounded
predictions, three quarters of the rows for training and the rest for validation; its best trial keeps the model of its
rows for training, as in the example. A third search is the example with its best trial trained on all rows, too; a
fourth is the example with the mean of five folds as value of a trial, and its best trial trained on all rows.

    python -m benchmarks.tune.boosting --seeds 20

Results are appended to a file, so an interrupted benchmark continues where it stopped.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean, quantiles
from typing import Any

from benchmarks.tune.ranks import wilcoxon
from benchmarks.tune.searchers import digest_of, version_of

TRIALS, HELD_OUT, SPLIT = 30, 0.25, 0.25
KEPT = Path(".cache/tune-boosting.jsonl")
DATA = {"breast cancer": "classification", "diabetes": "regression"}
HELD_OUT_SCORE = {"classification": "accuracy", "regression": "rmse"}


def parts_of(name: str, seed: int) -> tuple[Any, Any]:
    """Return the rows to tune on and the rows held out, as tables with the column "target"."""
    from sklearn import datasets
    from sklearn.model_selection import train_test_split

    load = datasets.load_breast_cancer if name == "breast cancer" else datasets.load_diabetes
    frame = load(as_frame=True).frame
    frame.columns = [column.replace(" ", "_") for column in frame.columns]
    tuned, held_out = train_test_split(frame, test_size=HELD_OUT, random_state=seed)
    return tuned, held_out


def ours(name: str, seed: int) -> dict[str, float]:
    """Return the scores on the rows held out of the best of our trials."""
    import xgboost

    from barograph.jobs.algorithms.boosting import rounds_of
    from barograph.jobs.algorithms.folds import mean_scores
    from barograph.jobs.algorithms.results import scores
    from barograph.jobs.algorithms.table_prediction import shaped
    from barograph.jobs.algorithms.table_training import prepare
    from barograph.jobs.algorithms.trainers import xgboost_trainer as trainer
    from barograph.tune import Study
    from barograph.tune.autotune import fixed_parameters, space_of_algorithm

    task_name = DATA[name]
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        for channel, rows in zip(("train", "test"), parts_of(name, seed), strict=True):
            rows.to_csv(f"{folder}/{channel}.csv", index=False)
            os.environ[f"SM_CHANNEL_{channel.upper()}"] = f"{folder}/{channel}.csv"
        os.environ |= {"SM_MODEL_DIR": f"{folder}/model", "SM_OUTPUT_DATA_DIR": f"{folder}/output"}
        words = ["--target", "target", "--task", task_name, "--seed", str(seed), "--folds", "auto"]
        tasks = {booster: prepare("xgboost", [*words, "--booster", booster], one_hot=booster == trainer.LINEAR)
                 for booster in ("gbtree", trainer.LINEAR)}

    study = Study.create(None, space_of_algorithm("xgboost", {"task": task_name}), seed=seed, trials=TRIALS)
    best: tuple[float, Any, Any, int] = (float("inf"), None, None, 0)
    while (trial := study.ask()) is not None:
        given = {**fixed_parameters("xgboost", {}), **{key: str(value) for key, value in trial.parameters.items()}}
        chosen = replace(tasks[given["booster"]], parameters=given)
        rounds, stop_after = rounds_of(chosen.parameters, trainer.ROUNDS)
        parameters = trainer.parameters_of(chosen, {"seed": seed, "nthread": 1})
        with contextlib.redirect_stdout(io.StringIO()):
            rounds, of_folds = trainer.cross_validated(chosen, parameters, rounds, stop_after)
        targets = [chosen.train.target[validated] for _, validated in chosen.folds]
        loss = mean_scores(targets, of_folds, chosen.classes)["loss"]
        study.tell(trial, loss)
        if loss < best[0]:
            best = loss, chosen, parameters, rounds
    _, task, parameters, rounds = best
    booster = xgboost.train(parameters, trainer._matrix(task, task.train), rounds)
    predictions = shaped(booster.predict(trainer._matrix(task, task.parts["test"])), task.model)
    return scores(task.parts["test"].target, predictions, task.classes)


def optunas(name: str, seed: int, *, refits: bool = False, folds: int = 0) -> dict[str, float]:
    """Return the scores on the rows held out of the best trial of Optuna's example.

    Args:
        refits: Train it on all rows at the end, which the example does not.
        folds: Value of a trial is the mean of so many folds, which it is not in the example; 0: as in the example.
    """
    import numpy as np
    import optuna
    import xgboost
    from sklearn.model_selection import KFold, StratifiedKFold, train_test_split

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    is_class = DATA[name] == "classification"
    tuned, held_out = parts_of(name, seed)
    train, valid = train_test_split(tuned, test_size=SPLIT, random_state=seed)
    matrices = [xgboost.DMatrix(one.drop(columns="target"), label=one["target"])
                for one in (train, valid, held_out, tuned)]

    def score(booster: Any, matrix: Any) -> float:
        predicted, target = booster.predict(matrix), matrix.get_label()
        if is_class:
            return float((np.rint(predicted) == target).mean())
        return float(np.sqrt(((predicted - target) ** 2).mean()))

    kind = StratifiedKFold if is_class else KFold
    splits = list(kind(folds, shuffle=True, random_state=seed).split(tuned, tuned["target"])) if folds else []
    best: list[float] = []

    def objective(trial: Any) -> float:
        given = {
            "verbosity": 0, "nthread": 1, "tree_method": "exact", "seed": seed,
            "objective": "binary:logistic" if is_class else "reg:squarederror",
            "booster": trial.suggest_categorical("booster", ["gbtree", "gblinear", "dart"]),
            "lambda": trial.suggest_float("lambda", 1e-8, 1.0, log=True),
            "alpha": trial.suggest_float("alpha", 1e-8, 1.0, log=True),
            "subsample": trial.suggest_float("subsample", 0.2, 1.0),
            "colsample_bytree": trial.suggest_float("colsample_bytree", 0.2, 1.0)}
        if given["booster"] in ("gbtree", "dart"):
            given["max_depth"] = trial.suggest_int("max_depth", 3, 9, step=2)
            given["min_child_weight"] = trial.suggest_int("min_child_weight", 2, 10)
            given["eta"] = trial.suggest_float("eta", 1e-8, 1.0, log=True)
            given["gamma"] = trial.suggest_float("gamma", 1e-8, 1.0, log=True)
            given["grow_policy"] = trial.suggest_categorical("grow_policy", ["depthwise", "lossguide"])
        if given["booster"] == "dart":
            given["sample_type"] = trial.suggest_categorical("sample_type", ["uniform", "weighted"])
            given["normalize_type"] = trial.suggest_categorical("normalize_type", ["tree", "forest"])
            given["rate_drop"] = trial.suggest_float("rate_drop", 1e-8, 1.0, log=True)
            given["skip_drop"] = trial.suggest_float("skip_drop", 1e-8, 1.0, log=True)
        if given["booster"] == "gblinear":
            for key in ("subsample", "colsample_bytree", "tree_method"):
                del given[key]
        best.append(score(xgboost.train(given, matrices[3 if refits else 0]), matrices[2]))
        if not splits:
            return score(xgboost.train(given, matrices[0]), matrices[1])
        return fmean(score(xgboost.train(given, matrices[3].slice(fitted)), matrices[3].slice(validated))
                     for fitted, validated in splits)

    study = optuna.create_study(direction="maximize" if is_class else "minimize",
                                sampler=optuna.samplers.TPESampler(seed=seed))
    study.optimize(objective, n_trials=TRIALS)
    return {HELD_OUT_SCORE[DATA[name]]: best[study.best_trial.number]}


SEARCHES: Mapping[str, Callable[[str, int], dict[str, float]]] = {
    "barograph": ours, "optuna's example": optunas, "optuna's example, refitted": partial(optunas, refits=True),
    "optuna's example, 5 folds": partial(optunas, refits=True, folds=5)}


def version_of_algorithms() -> str:
    """Return a digest of the code of the built-in algorithms, with their ranges."""
    import barograph.jobs.algorithms

    return digest_of(sorted(Path(barograph.jobs.algorithms.__file__).parent.rglob("*.py")))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--kept", type=Path, default=KEPT)
    parser.add_argument("--secs", type=float, help="start no study after so many seconds")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    options.kept.parent.mkdir(parents=True, exist_ok=True)
    versions = {"barograph": f"{version_of('auto')} {version_of_algorithms()}",
                **dict.fromkeys((search for search in SEARCHES if search != "barograph"), version_of("optuna-tpe"))}
    found: dict[tuple[str, str, int], float] = {}
    for line in options.kept.read_text().splitlines() if options.kept.exists() else ():
        row = json.loads(line)
        if row["version"] == versions[row["search"]]:
            found[row["search"], row["data"], row["seed"]] = row["score"]
    end = None if options.secs is None else time.monotonic() + options.secs
    due = [(search, data, seed) for seed in range(options.seeds) for data in DATA for search in SEARCHES]
    for search, data, seed in due:
        if (search, data, seed) not in found and (end is None or time.monotonic() < end):
            score = SEARCHES[search](data, seed)[HELD_OUT_SCORE[DATA[data]]]
            found[search, data, seed] = score
            row = {"search": search, "data": data, "seed": seed, "version": versions[search], "score": score}
            with options.kept.open("a") as file:
                file.write(json.dumps(row) + "\n")
    if missing := len(set(due) - found.keys()):
        print(f"{missing} of {len(due)} studies are not measured yet")
    results = {}
    for data, task in DATA.items():
        seeds = [seed for seed in range(options.seeds) if all((search, data, seed) in found for search in SEARCHES)]
        if len(seeds) < 2:
            continue
        values = {search: [found[search, data, seed] for seed in seeds] for search in SEARCHES}
        for search, scores in values.items():
            low, middle, high = quantiles(scores, n=4)
            print(f"{data}, {HELD_OUT_SCORE[task]} on held-out rows, {len(seeds)} seeds: {search:26} {middle:.4g} "
                  f"({low:.4g}\u2013{high:.4g})")
        for search in list(SEARCHES)[1:]:
            p = wilcoxon(values["barograph"], values[search])
            print(f"  p of the paired Wilcoxon test against {search}: {p:.2g}")
        results[data] = values
    if options.json:
        options.json.write_text(json.dumps(results))


if __name__ == "__main__":
    main()
