"""Flattens the inputs and outputs of modules: tuples, dicts, dataclasses, and their sources."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import torch

_DEPTH = 4
_ITEMS = 32
_THROUGH = ("MaxPool", "AvgPool", "AdaptiveAvgPool", "Reshape", "View", "Unsafe", "NativeDropout", "MulBackward",
            "Dropout", "Transpose", "Permute", "Squeeze", "Unsqueeze", "Alias", "FeatureDropout")
_ACTIVATIONS = {"Relu": "relu", "Tanh": "tanh", "Sigmoid": "sigmoid"}
_LOOK_BACK = 3

CHANNELS_FIRST = ("Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "BatchNorm1d",
            "BatchNorm2d", "BatchNorm3d", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "GroupNorm")


def tensors_in(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield each tensor in `value` with its index, such as `[0]`, `[logits]`; "" for a single tensor.

    Descends into tuples, lists, mappings and dataclasses, up to 4 levels and 32 items: larger values are data, not a
    layer's output.

    Example:
        >>> [item for item, tensor in tensors_in({"logits": torch.zeros(2), "state": (torch.zeros(1), None)})]
        ['[logits]', '[state][0]']
    """
    if isinstance(value, torch.Tensor):
        yield path, value
        return
    if depth >= _DEPTH:
        return
    items: Iterator[tuple[Any, Any]]
    if isinstance(value, Mapping):
        items = iter(value.items())
    elif isinstance(value, tuple | list):
        items = iter(enumerate(value))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        items = ((item.name, getattr(value, item.name, None)) for item in dataclasses.fields(value))
    else:
        return
    for number, (name, item) in enumerate(items):
        if number >= _ITEMS:
            return
        yield from tensors_in(item, f"{path}[{name}]", depth + 1)


def activation_behind(tensor: torch.Tensor, of_modules: Collection[Any] = ()) -> str:
    """Return the functional activation that made `tensor` ("relu", "tanh", "sigmoid"), else "".

    Read from the autograd graph, so `F.relu` is detected like `nn.ReLU`, also through pooling, dropout and reshaping.

    Args:
        tensor: Input of a module.
        of_modules: Graph nodes made by modules: an `nn.ReLU` is recorded at its own output, not here.

    Example:
        >>> x = torch.ones(2, 2, requires_grad=True)
        >>> activation_behind(torch.flatten(torch.relu(x)))
        'relu'
    """
    node = tensor.grad_fn
    for _ in range(_LOOK_BACK):
        if node is None or any(node is made for made in of_modules):
            return ""
        name = node.name()
        for start, activation in _ACTIVATIONS.items():
            if name.startswith(start):
                return activation
        if not name.startswith(_THROUGH) or not node.next_functions:
            return ""
        node = node.next_functions[0][0]
    return ""


def unit_axis(tensor: torch.Tensor, layer: str) -> int | None:
    """Return the axis of units (channels, neurons); None if there is none.

    Axis 1 for convolutions and their normalizations, and for anything with four or more axes; the last axis otherwise,
    so a sequence (batch, time, features) keeps its features.
    """
    if tensor.dim() < 2:
        return None
    return 1 if layer in CHANNELS_FIRST or tensor.dim() >= 4 else -1


def is_scalar_float(tensor: torch.Tensor) -> bool:
    """Return whether `tensor` could be a loss: one floating-point element and no axes."""
    return tensor.dim() == 0 and tensor.is_floating_point()
