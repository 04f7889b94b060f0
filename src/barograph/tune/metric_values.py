"""The values of metrics of a job, read while it trains: from the records of its run, or from its output."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from barograph.jobs.instance_log import LogReader
from barograph.jobs.job_report import JobView
from barograph.runs.reading.metrics import Metric, metric_name, metrics_in
from barograph.runs.reading.reader import RunReader

_PATIENCE_SECS = 10.0
"""A run that has recorded nothing for so long after a metric was printed is not going to record that one."""
MOST_VALUES = 1000
"""A metric of more values, such as the loss of each step, is read as a curve with so many points."""


@dataclass(frozen=True, slots=True)
class MetricCurve:
    """The values of a metric so far; there is at least one.

    Attributes:
        points: Number of the value, from 1, and the value: all of them, or of a long curve some.
        least, greatest: Extremes of the finite values, also of those that are not in `points`; NaN if there are none.
    """

    points: tuple[tuple[int, float], ...]
    least: float
    greatest: float

    @property
    def last(self) -> float:
        """The latest value."""
        return self.points[-1][1]

    def best(self, *, maximize: bool) -> float:
        """Return the best finite value; NaN if there is none."""
        return self.greatest if maximize else self.least


def curve_of(values: Sequence[float]) -> MetricCurve:
    """Return the curve of some values.

    Example:
        >>> curve_of([0.5, 0.7]).best(maximize=True)
        0.7
    """
    finite = [value for value in values if math.isfinite(value)]
    return MetricCurve(tuple(enumerate(values, 1)), min(finite, default=math.nan), max(finite, default=math.nan))


def printed_pattern(name: str) -> str:
    """Return a regular expression for the usual ways to print a metric, but not for another one such as "test acc".

    Example:
        >>> [re.search(printed_pattern("acc"), line)[1] for line in ("epoch 3 | acc: 0.91", '{"acc": 9e-1}', "acc 0.9")]
        ['0.91', '9e-1', '0.9']
    """
    number = r"[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?!\w|[.,]\d)|(?i:nan|inf(?:inity)?)\b)"
    return rf"""(?<![\w.-])(?<![A-Za-z]\s){re.escape(name)}["']?(?:\s*[:=]\s*|\s+)({number})"""


_NUMBER_OF_NAME = re.compile(r"""(?<![\w.-])([A-Za-z_][\w./-]*)["']?(?:\s*[:=]\s*|[ \t]+)[-+]?\.?\d""")
_OURS = re.compile(r"^barograph: .*(?:\n  .*)*", re.MULTILINE)
"""Barograph's own messages in the output, each with the indented lines that follow."""


def printed_names(view: JobView) -> list[str]:
    """Return the names that the script printed before a number in the last attempt, as in "acc: 0.9" or "acc 0.9".

    Raises:
        StoreError: The store cannot be read.
    """
    text = "".join(LogReader(view.store, view.state.attempt, 0).new())
    return list(dict.fromkeys(_NUMBER_OF_NAME.findall(_OURS.sub("", text))))


class MetricValues:
    """Reads the metrics of a job's run.

    A metric without a pattern is a recorded one; if the run records others but not that one, or none ten seconds after
    it was printed, or has ended without it, it is looked for in the output, in lines with one value of it.

    Args:
        view: The job.
        names: The metrics.
        patterns: Metric to the regular expression that finds it in the output.
        clock: Monotonic clock in seconds.
    """

    def __init__(
        self, view: JobView, names: Sequence[str], patterns: Mapping[str, str], *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._view, self._names, self._patterns, self._clock = view, names, patterns, clock
        self._printed_since: dict[str, float] = {}
        self._printed = {name: _Printed(view, re.compile(patterns.get(name) or printed_pattern(name)),
                                        only=name not in patterns) for name in names}

    def read(self, run: RunReader | None) -> dict[str, MetricCurve]:
        """Return the curve of each metric that has values.

        Args:
            run: The run of the job; None if there is none yet.

        Raises:
            StoreError: The store cannot be read.
        """
        known = metrics_in(run) if run is not None and set(self._names) - self._patterns.keys() else {}
        found: dict[str, MetricCurve] = {}
        for name in self._names:
            curve = _curve_in(run, known, name) if run is not None and name not in self._patterns else None
            if curve is None and (values := self._printed[name].read()) and (
                    name in self._patterns or known or self._view.state.phase.is_over or self._waited_for(name)):
                curve = curve_of(values)
            if curve is not None:
                found[name] = curve
        return found

    def _waited_for(self, name: str) -> bool:
        """Return whether a run without any metric would have recorded one that was printed: it may have just begun."""
        return self._clock() - self._printed_since.setdefault(name, self._clock()) >= _PATIENCE_SECS


def recorded_curve(run: RunReader, name: str) -> MetricCurve | None:
    """Return the curve of a metric that a run recorded; None if it did not.

    Raises:
        StoreError: The store cannot be read.
    """
    return _curve_in(run, metrics_in(run), name)


def _curve_in(run: RunReader, known: Mapping[str, Metric], name: str) -> MetricCurve | None:
    metric = known.get(name) or known.get(metric_name(name))
    if metric is None:
        return None
    buckets = run.curve(metric.key, "value", points=MOST_VALUES, mode=metric.mode,
                        optimizer=metric.optimizer or None).buckets
    if not len(buckets):
        return None
    numbers, last = np.cumsum(buckets["count"]).tolist(), buckets["last"].tolist()
    finite = buckets[np.isfinite(buckets["min"])]
    return MetricCurve(tuple(zip(numbers, last, strict=True)),
                       float(finite["min"].min()) if len(finite) else math.nan,
                       float(finite["max"].max()) if len(finite) else math.nan)


class _Printed:
    def __init__(self, view: JobView, pattern: re.Pattern[str], *, only: bool) -> None:
        self._view, self._pattern, self._only = view, pattern, only
        self._attempt = -1
        self._reader: LogReader | None = None
        self._rest = ""
        self._values: list[float] = []

    def read(self) -> list[float]:
        for line in self._lines():
            # A progress bar writes over itself.
            found = self._pattern.findall(line.rpartition("\r")[2]) if self._only else self._pattern.findall(line)[:1]
            if len(found) == 1:
                try:
                    self._values.append(float(found[0]))
                except ValueError:
                    continue  # matches text that is no number
        return self._values

    def _lines(self) -> Iterator[str]:
        state = self._view.state
        # All attempts, so that a tuner that was restarted meanwhile reads what the one before it read.
        while self._attempt < state.attempt:
            yield from self._new()
            yield from self._last()
            self._attempt += 1
            self._reader = LogReader(self._view.store, self._attempt, 0)
        yield from self._new()
        if state.phase.is_over:
            yield from self._last()

    def _last(self) -> Iterator[str]:
        """Yield the last line of an attempt if it has no end."""
        if self._rest:
            yield self._rest
            self._rest = ""

    def _new(self) -> Iterator[str]:
        if self._reader is None:
            return
        for text in self._reader.new():
            *lines, self._rest = (self._rest + text).split("\n")
            yield from lines
