"""Which elements a sampled histogram looks at.

One element of each eight neighbours, drawn by a hash of their place. So the sample is spread evenly, is
the same in every process, and falls in step with nothing: a fixed offset, or one that merely rotates, would
see only some columns of a matrix whose rows are a power of two long.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

STRIDE = 8
"""One element in so many is looked at."""

SAMPLED_FROM = 4096
"""A tensor with fewer elements is looked at whole: that costs nothing, and an eighth of it says little."""


def sampled_indices(numel: int) -> NDArray[np.int64]:
    """Return the flat indices, ascending, of the elements that a sampled histogram looks at.

    Eight neighbours at a time (element i belongs to group i // 8) give one element each; the last group gives
    one only if the drawn place lies inside the tensor. The places of groups 8w to 8w+7 are the upper 24 bits,
    three each, of a 32-bit hash of w + 1 (the finaliser of MurmurHash3).

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
    groups = np.arange(-(-numel // STRIDE), dtype=np.int64)
    shifts = (29 - 3 * (groups % 8)).astype(np.uint32)
    indices = groups * STRIDE + ((_hash((groups // 8 + 1).astype(np.uint32)) >> shifts) & np.uint32(7))
    return cast("NDArray[np.int64]", indices[indices < numel])


def _hash(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    words = words ^ (words >> np.uint32(16))
    words = words * np.uint32(0x85EBCA6B)
    words = words ^ (words >> np.uint32(13))
    words = words * np.uint32(0xC2B2AE35)
    return cast("NDArray[np.uint32]", words ^ (words >> np.uint32(16)))
