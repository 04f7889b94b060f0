"""Marks the values of a Keras step while JAX traces it."""

from __future__ import annotations

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


class Marking:
    """Marks tensors of one step.

    The step continues with the original tensors, not the marked ones: Keras attaches a mask to a tensor, and layers
    remove it again.

    Args:
        names: Names of the model.
    """

    def __init__(self, names: Names) -> None:
        self._owners: Mapping[str, str] = names.owners
        self._classes = LayerClasses(names)
        self._marks: list[Mark] = []
        self._held: list[Any] = []

    def mark(self, kind: Kind, path: str, value: Any, before: Any = None) -> None:
        """Mark all tensors in a value, each by its position.

        Args:
            kind: Kind of the tensors.
            path: Path of the layer, or of the variable.
            value: A tensor, or lists, tuples and dictionaries of them; anything else is ignored.
            before: For a tensor, its earlier value; None: unknown.
        """
        if isinstance(value, dict):
            for name, part in value.items():
                self.mark(kind, f"{path}[{name}]", part)
        elif isinstance(value, list | tuple):
            for number, part in enumerate(value):
                self.mark(kind, f"{path}[{number}]", part)
        elif isinstance(value, jax.Array | np.ndarray) and is_number_array(value):
            what = Mark(kind, path, (self._classes if kind in _OF_LAYERS else self._owners).get(path, ""))
            self._marks.append(what)
            # Keep the results, because JAX may drop operations with unused results.
            self._held.append(MARK.bind(jnp.asarray(value), *(() if before is None else (before,)), mark=what))

    def let_go(self) -> None:
        """Release marked values before the trace ends, since JAX can check for leaks."""
        self._held.clear()

    def lost(self, found: Iterable[Mark], wants: Wants) -> set[str]:
        """Return the paths of layers with requested marks that were not found in the trace.

        Args:
            found: Marks in the traced step.
            wants: Returns what to record of a mark.
        """
        known = set(found)
        return {mark.path.partition("[")[0] for mark in self._marks
                if mark.kind in _OF_LAYERS and mark not in known and wants(mark)}
