"""Describes arrays of a replayed step: whether they are finite, which samples are not, and statistics for display."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barograph.capsule.order import BadOperation, TensorSeen


def is_finite(array: NDArray[Any]) -> bool:
    """Return whether all elements are finite; integers always are."""
    return not _can_be_bad(array) or bool(np.isfinite(array).all())


def tensor_seen(array: NDArray[Any]) -> TensorSeen:
    """Return the statistics of an array for display.

    Example:
        >>> tensor_seen(np.array([0.0, 2.0, np.nan], np.float32))
        TensorSeen(dtype='float32', shape=(3,), low=0.0, high=2.0, zeros=1, nan=1, infinite=0)
    """
    values = array if array.dtype.kind in "biuf" else np.abs(array) if array.dtype.kind == "c" else (
        array.astype(np.float32))
    finite = values[np.isfinite(values)] if _can_be_bad(array) else values.ravel()
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (np.nan, np.nan)
    return TensorSeen(array.dtype.name, tuple(array.shape), low, high, int((finite == 0).sum()),
                      int(np.isnan(values).sum()) if _can_be_bad(array) else 0,
                      int(np.isinf(values).sum()) if _can_be_bad(array) else 0)


def bad_rows(array: NDArray[Any], samples: int) -> tuple[int, ...]:
    """Return the rows with non-finite elements; none if the array does not have one row per sample.

    Example:
        >>> bad_rows(np.array([[1.0, 2.0], [np.inf, 0.0]]), 2)
        (1,)
    """
    if not samples or array.ndim == 0 or array.shape[0] != samples or not _can_be_bad(array):
        return ()
    rows = ~np.isfinite(array.reshape(samples, -1)).all(1)
    return tuple(np.flatnonzero(rows).tolist())


def handed_in(parts: Sequence[tuple[str, Mapping[str, NDArray[Any]]]], samples: int) -> BadOperation | None:
    """Return the first input of a step that is non-finite; None if all are finite.

    Args:
        parts: Name and arrays of each group.
        samples: Number of samples in the batch.
    """
    for group, arrays in parts:
        for name, array in arrays.items():
            if not is_finite(array):
                return BadOperation("", "", f"{group} {name}".strip(), "", (tensor_seen(array),), (), handed_in=True,
                                    rows=bad_rows(array, samples))
    return None


def samples_in(arrays: Sequence[NDArray[Any]]) -> int:
    """Return the number of samples in a batch: the common length of its arrays' first axes; 0: unknown.

    Example:
        >>> samples_in([np.zeros((8, 3)), np.zeros(8)]), samples_in([np.zeros((8, 3)), np.zeros(4)])
        (8, 0)
    """
    sizes = {array.shape[0] for array in arrays if array.ndim}
    return sizes.pop() if len(sizes) == 1 else 0


def _can_be_bad(array: NDArray[Any]) -> bool:
    # NumPy does not know the kind of ml_dtypes' types.
    return array.dtype.kind in "fc" or "float" in array.dtype.name
