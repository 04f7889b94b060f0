"""Marks what a step of Keras computes while JAX traces it: it goes on with what is marked, and so that is found."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from barograph.capture.jax.marks import MARK, Mark
from barograph.capture.jax.names import is_number_array
from barograph.capture.keras.names import LayerClasses, Names
from barograph.model.key import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barograph.capture.jax.harvest import Wants

_OF_LAYERS = frozenset({Kind.INPUT, Kind.OUTPUT})
_MASK = "_keras_mask"
"""What Keras has a tensor say of itself, to layers that are called with it."""


class Marking:
    """Marks tensors of one step.

    Args:
        names: Of the model.
    """

    def __init__(self, names: Names) -> None:
        self._owners: Mapping[str, str] = names.owners
        self._classes = LayerClasses(names)
        self._marked: list[tuple[Mark, Any]] = []

    def marked(self, kind: Kind, path: str, value: Any) -> Any:
        """Return a value with all tensors in it marked, each by its place: what the step is to go on with.

        Args:
            kind: What it is.
            path: Of the layer, or of the variable.
            value: A tensor, or lists, tuples and dictionaries of them; anything else stays as it is.
        """
        if isinstance(value, dict):
            return _with(value, {name: self.marked(kind, f"{path}[{name}]", part) for name, part in value.items()})
        if isinstance(value, list | tuple):
            return _with(value, {number: self.marked(kind, f"{path}[{number}]", part)
                                 for number, part in enumerate(value)})
        is_tensor = isinstance(value, jax.Array | np.ndarray) and is_number_array(value)
        return self._mark(kind, path, value) if is_tensor else value

    def changed(self, path: str, tensor: Any, before: Any) -> Any:
        """Return what a variable has become, marked as a weight.

        Args:
            path: Of the variable.
            tensor: It.
            before: What it was before the step.
        """
        return MARK.bind(tensor, before, mark=Mark(Kind.WEIGHT, path, self._owners.get(path, "")))

    def lost(self, found: Iterable[Mark], wants: Wants) -> set[str]:
        """Return the paths of layers of which what is wanted was marked, and is not among what was found.

        Args:
            found: Marks that were found in the traced step.
            wants: What is wanted of what is marked.
        """
        known = set(found)
        return {mark.path.partition("[")[0] for mark, _ in self._marked if mark not in known and wants(mark)}

    def _mark(self, kind: Kind, path: str, tensor: Any) -> Any:
        layer = (self._classes if kind in _OF_LAYERS else self._owners).get(path, "")
        what = Mark(kind, path, layer)
        marked = MARK.bind(jnp.asarray(tensor), mark=what)
        # JAX lets go of operations whose results nobody holds; a step may make nothing of what a layer returned.
        self._marked.append((what, marked))
        if not isinstance(tensor, jax.core.Tracer):
            return tensor  # it is known while the step is traced, and the script may rely on that
        if hasattr(tensor, _MASK):
            setattr(marked, _MASK, getattr(tensor, _MASK))
        return marked


def _with(value: Any, parts: Mapping[Any, Any]) -> Any:
    """Return a collection with other parts in it; itself, where they are the same."""
    held = value if isinstance(value, dict) else dict(enumerate(value))
    if all(part is held[place] for place, part in parts.items()):
        return value
    if isinstance(value, tuple):
        return value._make(parts.values()) if hasattr(value, "_make") else tuple(parts.values())
    other = copy.copy(value)
    for place, part in parts.items():
        other[place] = part
    return other
