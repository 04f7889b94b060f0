"""Finds the first layer with a non-finite output for finite inputs."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
from numpy.typing import NDArray

from barograph.capsule.arrays import bad_rows, is_finite, tensor_seen
from barograph.capsule.order import BadOperation
from barograph.capture.frames import frames_of_script
from barograph.capture.keras.arrays import array_of
from barograph.capture.keras.collector import Collector, Reach, Wanted
from barograph.capture.keras.names import Names

_NEVER_UPDATES = Wanted(gate=True, norm_above=-1.0, data=True)
_MOST_TENSORS = 4


class LayerSearch(Collector):
    """Checks the inputs and outputs of each layer in an eager step.

    Args:
        names: Names of the layers.
        reach: Access to the backend.
        samples: Number of samples in the batch; 0: unknown.

    Attributes:
        bad: The first layer that made non-finite values from finite ones; None: none did.
        looked: Number of layer calls checked.
    """

    def __init__(self, names: Names, reach: Reach, samples: int) -> None:
        super().__init__(names, _NEVER_UPDATES, reach)
        self.bad: BadOperation | None = None
        self.looked = 0
        self._samples = samples

    def layer_called(self, layer: Any, args: Any, kwargs: Mapping[str, Any], result: Any) -> None:
        """Check one call."""
        path = self.names.layers.get(id(layer))
        if path is None or path not in self.names.leaves or self.bad is not None:
            return
        self.looked += 1
        outputs = self._arrays(result)
        if all(map(is_finite, outputs)):
            return
        inputs = self._arrays((args, kwargs))
        if all(map(is_finite, inputs)):
            self.bad = self._blamed(type(layer).__name__, path, inputs, outputs)

    def loss(self, name: str) -> BadOperation | None:
        """Return the loss as the cause if only the loss is non-finite; None if it is finite or was not observed.

        Args:
            name: Name of the loss.
        """
        if "loss" not in self.seen or is_finite(array_of(self.seen["loss"])):
            return None
        data = self.seen.get("data", {})
        inputs = [array_of(item) for path, items in data.items() for item in items if not path.startswith("x")]
        return self._blamed(name, "", inputs, [array_of(self.seen["loss"])])

    def _blamed(self, name: str, path: str, inputs: list[NDArray[Any]], outputs: list[NDArray[Any]]) -> BadOperation:
        frames = frames_of_script(sys._getframe(1))
        line = f"{frames[0].f_code.co_filename}:{frames[0].f_lineno}" if frames and path else ""
        rows = next((found for array in outputs if (found := bad_rows(array, self._samples))), ())
        return BadOperation(name, "forward", path, line, tuple(map(tensor_seen, inputs[:_MOST_TENSORS])),
                            tuple(map(tensor_seen, outputs[:_MOST_TENSORS])), rows=rows)

    def _arrays(self, value: Any) -> list[NDArray[Any]]:
        return [np.asarray(array_of(item)) for item in keras.tree.flatten(value)
                if self.reach.is_tensor(item) and self.reach.is_known(item)]
