"""Axes of charts: scales and ticks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_MANY_FOLD = 100.0
_LEAST_DECADES = 1.0


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis.

    Attributes:
        low, high: Values at its ends; above 0 on a logarithmic axis.
        start, stop: Pixels at its ends.
        log: Whether it is logarithmic.
        unit: Ticks are round multiples of this.
    """

    low: float
    high: float
    start: float
    stop: float
    log: bool = False
    unit: float = 1.0

    def at(self, value: float) -> float:
        """Return the pixel of a value, clamped to the axis; NaN if the value is not finite."""
        if not math.isfinite(value):
            return math.nan
        if self.log:
            if value <= 0:
                return self.start
            share = (math.log10(value) - math.log10(self.low)) / (math.log10(self.high) - math.log10(self.low))
        else:
            # Halved, because the whole span may overflow.
            share = (value / 2 - self.low / 2) / (self.high / 2 - self.low / 2)
        return self.start + min(1.0, max(0.0, share)) * (self.stop - self.start)

    def ticks(self, most: int = 5) -> list[float]:
        """Return round values on the axis, ascending."""
        if self.log:
            return _log_ticks(self.low, self.high, most)
        return [tick * self.unit for tick in _linear_ticks(self.low / self.unit, self.high / self.unit, most)]


def axis_for(
    values: Iterable[float], start: float, stop: float, *, log: bool | None = None, from_zero: bool = False,
    binary: bool = False,
) -> Axis:
    """Return an axis that covers all finite values.

    Args:
        values: Values to cover.
        start, stop: Pixels at its ends.
        log: Whether it is logarithmic; None: if all values are above 0 and span more than two decades.
        from_zero: Whether a linear axis includes 0.
        binary: Whether values are bytes, with round ticks in KiB, MiB and so on.
    """
    finite = [value for value in values if math.isfinite(value)]
    if log is None:
        log = bool(finite) and min(finite) > 0 and max(finite) / min(finite) > _MANY_FOLD
    if log:
        low, high = _decades([value for value in finite if value > 0])
        return Axis(low, high, start, stop, log=True)
    low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
    low = min(low, 0.0) if from_zero else low
    if low == high:
        low, high = low - (abs(low) / 2 or 0.5), high + (abs(high) / 2 or 0.5)
    return Axis(low, high, start, stop, unit=_binary_unit(max(abs(low), abs(high))) if binary else 1.0)


def _binary_unit(greatest: float) -> float:
    return 1024.0 ** max(0, math.floor(math.log(max(greatest, 1.0), 1024.0)))


def _decades(positive: list[float]) -> tuple[float, float]:
    low, high = (math.log10(min(positive)), math.log10(max(positive))) if positive else (0.0, 1.0)
    if high - low < _LEAST_DECADES:
        middle = (low + high) / 2
        low, high = middle - _LEAST_DECADES / 2, middle + _LEAST_DECADES / 2
    return 10.0 ** max(low, -307.0), 10.0 ** min(high, 308.0)


def _linear_ticks(low: float, high: float, most: int) -> list[float]:
    rough = (high / most - low / most) or 1.0
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in _STEPS if size * factor >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]


def _log_ticks(low: float, high: float, most: int) -> list[float]:
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    stride = max(1, math.ceil((last - first + 1) / most))
    ticks = [10.0**power for power in range(first, last + 1, stride)]
    return ticks if len(ticks) > 1 else sorted({*ticks, _round(low), _round(high)})


def _round(value: float) -> float:
    return float(f"{value:.1g}")
