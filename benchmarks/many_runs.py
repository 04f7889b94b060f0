"""A catalog of very many runs, as a hyperparameter search leaves it, made in seconds and without training."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

from sqlalchemy import delete

from barograph.experiments.database import Database, catalog_url
from barograph.experiments.feeding import Fed, Feeder
from barograph.experiments.run_reading import SeenRun
from barograph.experiments.schema import FED
from barograph.model.clock import SystemClock
from barograph.model.finding import Finding, FindingState, Severity
from barograph.model.items import Entry, MetricSummary, Verb
from barograph.model.step import Mode
from barograph.store.urls import store_from_url

FIRST_UNIX = 1_790_000_000.0
_BATCH = 2_000
_OPTIMIZERS = ("sgd", "adam", "adamw")
_WIDTHS = (16, 32, 64, 128)
_SEEDS = 5
_RULES = (("W104", "dead-units", Severity.BREAKING), ("L105", "overfit", Severity.COSTLY),
          ("L102", "loss-spike", Severity.DOUBTFUL))


def fill(root: str, count: int = 10_000) -> None:
    """Add runs to the catalog of a root.

    Each has five parameters, of which the learning rate matters most, with an optimum in the middle of its range, and
    `shuffle` not at all; two metrics; a tag; and now and then a finding. Five runs each differ in their seed alone. One
    in fifty failed. The runs have no records.

    Args:
        root: Directory.
        count: Number of runs.
    """
    store, draws = store_from_url(root), random.Random(0)
    database = Database(catalog_url(store), store.url)
    feeder = Feeder(database, store, SystemClock())
    for first in range(0, count, _BATCH):
        numbers = range(first, min(first + _BATCH, count))
        feeder.write_runs([_run(store.url, number, draws) for number in numbers], Fed())
    with database.writing() as connection:
        # Indexing would note that they are gone.
        connection.execute(delete(FED))
    database.close()


def _run(url: str, number: int, draws: random.Random) -> SeenRun:
    group, seed = divmod(number, _SEEDS)
    chosen = random.Random(group)
    rate, width = 10 ** chosen.uniform(-5, 0), chosen.choice(_WIDTHS)
    parameters = {"lr": rate, "width": width, "optimizer": chosen.choice(_OPTIMIZERS),
                  "shuffle": chosen.random() < 0.5, "seed": seed}
    loss = 0.2 + 0.3 * (math.log10(rate) + 2.5) ** 2 + 4.0 / width + draws.gauss(0, 0.02)
    accuracy = math.exp(-loss) + draws.gauss(0, 0.01)
    uid, name, when = f"run-{number:06}", f"trial-{group:05}-{seed}", FIRST_UNIX + 60 * number
    facts = {"state": "failed" if number % 50 == 49 else "finished", "place": f"{url.rstrip('/')}/{name}",
             "steps": 1000, "started_unix": when, "ended_unix": when + 600.0 + width, "host": f"node{number % 4}"}
    entries = [Entry(uid, Verb.CREATE, {"kind": "run", "name": name}, when), Entry(uid, Verb.SET, facts, when),
               Entry(uid, Verb.PARAMETERS, parameters, when),
               Entry(uid, Verb.TAG, {"team": "vision" if group % 3 else "speech"}, when)]
    metrics = {"loss": _summary(loss, loss - 0.01, 4.0), "val/acc": _summary(accuracy, 0.1, accuracy + 0.005)}
    return SeenRun(name, uid, "", "", [("", entry) for entry in entries], metrics, list(_findings(draws)), ())


def _summary(last: float, least: float, greatest: float) -> MetricSummary:
    return MetricSummary(last, least, greatest, (least + greatest) / 2, 0.1, 1000, 0, 999)


def _findings(draws: random.Random) -> Iterator[Finding]:
    for code, rule, severity in _RULES:
        if draws.random() < 0.1:
            state = draws.choice(list(FindingState))
            yield Finding(f"{code}-7", code, rule, severity, state, f"{rule}.", "", (), "", "p0", "", Mode.TRAIN, 7, 8,
                          9, None if state is FindingState.OPEN else 10, FIRST_UNIX)
