"""A batch that fed training, as it is read back: of which step, and which samples it was made of."""

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
        attempt, worker: Who was fed.
        tick, step, optimizer: The step that it fed; of several optimizers that share a batch the first to step.
        pass_number: Which pass over a loader, of those that fed steps of this process; counted from 0.
        loader: Class of the data set; with a number where several of that class were read.
        size: Samples in the data set; None where that is not known.
        first: Place of its first sample in the pass; of a stream: in what its worker reads.
        count: Samples.
        loader_worker: The loader's worker that read it; None where there was none, or that is not known.
        indices: Of the samples in the data set; None for a stream, which has none.
        names: Of the samples, one each; "" where one is not known.
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
        """What each sample is called: its index, or, of a stream, the loader's worker and the place, as in "0:25"."""
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
    """What is known of one data set that fed a worker.

    Attributes:
        loader, size: As of `TracedBatch`.
        worker, attempt: Who was fed.
        passes: Passes over it that fed a step.
        batches: That fed steps.
        first_step, last_step: Of these steps.
        names: Samples of which a name is known.
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
    """Return whether a sample's name is the one that is asked for: whole, its end after a slash, or a pattern.

    Of `FILE#KEY` either part is asked for, or the whole.

    Example:
        >>> is_called("train/cat.png", "cat.png"), is_called("a.tar#k1", "a.tar"), is_called("cat.png", "at.png")
        (True, True, False)
    """
    file, _, key = text.partition("#")
    return any(part == name or part.endswith(f"/{name}") or fnmatch.fnmatchcase(part, name)
               for part in (text, file, key) if part)
