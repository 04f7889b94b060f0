"""Printed output of a run's script."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from barograph.runs.state.output import read_output
from barograph.store.base import Store


@dataclass(frozen=True, slots=True)
class WorkerOutput:
    """Printed output of one worker.

    Attributes:
        worker: Name of the worker.
        texts: Stream and text, in order: "out", "err", or another name where characters were omitted; then the text is
            how many.
        left_out: Number of omitted characters.
    """

    worker: str
    texts: tuple[tuple[str, str], ...]
    left_out: int

    def to_json(self) -> dict[str, Any]:
        """Return it as strict JSON data."""
        return {"worker": self.worker, "left_out": self.left_out,
                "texts": [{"stream": stream, "text": text} for stream, text in self.texts]}


def output_of(store: Store, worker: str | None = None) -> list[WorkerOutput]:
    """Return what the workers of a run printed in its last attempt.

    Args:
        store: Contains the run.
        worker: Name of a worker; None: all.

    Raises:
        DamagedChunk, StoreError: It cannot be read.
    """
    return [WorkerOutput(item.worker, tuple(item.texts), item.left_out) for item in read_output(store)
            if worker in (None, item.worker)]
