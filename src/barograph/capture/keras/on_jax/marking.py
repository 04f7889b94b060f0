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

    The step goes on with its tensors as they are, not with what is marked: Keras writes into a tensor which of its
    samples count, and layers take that away from it again.

    Args:
        names: Of the model.
    """

    def __init__(self, names: Names) -> None:
        self._owners: Mapping[str, str] = names.owners
        self._classes = LayerClasses(names)
        self._marks: list[Mark] = []
        self._held: list[Any] = []

    def mark(self, kind: Kind, path: str, value: Any, before: Any = None) -> None:
        """Mark all tensors in a value, each by its place.

        Args:
            kind: What it is.
            path: Of the layer, or of the variable.
            value: A tensor, or lists, tuples and dictionaries of them; anything else is passed over.
            before: Of a tensor: what stood in its place before; None: that is not known.
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
            # JAX may let go of operations whose results nobody holds.
            self._held.append(MARK.bind(jnp.asarray(value), *(() if before is None else (before,)), mark=what))

    def let_go(self) -> None:
        """Let go of what was marked, before the trace ends: JAX can be asked to see that nobody holds on to it."""
        self._held.clear()

    def lost(self, found: Iterable[Mark], wants: Wants) -> set[str]:
        """Return the paths of layers of which what is wanted was marked, and is not among what was found.

        Args:
            found: Marks that were found in the traced step.
            wants: What is wanted of what is marked.
        """
        known = set(found)
        return {mark.path.partition("[")[0] for mark in self._marks
                if mark.kind in _OF_LAYERS and mark not in known and wants(mark)}
