"""FSDP1's flat parameters: which parameters are pieces of larger ones.

FSDP1 lays all weights of a module end to end and gives each worker a piece of that. What the optimizer holds is the
piece itself (`use_orig_params=False`), or the share of each parameter that lies in it, in one dimension and often of
no element at all. Unlike a DTensor neither knows of what it is a part; the module that was wrapped does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import distributed, nn

_FLAT = "FullyShardedDataParallel"


@dataclass(frozen=True, slots=True)
class FlatPiece:
    """A parameter as a piece of a larger one.

    Attributes:
        whole: Elements of the whole, over all workers.
        here: Elements of it that this worker answers for: without what only fills the piece up, and none where
            pieces are replicated too (hybrid sharding) and another worker answers.
    """

    whole: int
    here: int

    def own(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return what this worker answers for of a tensor that belongs to the parameter."""
        return tensor if tensor.numel() == self.here else tensor.detach().reshape(-1)[: self.here]


def wrapped_within(module: nn.Module) -> nn.Module | None:
    """Return the first part of a model, or the whole of it, that FSDP1 was put around; None: there is none."""
    return next((part for part in module.modules() if type(part).__name__ == _FLAT), None)


def has_flat_parts(module: nn.Module) -> bool:
    """Return whether FSDP1 was put around a model, or around parts of it."""
    return wrapped_within(module) is not None


def flat_pieces(module: nn.Module) -> Iterator[tuple[torch.Tensor, FlatPiece]]:
    """Yield each parameter of a model that is a piece of a flat one, and how.

    Where FSDP1 splits nothing (`NO_SHARD`, or one worker) parameters are whole, and there is none.
    """
    for part in module.modules():
        # It has none before it has any parameters of its own, or is being made.
        handle = getattr(part, "_handle", None) if type(part).__name__ == _FLAT else None
        if handle is not None and handle.uses_sharded_strategy:
            yield from _pieces(handle.flat_param, predictions=_answers(part))


def hybrid_group(module: nn.Module | None) -> Any:
    """Return the group of workers that hold the same piece as this one, in hybrid sharding; else None."""
    return getattr(module, "_inter_node_pg", None) if type(module).__name__ == _FLAT else None


def _answers(module: nn.Module) -> bool:
    group = hybrid_group(module)
    return group is None or distributed.get_rank(group) == 0


def _pieces(flat: Any, *, predictions: bool) -> Iterator[tuple[torch.Tensor, FlatPiece]]:
    here = flat._sharded_size.numel() - flat._shard_numel_padded
    yield flat, FlatPiece(flat._unpadded_unsharded_size.numel(), here if predictions else 0)
    if flat._params is not None:
        for parameter, whole, info in zip(flat._params, flat._numels, flat._shard_param_infos, strict=True):
            yield parameter, FlatPiece(whole, int(info.numel_in_shard or 0) if predictions else 0)
