"""Encodes columns of numbers as strings for a rule's memory, because building long lists is slow."""

from __future__ import annotations

import binascii
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


def packed(column: NDArray[Any]) -> str:
    """Return a column of numbers, bit for bit, as a JSON-compatible string.

    Example:
        >>> unpacked(packed(np.array([1.0, np.inf])), float).tolist()
        [1.0, inf]
    """
    ordered = column if _IS_LITTLE and column.dtype.isnative else column.astype(column.dtype.newbyteorder("<"))
    return binascii.b2a_base64(ordered.tobytes(), newline=False).decode("ascii")


def unpacked(text: str, dtype: DTypeLike) -> NDArray[Any]:
    """Return the column that `packed` encoded, read-only."""
    kind = np.dtype(dtype)
    return np.frombuffer(binascii.a2b_base64(text), kind if _IS_LITTLE else kind.newbyteorder("<"))


_IS_LITTLE = sys.byteorder == "little"


def merged(
    known: Sequence[str], paths: Sequence[str], before: NDArray[Any], now: NDArray[Any]
) -> tuple[list[str], NDArray[Any]]:
    """Return the paths and the column of `known`, updated or extended by those of `paths`.

    Args:
        known: Paths of `before`; all of them stay.
        paths: Paths of `now`.
        before, now: One row per path.

    Example:
        >>> names, column = merged(["a", "b"], ["b", "c"], np.array([1, 2]), np.array([3, 4]))
        >>> names, column.tolist()
        (['a', 'b', 'c'], [1, 3, 4])
    """
    at = {path: row for row, path in enumerate(known)}
    rows = [at.setdefault(path, len(at)) for path in paths]
    column = np.empty((len(at), *before.shape[1:]), before.dtype)
    column[: len(known)] = before
    column[rows] = now
    return list(at), column
