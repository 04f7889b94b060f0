"""Summaries of the metrics of a run: its losses and the numbers that the script logged."""

from __future__ import annotations

import contextlib
import glob
import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from barograph.errors import UnknownName
from barograph.measures.buckets import BUCKET, Buckets, merged_buckets
from barograph.model.items import MetricSummary
from barograph.model.key import Key, Kind, key_from_text
from barograph.model.step import Mode, named
from barograph.runs.format.curves_file import SeriesBuckets, SeriesName
from barograph.runs.reading.one_worker import workers_in
from barograph.runs.reading.reader import RunReader

METRIC_KINDS = (Kind.LOSS, Kind.SCALAR)
HYPERPARAMETER = "hyperparameter["
"""Prefix of the names of numbers that are hyperparameters and not metrics."""


class Metric(NamedTuple):
    """A metric of a run.

    Attributes:
        key: Key of the series.
        mode: Mode of the series.
        optimizer: Optimizer of its steps; "": the only one.
    """

    key: Key
    mode: Mode
    optimizer: str

    @property
    def name(self) -> str:
        """Name in searches and tables.

        A logged number has its logged name. The loss is `loss`, in evaluation `eval_loss`; if there are several, each
        has its path after a dot. Numbers of one of several optimizers have its name in brackets.

        Example:
            >>> Metric(Key(Kind.SCALAR, "val/acc"), Mode.TRAIN, "").name
            'val/acc'
            >>> Metric(Key(Kind.LOSS, "total"), Mode.EVAL, "").name, Metric(Key(Kind.LOSS, "kl"), Mode.TRAIN, "d").name
            ('eval_loss', 'loss.kl [optimizer d]')
        """
        return _name(SeriesName(self.key.kind, self.key.path, self.mode, self.optimizer))


def metric_name(text: str) -> str:
    """Return the name of a metric from its key as `show` and `keys` print it; other text is returned unchanged.

    Example:
        >>> metric_name("loss:total"), metric_name("loss:kl (eval)"), metric_name("scalar:val/acc"), metric_name("acc")
        ('loss', 'eval_loss.kl', 'val/acc', 'acc')
    """
    found = key_and_mode(text)
    return text if found is None or found[0].kind not in METRIC_KINDS else Metric(*found, "").name


def series_named(run: RunReader, text: str) -> tuple[Key, str, Mode] | None:
    """Return key, statistic and mode of the series that `show` or `keys` prints as `text`; None if there is none.

    Of a tensor that is its norm. Without a mode in the text, training comes first.
    """
    found = key_and_mode(text)
    if found is None or not run.keys(found[0].kind, glob.escape(found[0].path)):
        return None
    key, mode = found
    modes = [mode] if text.endswith(f" ({mode})") else list(Mode)
    for statistic in ("value", "l2"):
        with contextlib.suppress(UnknownName):  # a tensor has no value, a number no norm
            for mode in modes:
                if len(run.series(key, statistic, mode=mode)):
                    return key, statistic, mode
    return None


def key_and_mode(text: str) -> tuple[Key, Mode] | None:
    """Return key and mode of the text that `show` and `keys` print; None if it is no key.

    Example:
        >>> key_and_mode("loss:kl (eval)")
        (Key(kind=<Kind.LOSS: 'loss'>, path='kl'), <Mode.EVAL: 'eval'>)
    """
    mode = next((mode for mode in Mode if text.endswith(f" ({mode})")), Mode.TRAIN)
    try:
        return key_from_text(text.removesuffix(f" ({mode})")), mode
    except UnknownName:
        return None


def metrics_of(run: RunReader) -> dict[str, MetricSummary]:
    """Return the metrics of a run by name, with their summaries.

    If several workers recorded one, the first one's is used. Later calls with the same `run` read only new
    data.

    Raises:
        StoreError: The store cannot be read. Damaged files are skipped and listed in `run.damage`.
    """
    found: dict[Metric, MetricSummary] = {}
    for worker in sorted(workers_in(run)):
        for name, buckets in _by_series(run.condensed(worker)):
            metric = Metric(Key(Kind(name.kind), name.path), Mode(name.mode), name.optimizer)
            if metric not in found:
                found[metric] = summary_of_buckets(buckets)
    summaries: dict[str, MetricSummary] = {}
    for metric, summary in found.items():
        summaries.setdefault(metric.name, summary)
    return summaries | {name: found[metric] for name, metric in _single_losses(found).items() if name not in summaries}


def metrics_in(run: RunReader) -> dict[str, Metric]:
    """Return the metrics of a run by their names in searches and tables.

    Raises:
        StoreError: The store cannot be read.
    """
    found = series_by_name(run)
    return {name: metric_of(found[name]) for name in sorted(found, key=lambda name: (found[name].kind, found[name]))}


def series_by_name(run: RunReader) -> dict[str, SeriesName]:
    """Return what `metrics_in` returns as plain strings, in no order: there may be a hundred thousand.

    Raises:
        StoreError: The store cannot be read.
    """
    found = set[SeriesName]().union(*map(run.condensed_names, workers_in(run)))
    losses = sorted(name for name in found if name.kind == Kind.LOSS)
    named: dict[str, SeriesName] = {}
    logged, training = Kind.SCALAR.value, Mode.TRAIN.value
    for series in found:
        kind, path, mode, optimizer = series
        # Nearly all are such, and calling a function for each would take half of the time.
        is_usual = kind == logged and mode == training and not optimizer
        if is_usual or kind in METRIC_KINDS:
            name = path if is_usual else _name(series)
            # Of two with one name, losses come first.
            if name not in named or series < named[name]:
                named[name] = series
    single = {name: series for name, metric in _single_losses(map(metric_of, losses)).items()
              for series in losses if metric_of(series) == metric}
    return single | named


def metric_of(series: SeriesName) -> Metric:
    """Return the metric of a series."""
    return Metric(Key(Kind(series.kind), series.path), Mode(series.mode), series.optimizer)


def _name(series: SeriesName) -> str:
    path, prefix = series.path, "" if series.mode == Mode.TRAIN else f"{series.mode}_"
    if series.kind == Kind.LOSS:
        path = "loss" if path == "total" else f"loss.{path}"
    return f"{prefix}{path}{f' [{named(series.optimizer)}]' if series.optimizer else ''}"


def _single_losses(metrics: Iterable[Metric]) -> dict[str, Metric]:
    """Return the only loss of each mode and optimizer under the name of the total loss.

    Example:
        >>> [*_single_losses([Metric(Key(Kind.LOSS, "cross_entropy"), Mode.EVAL, "")])]
        ['eval_loss']
    """
    losses: dict[str, list[Metric]] = {}
    for metric in metrics:
        if metric.key.kind is Kind.LOSS:
            whole = metric._replace(key=Key(Kind.LOSS, "total")).name
            losses.setdefault(whole, []).append(metric)
    return {whole: several[0] for whole, several in losses.items() if len(several) == 1}


def _by_series(parts: Iterable[SeriesBuckets]) -> Iterator[tuple[SeriesName, Buckets]]:
    """Yield each metric with one bucket of all its points; losses first, by name."""
    numbers: dict[SeriesName, int] = {}
    codes, buckets = [np.empty(0, np.int64)], [np.empty(0, BUCKET)]
    for part in parts:
        codes.append(np.array([numbers.setdefault(name, len(numbers)) for name in part.names], np.int64)[part.codes])
        buckets.append(part.buckets)
    code = np.concatenate(codes)
    order = np.argsort(code, kind="stable")
    merged = merged_buckets(np.concatenate(buckets)[order], np.flatnonzero(np.diff(code[order], prepend=-1)))
    names = [name for name in numbers if name.kind in METRIC_KINDS and not name.path.startswith(HYPERPARAMETER)]
    for name in sorted(names, key=lambda name: (METRIC_KINDS.index(Kind(name.kind)), name)):
        yield name, merged[numbers[name]]


def summary_of_buckets(bucket: Buckets) -> MetricSummary:
    """Return the summary of a series.

    Args:
        bucket: One bucket with all points.

    Example:
        >>> from barograph.measures.buckets import buckets_of_points
        >>> steps, values = np.array([0, 1, 2]), np.array([3.0, np.nan, 1.0])
        >>> summary_of_buckets(buckets_of_points(steps, values, np.zeros(3), np.array([0]))[0]).mean
        2.0
    """
    finite = int(bucket["count"] - bucket["nan"] - bucket["posinf"] - bucket["neginf"])
    nothing = float("nan")
    least, greatest = (float(bucket["min"]), float(bucket["max"])) if finite else (nothing, nothing)
    infinite = [value for name, value in (("neginf", -math.inf), ("posinf", math.inf)) if bucket[name]]
    return MetricSummary(
        last=float(bucket["last"]),
        # Infinities have an order, but NaN does not.
        min=min([*infinite, *([least] if finite else [])], default=nothing),
        max=max([*infinite, *([greatest] if finite else [])], default=nothing),
        mean=float(bucket["mean"]) if finite else nothing,
        std=math.sqrt(float(bucket["squares"]) / finite) if finite else nothing,
        count=int(bucket["count"]), first_step=int(bucket["first_step"]), last_step=int(bucket["last_step"]),
    )
