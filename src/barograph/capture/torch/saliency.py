"""Saliency maps by gradients of a class score with respect to the input.

A map says how a change of each input value would change the score of the predicted class. Three methods:

- gradient × input: one backward pass;
- SmoothGrad (Smilkov et al., 2017): the mean gradient over noisy copies, here times the input;
- integrated gradients (Sundararajan et al., 2017): the mean gradient on the way from a black input, times the input.
  The values of a map sum up to the score minus that of the black input.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from barograph.capture.torch.random import random_states
from barograph.errors import UnknownName, UnsupportedCapture, nearest
from barograph.model.probe import ProbeSettings

if TYPE_CHECKING:
    from numpy.typing import NDArray

_COPIES = 16
_NOISE = 0.15
_MOST_ROWS = 256


class Impossible(Exception):
    """A map cannot be computed; says why."""


class Saliency:
    """Computes saliency maps of a model in eval mode. Gradients of parameters, modes and weights stay as they are.

    Args:
        settings: Which methods.
    """

    Impossible = Impossible

    def __init__(self, settings: ProbeSettings) -> None:
        self._methods = settings.saliency_methods

    def maps(self, model: nn.Module, inputs: torch.Tensor, classes: NDArray[np.int64]) -> Mapping[str, NDArray[Any]]:
        """Return the maps of each method, float32, of the shape of the inputs.

        Args:
            model: In eval mode.
            inputs: Samples, floating-point.
            classes: Class of each sample whose score is explained.

        Raises:
            Impossible: The inputs are integers, the model is in training mode, or it cannot be differentiated.
        """
        if not inputs.is_floating_point():
            raise Impossible("the inputs are integers, which have no gradient")
        if any(part.training for part in model.modules()):
            raise Impossible("the model was not in eval mode")
        try:
            # Tensors of inference mode have no gradients, their copies outside of it have.
            with torch.inference_mode(False), torch.enable_grad():
                plain = inputs.detach().clone()
                wanted = torch.as_tensor(classes, device=plain.device)
                return {method: _METHODS[method](model, plain, wanted).float().cpu().numpy()
                        for method in self._methods}
        except RuntimeError as error:
            raise Impossible(f"the model cannot be differentiated: {str(error).splitlines()[0]}") from error


def explained(model: nn.Module, inputs: torch.Tensor, classes: Any, method: str) -> NDArray[Any]:
    """Return the maps of any samples; see `barograph.inside.explain`."""
    if method not in _METHODS:
        raise UnknownName(f'method is "{method}". {nearest(method, _METHODS)}')
    trained = [part for part in model.modules() if part.training]
    states = random_states()
    try:
        for part in trained:
            part.training = False
        if classes is None:
            with torch.no_grad():
                classes = _scores(model(inputs), len(inputs)).argmax(1).cpu().numpy()
        found = Saliency(ProbeSettings(saliency_methods=(method,)))
        return found.maps(model, inputs, np.asarray(classes, np.int64))[method]
    except Impossible as error:
        raise UnsupportedCapture(f"Cannot compute saliency maps: {error}.") from error
    finally:
        for part in trained:
            part.training = True
        states.put_back()


def _scores(output: Any, samples: int) -> torch.Tensor:
    """Return the class scores in a model's output, one row per sample."""
    found = output if isinstance(output, torch.Tensor) else getattr(output, "logits", None)
    if found is None or found.dim() not in (1, 2) or len(found) != samples:
        raise Impossible("the model returns no class scores")
    return found[:, None] if found.dim() == 1 else found


def _gradient(model: nn.Module, inputs: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
    """Return the gradient of each sample's class score."""
    parts = []
    for start in range(0, len(inputs), _MOST_ROWS):
        wanted = classes[start:start + _MOST_ROWS]
        leaf = inputs[start:start + _MOST_ROWS].detach().clone().requires_grad_()
        scores = _scores(model(leaf), len(leaf))
        chosen = scores if scores.shape[1] == 1 else scores.gather(1, wanted[:, None])
        (gradient,) = torch.autograd.grad(chosen.sum(), leaf)
        parts.append(gradient)
    return torch.cat(parts)


def _times_input(model: nn.Module, inputs: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
    return _gradient(model, inputs, classes) * inputs


def _smooth(model: nn.Module, inputs: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    each = tuple(range(1, inputs.dim()))
    spread = inputs.amax(each, keepdim=True) - inputs.amin(each, keepdim=True)
    noise = torch.randn((_COPIES, *inputs.shape), generator=generator).to(inputs) * spread * _NOISE
    return _mean_gradient(model, inputs[None] + noise, classes) * inputs


def _integrated(model: nn.Module, inputs: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
    # Midpoints: their mean is nearer to the integral than that of the ends.
    shares = ((torch.arange(_COPIES) + 0.5) / _COPIES).to(inputs).reshape(-1, *[1] * inputs.dim())
    return _mean_gradient(model, inputs[None] * shares, classes) * inputs


def _mean_gradient(model: nn.Module, copies: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
    flat = copies.reshape(-1, *copies.shape[2:])
    return _gradient(model, flat, classes.repeat(len(copies))).reshape(copies.shape).mean(0)


_METHODS: Mapping[str, Callable[[nn.Module, torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "gradient-input": _times_input, "smoothgrad": _smooth, "integrated-gradients": _integrated,
}
