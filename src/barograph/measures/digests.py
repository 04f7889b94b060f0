"""Digests of samples: an integer that identifies the content of each, for later comparison.

A sample's words are multiplied by fixed odd numbers of 64 bits and added up, modulo 2**64 (multiply-shift hashing):
exact and independent of the order of summation, and so the same on every machine and device. It is not
cryptographic; two different samples have the same digest about once in 2**52 pairs.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

WORDS = 4096
"""Number of words of a sample that are used; evenly spread if it has more."""

DIGEST_BITS = 52
"""Bits of a digest, so that float64 represents it exactly."""

_GOLDEN = 0x9E3779B97F4A7C15
_ALL_BITS = 2**64 - 1
_MIX = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


@functools.lru_cache(maxsize=32)
def word_weights(words: int) -> NDArray[np.int64]:
    """Return the fixed odd numbers by which the words of a sample are multiplied.

    Args:
        words: Number of words, from 1.

    Returns:
        Shape (words,). Do not modify.

    Example:
        >>> [hex(int(weight) & 0xFFFF) for weight in word_weights(3)]
        ['0xcdaf', '0x65f5', '0x454f']
    """
    steps = np.arange(1, words + 1, dtype=np.uint64)
    weights = (_mixed(steps * np.uint64(_GOLDEN)) | np.uint64(1)).view(np.int64)
    weights.setflags(write=False)
    return weights


def row_sums(words: NDArray[np.signedinteger]) -> NDArray[np.int64]:
    """Return the weighted sum of each row, modulo 2**64.

    Args:
        words: Shape (rows, words), signed integers of any width.

    Returns:
        Shape (rows,). A row without words: 0.

    Example:
        >>> import numpy as np
        >>> sums = row_sums(np.array([[1, 2], [2, 1], [1, 2]], np.int32))
        >>> bool(sums[0] == sums[2]), bool(sums[0] == sums[1])
        (True, False)
    """
    if words.size == 0:
        return np.zeros(len(words), np.int64)
    sums: NDArray[np.int64] = np.einsum("ij,j->i", words, word_weights(words.shape[1]))
    return sums


def digests_from_sums(sums: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the digests of weighted sums: integers from 0, below 2**52.

    Example:
        >>> import numpy as np
        >>> digests_from_sums(np.array([0, 1])).tolist()
        [0, 1522966979477680]
    """
    mixed: NDArray[np.int64] = (_mixed(sums.view(np.uint64)) >> np.uint64(64 - DIGEST_BITS)).view(np.int64)
    return mixed


def digest_of_all(digests: NDArray[np.int64]) -> int:
    """Return one digest of many, independent of their order: a shuffled batch is the same batch.

    Returns:
        An integer from 0, below 2**52; 0 for no digests.

    Example:
        >>> import numpy as np
        >>> digest_of_all(np.array([3, 5, 5])) == digest_of_all(np.array([5, 3, 5]))
        True
        >>> digest_of_all(np.array([3, 5, 5])) == digest_of_all(np.array([3, 3, 5]))
        False
    """
    if not len(digests):
        return 0
    spread = _mixed(digests.view(np.uint64) + np.uint64(_GOLDEN))
    value = (int(spread.sum(dtype=np.uint64)) + len(digests)) & _ALL_BITS
    value = (value ^ (value >> 30)) * _MIX[0] & _ALL_BITS
    value = (value ^ (value >> 27)) * _MIX[1] & _ALL_BITS
    return (value ^ (value >> 31)) >> (64 - DIGEST_BITS)


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spread every bit over all 64.

    Source: Steele, Lea & Flood, "Fast Splittable Pseudorandom Number Generators", 2014 (SplitMix64).
    """
    values = (values ^ (values >> np.uint64(30))) * np.uint64(_MIX[0])
    values = (values ^ (values >> np.uint64(27))) * np.uint64(_MIX[1])
    return values ^ (values >> np.uint64(31))
