"""Measures the time of one tool to log numbers, and their size on disk, in this process."""

from __future__ import annotations

import importlib
import random
import time
from collections.abc import Callable

from benchmarks.loggers.log import Log
from benchmarks.processes import Request, Result, answer_request, size_of

CALLS_BETWEEN_CLOCKS = 100

DIFFERENT_VALUES = 10_000


def measure(request: Result) -> Request:
    """Return the cost of logging.

    The request contains `tool` (a module of `benchmarks.loggers`), the number of `scalars` per call, and either `secs`
    to log as fast as possible, or `pace_hz` and `calls` to log at the pace of a training.
    """
    began = time.perf_counter()
    module = importlib.import_module(f"benchmarks.loggers.{request['tool']}")
    log: Log = module.open_log(request["directory"])
    opened = time.perf_counter()
    call = _caller(log, request["scalars"])
    if request.get("pace_hz"):
        calls, wall = _at_a_pace(call, request["calls"], request["pace_hz"])
    else:
        calls, wall = _as_fast_as_it_takes(call, request["secs"])
    closing = time.perf_counter()
    log.close()
    closed = time.perf_counter()
    return {
        "calls": calls,
        "points": calls * request["scalars"],
        "calls_per_sec": calls / wall,
        "open_secs": opened - began,
        "close_secs": closed - closing,
        "bytes": size_of(request["directory"]),
        "kept": log.kept(),
    }


def _caller(log: Log, scalars: int) -> Callable[[int], None]:
    # Random, distinct, and generated beforehand: repeated values could be smaller on disk.
    generator = random.Random(0)
    values = [generator.gauss(0.0, 1.0) for _ in range(DIFFERENT_VALUES)]
    if scalars == 1:
        one = log.one
        return lambda step: one(values[step % DIFFERENT_VALUES], step)
    names = [f"metric_{number}" for number in range(scalars)]
    several = log.several
    rows = [dict(zip(names, values[first:], strict=False)) for first in range(0, len(values) - scalars, scalars)]
    return lambda step: several(rows[step % len(rows)], step)


def _as_fast_as_it_takes(call: Callable[[int], None], secs: float) -> tuple[int, float]:
    step = 0
    start = now = time.perf_counter()
    while now - start < secs:
        for step in range(step, step + CALLS_BETWEEN_CLOCKS):  # noqa: B020
            call(step)
        step += 1
        now = time.perf_counter()
    return step, now - start


def _at_a_pace(call: Callable[[int], None], calls: int, pace_hz: float) -> tuple[int, float]:
    start = time.perf_counter()
    for step in range(calls):
        call(step)
        time.sleep(max(0.0, start + (step + 1) / pace_hz - time.perf_counter()))
    return calls, time.perf_counter() - start


if __name__ == "__main__":
    answer_request(measure)
