"""Lets many processes log to one run at once, and counts the readable numbers."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier

import numpy as np

import barograph
from barograph.runs.format.events import dictionary_column
from barograph.tracking import Run, load_run
from benchmarks.processes import Request, Result, answer_request

_NAME = "together"
_VALUES = np.random.default_rng(0).normal(size=10_000).tolist()


def measure(request: Result) -> Request:
    """Return the time until everything was published, and the number of values found at the right step.

    The request contains the number of `processes`, `points` of each, numbers per call (`a_call`), and the number of
    `names`: each call uses the next ones. `by_each`: every process logs all names; else each has its share.
    """
    root, count = request["directory"], request["processes"]
    with Run(_NAME, root=root) as run:
        url = run.url
        run.log_metric("metric_0", 0.0)  # otherwise this process has published nothing readable
        processes = multiprocessing.get_context("spawn")
        barrier = processes.Barrier(count + 1)
        pipes, started = [], []
        share = request["names"] if request["by_each"] else request["names"] // count
        for number in range(count):
            here, there = processes.Pipe()
            pipes.append(here)
            first = 0 if request["by_each"] else number * share
            names = range(first, first + share)
            started.append(processes.Process(target=_log, args=(
                root, request["points"], request["a_call"], names, barrier, there)))
            started[-1].start()
        barrier.wait()
        begun = time.perf_counter()
        logged = [pipe.recv() for pipe in pipes]
        logging_secs = time.perf_counter() - begun
        for process in started:
            process.join()
        secs = time.perf_counter() - begun
    if any(process.exitcode for process in started):
        raise ValueError(f"processes ended with {[process.exitcode for process in started]}")
    return {"points": 1 + sum(logged), "logging_secs": logging_secs, "secs": secs, "kept": _kept(url)}


def _log(root: str, points: int, a_call: int, names: Sequence[int], barrier: Barrier, pipe: Connection) -> None:
    calls = _calls(a_call, names)
    with load_run(_NAME, root=root) as run:
        barrier.wait()
        for number in range(points // a_call):
            called, row = calls[number % len(calls)]
            if a_call == 1:
                run.log_metric(called, row[called], number)
            else:
                run.log_metrics(row, number)
        pipe.send(points // a_call * a_call)


def _calls(a_call: int, names: Sequence[int]) -> list[tuple[str, dict[str, float]]]:
    """Return the numbers of successive calls, and the first name of each."""
    named = [f"metric_{number}" for number in names]
    calls = []
    for first in range(0, max(len(_VALUES), len(named)), a_call):
        places = range(first, first + a_call)
        calls.append((named[first % len(named)],
                      {named[place % len(named)]: _VALUES[place % len(_VALUES)] for place in places}))
    return calls


def _kept(url: str) -> int:
    """Return the number of distinct values."""
    run = barograph.open(url)
    kept = 0
    for state in run.workers:
        table = run.arrow("scalar", worker=state.worker.name, columns=("path", "step"))
        names = dictionary_column(table, "path").codes
        kept += len(np.unique(names * (1 << 32) + table["step"].to_numpy()))
    return kept


if __name__ == "__main__":
    answer_request(measure)
