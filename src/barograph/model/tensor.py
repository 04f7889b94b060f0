"""A whole tensor as bytes, so that no framework and no NumPy extension is needed to carry it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RawTensor:
    """The elements of a tensor, little-endian, in C order.

    Attributes:
        dtype: As NumPy and ml_dtypes name it: "float32", "bfloat16", "float8_e4m3fn", "int64", "bool".
        shape: Length of each axis; () for a number.
        data: The bytes; or a view of memory that stays as it is for as long as this is used.
    """

    dtype: str
    shape: tuple[int, ...]
    data: bytes | memoryview
