"""Elements that a sampled histogram counts.

Every eighth, starting in each run of 64 neighbors at an offset from a hash. So the sample is spread evenly, is
the same in every process, and has no period: a fixed or rotating offset would sample only some columns of a
matrix whose rows are a power of two long.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

STRIDE = 8
"""One in this many elements is sampled."""

RUN = 64
"""Neighbors with one offset."""

SAMPLED_FROM = 4096
"""Smaller tensors are counted completely: that is cheap, and an eighth of them says little."""


def sampled_indices(numel: int) -> NDArray[np.int64]:
    """Return the ascending flat indices of the elements that a sampled histogram counts.

    In run w, elements 64w to 64w + 63, they are 64w + place, 64w + place + 8 and so on, where `place` is the upper
    three bits of a 32-bit hash of w + 1. For data with a period of 8 elements, a run samples one of 8
    phases: sampled shares of such data vary like those of numel / 64 draws.

    Args:
        numel: Elements of the tensor.

    Returns:
        All indices below `SAMPLED_FROM` elements, else numel / 8 of them, give or take one.

    Example:
        >>> sampled_indices(5)
        array([0, 1, 2, 3, 4])
        >>> len(sampled_indices(80_000))
        10000
    """
    if numel < SAMPLED_FROM:
        return np.arange(numel, dtype=np.int64)
    runs = np.arange(-(-numel // RUN), dtype=np.int64)
    firsts = runs * RUN + _places((runs + 1).astype(np.uint32))
    indices = (firsts[:, np.newaxis] + np.arange(0, RUN, STRIDE)).reshape(-1)
    return cast("NDArray[np.int64]", indices[indices < numel])


def _places(runs: NDArray[np.uint32]) -> NDArray[np.uint32]:
    hashed = runs * np.uint32(0x85EBCA6B)
    return cast("NDArray[np.uint32]", ((hashed ^ (hashed >> np.uint32(15))) * np.uint32(0xC2B2AE35)) >> np.uint32(29))
