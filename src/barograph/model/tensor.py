"""A whole tensor as bytes, so that no framework and no NumPy extension is needed to carry it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RawTensor:
    """The elements of a tensor, little-endian, in C order.

    Attributes:
        dtype: Name in NumPy or ml_dtypes: "float32", "bfloat16", "float8_e4m3fn", "int64", "bool".
        shape: Length of each axis; () for a number.
        data: The bytes, or a view of memory that does not change during its use.
    """

    dtype: str
    shape: tuple[int, ...]
    data: bytes | memoryview
