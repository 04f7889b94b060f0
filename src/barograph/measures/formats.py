"""The ranges of the narrow number formats that training is done in."""

from __future__ import annotations

import math
from dataclasses import dataclass

from barograph.errors import UnknownName, nearest


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """What a floating-point format can hold, where values are rounded to the nearest, ties to even.

    Attributes:
        name: As people write it.
        smallest_subnormal: Its least positive number, a power of two. What is below half of it becomes 0.
        smallest_normal: Its least number of full precision, a power of two.
        largest: Its greatest finite number.
        overflow_from: Least magnitude, as a float64, that does not round to a finite number.
    """

    name: str
    smallest_subnormal: float
    smallest_normal: float
    largest: float
    overflow_from: float


FP16 = NumberFormat("fp16", 2.0**-24, 2.0**-14, 65504.0, 65520.0)
BF16 = NumberFormat("bf16", 2.0**-133, 2.0**-126, (2 - 2.0**-7) * 2.0**127, (2 - 2.0**-8) * 2.0**127)
FP8_E4M3 = NumberFormat("fp8_e4m3", 2.0**-9, 2.0**-6, 448.0, math.nextafter(464.0, math.inf))
"""The variant without infinities (e4m3fn): what overflows becomes NaN, or 448 where the library saturates."""
FP8_E5M2 = NumberFormat("fp8_e5m2", 2.0**-16, 2.0**-14, 57344.0, 61440.0)

FORMATS: dict[str, NumberFormat] = {each.name: each for each in (FP16, BF16, FP8_E4M3, FP8_E5M2)}
"""By name."""


def format_from_name(name: str) -> NumberFormat:
    """Return the format of that name.

    Raises:
        UnknownName: There is none; the message says the nearest.

    Example:
        >>> format_from_name("fp16").largest
        65504.0
    """
    try:
        return FORMATS[name]
    except KeyError:
        raise UnknownName(f'"{name}" is no number format. {nearest(name, FORMATS)}') from None
