"""What training was fed: which samples each batch was made of, on its way from the loader to the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class OrderHint:
    """What the order of a whole pass was perhaps drawn from; whoever writes the trace compares it with what came.

    Attributes:
        drawn: "range": one after the other; "permutation": without replacement; "draws": with replacement.
        size: Samples there are to draw from.
        seed: That the generator had just been given; None: see `state`.
        state: Of the generator before it drew, as `torch.Generator.get_state` gives it, where there is no seed.
        count: How many are drawn, with replacement.
        deal: Rank, workers and whether what is left over is dropped, where a pass is dealt out to several workers.
    """

    drawn: str
    size: int
    seed: int | None = None
    state: bytes = b""
    count: int = 0
    deal: tuple[int, int, bool] | None = None


class BatchFed(NamedTuple):
    """One batch that fed a step of training.

    Attributes:
        tick, step, optimizer: Of the step, as its records have them.
        pass_number: Which pass over a loader, of those that fed steps of this process; counted from 0.
        loader: Class of the data set.
        size: Samples in the data set; -1: not known.
        first: Place of its first sample in the pass; of a stream: in what its worker reads.
        samples: How many it holds.
        indices: Of the samples in the data set, as 64-bit numbers; empty for a stream, which has none.
        loader_worker: The loader's worker that read it; -1 where that is not known, or there is none.
        names: Number (index, or place in the stream) to name, of samples that were not named before.
        hint: With the first batch of a pass: what its order was perhaps drawn from.
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
        """Memory it takes, about."""
        names = sum([100 + len(name) for _, name in self.names]) if self.names else 0
        return 400 + len(self.indices) + names
