"""Collective decisions of workers that train one model: they withhold an update together.

One all-reduce of two numbers per step, over the group in which the model's gradients are reduced; two with FSDP1's
hybrid sharding, which has a group for the pieces and one for their replicas.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import distributed, nn

from barograph.capture.torch.flat import hybrid_group, wrapped_within
from barograph.capture.torch.optimizer_entry import Slot
from barograph.capture.torch.read import is_shard

_WRAPPERS = frozenset({"DistributedDataParallel", "FullyShardedDataParallel"})
"""Wrapper classes that know the group of workers in which gradients are reduced."""

Share = Callable[[float, float], tuple[float, float]]
"""Takes the severity of withholding the step here (0: do not), and the norm of the gradients here; returns both for all
workers."""


def sharing(modules: Iterable[nn.Module | None], slots: Sequence[Slot]) -> Share | None:
    """Return the function with which the workers of a training agree; None for a single worker.

    Args:
        modules: Modules that were called.
        slots: Parameters of the optimizer.
    """
    if not (distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1):
        return None
    called = [module for module in modules if module is not None]
    wrapped = next((module for module in called if type(module).__name__ in _WRAPPERS), None)
    if wrapped is None and any(slot.piece is not None for slot in slots):
        wrapped = next(filter(None, map(wrapped_within, called)), None)  # parts of a model were wrapped, not all of it
    split = any(slot.piece is not None or is_shard(slot.parameter) for slot in slots)
    if not split and wrapped is None:
        return None
    first = getattr(wrapped, "process_group", None)
    groups = [first, *([second] if (second := hybrid_group(wrapped)) is not None else [])]
    device = next((slot.parameter.device for slot in slots), torch.device("cpu"))

    def share(grave: float, norm: float) -> tuple[float, float]:
        # Squared norms of parts are summed; for identical replicas, use the maximum.
        size = norm if not split else norm * norm
        numbers = torch.tensor([grave, size if math.isfinite(size) else 0.0], dtype=torch.float32, device=device)
        reduced: Any = distributed.ReduceOp.SUM if split else distributed.ReduceOp.MAX
        for group in groups:
            distributed.all_reduce(numbers, reduced, group=group)
        gravest, whole = numbers.tolist()
        return gravest, math.sqrt(whole) if split else max(whole, norm)

    return share
