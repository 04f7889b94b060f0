"""Reduces a long series to what a chart can show, without losing spikes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

COLUMNS = 200
"""Number of pixel columns of a chart; each keeps at most three points."""


def kept_points(
    places: NDArray[np.float64], values: NDArray[np.float64], *, low: float, high: float, columns: int = COLUMNS
) -> NDArray[np.intp]:
    """Return the points a chart needs: minimum, maximum and one non-finite value per pixel column.

    Args:
        places: Positions on the axis. Shape (n,).
        values: Values. Shape (n,). NaN and infinities are kept separately from minimum and maximum.
        low, high: Ends of the axis.
        columns: Number of pixel columns.

    Returns:
        Their indexes, ascending; at most three per column, and the two ends.

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
