"""The universal statistic of a tensor, as plain data.

`measures.summary` computes, merges and reads it; this file only defines its content, because it crosses processes: the
training process writes it, the watcher reads it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

MOMENT_FIELDS = ("count", "nan", "posinf", "neginf", "zeros", "min", "max", "sum", "sum_sq", "sum_abs")
"""Order of the columns in arrays of moments (float64; counts are exact up to 2**53)."""

UNIT_FIELDS = ("zeros", "beyond", "nonfinite", "min", "max", "sum", "sum_sq")
"""Order of the columns in arrays of per-unit summaries (float64)."""

EXPONENT_BINS = 512
"""Bins by sign and exponent: `sign * 256 + field`, with the fields of an IEEE float32.

`field` is 1 to 254 for 2**(field-127) <= |x| < 2**(field-126). Field 0 contains nonzero elements below 2**-126. Field
255 stays empty, since zeros, NaN and inf are counted separately. An element of a wider type outside float32's range is
counted in field 0 or 254.
"""


@dataclass(frozen=True, slots=True)
class Summary:
    """Counts, extremes, power sums and the exponent histogram of a set of elements.

    Summaries of *disjoint* elements merge: counts, extremes and bins exactly, sums within the bound stated in
    `measures.summary`. Extremes and sums cover only the finite elements, so one NaN does not hide every other
    statistic.

    Attributes:
        count: Number of elements.
        nan, posinf, neginf: Numbers of elements that are NaN, +inf, -inf.
        zeros: Number of elements equal to zero (either sign).
        min, max: Extremes of the finite elements; +inf and -inf without finite elements.
        sum, sum_sq, sum_abs: Sums of x, of x squared and of |x| over the finite elements.
        exponents: Number of elements by bin (see `EXPONENT_BINS`); empty without a histogram. The numbers of a sampled
            histogram add up to less than `nonzero`.
    """

    count: int = 0
    nan: int = 0
    posinf: int = 0
    neginf: int = 0
    zeros: int = 0
    min: float = math.inf
    max: float = -math.inf
    sum: float = 0.0
    sum_sq: float = 0.0
    sum_abs: float = 0.0
    exponents: Mapping[int, int] = field(default_factory=dict)

    @property
    def nonfinite(self) -> int:
        """Elements that are NaN or infinite."""
        return self.nan + self.posinf + self.neginf

    @property
    def finite(self) -> int:
        """Elements that are neither NaN nor infinite."""
        return self.count - self.nonfinite

    @property
    def nonzero(self) -> int:
        """Finite elements that are not zero: those an exact histogram counts."""
        return self.finite - self.zeros

    @property
    def mean(self) -> float:
        """Mean of the finite elements; NaN without finite elements."""
        return self.sum / self.finite if self.finite else math.nan

    @property
    def mean_abs(self) -> float:
        """Mean magnitude of the finite elements; NaN without finite elements."""
        return self.sum_abs / self.finite if self.finite else math.nan

    @property
    def variance(self) -> float:
        """Population variance of the finite elements; NaN without finite elements.

        Computed from sum and sum of squares, so digits cancel if |mean| is far above the spread: the error is up to
        2**-17 of the mean square (see `measures.summary`). Never negative.
        """
        if not self.finite:
            return math.nan
        return max(0.0, self.sum_sq / self.finite - self.mean**2)

    @property
    def std(self) -> float:
        """Square root of `variance`."""
        return math.sqrt(self.variance) if self.finite > 0 and self.variance >= 0 else math.nan

    @property
    def l1(self) -> float:
        """Sum of magnitudes of the finite elements."""
        return self.sum_abs

    @property
    def l2(self) -> float:
        """Euclidean norm of the finite elements; NaN if the sum of squares is negative, as only damage makes it."""
        return math.sqrt(self.sum_sq) if self.sum_sq >= 0 else math.nan

    @property
    def rms(self) -> float:
        """Root mean square of the finite elements; NaN without finite elements."""
        return math.sqrt(self.sum_sq / self.finite) if self.finite > 0 and self.sum_sq >= 0 else math.nan

    @property
    def max_abs(self) -> float:
        """Largest magnitude among the finite elements; NaN without finite elements."""
        return max(abs(self.min), abs(self.max)) if self.finite else math.nan

    @property
    def sparsity(self) -> float:
        """Share of all elements that are zero; NaN if there are no elements."""
        return self.zeros / self.count if self.count else math.nan
