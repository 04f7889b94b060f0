"""Where the next attempt of a job goes on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from barograph.model.resume import ResumeOrder, ResumeResult, failure_among, results_of_workers
from barograph.runs.state.claim import workers_of
from barograph.runs.state.vitals import heartbeat_of
from barograph.store.base import Store


@dataclass(frozen=True, slots=True)
class Resuming:
    """Where an attempt begins.

    Attributes:
        order: For its processes; None: from the beginning.
        steps: Steps that were made before.
        repeated: Steps that earlier attempts made and this one makes again, as far as they are known.
    """

    order: ResumeOrder | None = None
    steps: int = 0
    repeated: int = 0

    def failure(self) -> ResumeResult | None:
        """Return why the training could not resume; None if it could, or there was nothing to resume."""
        return None if self.order is None else failure_among(results_of_workers(Path(self.order.result)))


def resuming(store: Store, attempt: int, directory: Path) -> Resuming:
    """Return where an attempt of a job goes on: at the last good checkpoint, if Barograph saved any.

    Args:
        store: Store of the job.
        attempt: The attempt that begins.
        directory: Directory for the result.

    Raises:
        StoreError: The store cannot be read.
    """
    if not attempt:
        return Resuming()
    # Loaded here: a first attempt needs no NumPy.
    from barograph.runs.state.checkpoints import last_good

    checkpoint, _ = last_good(store)
    made = max((beat.step for worker in workers_of(store, attempt - 1)
                if (beat := heartbeat_of(store, worker)) is not None), default=0)
    if checkpoint is None:
        return Resuming(repeated=made)
    order = ResumeOrder(checkpoint.name, str(directory / "resume.json"), False, checkpoint.world_size,
                        checkpoint.is_of_child)
    return Resuming(order, checkpoint.steps, max(0, made - checkpoint.steps))
