"""Measures the steps of one workload with one tool, in this process."""

from __future__ import annotations

import importlib
import platform
import statistics
import time
from typing import Any

import torch

from benchmarks.family import family_cpu_secs
from benchmarks.models import Workload, build_workload
from benchmarks.processes import Request, Result, answer_request, peak_bytes, size_of
from benchmarks.tools.observer import Observer


def measure(request: Result) -> Request:
    """Return the times of the steps.

    The request contains `workload`, `device`, `tool` (a module of `benchmarks.tools`), its `options`, `warm_up_steps`
    and `warm_up_secs` (both are exceeded before the clock starts), `least_steps` and `least_secs` (both before it
    stops), and the output `directory` of the tool.
    """
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    workload = build_workload(request["workload"], device=request["device"])
    tool = importlib.import_module(f"benchmarks.tools.{request['tool']}")
    began = time.perf_counter()
    observer: Observer = tool.attach(
        workload.model, workload.optimizer, workload.loss_fn, directory=request["directory"], **request["options"]
    )
    attached = time.perf_counter()
    warm_up = _steps(workload, observer, request["warm_up_steps"], request["warm_up_secs"])
    measured = _measured_steps(workload, observer, request)
    closing = time.perf_counter()
    facts = observer.close()
    closed = time.perf_counter()
    steps = len(warm_up) + measured["steps"]
    return {
        **measured,
        "attach_secs": attached - began,
        "close_secs": closed - closing,
        "bytes_per_step": size_of(request["directory"]) / steps,
        "peak_memory_bytes": peak_bytes(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "facts": facts,
    }


def _measured_steps(workload: Workload, observer: Observer, request: Result) -> dict[str, Any]:
    _wait_for(request["device"])
    cpu, thread, wall = family_cpu_secs(), time.thread_time(), time.perf_counter()
    durations = _steps(workload, observer, request["least_steps"], request["least_secs"])
    _wait_for(request["device"])
    wall, thread, cpu = time.perf_counter() - wall, time.thread_time() - thread, family_cpu_secs() - cpu
    steps = len(durations)
    return {
        "steps": steps,
        "mean_secs": wall / steps,
        "median_secs": statistics.median(durations),
        "thread_secs": thread / steps,
        "cpu_secs": cpu / steps,
    }


def _steps(workload: Workload, observer: Observer, least_steps: int, least_secs: float) -> list[float]:
    """Make at least this many steps for at least this time; return the time of each."""
    durations: list[float] = []
    start = last = time.perf_counter()
    while len(durations) < least_steps or last - start < least_secs:
        _step(workload, observer)
        now = time.perf_counter()
        durations.append(now - last)
        last = now
    return durations


def _step(workload: Workload, observer: Observer) -> None:
    loss = workload.forward_backward()
    observer.before_update(loss)
    workload.optimizer.step()
    observer.after_update(loss)


def _wait_for(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize(device)


if __name__ == "__main__":
    answer_request(measure)
