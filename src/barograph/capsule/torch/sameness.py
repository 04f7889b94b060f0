"""Whether the script's values are bit-identical to the original ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from barograph.capture.torch.capsule import digest
from barograph.capture.torch.values import tensors_in


def same(now: Any, then: Any) -> bool:
    """Return whether two arguments contain bit-identical tensors."""
    ours, theirs = _parts(now), _parts(then)
    return len(ours) == len(theirs) and all(
        one.shape == other.shape and one.dtype == other.dtype and digest(one) == digest(other)
        for one, other in zip(ours, theirs, strict=True)
    )


def needs_gradients(value: Any) -> bool:
    """Return whether any tensor in a value requires gradients or is part of a graph."""
    return any(tensor.requires_grad for _, tensor in tensors_in(value))


def overwritten(now: Any, then: Any) -> bool:
    """Copy the tensors of `then` into those of `now` in place; return whether they all match."""
    ours, theirs = _parts(now), _parts(then)
    if [(item.shape, item.dtype, item.layout) for item in ours] != [
            (item.shape, item.dtype, item.layout) for item in theirs]:
        return False
    for one, other in zip(ours, theirs, strict=True):
        one.data.copy_(other)  # past autograd, whose version counter must not change
    return True


def _parts(value: Any) -> list[torch.Tensor]:
    # A nested tensor has no regular shape.
    return [part for _, tensor in tensors_in(value) for part in (tensor.unbind() if tensor.is_nested else [tensor])]


def differs(now: Any, then: Any) -> bool:
    """Return whether a variable differs from the original and may be restored.

    A tensor in a graph is not restored, since the replacement would have no gradient.
    """
    if isinstance(then, torch.Tensor):
        if not isinstance(now, torch.Tensor):
            return True
        return now.grad_fn is None and not now.requires_grad and not same(now, then)
    if isinstance(then, np.ndarray):
        return not isinstance(now, np.ndarray) or now.dtype != then.dtype or now.shape != then.shape or (
            now.tobytes() != then.tobytes())
    return type(now) is not type(then) or bool(now != then)
