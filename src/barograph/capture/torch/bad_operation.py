"""Finds the operation that made a loss or gradient non-finite, from tensors saved in the graph."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from barograph.capture.torch.graph import Walk, operation, saved
from barograph.capture.torch.memory import in_memory
from barograph.capture.torch.softmax_input import overflowing_product, why_softmax
from barograph.model.facts import NOT_AN_OPERATION

_MOST_NODES = 4096
_MOST_SECS = 0.25

_NAMES = {
    "LinalgVectorNorm": "norm", "Norm": "norm", "Reciprocal": "div", "Rsqrt": "sqrt", "Log2": "log", "Log10": "log",
    "Log1P": "log", "NllLoss": "mean", "NllLoss2D": "mean", "LogSoftmax": "softmax", "Expm1": "exp", "Exp2": "exp",
    "MseLoss": "mean", "SmoothL1Loss": "mean", "HuberLoss": "mean", "BinaryCrossEntropy": "mean",
    "BinaryCrossEntropyWithLogits": "mean", "SoftMarginLoss": "mean", "StdMean": "std", "VarMean": "var",
    "LinalgSvd": "svd", "LinalgEigh": "eigh", "LinalgQr": "qr",
}
_NAN_OF_NEGATIVE = {"Log": "log_of_negative", "Log2": "log_of_negative", "Log10": "log_of_negative",
                    "Log1P": "log_of_negative", "Sqrt": "sqrt_of_negative", "Rsqrt": "sqrt_of_negative"}
"""Their names for inputs below their domain rather than at its limit."""
_RESULTS = ("result", "result0", "result1", "output")
_INPUTS = {
    "self": 0, "input": 0, "other": 1, "mat2": -1, "mat1": -2, "tensor1": -2, "tensor2": -1, "batch1": -2, "batch2": -1,
    "weight": 1, "condition": 0, "exponent": 1, "value": 2, "key": 1, "query": 0, "target": 1,
}
"""Index among a node's inputs by name of the saved tensor."""

Test = Callable[[torch.Tensor], torch.Tensor]

_OUT_OF_DOMAIN: dict[str, tuple[str, Test]] = {
    "Log": ("self", lambda value: value <= 0),
    "Log2": ("self", lambda value: value <= 0),
    "Log10": ("self", lambda value: value <= 0),
    "Log1P": ("self", lambda value: value <= -1),
    "Div": ("other", lambda value: value == 0),
    "Addcdiv": ("tensor2", lambda value: value == 0),
    "Remainder": ("other", lambda value: value == 0),
    "Acos": ("self", lambda value: value.abs() > 1),
    "Asin": ("self", lambda value: value.abs() > 1),
    "Acosh": ("self", lambda value: value < 1),
    "Atanh": ("self", lambda value: value.abs() >= 1),
    "Erfinv": ("self", lambda value: value.abs() >= 1),
    "Logit": ("self", lambda value: (value <= 0) | (value >= 1)),
    "Lgamma": ("self", lambda value: (value <= 0) & (value == value.floor())),
    "Digamma": ("self", lambda value: (value <= 0) & (value == value.floor())),
    "Xlogy": ("other", lambda value: value < 0),
    "NllLoss": ("total_weight", lambda value: value == 0),
    "NllLoss2D": ("total_weight", lambda value: value == 0),
}
"""Operations that map valid-looking inputs outside their domain to non-finite results."""

_STEEP: dict[str, tuple[str, Test]] = {
    "Sqrt": ("result", lambda value: value == 0),
    "Pow": ("self", lambda value: value == 0),
    "Acos": ("self", lambda value: value.abs() >= 1),
    "Asin": ("self", lambda value: value.abs() >= 1),
    "Acosh": ("self", lambda value: value <= 1),
    "Atanh": ("self", lambda value: value.abs() == 1),
    "Hypot": ("result", lambda value: value == 0),
    "Log": ("self", lambda value: value == 0),
    "Div": ("other", lambda value: value == 0),
    "Reciprocal": ("result", torch.isinf),
    "Rsqrt": ("result", torch.isinf),
    "Exp": ("result", torch.isinf),
    "LinalgSvd": ("S", lambda value: _has_equal_neighbors(value)),
    "LinalgEigh": ("eigenvalues", lambda value: _has_equal_neighbors(value)),
    "LinalgQr": ("R", lambda value: value.diagonal(dim1=-2, dim2=-1) == 0),
}
"""Operations with a finite (or unused) result and an infinite derivative."""

_FINITE_AND_STEEP = ("Sqrt", "Pow", "Acos", "Asin", "Acosh", "Hypot", "LinalgSvd", "LinalgEigh", "LinalgQr")
_MEANS = ("MseLoss", "SmoothL1Loss", "HuberLoss", "BinaryCrossEntropy", "BinaryCrossEntropyWithLogits",
          "SoftMarginLoss")
"""Losses whose mean over no elements is NaN."""
_MAY_AVERAGE_NOTHING = ("NllLoss", "NllLoss2D", "Mean", *_MEANS)
_NEAR_NODES, _NEAR_SECS = 32, 0.01
_DEVIATIONS = ("Std", "Var", "StdMean", "VarMean")
_NEVER_THEMSELVES = ("Softmax", "LogSoftmax", "Sigmoid", "LogSigmoid", "Tanh")


def bad_operations(roots: Iterable[Any]) -> dict[str, float]:
    """Return the cause of a non-finite loss, nearest to the data.

    Args:
        roots: Nodes that made the loss.

    Returns:
        One name ("log", "exp", "div", "sqrt", "addmm"…) with 1. `NOT_AN_OPERATION` with 1 if an input or a target
        contains NaN or +inf. If the parameters themselves are non-finite, an earlier gradient was: then each operation
        of this graph with an infinite derivative, with 0.5. Empty if unknown.
    """
    search = _Search()
    for node in Walk(roots, most_nodes=_MOST_NODES, most_secs=_MOST_SECS):
        search.look_at(node)
    return search.verdict()


def steep_operations(
    roots: Iterable[Any], *, most_nodes: int, most_secs: float
) -> dict[str, torch.Tensor]:
    """Return the operations of a finite loss with an infinite derivative at one of their inputs.

    Their gradient may not reach the parameters, so this is a suspicion until gradients are non-finite.

    Returns:
        Name to a boolean tensor of one element, on the device of the value; false ones are omitted only on the CPU,
        where reading does not block.
    """
    found: dict[str, torch.Tensor] = {}
    for node in Walk(roots, most_nodes=most_nodes, most_secs=most_secs):
        steep = _steepness(node)
        if steep is not None and (steep.device.type != "cpu" or bool(steep)):
            name = short_name(operation(node))
            known = found.get(name)
            found[name] = steep if known is None or known.device != steep.device else known | steep
    return found


def averages_nothing(roots: Iterable[Any]) -> bool:
    """Return whether a loss is a mean over nothing, as far as its nearest operations show: all labels ignored, for
    example."""
    return any(operation(node) in _MAY_AVERAGE_NOTHING and _gives_bad(node, operation(node))
               for node in Walk(roots, most_nodes=_NEAR_NODES, most_secs=_NEAR_SECS))


def short_name(name: str) -> str:
    """Return the word for an operation.

    Example:
        >>> short_name("LinalgVectorNorm"), short_name("NativeLayerNorm")
        ('norm', 'native_layer_norm')
    """
    return _NAMES.get(name) or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


class _Search:
    """Collects the operations that returned non-finite values for finite inputs."""

    def __init__(self) -> None:
        self._nodes: dict[int, Any] = {}
        self._guilty: set[int] = set()
        self._parameters_bad_at: int | None = None
        self._data_bad_at: int | None = None
        self._data_is_masked = True
        self._steep: set[str] = set()

    def look_at(self, node: Any) -> None:
        name = operation(node)
        if name == "AccumulateGrad":
            return
        number = node._sequence_nr()
        if name in _FINITE_AND_STEEP and _exponent_is_steep(node, name):
            self._steep.add(short_name(name))
        self._nodes[number] = node
        for value, source_number, is_parameter in self._bad_inputs(node):
            if is_parameter:
                self._parameters_bad_at = _least(self._parameters_bad_at, number)
            elif source_number is None:
                self._data_bad_at = _least(self._data_bad_at, number)
                # −inf alone is how masks are written.
                self._data_is_masked &= not bool((value.isnan() | value.isposinf()).any())
            else:
                self._guilty.add(source_number)
        if _gives_bad(node, name):
            self._guilty.add(number)

    def _bad_inputs(self, node: Any) -> Iterator[tuple[torch.Tensor, int | None, bool]]:
        """Yield the non-finite inputs, the number of the node that made each (None: data), and whether it is a
        parameter."""
        for name, place in _INPUTS.items():
            value = saved(node, name)
            if value is None or not value.is_floating_point() or bool(torch.isfinite(value).all()):
                continue
            edges = node.next_functions
            source = edges[place][0] if -len(edges) <= place < len(edges) else None
            if source is None:
                yield value, None, False
            else:
                # A tensor of the script that requires a gradient counts as a parameter, too.
                yield value, source._sequence_nr(), _parameter_behind(source) is not None

    def verdict(self) -> dict[str, float]:
        # Nodes are numbered in order of creation, so the first had finite inputs, or data or parameters were
        # non-finite.
        first = min(self._guilty & self._nodes.keys(), default=None)
        if first is not None and any(_is_bad_parameter(source) for source, _ in self._nodes[first].next_functions):
            self._parameters_bad_at = _least(self._parameters_bad_at, first)
        for blamed in (self._parameters_bad_at, self._data_bad_at):
            if blamed is not None and (first is None or blamed <= first):
                if self._parameters_bad_at is not None:
                    return dict.fromkeys(sorted(self._steep), 0.5)
                return {} if self._data_is_masked else {NOT_AN_OPERATION: 1.0}
        return {_name_of(self._nodes[first]): 1.0} if first is not None else {}


def _least(known: int | None, number: int) -> int:
    return number if known is None else min(known, number)


def _name_of(node: Any) -> str:
    """Return the name of the operation with a non-finite result, or of the one before that must have it."""
    name = operation(node)
    before = node.next_functions[0][0] if node.next_functions else None
    found = (why_softmax(node) if name in ("Softmax", "LogSoftmax") else
             "" if _gives_bad(node, name) else overflowing_product(node))
    if found:
        return found
    if name in _NEVER_THEMSELVES and before is not None:
        return short_name(operation(before))
    if name in _NAN_OF_NEGATIVE and _was_given_negative(node, name):
        return _NAN_OF_NEGATIVE[name]
    return short_name(name)


def _was_given_negative(node: Any, name: str) -> bool:
    value = saved(node, "self")
    if value is not None:
        return bool((value < (-1 if name == "Log1P" else 0)).any())
    made = saved(node, "result")
    return made is not None and bool(made.isnan().any())


def _parameter_behind(node: Any) -> torch.Tensor | None:
    """Return the parameter that a node passes on unchanged, perhaps transposed."""
    while node is not None and operation(node) in ("T", "Transpose", "View", "ToCopy"):
        node = node.next_functions[0][0]
    return node.variable if node is not None and operation(node) == "AccumulateGrad" else None


def _is_bad_parameter(node: Any) -> bool:
    parameter = _parameter_behind(node)
    value = None if parameter is None else in_memory(parameter)
    return value is not None and value.is_floating_point() and not bool(torch.isfinite(value).all())


def _gives_bad(node: Any, name: str) -> bool:
    """Return whether the result of a node is known to be non-finite."""
    for result in _RESULTS:
        value = saved(node, result)
        if value is not None and value.is_floating_point() and not bool(torch.isfinite(value).all()):
            return True
    if name == "Mean" and getattr(node, "_saved_self_sym_numel", 1) == 0:
        return True
    if name in _MEANS:
        given = saved(node, "self")
        return given is not None and not given.numel()
    if name in _DEVIATIONS:
        return _has_no_freedom(node)
    if name == "Pow":
        return _is_out_of_powers(node)
    place, test = _OUT_OF_DOMAIN.get(name, ("", torch.isnan))
    value = saved(node, place) if place else None
    return value is not None and bool(test(value).any())


def _is_out_of_powers(node: Any) -> bool:
    base, exponent = saved(node, "self"), getattr(node, "_saved_exponent", None)
    if base is None or not isinstance(exponent, int | float):
        return False
    return bool((exponent < 0 and (base == 0).any()) or (exponent != int(exponent) and (base < 0).any()))


def _has_no_freedom(node: Any) -> bool:
    """Return whether a deviation is over so few values that it divides by zero: over one value, by default."""
    value, correction = saved(node, "self"), getattr(node, "_saved_correction", None)
    if value is None or not isinstance(correction, int | float | None):
        return False
    axes = getattr(node, "_saved_dim", None) or range(value.dim())
    return math.prod(value.shape[axis - (1 << 64) if axis >> 63 else axis] for axis in axes) <= (
        1 if correction is None else correction)


def _has_equal_neighbors(values: torch.Tensor) -> torch.Tensor:
    """Return which of the sorted singular values or eigenvalues equal the next one: their vectors have no
    derivative."""
    return values.diff(dim=-1).abs() <= torch.finfo(values.dtype).eps * values.abs().amax(-1, keepdim=True)


def _exponent_is_steep(node: Any, name: str) -> bool:
    exponent = getattr(node, "_saved_exponent", None)
    return name != "Pow" or (isinstance(exponent, int | float) and exponent < 1)


def _steepness(node: Any) -> torch.Tensor | None:
    name = operation(node)
    if name not in _STEEP or not _exponent_is_steep(node, name):
        return None
    place, test = _STEEP[name]
    value = saved(node, place)
    return None if value is None else test(value).any()
