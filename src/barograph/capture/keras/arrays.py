"""Tensors of every backend of Keras as arrays in host memory."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray


def array_of(value: Any) -> NDArray[Any]:
    """Return the elements of a tensor or a variable; memory is shared with it where that is possible.

    Not through Keras, which asks a tensor of torch for an array in a way that NumPy warns of.
    """
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        return np.asarray(value.float().numpy() if str(value.dtype) == "torch.bfloat16" else value.numpy())
    return _of_tensorflow(value) if hasattr(value, "numpy") else np.asarray(value)


def _of_tensorflow(value: Any) -> NDArray[Any]:
    """Return where the elements lie; `numpy` copies them. What writes to a variable that is looked at copies it."""
    try:
        array = np.asarray(memoryview(_read(value) if callable(getattr(value, "value", None)) else value))
    except (TypeError, ValueError):
        return np.asarray(value.numpy())  # bfloat16, say, and what is spread over replicas
    return array if array.dtype != object else np.asarray(value.numpy())


def _read(variable: Any) -> Any:
    """Return the tensor of a variable of TensorFlow; its own `value` enters a context first, which takes as long."""
    tensorflow = sys.modules["tensorflow"]
    if type(variable).__name__ == "ResourceVariable" and tensorflow.executing_eagerly():
        return tensorflow.raw_ops.ReadVariableOp(resource=variable.handle, dtype=variable.dtype)
    return variable.value()
