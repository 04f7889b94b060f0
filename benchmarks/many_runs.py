"""A catalog of very many runs, as a hyperparameter search leaves it, made in seconds and without training."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

from barograph.experiments.catalog import Catalog
from barograph.model.items import Entry, Verb

FIRST_UNIX = 1_800_000_000.0
_BATCH = 2_000
_OPTIMIZERS = ("sgd", "adam", "adamw")
_WIDTHS = (16, 32, 64, 128)
_SEEDS = 5


def fill(catalog: Catalog, count: int = 10_000) -> None:
    """Add runs to a catalog.

    Each has five parameters, of which the learning rate matters most, with an optimum in the middle of its range, and
    `shuffle` not at all; three metrics; and a tag. Five runs each differ in their seed alone. One in fifty failed.
    The runs have no records on disk.

    Args:
        catalog: The catalog.
        count: Number of runs.
    """
    draws = random.Random(0)
    for first in range(0, count, _BATCH):
        catalog.tell([entry for number in range(first, min(first + _BATCH, count))
                      for entry in _run(catalog.store.url, number, draws)])


def _run(url: str, number: int, draws: random.Random) -> Iterator[Entry]:
    group, seed = divmod(number, _SEEDS)
    chosen = random.Random(group)
    rate, width = 10 ** chosen.uniform(-5, 0), chosen.choice(_WIDTHS)
    optimizer, shuffle = chosen.choice(_OPTIMIZERS), chosen.random() < 0.5
    loss = 0.2 + 0.3 * (math.log10(rate) + 2.5) ** 2 + 4.0 / width + draws.gauss(0, 0.02)
    accuracy = math.exp(-loss) + draws.gauss(0, 0.01)
    uid, name, when = f"run-{number:06}", f"trial-{group:05}-{seed}", FIRST_UNIX + 60 * number
    yield Entry(uid, Verb.CREATE, {"kind": "run", "name": name}, when)
    yield Entry(uid, Verb.SET, {
        "state": "failed" if number % 50 == 49 else "finished", "place": f"{url.rstrip('/')}/{name}", "steps": 1000,
        "started_unix": when, "ended_unix": when + 600.0 + width, "host": f"node{number % 4}",
    }, when)
    yield Entry(uid, Verb.PARAMETERS, {"lr": rate, "width": width, "optimizer": optimizer, "shuffle": shuffle,
                                       "seed": seed}, when)
    yield Entry(uid, Verb.TAG, {"team": "vision" if group % 3 else "speech"}, when)
    yield Entry(uid, Verb.METRICS, {
        "loss": _summary(loss, loss - 0.01, 4.0), "val/acc": _summary(accuracy, 0.1, accuracy + 0.005),
        "lr": _summary(rate, 0.0, rate),
    }, when)


def _summary(last: float, least: float, greatest: float) -> dict[str, float]:
    return {"last": last, "min": least, "max": greatest, "mean": (least + greatest) / 2, "std": 0.1, "count": 1000,
            "last_step": 999}
