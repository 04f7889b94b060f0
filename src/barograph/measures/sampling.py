"""Which elements a sampled histogram looks at.

Every eighth, beginning in each run of 64 neighbours at a place drawn anew by a hash. So the sample is spread
evenly, is the same in every process, and falls in step with nothing: a fixed place, or one that merely rotates,
would see only some columns of a matrix whose rows are a power of two long.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

STRIDE = 8
"""One element in so many is looked at."""

RUN = 64
"""Neighbours that share one drawn place."""

SAMPLED_FROM = 4096
"""A tensor with fewer elements is looked at whole: that costs nothing, and an eighth of it says little."""


def sampled_indices(numel: int) -> NDArray[np.int64]:
    """Return the flat indices, ascending, of the elements that a sampled histogram looks at.

    Of run w, elements 64w to 64w + 63, they are 64w + place, 64w + place + 8 and so on, where `place` is the upper
    three bits of a 32-bit hash of w + 1. Of data that repeats itself every 8 elements, a run so shows one of 8
    phases: sampled shares of such data vary as those of numel / 64 draws.

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
