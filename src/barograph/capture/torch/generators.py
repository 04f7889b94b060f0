"""Random generators that a script creates: PyTorch's, NumPy's, Python's."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

GENERATORS = (torch.Generator, np.random.Generator, np.random.RandomState, random.Random)


def state_of(generator: Any) -> Any:
    """Return the state of a generator."""
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    if isinstance(generator, random.Random):
        return generator.getstate()
    return generator.get_state()


def put_state(generator: Any, state: Any) -> None:
    """Restore the state of a generator; other objects are unchanged."""
    if isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    elif isinstance(generator, random.Random):
        generator.setstate(state)
    elif isinstance(generator, torch.Generator | np.random.RandomState):
        generator.set_state(state)


def generators_of(loader: Any) -> dict[str, Any]:
    """Return the generators of a loader, its samplers and its data set, by name."""
    batches = getattr(loader, "batch_sampler", None)
    holders = {"loader": loader, "sampler": getattr(loader, "sampler", None), "batch_sampler": batches,
               "batch_sampler.sampler": getattr(batches, "sampler", None), "dataset": getattr(loader, "dataset", None)}
    return {f"{where}.{name}": value for where, holder in holders.items()
            for name, value in getattr(holder, "__dict__", {}).items() if isinstance(value, GENERATORS)}


def states_of(generators: Mapping[str, Any]) -> dict[str, Any]:
    """Return the states of generators."""
    return {name: state_of(item) for name, item in generators.items()}


def put_states(generators: Mapping[str, Any], states: Mapping[str, Any]) -> None:
    """Restore the states of generators."""
    for name, state in states.items():
        put_state(generators.get(name), state)
