"""A long series reduced to what a chart can show, so that no spike is lost."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

COLUMNS = 200
"""Columns of pixels that a chart is taken to have; of each at most three points are kept."""


def kept_points(
    places: NDArray[np.float64], values: NDArray[np.float64], *, low: float, high: float, columns: int = COLUMNS
) -> NDArray[np.intp]:
    """Return which points a chart needs: of each column of pixels the least, the greatest, and one that is no number.

    Args:
        places: Where each stands, on the axis; shape (n,).
        values: As many. NaN and infinities are kept apart from the least and the greatest.
        low, high: The ends of the axis.
        columns: Of pixels.

    Returns:
        Their indices, rising; at most three a column and the two ends.

    Example:
        >>> kept_points(np.arange(6.0), np.array([1.0, 9.0, 2.0, 3.0, -5.0, 4.0]), low=0, high=5, columns=1).tolist()
        [0, 1, 4, 5]
    """
    if not len(places):
        return np.empty(0, np.intp)
    span = max(high - low, np.finfo(float).tiny)
    column = np.clip((places - low) / span * columns, 0, columns - 1).astype(np.int64)
    kept = [np.array([0, len(places) - 1], np.intp)]
    finite = np.isfinite(values)
    for these, extremes in ((np.flatnonzero(finite), True), (np.flatnonzero(~finite), False)):
        if not len(these):
            continue
        order = these[np.lexsort((values[these] if extremes else these, column[these]))]
        firsts = np.flatnonzero(np.diff(column[order], prepend=-1))
        kept.append(order[firsts])
        if extremes:
            kept.append(order[np.append(firsts[1:], len(order)) - 1])
    return np.unique(np.concatenate(kept))
