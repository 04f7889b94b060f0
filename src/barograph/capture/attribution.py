"""Saliency maps from a function that returns gradients of class scores. Independent of frameworks.

The methods are those of `capture.torch.saliency`, which computes them with PyTorch alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

_COPIES = 16
_NOISE = 0.15
_MOST_ROWS = 256

Gradient = Callable[[NDArray[Any], NDArray[np.int64]], NDArray[Any]]
"""Returns the gradient of each sample's class score with respect to the sample: inputs and classes to an array of the
shape of the inputs."""


def attribution(gradient: Gradient, inputs: NDArray[Any], classes: NDArray[np.int64], method: str) -> NDArray[Any]:
    """Return saliency maps of the shape of the inputs, float32; positive values raise the score.

    Args:
        gradient: Returns gradients.
        inputs: Samples, floating-point.
        classes: Class of each sample whose score is explained.
        method: "gradient-input", "smoothgrad" or "integrated-gradients".

    Example:
        >>> square = lambda x, classes: 2 * x
        >>> x = np.array([[1.0, 3.0]])
        >>> attribution(square, x, np.array([0]), "integrated-gradients").tolist()
        [[1.0, 9.0]]
    """
    found: NDArray[Any] = METHODS[method](gradient, inputs, classes) * inputs
    return found.astype(np.float32)


def _in_parts(gradient: Gradient, inputs: NDArray[Any], classes: NDArray[np.int64]) -> NDArray[Any]:
    return np.concatenate([
        np.asarray(gradient(inputs[start:start + _MOST_ROWS], classes[start:start + _MOST_ROWS]))
        for start in range(0, len(inputs), _MOST_ROWS)])


def _smooth(gradient: Gradient, inputs: NDArray[Any], classes: NDArray[np.int64]) -> NDArray[Any]:
    each = tuple(range(1, inputs.ndim))
    spread = inputs.max(each, keepdims=True) - inputs.min(each, keepdims=True)
    noise = np.random.default_rng(0).normal(size=(_COPIES, *inputs.shape)) * spread * _NOISE
    return _mean(gradient, (inputs[None] + noise).astype(inputs.dtype), classes)


def _integrated(gradient: Gradient, inputs: NDArray[Any], classes: NDArray[np.int64]) -> NDArray[Any]:
    # Midpoints: their mean is nearer to the integral than that of the ends.
    shares = ((np.arange(_COPIES) + 0.5) / _COPIES).reshape(-1, *[1] * inputs.ndim)
    return _mean(gradient, (inputs[None] * shares).astype(inputs.dtype), classes)


def _mean(gradient: Gradient, copies: NDArray[Any], classes: NDArray[np.int64]) -> NDArray[Any]:
    flat = copies.reshape(-1, *copies.shape[2:])
    found: NDArray[Any] = _in_parts(gradient, flat, np.tile(classes, len(copies))).reshape(copies.shape).mean(0)
    return found


METHODS: Mapping[str, Callable[[Gradient, NDArray[Any], NDArray[np.int64]], NDArray[Any]]] = {
    "gradient-input": _in_parts, "smoothgrad": _smooth, "integrated-gradients": _integrated,
}
"""Mean gradients by method, which are multiplied with the inputs."""
