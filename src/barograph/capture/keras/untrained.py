"""Finds frozen parameters that still have their initial values: neither trained nor loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barograph.capture.keras.arrays import array_of
from barograph.capture.keras.names import Names

if TYPE_CHECKING:
    from barograph.capture.keras.backends import ValueOf

_BIAS = ".bias"


def untrained_in(names: Names, value: ValueOf) -> list[str]:
    """Return the paths of frozen layers that have never learned anything.

    Their biases show it, which start at zero and never stay there in training: all biases of frozen layers with a
    weight matrix must be exactly zero, and there must be one.

    Args:
        names: Names of the model.
        value: Returns the current value of a variable.
    """
    found = [path.removesuffix(_BIAS) for path in names.frozen
             if path.endswith(_BIAS) and _has_matrix(names.frozen, path.removesuffix(_BIAS))]
    is_moved = any(array_of(value(names.frozen[layer + _BIAS])).any() for layer in found)
    return [] if is_moved else found


def _has_matrix(frozen: dict[str, Any], layer: str) -> bool:
    kernel = frozen.get(f"{layer}.kernel")
    return kernel is not None and len(kernel.shape) > 1
