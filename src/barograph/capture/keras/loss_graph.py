"""Checks in TensorFlow's graph of a loss whether targets were broadcast, and the arguments of logarithms.

Only the loss itself is searched: from the target of the gradients through reductions, arithmetic and views, up to the
layers of the model.
"""

from __future__ import annotations

import importlib
from typing import Any

import keras

_MOST_OPERATIONS = 64

_PASSED = frozenset({
    "Mean", "Sum", "Square", "Abs", "Neg", "Cast", "Identity", "Squeeze", "Reshape", "Pow", "Sqrt", "Log", "Exp", "Mul",
    "RealDiv", "DivNoNan", "AddV2", "Add", "AddN", "Sub", "SquaredDifference", "StopGradient", "Snapshot",
})  # fmt: skip
_HANDED_ON = frozenset({"Sub", "Cast", "Identity", "Reshape", "Squeeze", "StridedSlice", "GatherV2", "ExpandDims"})
_SQUASHED = frozenset({"Sigmoid", "Softmax"})
_DIFFERENCES = frozenset({"Sub", "SquaredDifference"})


def broadcast_of(loss: Any) -> Any:
    """Return the ratio of the elements in a loss to those of its arguments, as a tensor; 1 is correct.

    If targets of shape (N,) meet predictions of shape (N, 1), it is N, without any warning.

    Args:
        loss: A traced tensor.

    Returns:
        The number; None without a graph.
    """
    operations = _operations_of(loss)
    if not operations:
        return None
    tensorflow = importlib.import_module("tensorflow")
    for operation in operations:
        if operation.type in _DIFFERENCES and _pairs_all_with_all(*operation.inputs):
            sizes = [tensorflow.size(tensor) for tensor in (operation.outputs[0], *operation.inputs)]
            return sizes[0] / tensorflow.maximum(tensorflow.maximum(sizes[1], sizes[2]), 1)
    return tensorflow.constant(1.0)


def least_logarithm_of(loss: Any) -> Any:
    """Return the smallest argument of a loss's logarithm if it is a bare sigmoid or softmax, as a tensor.

    Such an argument can become exactly 0; a clipped one, or one with an added constant, cannot.

    Args:
        loss: A traced tensor.

    Returns:
        The number; None without such a logarithm or a graph.
    """
    operands = [operation.inputs[0] for operation in _operations_of(loss) if operation.type == "Log"]
    bare = [keras.ops.min(keras.ops.cast(operand, "float32")) for operand in operands if _is_bare(operand)]
    return keras.ops.min(keras.ops.stack(bare)) if bare else None


def _operations_of(loss: Any) -> list[Any]:
    """Return the operations of a loss, from the last one back; empty without a graph."""
    if keras.backend.backend() != "tensorflow" or not hasattr(loss, "graph"):
        return []
    waiting, found = [loss.op], dict[str, Any]()
    while waiting and len(found) < _MOST_OPERATIONS:
        operation = waiting.pop()
        if operation.name not in found and operation.type in _PASSED:
            found[operation.name] = operation
            waiting += [tensor.op for tensor in operation.inputs]
    return list(found.values())


def _is_bare(tensor: Any) -> bool:
    """Return whether numbers are those of a sigmoid or a softmax, possibly subtracted from one."""
    operation = tensor.op
    for _ in range(_MOST_OPERATIONS):
        if operation.type in _SQUASHED:
            return True
        if operation.type not in _HANDED_ON or not operation.inputs:
            return False
        # The second operand of 1 − p, the first of a view.
        operation = operation.inputs[1 if operation.type == "Sub" else 0].op
    return False


def _pairs_all_with_all(one: Any, other: Any) -> bool:
    """Return whether one tensor is a column and the other a row, without an axis inserted for that."""
    shapes = sorted((tensor.shape.as_list() for tensor in (one, other) if tensor.shape.rank is not None), key=len)
    if len(shapes) != 2 or len(shapes[0]) != 1 or len(shapes[1]) != 2:
        return False
    (row,), (_, width) = shapes
    return width == 1 and row != 1 and not _is_meant(one) and not _is_meant(other)


def _is_meant(tensor: Any) -> bool:
    operation = tensor.op
    while operation.type in ("Cast", "Identity"):
        operation = operation.inputs[0].op
    return operation.type in ("ExpandDims", "Reshape") or (
        operation.type == "StridedSlice" and operation.get_attr("new_axis_mask") != 0)
