"""A training batch as read from the trace: its step and its samples."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class TracedBatch:
    """One batch of the data trace.

    Attributes:
        attempt, worker: Attempt and worker that used it.
        tick, step, optimizer: Its step; if several optimizers share a batch, that of the first to step.
        pass_number: Number of the pass over a loader, among those used by steps of this process; from 0.
        loader: Class of the data set; with a number if several data sets of that class were read.
        size: Number of samples in the data set; None if unknown.
        first: Position of its first sample in the pass; for a stream, in the part that its worker reads.
        count: Number of samples.
        loader_worker: Worker of the loader that read it; None if there is none or it is unknown.
        indices: Indices of the samples in the data set; None for a stream.
        names: Names of the samples; "" for an unknown one.
    """

    attempt: int
    worker: str
    tick: int
    step: int
    optimizer: str
    pass_number: int
    loader: str
    size: int | None
    first: int
    count: int
    loader_worker: int | None
    indices: NDArray[np.int64] | None
    names: tuple[str, ...]

    @property
    def samples(self) -> tuple[str, ...]:
        """Name of each sample: its index, or for a stream the loader's worker and the position, as in "0:25"."""
        if self.indices is not None:
            return tuple(map(str, self.indices.tolist()))
        return tuple(f"{self.loader_worker or 0}:{place}" for place in range(self.first, self.first + self.count))

    def rows_of(self, sample: int | str) -> list[int]:
        """Return which rows of the batch a sample is, which may be several."""
        return [row for row, item in enumerate(self.samples) if item == str(sample)]

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON data."""
        return {
            "step": self.step, "optimizer": self.optimizer, "attempt": self.attempt, "worker": self.worker,
            "tick": self.tick, "pass": self.pass_number, "loader": self.loader, "size": self.size,
            "first": self.first, "count": self.count, "loader_worker": self.loader_worker,
            "samples": list(self.samples), "names": list(self.names) if any(self.names) else None,
        }


class DataRead(NamedTuple):
    """Summary of one data set used by a worker.

    Attributes:
        loader, size: As in `TracedBatch`.
        worker, attempt: Worker and attempt.
        passes: Number of passes used by steps.
        batches: Number of batches used by steps.
        first_step, last_step: First and last of these steps.
        names: Number of samples with a known name.
    """

    loader: str
    size: int | None
    worker: str
    attempt: int
    passes: int
    batches: int
    first_step: int
    last_step: int
    names: int


def is_called(text: str, name: str) -> bool:
    """Return whether a sample's name matches: exactly, by its end after a slash, or by a pattern.

    For `FILE#KEY`, either part or both may match.

    Of `FILE#KEY` either part is asked for, or the whole.

    Example:
        >>> is_called("train/cat.png", "cat.png"), is_called("a.tar#k1", "a.tar"), is_called("cat.png", "at.png")
        (True, True, False)
    """
    file, _, key = text.partition("#")
    return any(part == name or part.endswith(f"/{name}") or fnmatch.fnmatchcase(part, name)
               for part in (text, file, key) if part)
