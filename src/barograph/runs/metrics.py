"""What the plain numbers of a run came to: its losses, and whatever the script logged, one summary each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from barograph.model.items import MetricSummary
from barograph.model.key import Key, Kind
from barograph.model.step import Mode, named
from barograph.runs.events import dictionary_column
from barograph.runs.reader import Run

METRIC_KINDS = (Kind.LOSS, Kind.SCALAR)
_COLUMNS = ("worker", "optimizer", "mode", "path", "step", "time", "tick", "value")
_HYPERPARAMETER = "hyperparameter["


class Metric(NamedTuple):
    """A series of a run that is a metric of it.

    Attributes:
        key: What was recorded.
        mode: While the script did what.
        optimizer: Of whose steps; "": of the only one's.
    """

    key: Key
    mode: Mode
    optimizer: str

    @property
    def name(self) -> str:
        """What searches and tables call it.

        A number that the script logs has the name that the script gives it. The loss is `loss`, in evaluation
        `eval_loss`; of several losses each has its path behind a dot. Numbers that belong to one optimizer of several
        have it in brackets.

        Example:
            >>> Metric(Key(Kind.SCALAR, "val/acc"), Mode.TRAIN, "").name
            'val/acc'
            >>> Metric(Key(Kind.LOSS, "total"), Mode.EVAL, "").name, Metric(Key(Kind.LOSS, "kl"), Mode.TRAIN, "d").name
            ('eval_loss', 'loss.kl [optimizer d]')
        """
        path, prefix = self.key.path, "" if self.mode is Mode.TRAIN else f"{self.mode}_"
        if self.key.kind is Kind.LOSS:
            path = "loss" if path == "total" else f"loss.{path}"
        return f"{prefix}{path}{f' [{named(self.optimizer)}]' if self.optimizer else ''}"


def metrics_of(run: Run) -> dict[str, MetricSummary]:
    """Return the metrics of a run by name, and what each came to.

    Where several workers recorded one, it is the first one's: replicas say the same.

    Raises:
        StoreError: The store cannot be read. What is damaged in it is left out, and in `run.damage`.
    """
    return {found.metric.name: summarized(found.values, found.steps)
            for kind in METRIC_KINDS for found in histories_of(run, kind)}


class History(NamedTuple):
    """Every number of a series, by step; then in the order in which they were recorded. The three have one length.

    Attributes:
        metric: Which series.
        steps: Of its numbers, going up.
        times_us: Microseconds since 1970 UTC.
        values: The numbers.
    """

    metric: Metric
    steps: NDArray[np.int64]
    times_us: NDArray[np.int64]
    values: NDArray[np.float64]


def histories_of(run: Run, kind: Kind) -> Iterator[History]:
    """Yield the series of a kind, hyperparameters left out; where several workers recorded one, the first one's.

    Raises:
        StoreError: As of `metrics_of`.
    """
    table = run.arrow(kind, columns=_COLUMNS)
    table = table.filter(pc.is_valid(table["value"])).combine_chunks()
    if not len(table):
        return
    codes, texts = zip(*(_codes(table, name) for name in ("path", "mode", "optimizer", "worker")), strict=True)
    steps, values = (table[name].to_numpy() for name in ("step", "value"))
    times, ticks = table["time"].cast(pa.int64()).to_numpy(), table["tick"].to_numpy()
    order = np.lexsort((times, ticks, steps, *reversed(codes)))
    sorted_codes = np.stack([column[order] for column in codes])
    changes = np.flatnonzero(np.any(sorted_codes[:, 1:] != sorted_codes[:, :-1], axis=0)) + 1
    done: set[Metric] = set()
    for group in np.split(order, changes):
        path, mode, optimizer = (texts[place][codes[place][group[0]]] for place in range(3))
        metric = Metric(Key(kind, path), Mode(mode), optimizer)
        if metric in done or path.startswith(_HYPERPARAMETER):
            continue
        done.add(metric)
        yield History(metric, steps[group], times[group], values[group])


def _codes(table: pa.Table, name: str) -> tuple[NDArray[np.int64], list[str]]:
    column = dictionary_column(table, name)
    return column.ranks()[column.codes], sorted(column.texts)


def summarized(values: NDArray[np.float64], steps: NDArray[np.int64]) -> MetricSummary:
    """Return what a series came to.

    Args:
        values: At least one; shape (n,), in the order they were logged within a step.
        steps: Of them, going up; shape (n,).

    Example:
        >>> summarized(np.array([3.0, np.nan, 1.0]), np.array([0, 1, 2])).mean
        2.0
    """
    numbers = values[~np.isnan(values)]
    finite = numbers[np.isfinite(numbers)]
    nothing = float("nan")
    return MetricSummary(
        last=float(values[-1]),
        min=float(numbers.min()) if len(numbers) else nothing, max=float(numbers.max()) if len(numbers) else nothing,
        mean=float(finite.mean()) if len(finite) else nothing, std=float(finite.std()) if len(finite) else nothing,
        count=len(values), first_step=int(steps[0]), last_step=int(steps[-1]),
    )
