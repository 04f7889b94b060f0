"""The sampler of machine metrics of a worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barograph.model.clock import Clock
from barograph.model.manifest import Worker

if TYPE_CHECKING:
    from barograph.machine.sampler import Sampler


def sampler_for(worker: Worker, *, hz: float, clock: Clock) -> Sampler:
    """Return the sampler of a worker's machine. Call it in the thread and process that writes its records.

    Args:
        worker: The worker, on this machine.
        hz: Samples a second; 0: none.
        clock: Clock.
    """
    # Imported here: for a run in memory this is the training process, which must start fast.
    from barograph.machine.sampler import Sampler

    return Sampler(hz=hz, pid=worker.pid, run=f"{worker.run_id} {worker.attempt}", clock=clock)
