"""Reads inputs and outputs of leaf modules."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from barograph.capture.buffer import StepBuffer
from barograph.capture.session import Session
from barograph.capture.torch.names import COMPILED_REASON, ModelNames, ModuleName, is_compiled
from barograph.capture.torch.read import Reader, raw_tensor, subject_of
from barograph.capture.torch.values import activation_behind, is_scalar_float, tensors_in, unit_axis
from barograph.errors import UnsupportedCapture
from barograph.model.activations import bound_of
from barograph.model.key import Key, Kind
from barograph.model.selection import Histogram
from barograph.model.step import Mode

_KINDS = frozenset({Kind.OUTPUT, Kind.INPUT})
_ACTIVATION_CLASSES = ("ReLU", "Tanh", "Sigmoid")


@dataclass(frozen=True, slots=True)
class _Recipe:
    """How to read a module's single output, cached for later calls.

    Attributes:
        module: Weak reference; detects that an address was reused.
        dtype: Type of the output.
        row: Row of its statistics.
        histogram: Kind of histogram.
    """

    module: weakref.ref[nn.Module]
    dtype: torch.dtype
    row: int
    histogram: Histogram


class OutputRecorder:
    """Records outputs and inputs of leaf modules.

    A compiled model runs as one piece: its leaves are not called, so its own outputs are recorded instead, and the
    coverage says so.
    """

    def __init__(self, session: Session, names: ModelNames, reader: Reader) -> None:
        self._session = session
        self._names = names
        self._reader = reader
        self._layers_behind: dict[int, tuple[weakref.ref[nn.Module], str]] = {}
        self._parallel: ModuleName | None = None
        self._recipes: dict[tuple[int, int], _Recipe] = {}
        # Nodes of this forward pass that activation modules made; released with the next one.
        self._made_by_modules: list[Any] = []
        self.always = False
        self.plan_changed()

    def plan_changed(self) -> None:
        """Check again whether every forward pass must be observed.

        That is so for outputs in evaluations, for losses that a model returns, and for compiled models, which other
        hooks would recompile.
        """
        self.always = self.always or any(
            selection.kinds & _KINDS and selection.schedule.modes - {Mode.TRAIN}
            for selection in self._session.plan.selections
        )

    def asked(self, mask: int) -> bool:
        """Return whether the mask contains anything that modules produce."""
        return bool(_KINDS & self._session.plan.kinds(mask))

    def entered(self, module: nn.Module) -> None:
        """Note which model is being called; replicas of a data-parallel one follow in other threads."""
        self._made_by_modules.clear()
        if type(module).__name__ == "DataParallel":
            self._parallel = self._names.module(module)
        if is_compiled(module):
            self.always = True
            self._session.seen.reasons["compiled"] = COMPILED_REASON

    def forget_step(self) -> None:
        """Release the graph of the step that ended."""
        self._made_by_modules.clear()

    def adopt_replica(self, replica: nn.Module) -> ModuleName | None:
        """Give a data-parallel replica the names of its original; None if that is unknown."""
        if self._parallel is None:
            return None
        self._names.adopt_replica(replica, self._parallel)
        return self._names.module(replica)

    def losses_of(self, module: nn.Module, output: Any) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield the results of a model that can only be losses: floating-point scalars."""
        name = self._names.module(module)
        if name is None or name.leaf:
            return
        label = self._names.path(name.root, name.path) or "model"
        for item, tensor in tensors_in(output):
            if item and is_scalar_float(tensor):
                self.always = True
                yield f"{label}{item}", tensor

    def take(
        self, module: nn.Module, args: Any, output: Any, mask: int, buffer: StepBuffer, *, training: bool
    ) -> None:
        """Record one call of a module, as selected by the mask."""
        plan = self._session.plan
        mask = plan.of_kind(mask, Kind.OUTPUT) | plan.of_kind(mask, Kind.INPUT)
        recipe = self._recipes.get((id(module), mask))
        if (
            recipe is not None
            and recipe.module() is module
            and type(output) is torch.Tensor
            and self._reader.read_plain(output, recipe.dtype, recipe.row, recipe.histogram, buffer)
        ):
            return
        name = self._names.module(module)
        if name is None or not (name.leaf or is_compiled(module)):
            return
        path = self._names.path(name.root, name.path) or "model"
        kinds = self._session.plan.kinds(mask)
        if Kind.OUTPUT in kinds:
            for item, tensor in tensors_in(output):
                self._read(Kind.OUTPUT, path + item, name.layer, tensor, mask, buffer, unit_layer=name.layer)
            if training and name.leaf:
                self._session.seen.outputs.add(path)
                self._note_recipe(module, name, path, output, mask, kinds)
        if Kind.INPUT in kinds and type(output) is torch.Tensor and name.layer.startswith(_ACTIVATION_CLASSES):
            self._made_by_modules.append(output.grad_fn)
        if Kind.INPUT in kinds and not getattr(module, "inplace", False):
            layer = self._layer_of_input(module, name, args)
            for item, tensor in tensors_in(args[0] if len(args) == 1 else args):
                self._read(Kind.INPUT, path + item, layer, tensor, mask, buffer, unit_layer=name.layer)

    def _note_recipe(
        self, module: nn.Module, name: ModuleName, path: str, output: Any, mask: int, kinds: frozenset[Kind]
    ) -> None:
        """Remember how to read a module's only output, if nothing else of the module is recorded."""
        taking = self._session.plan.taking(mask, Key(Kind.OUTPUT, path), name.layer)
        if type(output) is not torch.Tensor or taking is None or taking.units or taking.raw or Kind.INPUT in kinds:
            return
        row = self._session.output.table.row(subject_of(Key(Kind.OUTPUT, path), name.layer, output))
        self._recipes[id(module), mask] = _Recipe(name.module, output.dtype, row, taking.histogram)

    def _layer_of_input(self, module: nn.Module, name: ModuleName, args: Any) -> str:
        """Return the functional activation that made the input, else the module's own class.

        Determined at the first call with gradients: later calls may run without a graph.
        """
        known = self._layers_behind.get(id(module))
        if known is None or known[0]() is not module:
            tensor = next((tensor for _, tensor in tensors_in(args)), None)
            if tensor is None or tensor.grad_fn is None:
                return name.layer
            layer = activation_behind(tensor, self._made_by_modules) or name.layer
            known = self._layers_behind[id(module)] = (name.module, layer)
        return known[1]

    def _read(
        self, kind: Kind, path: str, layer: str, tensor: torch.Tensor, mask: int, buffer: StepBuffer, unit_layer: str
    ) -> None:
        key = Key(kind, path)
        taking = self._session.plan.taking(mask, key, layer)
        if taking is None:
            return
        row = self._session.output.table.row(subject_of(key, layer, tensor))
        try:
            self._reader.read(tensor, row, taking, buffer)
            if taking.units and tensor.numel():
                axis = unit_axis(tensor, unit_layer)
                if axis is not None:
                    bound = bound_of(layer)
                    self._reader.read_units(tensor, row, axis, math.nan if bound is None else bound, buffer)
            if taking.raw:
                buffer.tensors[key] = raw_tensor(tensor)
        except UnsupportedCapture as error:
            self._session.seen.reasons[f"output {error}"] = f"output of {path}: {error}"
