"""Predicts the random state that the order of a pass may be drawn from, without drawing.

A prediction, which the writer of the trace compares with what arrived: only for PyTorch's own samplers.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler
from torch.utils.data.distributed import DistributedSampler

from barograph.model.trace import OrderHint


def hint_for(index_sampler: Any) -> OrderHint | None:
    """Return the predicted random state of the pass that starts; None if the sampler is unknown.

    Args:
        index_sampler: Sampler of a loader, before the first index of a pass is drawn.
    """
    sampler = index_sampler.sampler if type(index_sampler) is BatchSampler else index_sampler
    # Only these exact classes: subclasses draw differently.
    if type(sampler) is SequentialSampler:
        return OrderHint("range", len(sampler.data_source))
    if type(sampler) is RandomSampler:
        return _of_random(sampler)
    if type(sampler) is DistributedSampler:
        drawn = "permutation" if sampler.shuffle else "range"
        size = len(sampler.dataset)  # type: ignore[arg-type]
        return OrderHint(drawn, size, seed=int(sampler.seed + sampler.epoch),
                         deal=(int(sampler.rank), int(sampler.num_replicas), bool(sampler.drop_last)))
    return None


def _of_random(sampler: RandomSampler) -> OrderHint | None:
    drawn = "draws" if sampler.replacement else "permutation"
    size, count = len(sampler.data_source), sampler.num_samples
    if sampler.generator is None:
        return OrderHint(drawn, size, seed=_seed_to_come(), count=count)
    if sampler.generator.device.type != "cpu":
        return None
    return OrderHint(drawn, size, state=sampler.generator.get_state().numpy().tobytes(), count=count)


def _seed_to_come() -> int:
    """Return the seed that a sampler without a generator will draw, from a copy of PyTorch's generator."""
    copy = torch.Generator()
    copy.set_state(torch.get_rng_state())
    return int(torch.empty((), dtype=torch.int64).random_(generator=copy).item())
