"""Measures alternating bare and recorded steps of one workload, in this process."""

from __future__ import annotations

import torch

import barograph
from barograph.capture.recording import current
from benchmarks.blocks import block_of, by_turns
from benchmarks.models import build_workload
from benchmarks.processes import Request, Result, answer_request


def measure(request: Result) -> Request:
    """Return the times of alternating blocks of bare and recorded steps.

    The request contains `workload`, `options` for `barograph.attach`, `warm_up_secs` of recording before the clock
    starts, the total `secs` of all blocks, and `block_secs` of one.
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
        recorded = block_of(step)

        def bare(steps: int) -> None:
            with recording.aside("torch"):
                recorded(steps)

        turns = by_turns(bare, recorded, secs=request["secs"], block_secs=request["block_secs"],
                         warm_up_secs=request["warm_up_secs"])
    return {"turns": turns, "torch": torch.__version__}


if __name__ == "__main__":
    answer_request(measure)
