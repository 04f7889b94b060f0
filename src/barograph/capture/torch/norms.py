"""Gradient norms in one pass, and numbers from devices with one wait per device."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from barograph.capture.torch.read import local


def norms_of(gradients: Sequence[torch.Tensor]) -> list[float]:
    """Return the L2 norm of each gradient, non-finite if an element is; one wait per device."""
    stacked = stacked_norms(gradients)
    found = [0.0] * len(gradients)
    for (places, _), norms in zip(stacked, fetched([norms for _, norms in stacked]), strict=True):
        for at, norm in zip(places, norms, strict=True):
            found[at] = norm
    return found


def stacked_norms(gradients: Sequence[torch.Tensor]) -> list[tuple[list[int], torch.Tensor]]:
    """Return for each device the indices of its gradients, and their L2 norms on the device; does not wait."""
    values = [_values(gradient) for gradient in gradients]
    by_device: dict[torch.device, list[int]] = {}
    for number, item in enumerate(values):
        by_device.setdefault(item.device, []).append(number)
    return [(numbers, torch.stack([wide(norm) for norm in torch._foreach_norm([values[at] for at in numbers])]))
            for numbers in by_device.values()]


def fetched(rows: Sequence[torch.Tensor]) -> list[list[float]]:
    """Return the elements of one-dimensional tensors, with one wait per device.

    Args:
        rows: Results of `wide`.
    """
    by_device: dict[torch.device, list[int]] = {}
    for number, row in enumerate(rows):
        by_device.setdefault(row.device, []).append(number)
    found: list[list[float]] = [[] for _ in rows]
    for numbers in by_device.values():
        values = torch.cat([rows[number] for number in numbers]).tolist()
        for number in numbers:
            found[number], values = values[: len(rows[number])], values[len(rows[number]):]
    return found


def wide(number: torch.Tensor) -> torch.Tensor:
    """Return numbers in the widest type of their device."""
    return number.double() if number.device.type != "mps" else number.float()


def is_finite(gradient: torch.Tensor) -> bool:
    """Return whether every element of a gradient is finite; waits for its device."""
    values = _values(gradient)
    if not values.numel():
        return True
    low, high = torch.aminmax(torch.view_as_real(values.resolve_conj()) if values.is_complex() else values)
    return math.isfinite(float(low)) and math.isfinite(float(high))


def _values(gradient: torch.Tensor) -> torch.Tensor:
    """Return the elements of a gradient: the stored ones if sparse, this worker's part if split."""
    item = local(gradient).detach()
    if item.layout is torch.sparse_coo:
        item = item._values()
    elif item.layout is not torch.strided:
        item = item.to_dense()
    # Squares of float16 values exceed float16, but their float32 sum does not. PyTorch has no norm for float8.
    is_narrow = item.dtype is torch.float16 or (item.is_floating_point() and item.itemsize == 1)
    return item.float() if is_narrow else item
