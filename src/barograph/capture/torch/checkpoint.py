"""A checkpoint of a PyTorch training between two steps, without pickle.

Because it contains the position in the data, a training resumes from it exactly (`resuming.py`). `load` restores
models and optimizers in any script.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from barograph.capture.orders import NotDone
from barograph.capture.torch.capsule import machine_of, numeric_settings
from barograph.capture.torch.flat import has_flat_parts
from barograph.capture.torch.names import ModelNames, unwrapped
from barograph.capture.torch.norms import norms_of
from barograph.capture.torch.optimizers import OptimizerBook
from barograph.capture.torch.packing import Packer
from barograph.capture.torch.random import random_states
from barograph.capture.torch.standing import (
    named_parameters,
    packed_model,
    packed_optimizers,
    packed_random,
    packed_scaler,
    packed_schedulers,
)
from barograph.capture.torch.unpacking import Unpacker
from barograph.errors import NotPlain, UnknownKey, nearest
from barograph.runs.state.checkpoints import read_checkpoint, write_checkpoint
from barograph.store.base import Store
from barograph.store.urls import store_from_url


def save(
    store: Store, names: ModelNames, optimizers: OptimizerBook, *, attempt: int, steps: int, who: str,
    scaler: Any = None, schedulers: Sequence[Any] = (), made: Mapping[str, int] | None = None, gradients: bool = False,
    place: Callable[[Packer], Mapping[str, Any]] | None = None, finite: bool | None = None,
    worker: tuple[int | None, int] = (None, 1),
) -> str:
    """Write the state of the training into the run; return the name of the file.

    Args:
        store: Store of the run.
        names: The models: the trained ones are saved.
        optimizers: Optimizers of the script.
        attempt: Attempt of the run.
        steps: Number of optimizer steps so far.
        who: Distinguishes checkpoints of several processes.
        scaler: Gradient scaler; None without one.
        schedulers: Learning-rate schedulers.
        made: Number of steps by optimizer.
        gradients: Also save existing gradients.
        place: Packs the position of the script; None: within a step, from which a training cannot resume.
        finite: Whether all weights are finite; None: check.
        worker: Which of how many workers saves its part of a checkpoint after the same step; for a sharded model, its
            shard.

    Raises:
        NotDone: There is no model, a model is sharded over workers that save nothing, or a state contains an object
            that is not plain data.
        StoreError: The store rejected it.
    """
    roots = [(root, module) for root in names.roots if root.trained and (module := root.module()) is not None]
    if not roots:
        raise NotDone("no trained model was found in this process")
    # Written before anything changes, so no copies are needed.
    together = worker[1] > 1
    packer = Packer(copies=False, takes_shards=together)
    states = random_states()
    try:
        models = {}
        for root, module in roots:
            inner, label = unwrapped(module), names.path(root, "")
            if has_flat_parts(inner) and not together:
                raise NotPlain(f"models/{label} is split over workers")
            models[label] = packed_model(inner, label, packer, buffers=dict(inner.named_buffers()))
        content = {
            "models": models,
            "optimizers": packed_optimizers(optimizers, packer),
            "scaler": packed_scaler(scaler, packer),
            "schedulers": packed_schedulers(schedulers, packer),
            "random": packed_random(states, packer),
            "gradients_before": {name: packer.pack(item.grad, f"gradients_before/{name}")
                                 for name, item in named_parameters(names) if gradients and item.grad is not None},
            "steps": dict(made or {}),
            "settings": numeric_settings(),
            "machine": machine_of(worker),
            "versions": {"python": platform.python_version(), "torch": str(torch.__version__)},
            "place": place(packer) if place is not None else None,
        }
    except NotPlain as error:
        raise NotDone(f"{error}: pass attach(checkpoint=…) a function that saves it") from error
    return write_checkpoint(store, attempt=attempt, steps=steps, who=who, content=content, tensors=packer.tensors,
                            finite=are_finite(names) if finite is None else finite)


def are_finite(names: ModelNames) -> bool:
    """Return whether all weights that are trained are; waits for their devices."""
    weights = [item.detach() for root in names.roots if root.trained and (module := root.module()) is not None
               for item in module.parameters()]
    return all(math.isfinite(norm) for norm in norms_of(weights))


def load(run: str, model: nn.Module | Mapping[str, nn.Module], optimizer: Any = None) -> int:
    """Load a run's last checkpoint into models and optimizers; return the number of steps at the checkpoint.

    Args:
        run: Directory or URL of the run.
        model: The model; for several, a mapping of the labels in the checkpoint.
        optimizer: An optimizer or a mapping, as for models; None: none is loaded.

    Raises:
        UnknownKey: The run has no checkpoint, or the checkpoint lacks a label.
        DamagedChunk: The checkpoint is damaged.
        NotPlain: It contains an object of a class that this script has not loaded, or the part of a worker.
        RuntimeError, ValueError: Raised by `load_state_dict` if a model or an optimizer differs.
    """
    checkpoint = read_checkpoint(store_from_url(run))
    if checkpoint is None:
        raise UnknownKey(f"The run holds no checkpoint ({run}).")
    if (framework := checkpoint.content.get("framework", "torch")) != "torch":
        raise NotPlain(f"A {framework} checkpoint; use barograph.capture.{framework}.checkpoint.load "
                       f"({checkpoint.name}).")
    for kind, wanted in (("models", model), ("optimizers", optimizer)):
        # A single one has no label; it may be named by its class.
        held = {label or item["class"].rpartition(":")[2]: item for label, item in checkpoint.content[kind].items()}
        for label, item in _wanted(wanted, held, kind):
            if held[label].get("parts"):
                raise NotPlain(f"It holds one worker's part of a model split over {checkpoint.world_size} workers "
                               f"({checkpoint.name}).")
            state = Unpacker(checkpoint.tensors, checkpoint.name).unpack(held[label]["state"])
            (unwrapped(item) if isinstance(item, nn.Module) else item).load_state_dict(state)
    return checkpoint.steps


def _wanted(wanted: Any, held: Mapping[str, Any], kind: str) -> list[tuple[str, Any]]:
    if wanted is None:
        return []
    if not isinstance(wanted, Mapping):
        if len(held) != 1:
            raise UnknownKey(f"The checkpoint holds {len(held)} {kind} ({', '.join(held)}); name one with a mapping.")
        return [(next(iter(held)), wanted)]
    for label in wanted:
        if label not in held:
            raise UnknownKey(f'The checkpoint holds no "{label}" among its {kind}. {nearest(str(label), held)}')
    return list(wanted.items())
