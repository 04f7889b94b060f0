"""A checkpoint of what Barograph knows of a PyTorch training: its models and optimizers, without pickle.

Not a way to train on as if nothing had been: random states, schedulers, scalers and the place in the data are the
script's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch import nn

from barograph.capture.orders import NotDone
from barograph.capture.torch_names import ModelNames, free_label, unwrapped
from barograph.capture.torch_optimizers import OptimizerBook
from barograph.capture.torch_packing import Packer, Unpacker
from barograph.errors import NotPlain, UnknownKey, nearest
from barograph.runs.checkpoints import read_checkpoint, write_checkpoint
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
    packer = Packer()
    try:
        content = {
            "models": {label: packer.pack(unwrapped(module).state_dict(), f"models/{label}")
                       for label, module in _labelled(roots)},
            "optimizers": {label: packer.pack(optimizer.state_dict(), f"optimizers/{label}")
                           for label, optimizer in _labelled(_live(optimizers))},
        }
    except NotPlain as error:
        raise NotDone(f"{error}: hand attach a function that saves it, checkpoint=…") from error
    return write_checkpoint(store, attempt=attempt, steps=steps, who=who, content=content, tensors=packer.tensors)


def load(run: str, model: nn.Module | Mapping[str, nn.Module], optimizer: Any = None) -> int:
    """Give models and optimizers back what a run's last checkpoint holds; return the steps that were made by then.

    Args:
        run: Directory or URL of the run.
        model: The model; of several, a mapping of the labels in the checkpoint.
        optimizer: Likewise, an optimizer or a mapping; None: none is loaded.

    Raises:
        UnknownKey: The run has no checkpoint, or that holds no such label.
        DamagedChunk: Its bytes are not those that were written.
        NotPlain: It holds an object of a class that this script has not loaded.
        RuntimeError, ValueError: As `load_state_dict` raises, where a model or an optimizer is another.
    """
    checkpoint = read_checkpoint(store_from_url(run))
    if checkpoint is None:
        raise UnknownKey(f"The run holds no checkpoint ({run}).")
    for kind, wanted in (("models", model), ("optimizers", optimizer)):
        for label, item in _wanted(wanted, checkpoint.content[kind], kind):
            state = Unpacker(checkpoint.tensors, checkpoint.name).unpack(checkpoint.content[kind][label])
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
        found[free_label(base, found)] = item
    return list(found.items())
