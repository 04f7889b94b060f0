"""Epochs until a trial has an accuracy within 0.003 of the best one, on a table of digits.

A table of 150 configurations of a network × 27 epochs on scikit-learn's digits is trained once (about a minute). Then
each search asks for configurations of that table, with four workers that never wait; each epoch takes one unit of time.

    python -m benchmarks.tune.epochs --orders 200
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import quantiles

CONFIGURATIONS, EPOCHS, WORKERS, WITHIN = 150, 27, 4, 0.003
SEED = 5
Row = tuple[dict[str, float | int], list[float]]


def table(kept: Path) -> list[Row]:
    """Return parameters and accuracy after each epoch of each configuration; a file keeps them."""
    if not kept.exists():
        kept.write_text(json.dumps(_trained()))
    return [(row[0], row[1]) for row in json.loads(kept.read_text())]


def _trained() -> list[Row]:
    import numpy as np
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split
    from sklearn.neural_network import MLPClassifier

    warnings.simplefilter("ignore")
    x, y = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(x / 16.0, y, test_size=0.25, random_state=0)
    draw, found = random.Random(SEED), []
    for _ in range(CONFIGURATIONS):
        parameters = {
            "lr": 10 ** draw.uniform(-4, -0.5), "width": round(2 ** draw.uniform(3, 7)),
            "batch": 2 ** draw.randint(4, 8), "alpha": 10 ** draw.uniform(-6, 0)}
        network = MLPClassifier(
            hidden_layer_sizes=(int(parameters["width"]),), learning_rate_init=parameters["lr"],
            batch_size=int(parameters["batch"]), alpha=parameters["alpha"], random_state=0)
        curve = []
        for _ in range(EPOCHS):
            network.partial_fit(train_x, train_y, classes=np.unique(y))
            score = float(network.score(test_x, test_y))
            curve.append(score)
        found.append((parameters, curve))
    return found


Ask = Callable[[], int | None]
Report = Callable[[int, int, float], bool]
Tell = Callable[[int, float], object]


def simulated(rows: Sequence[Row], ask: Ask, report: Report, tell: Tell) -> int:
    """Return how many epochs were trained until the target, with four workers.

    Args:
        rows: The table.
        ask: Returns the next row; None if there is none.
        report: Takes row, epoch and accuracy; returns whether to stop.
        tell: Takes the end of a row, and its last accuracy.
    """
    target = max(max(curve) for _, curve in rows) - WITHIN
    waiting: list[tuple[int, int, int]] = []
    spent = 0
    for worker in range(WORKERS):
        if (row := ask()) is not None:
            heapq.heappush(waiting, (1, worker, row))
    epochs: dict[int, int] = {}
    while waiting:
        now, worker, row = heapq.heappop(waiting)
        curve = rows[row][1]
        epoch = epochs[row] = epochs.get(row, 0) + 1
        spent += 1
        is_over = report(row, epoch, curve[epoch - 1]) or epoch == EPOCHS
        if curve[epoch - 1] >= target:
            return spent
        following: int | None = row
        if is_over:
            tell(row, curve[epoch - 1])
            following = ask()
        if following is not None:
            heapq.heappush(waiting, (now + 1, worker, following))
    return spent


def in_order(rows: Sequence[Row], seed: int, rule: str) -> int:
    """Return the epochs with random search over the table and a rule of Barograph."""
    from barograph.tune.spec import Objective, Stopping
    from barograph.tune.stopping import reason_to_stop
    from barograph.tune.trial import Origin, Trial, TrialState

    order: Iterator[int] = iter(random.Random(seed).sample(range(len(rows)), len(rows)))
    trials: dict[int, Trial] = {}
    objective, stopping = Objective("accuracy", maximize=True), Stopping(rules=(rule,) if rule else ())

    def ask() -> int | None:
        row = next(order, None)
        if row is not None:
            trials[row] = Trial(row, {}, Origin("random"))
        return row

    def report(row: int, epoch: int, accuracy: float) -> bool:
        mine = trials[row]
        mine.curve[epoch] = accuracy
        return bool(reason_to_stop(mine, (one for one in trials.values() if one is not mine), objective, stopping))

    def tell(row: int, accuracy: float) -> None:
        # The rules stop no trial at a step at which others finished.
        is_complete = len(trials[row].curve) == EPOCHS
        trials[row].state = TrialState.FINISHED if is_complete else TrialState.STOPPED

    return simulated(rows, ask, report, tell)


def in_order_of_optuna(rows: Sequence[Row], seed: int, pruner: str) -> int:
    """Return the epochs with the same order and a pruner of Optuna."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(direction="maximize", pruner=getattr(optuna.pruners, pruner)())
    order, trials = iter(random.Random(seed).sample(range(len(rows)), len(rows))), {}

    def ask() -> int | None:
        row = next(order, None)
        if row is not None:
            trials[row] = study.ask()
        return row

    def report(row: int, epoch: int, accuracy: float) -> bool:
        trials[row].report(accuracy, epoch)
        return bool(trials[row].should_prune())

    def tell(row: int, accuracy: float) -> None:
        study.tell(trials[row], accuracy)

    return simulated(rows, ask, report, tell)


def searched(rows: Sequence[Row], seed: int, strategy: str) -> int:
    """Return the epochs with a study that chooses the nearest configuration of the table that was not tried."""
    from barograph.tune import Stopping, Study

    study = Study.create(None, {"lr": "1e-4..0.3165:log", "width": "8..128:int:log", "batch": [16, 32, 64, 128, 256],
                                "alpha": "1e-6..1:log"}, strategy=strategy, seed=seed, maximize="accuracy",
                         stopping=Stopping(rules=("asha",)))
    units = [study.space.units(parameters) for parameters, _ in rows]
    left, trials = set(range(len(rows))), {}

    def ask() -> int | None:
        if not left or (trial := study.ask()) is None:
            return None
        here = study.space.units(trial.parameters)
        row = min(left, key=lambda one: sum((a - b) ** 2 for a, b in zip(units[one], here, strict=True)))
        left.remove(row)
        trial.parameters = rows[row][0]  # what is trained instead
        trials[row] = trial
        return row

    return simulated(rows, ask, lambda row, epoch, accuracy: bool(study.report(trials[row], epoch, accuracy)),
                     lambda row, accuracy: study.tell(trials[row], accuracy))


SEARCHES: dict[str, Callable[[Sequence[Row], int], int]] = {
    "no stopping": lambda rows, seed: in_order(rows, seed, ""),
    "median rule": lambda rows, seed: in_order(rows, seed, "median"),
    "ASHA": lambda rows, seed: in_order(rows, seed, "asha"),
    "Optuna's SuccessiveHalvingPruner": lambda rows, seed: in_order_of_optuna(rows, seed, "SuccessiveHalvingPruner"),
    "Optuna's HyperbandPruner": lambda rows, seed: in_order_of_optuna(rows, seed, "HyperbandPruner"),
    "Optuna's MedianPruner": lambda rows, seed: in_order_of_optuna(rows, seed, "MedianPruner"),
    "random and ASHA": lambda rows, seed: searched(rows, seed, "random"),
    "auto and ASHA": lambda rows, seed: searched(rows, seed, "auto"),
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, default=200)
    parser.add_argument("--searches", default=",".join(SEARCHES))
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--kept", type=Path, default=Path(".cache/tune-digits.json"))
    options = parser.parse_args()
    options.kept.parent.mkdir(exist_ok=True)
    rows = table(options.kept)
    results = {}
    for name in options.searches.split(","):
        found = sorted(SEARCHES[name](rows, seed) for seed in range(options.orders))
        results[name] = found
        low, middle, high = quantiles(found, n=4)
        print(f"{name:34} {middle:6.0f} epochs, half of the {len(found)} orders {low:.0f}–{high:.0f}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(results))


if __name__ == "__main__":
    main()
