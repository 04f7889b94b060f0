"""Inputs beyond which activations saturate."""

from __future__ import annotations

from collections.abc import Mapping

SATURATION_BOUNDS: Mapping[str, float] = {"Tanh": 4.15, "tanh": 4.15, "Sigmoid": 6.91, "sigmoid": 6.91}
"""Module class or function name to the input beyond which the derivative is below 1e-3.

tanh'(x) = 1 - tanh(x)**2 and sigmoid'(x) = s(x) (1 - s(x)); both even, so one bound serves both sides.
"""


def bound_of(layer: str) -> float | None:
    """Return the bound of a saturating activation; None for any other layer.

    Example:
        >>> bound_of("Tanh"), bound_of("ReLU")
        (4.15, None)
    """
    return SATURATION_BOUNDS.get(layer)
