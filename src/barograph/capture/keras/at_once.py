"""Reads PyTorch tensors as soon as they exist, while they may be in a cache.

So no step keeps them alive until its end. Tensors on a device are not read: that would block the training in the middle
of a step.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from barograph.capture.array_recipes import About
from barograph.capture.keras.arrays import array_of
from barograph.capture.keras.names import LayerClasses, Names
from barograph.model.key import Kind

if TYPE_CHECKING:
    from barograph.capture.array_recipes import Recipe
    from barograph.capture.readings import Readings

_ALIKE = ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool")
"""Element types with the same name in torch and NumPy."""


class _Known(NamedTuple):
    """A reading that may be reused: a layer's output is the next layer's input.

    Attributes:
        owner: A tensor in that memory.
        version: Number of its in-place changes.
        number: Index of the reading.
    """

    owner: weakref.ref[Any]
    version: int
    number: int


class AtOnce:
    """Reads the tensors of one call of a step.

    Args:
        torch: The library.
        readings: Receives the statistics.
        names: Names of the model.

    Attributes:
        readings: See above.
    """

    def __init__(self, torch: Any, readings: Readings, names: Names) -> None:
        self.readings = readings
        self._names = names
        self._of_layers = About(LayerClasses(names), {})
        self._of_gradients: About | None = None
        self._plain = frozenset({torch.Tensor, torch.nn.Parameter})
        self._strided = torch.strided
        self._is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor
        self._is_compiling = torch.compiler.is_compiling
        self._dtypes = {getattr(torch, name): np.dtype(name) for name in _ALIKE}
        self._known: dict[tuple[int, int, int, int], _Known] = {}

    def read(self, kind: Kind, path: str, tensor: Any) -> bool:
        """Read a tensor if it is due and available without waiting; return whether it need not be kept."""
        # Called for every tensor, and each check takes a tenth of a microsecond.
        if (type(tensor) not in self._plain or not tensor.is_cpu or tensor.layout is not self._strided
                or self._is_wrapped(tensor) or self._is_compiling()):
            return False
        readings, about = self.readings, self._of_layers
        if kind is Kind.GRADIENT:
            about = self._about_gradients()
        dtype = self._dtypes.get(tensor.dtype)
        if dtype is None or not tensor.is_contiguous() or tensor.is_neg():
            readings.read(kind, path, lambda: array_of(tensor), about)
            return True
        recipe = readings.recipe(kind, path, dtype, about)
        if recipe is not None:
            readings.add(recipe, self._number(tensor, recipe))
            if recipe.asks_for_more:
                readings.read_more(recipe, path, array_of(tensor), about)
        return True

    def _about_gradients(self) -> About:
        if self._of_gradients is None:
            self._of_gradients = About(self._names.owners, {})
        return self._of_gradients

    def _number(self, tensor: Any, recipe: Recipe) -> int:
        """Return the index of the reading of a tensor, a new one if its memory is not known yet."""
        address, size = tensor.data_ptr(), tensor.numel()
        if recipe.key.kind is Kind.GRADIENT:
            return self.readings.summarize(address, size, recipe)
        place = address, size, recipe.code, recipe.histogram
        known = self._known.get(place)
        if known is not None:
            owner = known.owner()
            # If the owner is gone, the memory may be reused; views share the counter of changes.
            if owner is not None and owner.data_ptr() == address and owner._version == known.version:
                return known.number
        number = self.readings.summarize(address, size, recipe)
        if not tensor.is_inference():  # inference tensors have no counter of changes
            self._known[place] = _Known(weakref.ref(tensor), tensor._version, number)
        return number
