"""Converts tensors of every Keras backend to arrays in host memory."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def array_of(value: Any) -> NDArray[Any]:
    """Return the elements of a tensor or a variable, sharing memory if possible.

    Not through Keras, whose conversion of torch tensors makes NumPy warn.
    """
    return _way_of(type(value))(value)  # type: ignore[arg-type]  # a class can be hashed


@functools.lru_cache(64)
def _way_of(kind: type) -> Callable[[Any], NDArray[Any]]:
    """Return the reader for values of a type: probing a tensor for attributes takes longer than reading it."""
    if hasattr(kind, "detach"):
        return _of_torch
    if not hasattr(kind, "numpy"):
        return np.asarray
    return _of_variable if callable(getattr(kind, "value", None)) else _of_tensor


def _of_torch(value: Any) -> NDArray[Any]:
    value = value.detach().cpu()
    return np.asarray(value.float().numpy() if str(value.dtype) == "torch.bfloat16" else value.numpy())


def _of_variable(value: Any) -> NDArray[Any]:
    return _of_tensor(value, _read)


def _of_tensor(value: Any, read: Callable[[Any], Any] | None = None) -> NDArray[Any]:
    """Return an array in the tensor's memory, which `numpy` would copy. TensorFlow copies a variable on write while it
    is read."""
    try:
        array = np.asarray(memoryview(value if read is None else read(value)))
    except (TypeError, ValueError):
        return np.asarray(value.numpy())  # for example bfloat16, and values spread over replicas
    return array if array.dtype != object else np.asarray(value.numpy())


def read_all_of(variables: Sequence[Any]) -> Callable[[], Sequence[Any]] | None:
    """Return a function that returns the tensors of all TensorFlow variables; None: one is spread over replicas."""
    if not all(map(_is_plain, variables)):
        return None
    tensorflow = sys.modules["tensorflow"]
    handles = [(variable.handle, variable.dtype) for variable in variables]
    made: Callable[[], Sequence[Any]] = tensorflow.function(
        lambda: [tensorflow.raw_ops.ReadVariableOp(resource=handle, dtype=dtype) for handle, dtype in handles],
        autograph=False).get_concrete_function()
    return made


def _is_plain(variable: Any) -> bool:
    """Return whether a variable is one tensor: those of a strategy have one per device."""
    return any(base.__name__ == "BaseResourceVariable" for base in type(variable).__mro__)


def _read(variable: Any) -> Any:
    """Return the tensor of a TensorFlow variable; its own `value` enters a context first, which takes as long."""
    tensorflow = sys.modules["tensorflow"]
    if _is_plain(variable) and tensorflow.executing_eagerly():
        return tensorflow.raw_ops.ReadVariableOp(resource=variable.handle, dtype=variable.dtype)
    return variable.value()
