"""The packed state of a training: models, optimizers, scaler, schedulers, random states.

Shared by capsules and checkpoints; `putting_back.py` restores it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch import nn

from barograph.capture.torch.flat import has_flat_parts
from barograph.capture.torch.names import ModelNames, unwrapped
from barograph.capture.torch.optimizers import OptimizerBook
from barograph.capture.torch.packing import Packer, class_name
from barograph.capture.torch.random import RandomStates
from barograph.capture.torch.shards import state_of


def packed_model(
    module: nn.Module, label: str, packer: Packer, *, buffers: Mapping[str, torch.Tensor],
    weights: Mapping[int, torch.Tensor] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the current state of a model.

    Args:
        module: The model without wrappers.
        label: Its label.
        packer: Packs.
        buffers: Buffers by name, instead of the current ones.
        weights: Weights by identity, instead of the current ones.

    Raises:
        NotPlain: Its state contains a value that is not plain data.
    """
    state = {name: buffers.get(name, weights.get(id(value), value))
             for name, value in state_of(module).items()}
    # Buffers outside the state dict affect outputs as well.
    more = {name: value for name, value in buffers.items() if name not in state}
    return {
        "class": class_of(module), "state": packer.pack(state, f"models/{label}"),
        "buffers": packer.pack(more, f"buffers/{label}"),
        "training": [path for path, part in module.named_modules() if part.training],
        "frozen": [path for path, parameter in module.named_parameters() if not parameter.requires_grad],
        **({"parts": True} if has_flat_parts(module) else {}),
    }


def packed_optimizers(optimizers: OptimizerBook, packer: Packer) -> dict[str, Any]:
    """Return all optimizers that have stepped, by label.

    Raises:
        NotPlain: The state of one contains a value that is not plain data.
    """
    return {
        entry.label: {"class": class_of(item), "state": packer.pack(_plain_groups(item), f"optimizers/{entry.label}")}
        for entry in optimizers if (item := entry.optimizer()) is not None
    }


def packed_scaler(scaler: Any, packer: Packer) -> Any:
    """Return a gradient scaler; None without one."""
    return None if scaler is None else packer.pack(scaler.state_dict(), "scaler")


def packed_schedulers(schedulers: Sequence[Any], packer: Packer) -> list[dict[str, Any]]:
    """Return learning-rate schedulers, in their order."""
    return [{"class": class_of(item), "state": packer.pack(_plain_state(item), f"schedulers/{number}")}
            for number, item in enumerate(schedulers)]


def packed_random(states: RandomStates | None, packer: Packer, name: str = "random") -> Any:
    """Return the states of all generators; None if they were not taken."""
    if states is None:
        return None
    return packer.pack({"python": states.python, "numpy": states.numpy, "torch": states.cpu,
                        "cuda": list(states.cuda)}, name)


def named_parameters(names: ModelNames) -> Iterable[tuple[str, torch.Tensor]]:
    """Yield every parameter of every model, with its path."""
    for parameter, name in names.parameters():
        yield names.path(name.root, name.path), parameter


def class_of(item: Any) -> str:
    """Return the class of a model inside its wrappers, or of anything else."""
    return class_name(type(unwrapped(item)) if isinstance(item, nn.Module) else type(item))


def _plain_groups(optimizer: Any) -> dict[str, Any]:
    """Return an optimizer's state; fastai stores settings in its own list class, and accepts a plain list."""
    state = optimizer.state_dict()
    return {**state, "hypers": list(state["hypers"])} if "hypers" in state else state


def _plain_state(scheduler: Any) -> dict[str, Any]:
    """Return a scheduler's state without functions of lambda schedulers."""
    return {name: value for name, value in scheduler.state_dict().items() if name not in ("lr_lambdas", "anneal_func")}
