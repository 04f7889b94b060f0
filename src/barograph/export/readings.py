"""Scalar values of a run with time and origin, for exporters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from barograph.model.key import Key, Kind
from barograph.model.step import Mode
from barograph.runs.reading.reader import RunReader
from barograph.runs.reading.view import StepView

KINDS = (Kind.LOSS, Kind.LEARNING_RATE, Kind.SCALAR, Kind.TIME, Kind.MACHINE)
"""Kinds that are scalars over time."""

_COLUMNS = ("worker", "step", "optimizer", "mode", "time", "path", "value")


class Reading(NamedTuple):
    """One scalar value.

    Attributes:
        time_unix: Time by the worker's clock.
        worker: Worker that recorded it.
        key: Its key.
        mode: Its mode.
        optimizer: Optimizer that counts the step; "" if there is only one.
        step: Its step.
        value: Its value.
    """

    time_unix: float
    worker: str
    key: Key
    mode: Mode
    optimizer: str
    step: int
    value: float


def readings_of(run: RunReader) -> list[Reading]:
    """Return all scalar values so far, in order of time.

    Raises:
        StoreError: The run cannot be read.
    """
    return sorted(reading for kind in KINDS for reading in _of_kind(run, kind))


def readings_in(view: StepView) -> Iterator[Reading]:
    """Yield all scalar values of one step, by worker."""
    for kind in KINDS:
        for key in view.scalars(kind):
            for worker, value in view.worker_scalars(key).items():
                step = view.step
                yield Reading(step.time_unix, worker, key, step.mode, step.optimizer, step.number, value)


def _of_kind(run: RunReader, kind: Kind) -> Iterator[Reading]:
    table = run.arrow(kind, columns=_COLUMNS)
    times = table["time"].to_numpy().astype("int64") / 1e6
    columns = [table[name].to_pylist() for name in _COLUMNS if name != "time"]
    for time_unix, worker, step, optimizer, mode, path, value in zip(times.tolist(), *columns, strict=True):
        if value is not None:
            yield Reading(time_unix, worker, Key(kind, path), Mode(mode), optimizer, step, value)
