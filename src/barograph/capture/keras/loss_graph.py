"""Checks in TensorFlow's graph of a loss whether targets were broadcast, and the arguments of logarithms.

Only the loss itself is looked at: from the tensor that gradients are asked of, through reductions, arithmetic and
views, as far as the layers of the model.
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
    """Return how many times as many elements a loss runs over as it was handed, as a tensor; 1 where that is sound.

    Where targets of shape (N,) meet answers of shape (N, 1) it is N, without anything being said of it.

    Args:
        loss: A tensor that is being traced.

    Returns:
        The number; None where there is no graph to look at.
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
    """Return the least number that a loss takes the logarithm of, where that is a bare sigmoid or softmax, as a tensor.

    Such a number comes to exactly 0 in the end; one that is clipped, or that something is added to, does not.

    Args:
        loss: A tensor that is being traced.

    Returns:
        The number; None where no such logarithm is taken, or there is no graph to look at.
    """
    operands = [operation.inputs[0] for operation in _operations_of(loss) if operation.type == "Log"]
    bare = [keras.ops.min(keras.ops.cast(operand, "float32")) for operand in operands if _is_bare(operand)]
    return keras.ops.min(keras.ops.stack(bare)) if bare else None


def _operations_of(loss: Any) -> list[Any]:
    """Return the operations of a loss, from the last; none where there is no graph."""
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
    """Return whether numbers are those of a sigmoid or a softmax, at most one less each."""
    operation = tensor.op
    for _ in range(_MOST_OPERATIONS):
        if operation.type in _SQUASHED:
            return True
        if operation.type not in _HANDED_ON or not operation.inputs:
            return False
        # Of 1 − p the second counts, of a view the first.
        operation = operation.inputs[1 if operation.type == "Sub" else 0].op
    return False


def _pairs_all_with_all(one: Any, other: Any) -> bool:
    """Return whether one tensor is a column and the other a row, and no axis was put in to have it so."""
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
