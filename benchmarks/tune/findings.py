"""Time to a target accuracy with findings, beside ASHA alone; and how many good trials a finding stops.

Small networks are trained on scikit-learn's digits in this process. Each is recorded with the default settings, and all
rules read its run like the process that watches a job. So what findings would stop, and when, is known for each
network, and any order of trials can be simulated with four workers. A worker is busy for the processor time of a
training and its recording. A stop takes effect at once; a job would train on for about a second.

    python -m benchmarks.tune.findings --part broken --secs 120   a space half of which diverges or dies
    python -m benchmarks.tune.findings --part good --secs 120     sound settings: no finding may stop one

Trainings are appended to a file, so an interrupted benchmark continues where it stopped.
"""

from __future__ import annotations

import argparse
import base64
import heapq
import itertools
import json
import pickle
import random
import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

from barograph.model.step import Mode
from benchmarks.tune.searchers import digest_of

REPORTS, WORKERS, WITHIN = 9, 4, 0.003
PASSES = {"broken": 8, "good": 1}
"""Passes over the data between two reports: the data are small, and rules need some hundred steps."""
COUNTS = {"broken": 80, "good": 500}
LOOKS = 4
"""How often the problems of a run are read between two reports."""
CHANCE = 0.3
"""A network with a lower accuracy at its end is broken."""
SPACE = {"lr": "1e-3..100:log", "momentum": [0.0, 0.9], "width": "16..128:int:log", "depth": [1, 2, 3],
         "batch": [16, 32, 64]}
KEPT = Path(".cache/tune-findings.jsonl")


class Look(NamedTuple):
    """The state of a training at one moment.

    Attributes:
        secs: Processor time of the training so far.
        accuracy: At the end of an epoch; None within one.
        problems: Problems of its run so far.
    """

    secs: float
    accuracy: float | None
    problems: Sequence[Any]


def settings_of(part: str, number: int) -> dict[str, Any]:
    """Return the drawn settings of a training."""
    draw = random.Random(f"{part} {number}")
    shape = {"width": round(2 ** draw.uniform(4, 7)), "depth": draw.choice([1, 2, 3]),
             "batch": draw.choice([16, 32, 64])}
    if part == "broken":
        return {**shape, "optimizer": "sgd", "lr": 10 ** draw.uniform(-3, 2), "momentum": draw.choice([0.0, 0.9])}
    optimizer, momentum = draw.choice(["sgd", "adam"]), draw.choice([0.0, 0.5, 0.9])
    rate = 10 ** draw.uniform(-1.5, -0.3)
    return {**shape, "optimizer": optimizer, "momentum": momentum,
            "lr": rate * 0.02 if optimizer == "adam" else rate * (1.0 - momentum)}


def trained(settings: dict[str, Any], passes: int, seed: int) -> list[Look]:
    """Train and record a network; return what was seen at each look."""
    import torch
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split
    from torch import nn

    import barograph
    from barograph.model.settings import Settings
    from barograph.rules.registry import rules_from_settings
    from barograph.runs.reading.feed import Feed
    from barograph.store.urls import store_from_url
    from barograph.watch.loop import Watcher

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    images, labels = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = (torch.tensor(one) for one in train_test_split(
        (images / 16).astype("float32"), labels, test_size=0.4, random_state=0))
    widths = [64, *[settings["width"]] * settings["depth"]]
    layers = [layer for before, after in itertools.pairwise(widths)
              for layer in (nn.Linear(before, after), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Linear(widths[-1], 10))
    optimizer = torch.optim.Adam(model.parameters(), settings["lr"]) if settings["optimizer"] == "adam" else \
        torch.optim.SGD(model.parameters(), settings["lr"], momentum=settings["momentum"])
    loss_of = nn.CrossEntropyLoss()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        url = f"{folder}/run"
        with barograph.attach(model, optimizer, to=url, watch=False):
            began, steps = time.thread_time(), 0
            for _ in range(REPORTS):
                batches = [one for _ in range(passes) for one in torch.randperm(len(train_x)).split(settings["batch"])]
                for look in range(LOOKS):
                    for batch in batches[look * len(batches) // LOOKS:(look + 1) * len(batches) // LOOKS]:
                        optimizer.zero_grad()
                        loss_of(model(train_x[batch]), train_y[batch]).backward()
                        optimizer.step()
                        steps += 1
                    accuracy = None
                    if look == LOOKS - 1:
                        model.eval()
                        with torch.no_grad():
                            accuracy = float((model(test_x).argmax(1) == test_y).float().mean())
                        model.train()
                    found.append((steps, time.thread_time() - began, accuracy))
        feed = _Steps(Feed(store_from_url(url), patient=False))
        watcher = Watcher(store_from_url(url), rules_from_settings(Settings()), record=False)
        watcher._feed = feed  # type: ignore[assignment]
        looks = []
        for steps, secs, accuracy in found:
            feed.until = steps
            watcher.poll()
            looks.append(Look(secs, accuracy, watcher.found))
    return looks


class _Steps:
    """The steps of an ended run, as they became complete.

    Args:
        feed: The feed of the run.
    """

    def __init__(self, feed: Any) -> None:
        self.until = 0
        self._last = feed.poll()
        self._views = list(self._last.views)
        while self._last.more:
            self._last = feed.poll()
            self._views += self._last.views

    def poll(self) -> Any:
        """Return the steps that were not returned yet, before `until`."""
        ends = (view.step.number + (view.step.mode is Mode.TRAIN) for view in self._views)
        count = next((place for place, end in enumerate(ends) if end > self.until), len(self._views))
        due, self._views = self._views[:count], self._views[count:]
        return replace(self._last, views=tuple(due), more=False, drained=False, ended=False)


def version_of_rules() -> str:
    """Return a digest of the code of all rules."""
    import barograph.rules

    return digest_of(sorted(Path(barograph.rules.__file__).parent.rglob("*.py")))


def trainings(part: str, count: int, kept: Path, secs: float | None) -> dict[int, list[Look]]:
    """Return the trainings of a part; those in a file are not run again."""
    warnings.simplefilter("ignore")
    kept.parent.mkdir(parents=True, exist_ok=True)
    version, found = version_of_rules(), {}
    for line in kept.read_text().splitlines() if kept.exists() else ():
        row = json.loads(line)
        if row["part"] == part and row["number"] < count and row["rules"] == version:
            found[row["number"]] = pickle.loads(base64.b64decode(row["looks"]))
    end = None if secs is None else time.monotonic() + secs
    for number in range(count):
        if number not in found and (end is None or time.monotonic() < end):
            found[number] = trained(settings_of(part, number), PASSES[part], number)
            with kept.open("a") as file:
                looks = base64.b64encode(pickle.dumps(found[number])).decode()
                file.write(json.dumps({"part": part, "number": number, "rules": version, "looks": looks}) + "\n")
    return found


def simulated(rows: Mapping[int, list[Look]], seed: int, *, strategy: str, findings: bool) -> float:
    """Return the time until the first trial has the target accuracy, with four workers.

    The strategy "random" takes the trainings in a random order, any other one the nearest that was not tried.
    """
    from barograph.tune import Stopping, Study
    from barograph.tune.hopeless import reason_to_give_up

    study = Study.create(None, SPACE, strategy=strategy, seed=seed, maximize="accuracy",
                         stopping=Stopping(rules=("asha",)))
    target = max(look.accuracy or 0.0 for looks in rows.values() for look in looks) - WITHIN
    settings = {number: {name: settings_of("broken", number)[name] for name in SPACE} for number in rows}
    units = {number: study.space.units(settings[number]) for number in rows}
    left = random.Random(seed).sample(sorted(rows), len(rows))
    waiting: list[tuple[float, int]] = []
    running: dict[int, tuple[Any, list[Look], float]] = {}

    def start(now: float) -> None:
        if not left:
            return
        if strategy == "random":
            study.give(settings[left[0]])
        trial = study.ask()
        assert trial is not None
        here = study.space.units(trial.parameters)
        row = min(left, key=lambda one: sum((a - b) ** 2 for a, b in zip(units[one], here, strict=True)))
        left.remove(row)
        trial.parameters = settings[row]
        running[trial.number] = trial, list(rows[row]), now
        heapq.heappush(waiting, (now + rows[row][0].secs, trial.number))

    for _ in range(WORKERS):
        start(0.0)
    now = 0.0
    while waiting:
        now, number = heapq.heappop(waiting)
        trial, looks, began = running[number]
        look = looks.pop(0)
        if look.accuracy is not None:
            study.report(trial, REPORTS - len(looks) // LOOKS, look.accuracy)
            if look.accuracy >= target:
                return now
        others = (one for one in study.trials if one is not trial)
        if findings and (reason := reason_to_give_up(look.problems, trial, others, study.objective)):
            study.stop(trial, reason)
        if study.should_stop(trial) or not looks:
            study.tell(trial, trial.curve[max(trial.curve)] if trial.curve else None)
            start(now)
        else:
            heapq.heappush(waiting, (began + looks[0].secs, number))
    return now


def print_broken(rows: Mapping[int, list[Look]], orders: int) -> dict[str, Any]:
    """Print and return the times of all searches."""
    results: dict[str, Any] = {}
    ends = [looks[-1].accuracy or 0.0 for looks in rows.values()]
    share = sum(end < CHANCE for end in ends) / len(ends)
    print(f"{len(rows)} trainings, {share:.0%} of them end below an accuracy of {CHANCE}; time until within {WITHIN} "
          f"of the best accuracy, {orders} orders, median and quartiles")
    for strategy in ("random", "auto"):
        times = {findings: [simulated(rows, seed, strategy=strategy, findings=findings) for seed in range(orders)]
                 for findings in (False, True)}
        for findings, found in times.items():
            low, middle, high = quantiles(found, n=4)
            print(f"{strategy}, ASHA{' and findings' if findings else '':13} {middle:6.2f} s ({low:.2f}–{high:.2f})")
        results[strategy] = {"ASHA": times[False], "ASHA and findings": times[True]}
        print(f"ratio of the medians {median(times[True]) / median(times[False]):.2f} (target: at most 0.6)")
    return results


def print_good(rows: Mapping[int, list[Look]]) -> dict[str, Any]:
    """Print and return which good trainings a finding would stop, with no other trial that could excuse one."""
    from barograph.tune.hopeless import reason_to_give_up
    from barograph.tune.spec import Objective
    from barograph.tune.trial import Origin, Trial

    stopped = []
    for number, looks in rows.items():
        trial = Trial(number, {}, Origin("random"))
        for look in looks:
            if look.accuracy is not None:
                trial.curve[len(trial.curve) + 1] = look.accuracy
            if reason := reason_to_give_up(look.problems, trial, (), Objective("accuracy", maximize=True)):
                stopped.append(f"training {number}, final accuracy {looks[-1].accuracy:.3f}: {reason}")
                break
    ends = sorted(looks[-1].accuracy or 0.0 for looks in rows.values())
    print(f"{len(stopped)} of {len(rows)} good trainings would be stopped by a finding (target: 0 of 500); final "
          f"accuracy {median(ends):.3f} ({ends[0]:.3f}–{ends[-1]:.3f})")
    for text in stopped:
        print(f"  {text}")
    return {"trainings": len(rows), "stopped": stopped, "accuracies": ends}


def main() -> None:
    """Train, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=list(COUNTS), action="append", help="default: both")
    parser.add_argument("--count", type=int, help="number of trainings")
    parser.add_argument("--orders", type=int, default=200)
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--kept", type=Path, default=KEPT)
    parser.add_argument("--secs", type=float, help="start no training after so many seconds")
    options = parser.parse_args()
    results = {}
    for part in options.part or COUNTS:
        count = options.count or COUNTS[part]
        rows = trainings(part, count, options.kept, options.secs)
        if len(rows) < count:
            print(f"{part}: {count - len(rows)} of {count} trainings are not done yet")
        if part == "good" and rows:
            results[part] = print_good(rows)
        elif len(rows) > WORKERS:
            results[part] = print_broken(rows, options.orders)
    if options.json:
        options.json.write_text(json.dumps(results))


if __name__ == "__main__":
    main()
