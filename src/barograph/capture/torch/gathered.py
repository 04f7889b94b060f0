"""FSDP2's gathered parameters: the full tensors that a forward pass reads and a loss reaches.

FSDP2 has no public mapping between them. It keeps a record of each parameter, which is read here; for torch versions
without such records nothing is yielded, and reachability is not reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import distributed, nn


def wholes_of(modules: Iterable[nn.Module | None]) -> Iterator[tuple[torch.Tensor, torch.Tensor | None]]:
    """Yield each parameter split by FSDP2, with its full tensor; None: it was never gathered.

    Args:
        modules: Models; None for one that no longer exists.
    """
    if not (distributed.is_available() and distributed.is_initialized()):
        return
    for module in modules:
        for part in module.modules() if module is not None else ():
            for record in _records_of(part):
                split = getattr(record, "sharded_param", None)
                if isinstance(split, torch.Tensor):
                    # Created at the first gathering, and the same object from then on.
                    yield split, getattr(record, "_unsharded_param", None)


def _records_of(part: nn.Module) -> Iterator[Any]:
    state_of = getattr(part, "_get_fsdp_state", None)
    state = state_of() if callable(state_of) else None
    groups = getattr(state, "_fsdp_param_groups", None)
    if groups is None:
        # Before there could be several.
        groups = [getattr(state, "_fsdp_param_group", None)]
    for group in groups:
        yield from getattr(group, "fsdp_params", ())
