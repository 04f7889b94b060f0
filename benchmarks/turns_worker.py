"""Measures bare and recorded steps of one workload by turns, in this process."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

import barograph
from barograph.capture.recording import current
from benchmarks.models import build_workload
from benchmarks.processes import Request, Result, answer_request


def measure(request: Result) -> Request:
    """Return what blocks of steps took, bare and recorded by turns.

    The request holds `workload`, `options` for `barograph.attach`, `warm_up_secs` that are recorded before the clock
    starts, `secs` of all blocks together, and `block_secs` of one.
    """
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    workload = build_workload(request["workload"])

    def step() -> None:
        workload.forward_backward()
        workload.optimizer.step()

    with barograph.attach(workload.model, workload.optimizer, to=f"{request['directory']}/run", watch=False,
                          **request["options"]):
        recording = current()
        if recording is None or recording.torch is None:
            raise ValueError("nothing is recorded, so there is nothing to measure")
        _block(step, request["warm_up_secs"])
        turns: list[dict[str, Any]] = []
        begin = time.perf_counter()
        while time.perf_counter() - begin < request["secs"]:
            with recording.aside("torch"):
                bare = _block(step, request["block_secs"])
            turns.append({"bare": bare, "recorded": _block(step, request["block_secs"])})
    return {"turns": turns, "torch": torch.__version__}


def _block(step: Callable[[], None], secs: float) -> dict[str, float]:
    """Make steps for at least so long; return how many, and what they took of the clock and of this thread."""
    thread, begin, steps = time.thread_time(), time.perf_counter(), 0
    while not steps or time.perf_counter() - begin < secs:
        step()
        steps += 1
    return {"steps": steps, "wall": time.perf_counter() - begin, "thread": time.thread_time() - thread}


if __name__ == "__main__":
    answer_request(measure)
