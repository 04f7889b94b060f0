"""Restores weights, non-trainable and optimizer variables of a saved Keras step in the script."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barograph.capture.keras.names import Names
from barograph.capture.keras.recorder import type_name
from barograph.errors import ReplayFailed

_NAMED = 6

Values = list[tuple[Any, NDArray[Any]]]
"""Variables with their values."""


class CapturedState:
    """The variables before the step.

    Args:
        content: Content of the capsule.
        tensors: Tensors of the capsule.

    Attributes:
        weights, untrained, optimizer: Values by path.
        random: States of random generators.
    """

    def __init__(self, content: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> None:
        self.weights, self.untrained, self.optimizer = (
            {str(path): tensors[said["array"]] for path, said in content[group].items()}
            for group in ("weights", "untrained", "optimizer_variables"))
        self.random = {str(name): tensors[said["array"]] for name, said in content.get("random", {}).items()}
        self._optimizer_class = str(content["optimizer"]["class"])

    def values(self, names: Names, optimizer: Any) -> Values:
        """Return each variable of the script with its original value.

        Raises:
            ReplayFailed: Model or optimizer differ from the capsule's; the message names the difference.
        """
        wrong = [*_differences(self.weights, names.trainable), *_differences(self.untrained, names.untrained)]
        if wrong:
            more = f"; and {len(wrong) - _NAMED} more" if len(wrong) > _NAMED else ""
            raise ReplayFailed(f"The script's model differs from the capsule's: {'; '.join(wrong[:_NAMED])}{more}.")
        return [*((names.trainable[path], array) for path, array in self.weights.items()),
                *((names.untrained[path], array) for path, array in self.untrained.items()),
                *self._of_optimizer(optimizer)]

    def _of_optimizer(self, optimizer: Any) -> Values:
        own = {str(variable.path): variable for variable in optimizer.variables}
        if list(own) != list(self.optimizer):
            # Keras numbers optimizers and layers over the life of a process.
            own = dict(zip(self.optimizer, own.values(), strict=False)) if len(own) == len(self.optimizer) else {}
        if any(path not in own or tuple(own[path].shape) != array.shape for path, array in self.optimizer.items()):
            now, then = (name.rpartition(".")[2] for name in (type_name(optimizer), self._optimizer_class))
            raise ReplayFailed(f"The script's optimizer {now} has other variables than the capsule's {then}.")
        return [(own[path], array) for path, array in self.optimizer.items()]


def assign(values: Values) -> None:
    """Assign values to variables."""
    for variable, array in values:
        variable.assign(np.array(array))


def _differences(then: Mapping[str, NDArray[Any]], now: Mapping[str, Any]) -> Iterator[str]:
    for path, array in then.items():
        if path not in now:
            yield f"{path} is not there"
        elif tuple(now[path].shape) != array.shape:
            yield f"{path} is {_size(now[path].shape)} and was {_size(array.shape)}"
    yield from (f"{path} was not there" for path in now if path not in then)


def _size(shape: Any) -> str:
    return " × ".join(map(str, shape)) or "a number"
