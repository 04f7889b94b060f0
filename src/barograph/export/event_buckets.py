"""Converts exponent histograms to TensorBoard's buckets, in order and without gaps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from barograph.measures.histogram import Cell, cells
from barograph.model.summary import Summary


def buckets_of(summary: Summary) -> NDArray[np.float64]:
    """Return the histogram of a summary as rows of left edge, right edge and count.

    Zeros are between the smallest magnitudes of both signs. Values that are not finite are left out.

    Returns:
        Shape (buckets, 3); no rows without a histogram or finite values. The counts add up to the number of finite
        elements, up to rounding if the histogram was sampled.

    Example:
        >>> buckets_of(Summary(count=5, zeros=2, min=-3.0, max=1.5, exponents={127: 1, 384: 2})).tolist()
        [[-3.0, -2.0, 2.0], [-2.0, 1.0, 2.0], [1.0, 1.5, 1.0]]
    """
    found = _spread(cells(summary))
    if not found or not summary.finite:
        return np.zeros((0, 3))
    rows: list[Cell] = []
    for cell in found:
        if rows and rows[-1].upper < cell.lower:
            rows.append(Cell(rows[-1].upper, cell.lower, 0.0))
        rows.append(cell)
    # The outermost bins end at powers of two, but the extremes are known.
    if rows[0].lower < summary.min < min(rows[0].upper, summary.max):
        rows[0] = rows[0]._replace(lower=summary.min)
    if max(rows[-1].lower, summary.min) < summary.max < rows[-1].upper:
        rows[-1] = rows[-1]._replace(upper=summary.max)
    return np.array(rows, np.float64)


def _spread(found: list[Cell]) -> list[Cell]:
    """Return the cells with the zero cell, which has no width, extended to its neighbors."""
    places = [place for place, cell in enumerate(found) if cell.lower == cell.upper]
    if not places:
        return found
    (place,) = places
    before, after = found[:place], found[place + 1 :]
    if not before and not after:
        return [Cell(-0.5, 0.5, found[place].weight)]
    zeros = Cell(before[-1].upper if before else 0.0, after[0].lower if after else 0.0, found[place].weight)
    if zeros.lower < zeros.upper:
        return [*before, zeros, *after]
    # A neighbor begins at zero: merge.
    if after:
        return [*before, after[0]._replace(weight=after[0].weight + zeros.weight), *after[1:]]
    return [*before[:-1], before[-1]._replace(weight=before[-1].weight + zeros.weight)]
