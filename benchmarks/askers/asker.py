"""The interface of a tool that stores runs."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, Protocol

METRICS = ("loss", "val_loss", "acc", "f1", "auc")

TABLE, FILTER = "all into a table", "metric and text, ordered, first 100"
SERIES, CURVE = "a series", "a curve of 2,000 points"


class Component(NamedTuple):
    """The stored values of one run: name, five parameters, four tags, and the last value of five metrics."""

    name: str
    parameters: dict[str, float | int | str]
    tags: dict[str, str]
    metrics: dict[str, float]


class Asker(Protocol):
    """A store of runs. Each module here has `open_asker(directory)`, which returns one."""

    def fill(self, components: int) -> None:
        """Store this many of `components_of`, in the fastest way in the tool's guide."""

    def record(self, values: list[float]) -> None:
        """Store one run with a series "loss" of these values."""

    def questions(self) -> Mapping[str, Callable[[], int]]:
        """Return `TABLE`, `FILTER`, `SERIES` and `CURVE`; each returns the number of rows or points."""


def components_of(count: int) -> Iterator[Component]:
    """Yield distinct components, the same at each call."""
    draws = random.Random(0)
    for number in range(count):
        yield Component(
            f"c{number}",
            {"lr": draws.uniform(0, 0.1), "batch": draws.choice([16, 32, 64]), "opt": draws.choice(["sgd", "adam"]),
             "depth": draws.randrange(10), "decay": draws.random()},
            {"team": draws.choice(["vision", "speech"]), "a": "1", "b": "2", "c": f"{number % 7}"},
            {name: draws.random() for name in METRICS},
        )
