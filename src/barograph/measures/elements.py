"""Element types of tensors, by number and name, and conversion of values to float64.

Statistics of complex numbers use their magnitude |z|: extremes, sums and bins are those of |z|, and an
element is infinite if one of its parts is, else NaN if one is. A bool counts as 0 or 1.
"""

from __future__ import annotations

from functools import cache
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from barograph.errors import UnsupportedDtype, nearest

DTYPE_CODES: dict[str, int] = {
    "float32": 0,
    "float64": 1,
    "float16": 2,
    "bfloat16": 3,
    "float8_e4m3fn": 4,
    "float8_e5m2": 5,
    "int8": 6,
    "uint8": 7,
    "int16": 8,
    "uint16": 9,
    "int32": 10,
    "uint32": 11,
    "int64": 12,
    "uint64": 13,
    "bool": 14,
    "complex64": 15,
    "complex128": 16,
}
"""Name of an element type in NumPy and ml_dtypes to its number in calls by address."""

_NAMES = {code: name for name, code in DTYPE_CODES.items()}
_OUTSIDE_NUMPY = ("bfloat16", "float8_e4m3fn", "float8_e5m2")


def dtype_code(name: str) -> int:
    """Return the number of the element type `name`.

    Raises:
        UnsupportedDtype: No statistics are defined for it; the message suggests the nearest.

    Example:
        >>> dtype_code("bfloat16")
        3
    """
    try:
        return DTYPE_CODES[name]
    except KeyError:
        raise UnsupportedDtype(f'No statistics are defined for elements of type "{name}". '
                               f"{nearest(name, DTYPE_CODES)}") from None


@cache
def element_type(code: int) -> np.dtype[Any]:
    """Return the NumPy dtype with this number.

    Raises:
        ValueError: No type has that number.

    Example:
        >>> element_type(2)
        dtype('float16')
    """
    if code not in _NAMES:
        raise ValueError(f"dtype is {code}; it must be one of the numbers in DTYPE_CODES, 0 to {max(_NAMES)}.")
    name = _NAMES[code]
    if name in _OUTSIDE_NUMPY:
        import ml_dtypes  # takes 10 ms, and most tensors do not need it

        return cast("np.dtype[Any]", np.dtype(getattr(ml_dtypes, name)))
    return np.dtype(name)


def values_as_float64(array: NDArray[Any]) -> NDArray[np.float64]:
    """Return the elements as a flat float64 array: magnitudes of complex elements, 0 and 1 for bools.

    Args:
        array: Any shape and layout, of a type in `DTYPE_CODES`.

    Returns:
        Shape (array.size,), in C order. Exact, except for integers beyond 2**53 and magnitudes, which are rounded.

    Raises:
        UnsupportedDtype: The type is not in `DTYPE_CODES`.

    Example:
        >>> values_as_float64(np.array([3 + 4j]))
        array([5.])
    """
    dtype_code(array.dtype.name)
    flat = array.reshape(-1)
    with np.errstate(all="ignore"):  # signaling NaN
        return _magnitudes(flat) if flat.dtype.kind == "c" else flat.astype(np.float64)


def _magnitudes(flat: NDArray[Any]) -> NDArray[np.float64]:
    if flat.dtype == np.complex128:
        return cast("NDArray[np.float64]", np.hypot(flat.real, flat.imag))
    # Squares of float32 neither overflow nor lose digits in float64.
    real, imaginary = flat.real.astype(np.float64), flat.imag.astype(np.float64)
    magnitude = np.sqrt(real * real + imaginary * imaginary)
    return cast("NDArray[np.float64]", np.where(np.isinf(real) | np.isinf(imaginary), np.inf, magnitude))


def subtract(after: NDArray[Any], before: NDArray[Any]) -> NDArray[Any]:
    """Return after − before, element by element, in the precision in which an update is judged.

    Floats of 32 bits and fewer, integers of 16 bits and fewer, and bools are subtracted in float32; other
    real types in float64; complex ones in their own type.

    Args:
        after, before: One shape and one type, which is in `DTYPE_CODES`.

    Example:
        >>> subtract(np.array([3], np.uint8), np.array([5], np.uint8))
        array([-2.], dtype=float32)
    """
    narrow = after.dtype.itemsize <= 2 or after.dtype == np.float32
    precision = after.dtype if after.dtype.kind == "c" else np.float32 if narrow else np.float64
    with np.errstate(all="ignore"):
        return cast("NDArray[Any]", after.astype(precision) - before.astype(precision))
