"""Writes data with Barograph: python -m benchmarks.studio.writers.barograph SET DIRECTORY SIZES"""

from __future__ import annotations

import itertools
import os
import sys
import time
from pathlib import Path

from barograph.model.clock import ManualClock
from barograph.model.key import Key, Kind
from barograph.model.manifest import EndState, Heartbeat, Manifest
from barograph.model.records import StepRecords
from barograph.model.settings import Settings
from barograph.model.step import Mode, Step
from barograph.runs.state.claim import claim_run, claim_worker
from barograph.runs.writing.writer import RunWriter
from barograph.store.urls import store_from_url
from barograph.tracking import Run
from benchmarks.studio.data import (
    CHARTS,
    KEYS,
    LIVE,
    POINTS,
    RUNS,
    metric_names,
    parameters_of,
    point_at,
    rows,
    value_at,
)

_FIRST_UNIX = 1_790_000_000.0


def _charts(directory: str, runs: int, metrics: int, steps: int) -> None:
    for run, group in itertools.groupby(rows(runs, metrics, steps), lambda row: row[0]):
        with Run(f"run{run:02}", to=f"{directory}/run{run:02}") as writer:
            for _, step, values in group:
                writer.log_metrics(values, step)


def _points(directory: str, steps: int) -> None:
    with Run("points", to=f"{directory}/points") as run:
        for step in range(steps):
            run.log_metric("signal", point_at(step, steps), step)


def _keys(directory: str, count: int) -> None:
    with Run("keys", to=f"{directory}/keys") as run:
        run.log_metrics(dict.fromkeys((f"layer{at // 100:04}/unit{at % 100:02}" for at in range(count)), 1.0), 0)


def _live(directory: str, runs: int) -> None:
    """Log a number a second; print when, until the standard input ends."""
    writers = [Run(f"live{at:02}", to=f"{directory}/live{at:02}") for at in range(runs)]
    for step in itertools.count():
        for run in writers:
            run.log_metric("beacon", 100_000 + step, step)
        print(100_000 + step, time.time(), flush=True)
        time.sleep(1.0)


def _runs(directory: str, count: int) -> None:
    """Write the files of many short runs. Ending each with its own process would take an hour, and syncing minutes."""
    os.fsync = lambda descriptor: None  # type: ignore[assignment]
    for number in range(count):
        clock, store = ManualClock(unix=_FIRST_UNIX + 60 * number), store_from_url(f"{directory}/run{number:05}")
        beat = Heartbeat(1, clock.unix(), step=1)
        attempt = claim_run(store, Manifest(f"bench-{number:05}", f"run{number:05}", clock.unix()), clock=clock).attempt
        writer = RunWriter(store, claim_worker(store, attempt=attempt, clock=clock), settings=Settings(), clock=clock,
                           status=lambda beat=beat: beat, background=False, wait=clock.advance)
        numbers = {**{name: value_at(number, at, 1000) for at, name in enumerate(metric_names(5))},
                   **{f"parameter/{name}": value for name, value in parameters_of(number).items()}}
        writer.put(StepRecords(Step(0, 0, "", Mode.TRAIN, time_unix=clock.unix()), (), None, None,
                               scalars={Key(Kind.SCALAR, name): value for name, value in numbers.items()}, tensors={}))
        writer.close(EndState.FINISHED)


if __name__ == "__main__":
    what, directory, *sizes = sys.argv[1:]
    Path(directory).mkdir(parents=True, exist_ok=True)
    {CHARTS: _charts, POINTS: _points, KEYS: _keys, LIVE: _live, RUNS: _runs}[what](directory, *map(int, sizes))
