"""The trace that a JAX tensor belongs to, and whether it can leave it."""

from __future__ import annotations

from typing import Any

import jax
import keras
import numpy as np


class Traces:
    """JAX tensors belong to the trace of the step, or to that of its gradients."""

    def __init__(self, args: Any) -> None:
        self._traces = {id(trace): trace for trace in map(_trace_of, jax.tree_util.tree_leaves(args))}

    def is_tensor(self, value: Any) -> bool:
        # In an eager step, Keras passes the data on unchanged.
        return isinstance(value, jax.Array) or (isinstance(value, np.ndarray) and value.dtype.kind in "biuf")

    def can_leave(self, tensor: Any) -> bool:
        trace = _trace_of(tensor)
        return trace is None or id(trace) in self._traces

    def is_known(self, tensor: Any) -> bool:
        return _trace_of(tensor) is None

    def is_tracing(self) -> bool:
        return bool(self._traces.keys() - {id(None)})

    def dense(self, gradient: Any) -> Any:
        return keras.ops.convert_to_tensor(gradient)

    def of_replicas(self, value: Any) -> tuple[Any, ...]:
        return ()


def _trace_of(tensor: Any) -> Any:
    return getattr(tensor, "_trace", None)
