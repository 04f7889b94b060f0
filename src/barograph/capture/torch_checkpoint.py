"""A checkpoint of what Barograph knows of a PyTorch training: its models and optimizers, without pickle.

Not a way to train on as if nothing had been: random states, schedulers, scalers and the place in the data are the
script's own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn

from barograph.capture.orders import NotDone
from barograph.capture.torch_names import ModelNames, unwrapped
from barograph.capture.torch_optimizers import OptimizerBook
from barograph.capture.torch_read import is_shard, raw_tensor
from barograph.errors import DamagedChunk, UnknownKey, nearest
from barograph.model.tensor import RawTensor
from barograph.runs.checkpoints import Checkpoint, read_checkpoint, write_checkpoint
from barograph.store.base import Store
from barograph.store.urls import store_from_url


def save(
    store: Store, names: ModelNames, optimizers: OptimizerBook, *, attempt: int, steps: int, who: str
) -> str:
    """Write the models that are trained here and their optimizers into the run; return the name of the file.

    Raises:
        NotDone: There is no model, one is split over workers, or a state holds what is no plain data.
        StoreError: The store did not take it.
    """
    roots = [(root.label, module) for root in names.roots if root.trained and (module := root.module()) is not None]
    if not roots:
        raise NotDone("no model that is trained here is known")
    tensors: dict[str, RawTensor] = {}
    content = {
        "models": {label: _packed(unwrapped(module).state_dict(), f"models/{label}", tensors)
                   for label, module in _labelled(roots)},
        "optimizers": {label: _packed(optimizer.state_dict(), f"optimizers/{label}", tensors)
                       for label, optimizer in _labelled(_live(optimizers))},
    }
    return write_checkpoint(store, attempt=attempt, steps=steps, who=who, content=content, tensors=tensors)


def load(run: str, model: nn.Module | Mapping[str, nn.Module], optimizer: Any = None) -> int:
    """Give models and optimizers back what a run's last checkpoint holds; return the steps that were made by then.

    Args:
        run: Directory or URL of the run.
        model: The model; of several, a mapping of the labels in the checkpoint.
        optimizer: Likewise, an optimizer or a mapping; None: none is loaded.

    Raises:
        UnknownKey: The run has no checkpoint, or that holds no such label.
        DamagedChunk: Its bytes are not those that were written.
        RuntimeError, ValueError: As `load_state_dict` raises, where a model or an optimizer is another.
    """
    checkpoint = read_checkpoint(store_from_url(run))
    if checkpoint is None:
        raise UnknownKey(f"The run holds no checkpoint ({run}).")
    for kind, wanted in (("models", model), ("optimizers", optimizer)):
        for label, item in _wanted(wanted, checkpoint.content[kind], kind):
            state = _unpacked(checkpoint.content[kind][label], checkpoint)
            (unwrapped(item) if isinstance(item, nn.Module) else item).load_state_dict(state)
    return checkpoint.steps


def _wanted(wanted: Any, held: Mapping[str, Any], kind: str) -> list[tuple[str, Any]]:
    if wanted is None:
        return []
    if not isinstance(wanted, Mapping):
        if len(held) != 1:
            raise UnknownKey(f"The checkpoint holds {len(held)} {kind} ({', '.join(held)}); say which with a mapping.")
        return [(next(iter(held)), wanted)]
    for label in wanted:
        if label not in held:
            raise UnknownKey(f'The checkpoint holds no "{label}" among its {kind}. {nearest(str(label), held)}')
    return list(wanted.items())


def _live(optimizers: OptimizerBook) -> list[tuple[str, Any]]:
    return [(entry.label, item) for entry in optimizers if (item := entry.optimizer()) is not None]


def _labelled(items: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return the items, each by a label of its own."""
    found: dict[str, Any] = {}
    for label, item in items:
        base = label or type(unwrapped(item) if isinstance(item, nn.Module) else item).__name__
        number = 1
        while (name := base if number == 1 else f"{base}#{number}") in found:
            number += 1
        found[name] = item
    return list(found.items())


def _packed(value: Any, name: str, tensors: dict[str, RawTensor]) -> Any:
    if isinstance(value, torch.Tensor):
        if is_shard(value):
            raise NotDone("the model is split over workers: hand attach a function that saves it, checkpoint=…")
        tensors[name] = raw_tensor(value)
        return {"tensor": name}
    if isinstance(value, Mapping):
        entries = [(key, _packed(item, f"{name}/{key}", tensors)) for key, item in value.items()]
        if all(isinstance(key, str) for key, _ in entries):
            return {"map": dict(entries)}
        return {"items": [[_packed(key, f"{name}/key", tensors), item] for key, item in entries]}
    if isinstance(value, list | tuple):
        packed = [_packed(item, f"{name}/{number}", tensors) for number, item in enumerate(value)]
        return {"tuple": packed} if isinstance(value, tuple) else packed
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise NotDone(f"{name} holds {type(value).__name__}, which is no plain data: hand attach a function that saves it, "
                  "checkpoint=…")


def _unpacked(value: Any, checkpoint: Checkpoint) -> Any:
    if isinstance(value, list):
        return [_unpacked(item, checkpoint) for item in value]
    if not isinstance(value, dict):
        return value
    match value:
        case {"tensor": str(name)}:
            return _tensor(checkpoint, name)
        case {"map": dict(entries)}:
            return {key: _unpacked(item, checkpoint) for key, item in entries.items()}
        case {"items": list(pairs)}:
            return {_unpacked(key, checkpoint): _unpacked(item, checkpoint) for key, item in pairs}
        case {"tuple": list(items)}:
            return tuple(_unpacked(item, checkpoint) for item in items)
        case {"float": str(text)}:
            return float(text)
    raise DamagedChunk(f"The checkpoint holds an entry that it must not ({checkpoint.name}).")


def _tensor(checkpoint: Checkpoint, name: str) -> torch.Tensor:
    array = checkpoint.tensors.get(name)
    if array is None:
        raise DamagedChunk(f"The checkpoint lacks the tensor {name} ({checkpoint.name}).")
    dtype = getattr(torch, array.dtype.name)
    if not array.size:
        return torch.empty(array.shape, dtype=dtype)
    # A copy: what the file's bytes share cannot be written to.
    return torch.frombuffer(bytearray(array.tobytes()), dtype=dtype).reshape(array.shape)
