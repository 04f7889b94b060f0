"""Keras checkpoints without pickle: the variables of models and optimizers after a step.

The same for every backend. For inspection, and for resuming manually with `load`.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from typing import Any

import keras
import numpy as np

from barograph.capture.array_read import raw_array
from barograph.capture.keras.arrays import array_of
from barograph.capture.keras.backends import ValueOf
from barograph.capture.keras.recorder import type_name
from barograph.capture.orders import NotDone
from barograph.errors import NotPlain, UnknownKey, nearest
from barograph.model.tensor import RawTensor
from barograph.runs.state.checkpoints import read_checkpoint, write_checkpoint
from barograph.store.base import Store
from barograph.store.urls import store_from_url

FRAMEWORK = "keras"


def save(store: Store, models: Iterable[tuple[Any, ValueOf]], *, attempt: int, steps: int, who: str) -> str:
    """Write models and their optimizers into the run; return the name of the file.

    Args:
        store: Store of the run.
        models: Trained models, each with a function for the values of its variables.
        attempt: Attempt of the run.
        steps: Number of optimizer steps so far.
        who: Distinguishes checkpoints of several processes.

    Raises:
        NotDone: There is no model.
        StoreError: The store rejected it.
    """
    tensors: dict[str, RawTensor] = {}
    held: dict[str, dict[str, Any]] = {"models": {}, "optimizers": {}}
    finite = True
    for model, value in models:
        label = _free_name(str(model.name), held["models"])
        for kind, item in (("models", model), ("optimizers", model.optimizer)):
            arrays = [array_of(value(variable)) for variable in item.variables]
            named = [f"{kind}/{label}/{number}" for number in range(len(arrays))]
            tensors |= {name: raw_array(np.ascontiguousarray(array).reshape(array.shape))
                        for name, array in zip(named, arrays, strict=True)}
            held[kind][label] = {"class": type_name(item), "variables": [
                {"path": str(variable.path), "array": name}
                for variable, name in zip(item.variables, named, strict=True)]}
            finite = finite and (kind == "optimizers" or all(map(_is_finite, arrays)))
    if not held["models"]:
        raise NotDone("this process trains no Keras model")
    versions = {"python": platform.python_version(), "keras": keras.__version__}
    content = {"framework": FRAMEWORK, "backend": keras.backend.backend(), **held, "versions": versions}
    return write_checkpoint(store, attempt=attempt, steps=steps, who=who, content=content, tensors=tensors,
                            finite=finite)


def load(run: str, model: Any) -> int:
    """Load the last checkpoint of a run into a model, and into its optimizer if it is compiled with one.

    Args:
        run: Directory or URL of the run.
        model: The built model, with the same structure. If the run trained several, the one with this name is loaded.

    Returns:
        The number of steps at the checkpoint.

    Raises:
        UnknownKey: The run has no checkpoint, or the checkpoint has no model of this name.
        DamagedChunk: The checkpoint is damaged.
        NotPlain: It is not a Keras checkpoint.
        ValueError: The model or its optimizer has other variables.
    """
    checkpoint = read_checkpoint(store_from_url(run))
    if checkpoint is None:
        raise UnknownKey(f"The run holds no checkpoint ({run}).")
    if checkpoint.content.get("framework") != FRAMEWORK:
        raise NotPlain(f"Not a Keras checkpoint; use barograph.capture.torch.checkpoint.load "
                       f"({checkpoint.name}).")
    models = checkpoint.content["models"]
    label = str(model.name) if len(models) > 1 else next(iter(models))
    if label not in models:
        raise UnknownKey(f'The checkpoint holds no model "{label}". {nearest(label, models)}')
    # Check both before changing either.
    parts = [(model.variables, models[label])]
    if getattr(model, "optimizer", None) is not None:
        model.optimizer.build(model.trainable_variables)
        parts.append((model.optimizer.variables, checkpoint.content["optimizers"][label]))
    for variables, saved in parts:
        _check(variables, [checkpoint.tensors[item["array"]].shape for item in saved["variables"]], saved["class"])
    for variables, saved in parts:
        for variable, item in zip(variables, saved["variables"], strict=True):
            variable.assign(checkpoint.tensors[item["array"]])
    return checkpoint.steps


def _check(variables: Sequence[Any], shapes: Sequence[tuple[int, ...]], name: str) -> None:
    here = [tuple(variable.shape) for variable in variables]
    if here != list(shapes):
        differs = next((number for number, pair in enumerate(zip(here, shapes, strict=False)) if pair[0] != pair[1]),
                       min(len(here), len(shapes)))
        raise ValueError(f"The model differs from the checkpoint ({name}): {len(here)} variables, not {len(shapes)}; "
                         f"variable {differs} is the first that differs.")


def _is_finite(array: Any) -> bool:
    return bool(np.isfinite(array.astype(np.float64)).all()) if array.dtype.kind not in "OSU" else True


def _free_name(name: str, taken: dict[str, Any]) -> str:
    return name if name not in taken else next(
        other for number in range(2, len(taken) + 3) if (other := f"{name}#{number}") not in taken)
