"""Decides what to save of a step, and collects it: smdebug's collections, configurations and reductions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from barograph.debugger.collection import NUMBERS, PYTORCH, Collection, CollectionKeys
from barograph.debugger.exceptions import InvalidCollectionConfiguration, SMDebugTypeError
from barograph.debugger.modes import ModeKeys
from barograph.debugger.reduction_config import ReductionConfig
from barograph.debugger.save_config import SaveConfig
from barograph.ingest.smdebug.names import REDUCTIONS

Array = NDArray[Any]

_NOT_EVALUATED = (CollectionKeys.GRADIENTS, CollectionKeys.OPTIMIZER_VARIABLES)


class Choice:
    """The collections of a hook, and which of them are due at a step.

    Args:
        save_config: When, unless a collection says otherwise.
        reduction_config: What, unless a collection says otherwise.
        included: Names of the collections that are saved.
    """

    def __init__(self, save_config: SaveConfig, reduction_config: ReductionConfig, included: set[str]) -> None:
        self.collections = {name: Collection(name, patterns) for name, patterns in PYTORCH.items()}
        self._save_config = save_config
        self._reduction_config = reduction_config
        self.included = included
        self._settled = False
        self._members: dict[str, list[Collection]] = {}

    def get(self, name: str, create: bool = True) -> Collection:
        """Return a collection, created if missing.

        Raises:
            InvalidCollectionConfiguration: There is none, and none is to be made.
        """
        if name not in self.collections and not create:
            raise InvalidCollectionConfiguration(name)
        return self.collections.setdefault(name, Collection(name))

    def settle(self, names_of_modules: Mapping[Any, str]) -> None:
        """Let every collection say all, once the script has added its own.

        Raises:
            InvalidCollectionConfiguration: One has neither names nor patterns.
        """
        if self._settled:
            return
        self._settled = True
        for name, collection in self.collections.items():
            for module, (inputs, outputs) in collection.modules.items():
                path = names_of_modules.get(module, type(module).__name__)
                collection.include([f"{path}_{way}_" for way, wanted in (("input", inputs), ("output", outputs))
                                    if wanted])
            if name not in PYTORCH and not (collection.include_regex or collection.tensor_names):
                raise InvalidCollectionConfiguration(name)
            if collection.save_config is None:
                collection.save_config = self._save_config
            else:
                collection.save_config.merge_default_save_config(self._save_config)
            if name in NUMBERS:
                collection.reduction_config = ReductionConfig(save_raw_tensor=True)
            elif collection.reduction_config is None:
                collection.reduction_config = self._reduction_config

    def due(self, mode: ModeKeys, mode_step: int) -> list[Collection]:
        """Return the collections that are due."""
        return [
            collection for name, collection in self.collections.items()
            if (CollectionKeys.ALL in self.included or name in self.included)
            and collection.save_config is not None
            and not (mode in (ModeKeys.EVAL, ModeKeys.PREDICT) and name in _NOT_EVALUATED)
            and collection.save_config.should_save_step(mode, mode_step)
        ]

    def of(self, tensor_name: str, due: list[Collection]) -> list[Collection]:
        """Return those of the collections that a tensor belongs to."""
        if tensor_name not in self._members:
            self._members[tensor_name] = [item for item in self.collections.values() if item.has(tensor_name)]
            for collection in self._members[tensor_name]:
                if CollectionKeys.ALL in self.included or collection.name in self.included:
                    collection.add_tensor_name(tensor_name)
        return [collection for collection in self._members[tensor_name] if collection in due]

    def to_json(self) -> dict[str, Any]:
        """Return the collections as smdebug writes them."""
        return {name: collection.to_json_dict() for name, collection in self.collections.items()}


class Gathered:
    """The collected data of one step.

    Args:
        choice: Of the hook.
        due: The collections whose turn it is.
        report: Called with a sentence on each tensor that cannot be saved.
    """

    def __init__(self, choice: Choice, due: list[Collection], report: Callable[[str], object]) -> None:
        self._choice = choice
        self._report = report
        self.due = due
        self.values: dict[str, Array] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._times: dict[str, int] = {}

    def take(self, name: str, tensor: Any) -> None:
        """Save of a tensor what its collections say."""
        configs = [item for item in self._choice.of(name, self.due) if item.reduction_config is not None]
        if not configs:
            return
        if any(item.reduction_config.save_shape for item in configs if item.reduction_config):
            self.shapes[name] = tuple(tensor.shape)
        for item in configs:
            if item.name in NUMBERS or item.reduction_config is None:
                continue
            for reduction, absolute in item.reduction_config.wanted():
                full = f"{REDUCTIONS}{'abs_' if absolute else ''}{reduction}/{name}"
                if full not in self.values:
                    self._reduce(full, tensor, reduction, absolute=absolute)
        if any(item.reduction_config.save_raw_tensor for item in configs if item.reduction_config):
            self.keep(name, tensor)

    def _reduce(self, full: str, tensor: Any, name: str, *, absolute: bool) -> None:
        try:
            self.values[full] = array_of(reduced(tensor, name, absolute=absolute))
        except SMDebugTypeError as error:
            self._report(f"{full.removeprefix(REDUCTIONS)} is not saved: {error}")

    def keep(self, name: str, tensor: Any) -> None:
        """Save a tensor as it is; one without elements is nothing."""
        array = array_of(tensor)
        if array.size:
            self.values[name] = array

    def take_all(self, name: str, way: str, found: Any) -> None:
        """Save what a module was called with or returned: its tensors by number, also over several calls."""
        if _is_tensor(found):
            number = self._times.get(name + way, 0)
            self._times[name + way] = number + 1
            self.take(f"{name}{way}{number}", found)
        elif isinstance(found, list | tuple):
            for item in found:
                self.take_all(name, way, item)


def array_of(value: Any) -> Array:
    """Return a copy of a tensor, an array or a number, in host memory.

    Raises:
        SMDebugTypeError: It is none of these.
    """
    if _is_tensor(value):
        host = value.detach().cpu()
        if str(host.dtype) == "torch.bfloat16":
            bits: Array = host.contiguous().view(sys.modules["torch"].int16).numpy()
            return np.array(bits.view(ml_dtypes.bfloat16))
        copied: Array = host.numpy().copy()
        return copied
    array = np.array([value] if np.isscalar(value) else value)
    if array.dtype.kind not in "fiubc":
        raise SMDebugTypeError(f"{type(value).__name__} is not a tensor, array or number.")
    return array


def reduced(tensor: Any, name: str, *, absolute: bool) -> Any:
    """Return a reduction of a tensor, computed on its device by its framework.

    Raises:
        SMDebugTypeError: Its elements have none.
    """
    values = tensor.detach().abs() if absolute else tensor.detach()
    try:
        if name in ("l1", "l2"):
            return values.norm(p=int(name[1]))
        return getattr(values, "var" if name == "variance" else name)()
    except RuntimeError as error:
        raise SMDebugTypeError(f"{name} of {tensor.dtype} elements: {error}") from None


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)
