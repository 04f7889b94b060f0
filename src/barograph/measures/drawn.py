"""Whether weights are still distributed as initialized: uniformly between two bounds, none beyond.

Training changes every weight a little, and moves those at a bound beyond it: if changes are a twentieth of the bound,
about 2% of the weights. So weights that are uniform up to exactly such a bound were never trained.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

LEAST = 1024
"""With fewer numbers too few are near a bound: a little training may leave all of them within it."""

_MISSED = 12.0
"""Uniform numbers reach within this many n-ths of their bound, except for one sample in e**12."""

_SIGMAS = 5.0


def is_as_drawn(values: NDArray[np.floating], bounds: Iterable[float], *, precision: float = 0.0) -> bool:
    """Return whether numbers are uniform between minus and plus one of these bounds, and none beyond.

    Args:
        values: Any shape; False for fewer than 1,024 values.
        bounds: Positive bounds.
        precision: Relative precision of their type, whose rounding may exceed a bound.

    Example:
        >>> draw = np.random.default_rng(0)
        >>> is_as_drawn(draw.uniform(-0.1, 0.1, 4096), [0.1]), is_as_drawn(draw.normal(0, 0.06, 4096), [0.1])
        (True, False)
    """
    count = values.size
    if count < LEAST or not np.isfinite(values).all():
        return False
    farthest, spread = float(np.abs(values).max()), float(values.std())
    tolerance = _SIGMAS * math.sqrt(0.2 / count)  # of the standard deviation of uniform numbers
    return any(
        bound * (1 - _MISSED / count) <= farthest <= bound * (1 + precision)
        and abs(spread * math.sqrt(3) / bound - 1) <= tolerance
        for bound in bounds
    )


def usual_bounds(shape: Sequence[int], *, outputs_first: bool) -> list[float]:
    """Return the bounds of the usual uniform initializations for weights of a shape; [] for a vector.

    These are those of Glorot, He and LeCun, the default of PyTorch layers, one over the square root of their inputs,
    and of its recurrent layers, by their units, whose weights have one, three or four times as many rows.

    Args:
        shape: Shape of a matrix or a convolution kernel.
        outputs_first: True as in PyTorch: (outputs, inputs, places…); False as in Keras: (places…, inputs, outputs).
    """
    if len(shape) < 2 or 0 in shape:
        return []
    places = math.prod(shape[2:] if outputs_first else shape[:-2])
    outputs, inputs = (shape[0], shape[1]) if outputs_first else (shape[-1], shape[-2])
    fan_in, fan_out = inputs * places, outputs * places
    bounds = [math.sqrt(gain / fan_in) for gain in (1, 3, 6)] + [math.sqrt(6 / (fan_in + fan_out))]
    if outputs_first and len(shape) == 2:
        bounds += [math.sqrt(gates / outputs) for gates in (1, 3, 4) if outputs % gates == 0]
    return bounds
