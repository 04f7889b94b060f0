"""The data trace: the samples of each batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class OrderHint:
    """A guess how the order of a whole pass was drawn. The writer of the trace verifies it.

    Attributes:
        drawn: "range": in order; "permutation": without replacement; "draws": with replacement.
        size: Samples in the data set.
        seed: Seed of the generator just before; None: see `state`.
        state: State of the generator before drawing, from `torch.Generator.get_state`, if there is no seed.
        count: Number of draws with replacement.
        deal: Rank, number of workers and drop_last, if a pass is split over several workers.
    """

    drawn: str
    size: int
    seed: int | None = None
    state: bytes = b""
    count: int = 0
    deal: tuple[int, int, bool] | None = None


class BatchFed(NamedTuple):
    """One training batch.

    Attributes:
        tick, step, optimizer: Tick, number and optimizer of the step, as in its records.
        pass_number: Number of the pass over a loader in this process, from 0.
        loader: Class of the data set.
        size: Samples in the data set; -1: unknown.
        first: Position of its first sample in the pass; for a stream, in the part that its worker reads.
        samples: Number of samples.
        indices: Indices of the samples in the data set, as 64-bit integers; empty for a stream, which has none.
        loader_worker: Worker of the loader that read it; -1 if unknown or none.
        names: Index (or position in the stream) to name, for samples not named before.
        hint: For the first batch of a pass: a guess how its order was drawn.
    """

    tick: int
    step: int
    optimizer: str
    pass_number: int
    loader: str
    size: int
    first: int
    samples: int
    indices: bytes
    loader_worker: int = -1
    names: tuple[tuple[int, str], ...] = ()
    hint: OrderHint | None = None

    @property
    def size_bytes(self) -> int:
        """Approximate memory use."""
        names = sum([100 + len(name) for _, name in self.names]) if self.names else 0
        return 400 + len(self.indices) + names
