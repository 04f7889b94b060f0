"""Converts MXNet arrays to NumPy arrays, waiting for their values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from mxnet.ndarray import NDArray
from mxnet.symbol import Symbol

import barograph.measures.native  # noqa: F401 - by it NumPy knows bfloat16 by name


def wait_for(arrays: Iterable[Any]) -> None:
    """Wait until the engine has computed arrays.

    Not within the guard, nor as part of the cost: errors of the training's own operations are raised once, at the first
    wait, and must reach the script; and the training computes these arrays anyway.
    """
    for array in arrays:
        array.wait_to_read()


def array_of(array: Any) -> Any:
    """Return a copy of the elements of an MXNet array; a sparse one with all its zeros."""
    elements = array.asnumpy()
    # MXNet represents bfloat16 as a structured type.
    return elements.view(np.dtype("bfloat16")) if elements.dtype.names == ("bfloat16",) else elements


def mean_of(array: Any) -> float:
    """Return the mean of all elements of an MXNet array."""
    return float(np.mean(array_of(array), dtype=np.float64))


def arrays_in(value: Any, item: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the arrays in a Block's inputs or outputs, each with its position: "", "[1][0]"."""
    if isinstance(value, NDArray):
        yield item, value
    elif isinstance(value, list | tuple):
        for number, part in enumerate(value):
            yield from arrays_in(part, f"{item}[{number}]")


def is_traced(args: Iterable[Any]) -> bool:
    """Return whether a Block is called with symbols: it is being traced, and nothing is computed."""
    return any(isinstance(item, Symbol) or (isinstance(item, list | tuple) and is_traced(item)) for item in args)
