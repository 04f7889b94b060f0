"""The influence of each sample of a batch on a step, and outliers among them.

Outliers must be measured: a sample is reported only if it is far beyond the others, both absolutely and by ratio, and
the step without it differs. A wrong report would be worse than none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

MOST_ALONE = 16
"""Number of samples run alone. A larger batch is bisected towards the largest influence, and the rest is sampled."""

_IN_THE_HEAVIEST = 8
_LEAST_KNOWN = 8
"""Fewer samples have no meaningful spread."""

_FAR = 6.0
"""Threshold in spreads above the median, on the linear scale."""

_FAR_BY_RATIO = 5.0
"""The same threshold for logarithms: losses and gradients mostly spread by ratio, and many normal ones are far above
the median on the linear scale."""

BEYOND_NEXT = 5.0
"""Factor over the largest sample that is not reported. With all three thresholds, at most one in three hundred normal
batches of 16 (normal, exponential, log-normal values) reports a sample; with the first alone, every second did."""

_NORMAL = 1.4826
"""Ratio of standard deviation to median absolute deviation for normal values."""

_MOVED = 0.1
"""Minimum share of the step's loss or norm that vanishes with the reported samples."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The loss and the gradient norm of a step.

    Attributes:
        loss: Sum over its backward passes; None: none was observed.
        norm: L2 norm of all gradients before clipping; None: unknown.
    """

    loss: float | None
    norm: float | None


@dataclass(frozen=True, slots=True)
class Weight:
    """A sample whose step was run on its own.

    Attributes:
        row: Row in the batch.
        loss, norm: See `Figures`.
    """

    row: int
    loss: float | None
    norm: float | None


@dataclass(frozen=True, slots=True)
class Spread:
    """The distribution of values.

    Attributes:
        of: "loss" or "norm".
        median: Median of the values.
        spread: Their median absolute deviation, scaled to a standard deviation of normal values.
    """

    of: str
    median: float
    spread: float


@dataclass(frozen=True, slots=True)
class Weighed:
    """The influence of the samples of a batch.

    Attributes:
        batch_size: Number of samples.
        alone: Samples run alone, the largest first: by norm, or else by loss.
        outliers: Rows that stand out and change the step if removed; usually none.
        by: Figure in which they stand out, and the spread of the others; without outliers that of the norm, or else of
            the loss; None: fewer than eight samples were run.
        whole: The step with all samples.
        without: The step without the outliers; None: not run.
        tries: Number of steps run.
        failure: Why no sample could be run alone; "" if some were.
    """

    batch_size: int
    alone: tuple[Weight, ...]
    outliers: tuple[int, ...]
    by: Spread | None
    whole: Figures
    without: Figures | None
    tries: int
    failure: str = ""


Make = Callable[[tuple[int, ...]], Figures | None]
"""Runs the step with only these rows of the batch; None: that is impossible."""


def most_tries(samples: int) -> int:
    """Return the maximum number of steps run.

    Example:
        >>> most_tries(8), most_tries(16), most_tries(256)
        (10, 18, 28)
    """
    halvings = 0
    left = samples
    while samples > MOST_ALONE and left > _IN_THE_HEAVIEST:
        left = -(-left // 2)
        halvings += 1
    return min(samples, MOST_ALONE) + 2 * halvings + 2


def weighed(samples: int, make: Make, whole: Figures) -> Weighed:
    """Return the influence of each sample of a batch, and the outliers.

    Args:
        samples: Number of samples in the batch, at least 1.
        make: See `Make`. A single sample is repeated, as in (3, 3), because some layers need more than one.
        whole: The step with all of them.

    Example:
        >>> found = weighed(8, lambda rows: Figures(9.0 if 5 in rows else 1.0 + rows[0] / 10, None), Figures(2.4, None))
        >>> found.alone[0].row, found.outliers, found.by.of
        (5, (5,), 'loss')
    """
    making = _Making(make)
    alone = []
    for row in _chosen(samples, making):
        figures = making((row, row))
        if figures is not None:
            alone.append(Weight(row, figures.loss, figures.norm))
    known = tuple(sorted(alone, key=_heaviness, reverse=True))
    spreads = {of: spread for of in ("norm", "loss") if (spread := spread_of(of, _values(known, of))) is not None}
    for of, spread in spreads.items():
        rows = standing_out({item.row: value for item in known if (value := getattr(item, of)) is not None}, spread)
        without = making(tuple(row for row in range(samples) if row not in rows)) if rows else None
        if without is not None and _moved(getattr(whole, of), getattr(without, of)):
            return Weighed(samples, known, rows, spread, whole, without, making.tries)
    return Weighed(samples, known, (), next(iter(spreads.values()), None), whole, None, making.tries)


def spread_of(of: str, values: Sequence[float]) -> Spread | None:
    """Return the spread of values; None if they are too few, non-finite, or negative, as a loss may be.

    Example:
        >>> spread_of("loss", [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
        Spread(of='loss', median=4.5, spread=2.9652)
    """
    if len(values) < _LEAST_KNOWN or not all(math.isfinite(value) and value >= 0 for value in values):
        return None
    middle = median(values)
    return Spread(of, middle, _NORMAL * median(abs(value - middle) for value in values))


def standing_out(values: dict[int, float], spread: Spread) -> tuple[int, ...]:
    """Return the rows whose values are far beyond the others: absolutely, by ratio, and beyond the next one.

    Args:
        values: Values by row.
        spread: Their spread.
    """
    if spread.median <= 0:
        return ()
    positive = [value for value in values.values() if value > 0]
    ratios = {row: math.log(max(value, min(positive))) for row, value in values.items()}
    middle = median(ratios.values())
    of_ratios = _NORMAL * median(abs(ratio - middle) for ratio in ratios.values())
    rows = tuple(sorted(
        row for row, value in values.items()
        if value > spread.median + _FAR * spread.spread and ratios[row] > middle + _FAR_BY_RATIO * of_ratios))
    next_one = max((value for row, value in values.items() if row not in rows), default=0.0)
    far = all(values[row] >= BEYOND_NEXT * next_one for row in rows)
    # If many are, they are a kind of samples, not exceptions.
    return rows if far and 4 * len(rows) <= len(values) else ()


def _moved(whole: float | None, without: float | None) -> bool:
    return whole is not None and without is not None and whole - without >= _MOVED * abs(whole)


def _values(alone: Sequence[Weight], of: str) -> list[float]:
    return [value for item in alone if (value := getattr(item, of)) is not None]


def _heaviness(item: Weight) -> float:
    value = item.norm if item.norm is not None else item.loss
    return -math.inf if value is None or math.isnan(value) else value


def _chosen(samples: int, making: _Making) -> list[int]:
    """Return the rows to run alone: all, or the part with the largest influence and as many from the rest."""
    if samples <= MOST_ALONE:
        return list(range(samples))
    heaviest = tuple(range(samples))
    while len(heaviest) > _IN_THE_HEAVIEST:
        half = len(heaviest) // 2
        heaviest = _heavier(heaviest[:half], heaviest[half:], making)
    rest = [row for row in range(samples) if row not in heaviest]
    others = MOST_ALONE - len(heaviest)
    return sorted((*heaviest, *(rest[at * (len(rest) - 1) // (others - 1)] for at in range(others))))


def _heavier(one: tuple[int, ...], other: tuple[int, ...], making: _Making) -> tuple[int, ...]:
    """Return the half with the larger influence, by the figure in which they differ more."""
    first, second = making(one), making(other)
    if first is None or second is None:
        return one if second is None else other
    pairs = ((first.norm, second.norm), (first.loss, second.loss))
    ratios = [math.log(a / b) for a, b in pairs
              if a is not None and b is not None and 0 < a < math.inf and 0 < b < math.inf]
    return one if max(ratios, key=abs, default=0.0) >= 0 else other


class _Making:
    """Counts the steps run."""

    def __init__(self, make: Make) -> None:
        self.tries = 0
        self._make = make

    def __call__(self, rows: tuple[int, ...]) -> Figures | None:
        self.tries += 1
        return self._make(rows)
