"""Lets many processes log into one run at once, and counts what of it can be read."""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier

import numpy as np

import barograph
from barograph.tracking import Run, load_run
from benchmarks.processes import Request, Result, answer_request

_NAME = "together"
_VALUES = np.random.default_rng(0).normal(size=10_000).tolist()


def measure(request: Result) -> Request:
    """Return what it took until everything was published, and how many numbers are there, each at its step."""
    root, count = request["directory"], request["processes"]
    with Run(_NAME, root=root) as run:
        url = run.url
        run.log_metric("metric_0", 0.0)  # else this process has published nothing that could be read
        processes = multiprocessing.get_context("spawn")
        barrier = processes.Barrier(count + 1)
        pipes, started = [], []
        for _ in range(count):
            here, there = processes.Pipe()
            pipes.append(here)
            started.append(processes.Process(target=_log, args=(root, request["points"], request["a_call"], barrier,
                                                                there)))
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


def _log(root: str, points: int, a_call: int, barrier: Barrier, pipe: Connection) -> None:
    names = [f"metric_{number}" for number in range(a_call)]
    rows = [dict(zip(names, _VALUES[first : first + a_call], strict=True)) for first in range(len(_VALUES) - a_call)]
    with load_run(_NAME, root=root) as run:
        barrier.wait()
        for step in range(points // a_call):
            if a_call == 1:
                run.log_metric("metric_0", _VALUES[step % len(_VALUES)], step)
            else:
                run.log_metrics(rows[step % len(rows)], step)
        pipe.send(points // a_call * a_call)


def _kept(url: str) -> int:
    """Return how many numbers there are, each counted once."""
    run = barograph.open(url)
    workers = [state.worker.name for state in run.workers]
    return sum(len(np.unique(run.series(key, worker=worker).steps)) for worker in workers for key in run.keys("scalar"))


if __name__ == "__main__":
    answer_request(measure)
