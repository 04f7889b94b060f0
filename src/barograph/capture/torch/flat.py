"""FSDP1's flat parameters: which parameters are pieces of larger ones.

FSDP1 concatenates all weights of a module and gives each worker a piece of the result. The optimizer has the piece
itself (`use_orig_params=False`), or the part of each parameter in it, one-dimensional and often empty. Unlike a
DTensor, neither refers to the whole; the wrapped module does.
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
        whole: Number of elements of the whole, over all workers.
        here: Number of elements that this worker reports: without padding, and none if pieces are also replicated
            (hybrid sharding) and another worker reports them.
    """

    whole: int
    here: int

    def own(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the part of a parameter's tensor that this worker reports."""
        return tensor if tensor.numel() == self.here else tensor.detach().reshape(-1)[: self.here]


def wrapped_within(module: nn.Module) -> nn.Module | None:
    """Return the first part of a model, or the model, that FSDP1 wraps; None: there is none."""
    return next((part for part in module.modules() if type(part).__name__ == _FLAT), None)


def has_flat_parts(module: nn.Module) -> bool:
    """Return whether FSDP1 wraps a model or parts of it."""
    return wrapped_within(module) is not None


def flat_pieces(module: nn.Module) -> Iterator[tuple[torch.Tensor, FlatPiece]]:
    """Yield each parameter of a model that is a piece of a flat one, and its piece.

    If FSDP1 splits nothing (`NO_SHARD`, or one worker), parameters are whole, and nothing is yielded.
    """
    for part in module.modules():
        # It has none before it has its own parameters, or during construction.
        handle = getattr(part, "_handle", None) if type(part).__name__ == _FLAT else None
        if handle is not None and handle.uses_sharded_strategy:
            yield from _pieces(handle.flat_param, predictions=_answers(part))


def hybrid_group(module: nn.Module | None) -> Any:
    """Return the group of workers with the same piece, in hybrid sharding; else None."""
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
