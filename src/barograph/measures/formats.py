"""Ranges of the narrow number formats used in training."""

from __future__ import annotations

import math
from dataclasses import dataclass

from barograph.errors import UnknownName, nearest


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """Range of a floating-point format, with rounding to nearest, ties to even.

    Attributes:
        name: Name for people.
        smallest_subnormal: Smallest positive number, a power of two. Values below half of it become 0.
        smallest_normal: Smallest number of full precision, a power of two.
        largest: Largest finite number.
        overflow_from: Smallest magnitude, as a float64, that does not round to a finite number.
    """

    name: str
    smallest_subnormal: float
    smallest_normal: float
    largest: float
    overflow_from: float


FP16 = NumberFormat("fp16", 2.0**-24, 2.0**-14, 65504.0, 65520.0)
BF16 = NumberFormat("bf16", 2.0**-133, 2.0**-126, (2 - 2.0**-7) * 2.0**127, (2 - 2.0**-8) * 2.0**127)
FP8_E4M3 = NumberFormat("fp8_e4m3", 2.0**-9, 2.0**-6, 448.0, math.nextafter(464.0, math.inf))
"""The variant without infinities (e4m3fn): overflow becomes NaN, or 448 if the library saturates."""
FP8_E5M2 = NumberFormat("fp8_e5m2", 2.0**-16, 2.0**-14, 57344.0, 61440.0)

FORMATS: dict[str, NumberFormat] = {each.name: each for each in (FP16, BF16, FP8_E4M3, FP8_E5M2)}
"""Formats by name."""


def format_from_name(name: str) -> NumberFormat:
    """Return the format with this name.

    Raises:
        UnknownName: There is no such format; the message suggests the nearest.

    Example:
        >>> format_from_name("fp16").largest
        65504.0
    """
    try:
        return FORMATS[name]
    except KeyError:
        raise UnknownName(f'"{name}" is not a number format. {nearest(name, FORMATS)}') from None
