"""What workers that train one model decide together: who withholds an update alone leaves the others behind.

One all-reduce of two numbers a step, over the group in which the model's gradients are reduced.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import distributed, nn

from barograph.capture.torch.read import is_shard

_REPLICATED, _SHARDED = "DistributedDataParallel", "FullyShardedDataParallel"

Share = Callable[[float, float], tuple[float, float]]
"""Takes how gravely the step is to be held here (0: not), and the norm of the gradients here; returns the same of all
workers."""


def sharing(modules: Iterable[nn.Module | None], parameters: Sequence[torch.Tensor]) -> Share | None:
    """Return how the workers of a training come to know of each other; None where one works alone.

    Args:
        modules: That were called.
        parameters: Of the optimizer.
    """
    if not (distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1):
        return None
    found = {type(module).__name__: getattr(module, "process_group", None) for module in modules if module is not None}
    split = _SHARDED in found or any(map(is_shard, parameters))
    if not split and _REPLICATED not in found:
        return None
    group = found.get(_SHARDED) or found.get(_REPLICATED)
    device = next((item.device for item in parameters), torch.device("cpu"))

    def share(grave: float, norm: float) -> tuple[float, float]:
        # Of parts the squares add up; of replicas, which are the same, the greatest stands for all.
        size = norm if not split else norm * norm
        numbers = torch.tensor([grave, size if math.isfinite(size) else 0.0], dtype=torch.float32, device=device)
        reduced: Any = distributed.ReduceOp.SUM if split else distributed.ReduceOp.MAX
        distributed.all_reduce(numbers, reduced, group=group)
        gravest, whole = numbers.tolist()
        return gravest, math.sqrt(whole) if split else max(whole, norm)

    return share
