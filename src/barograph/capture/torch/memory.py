"""The part of a tensor that is in this process's memory and can be read at once."""

from __future__ import annotations

import torch

from barograph.capture.torch.shards import part_of


def in_memory(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return this worker's part of a tensor; None if its memory was freed.

    FSDP frees full weights between the forward and the backward pass, but keeps their tensors: reading one would end
    the process. Accessing a split tensor as a whole would wait for the other workers, which may not access it.

    Example:
        >>> weight = torch.ones(3)
        >>> _ = weight.untyped_storage().resize_(0)
        >>> in_memory(weight) is None
        True
    """
    part = part_of(tensor.detach())
    if part.layout is not torch.strided or part.is_nested or not part.numel():
        return part
    extent = 1 + sum((size - 1) * stride for size, stride in zip(part.shape, part.stride(), strict=True))
    needed = (part.storage_offset() + extent) * part.element_size()
    return part if part.untyped_storage().nbytes() >= needed else None
