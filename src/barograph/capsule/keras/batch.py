"""The batch of a saved step, in the form that the script uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
from numpy.typing import NDArray

from barograph.capsule.arrays import samples_in
from barograph.capture.keras.replicas import values_of
from barograph.errors import ReplayFailed

_PARTS = ("x", "y", "sample_weight")


class CapturedBatch:
    """The batch of a step.

    Args:
        content: Content of the capsule.
        tensors: Tensors of the capsule.

    Attributes:
        arrays: Arrays by name, with items in brackets: `x`, `y[0]`.
        notes: Parts of the script's batch that could not be replaced.
    """

    def __init__(self, content: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> None:
        self.arrays = {str(path): tensors[said["array"]] for path, said in content["batch"].items()}
        self.notes: list[str] = []
        self._sizes: Mapping[str, list[int]] = content.get("replicas", {})
        self._placed: set[str] = set()
        self._rows: Sequence[int] = ()

    @property
    def samples(self) -> int:
        """Number of samples; 0: unknown."""
        return samples_in(list(self.arrays.values()))

    def in_place_of_data(self, own: Any, rows: Sequence[int] = ()) -> Any:
        """Return the batch as Keras passes it to a step: `x`, `(x, y)`, or `(x, y, sample_weight)`.

        Args:
            own: The script's batch.
            rows: Rows to use; empty: all.

        Raises:
            ReplayFailed: The batch does not fit.
        """
        if not isinstance(own, tuple | list) or len(own) > len(_PARTS):
            return self._checked("x", own, rows)
        self._begin(rows)
        found = tuple(self._put(name, part, "") for name, part in zip(_PARTS, own, strict=False))
        return self._all_placed(found)

    def in_place_of_arguments(self, own: Any, rows: Sequence[int] = ()) -> Any:
        """Return the batch as arguments of the script's own step; raises as above."""
        return self._checked("batch", own, rows)

    def _checked(self, name: str, own: Any, rows: Sequence[int]) -> Any:
        self._begin(rows)
        return self._all_placed(self._put(name, own, ""))

    def _begin(self, rows: Sequence[int]) -> None:
        self._placed, self._rows, self.notes = set(), rows, []

    def _put(self, name: str, own: Any, item: str) -> Any:
        """Replace the values that have a given name in the saved step."""
        if isinstance(own, list | tuple):
            parts = [self._put(name, part, f"{item}[{number}]") for number, part in enumerate(own)]
            return type(own)(*parts) if hasattr(own, "_fields") else type(own)(parts)
        if isinstance(own, dict):
            return type(own)({key: self._put(name, part, f"{item}[{key}]") for key, part in own.items()})
        array = self.arrays.get(name + item)
        if array is None:
            if hasattr(own, "shape"):
                self.notes.append(f"{name}{item} is not in the capsule: the script's own value was used.")
            return own
        self._placed.add(name + item)
        array = array[list(self._rows)] if self._rows and array.ndim else np.array(array)
        if (values := values_of(own)):
            return type(own)(self._parts(name + item, array, len(values)))
        return array if isinstance(own, np.ndarray) else keras.ops.convert_to_tensor(array)

    def _parts(self, path: str, array: NDArray[Any], replicas: int) -> tuple[Any, ...]:
        """Return the part of each replica, split as originally."""
        sizes = self._sizes.get(path, ())
        if len(sizes) != replicas or sum(sizes) != len(array):
            raise ReplayFailed(
                f"The step ran on {len(sizes) or 1} replicas, but the script's strategy has {replicas} "
                "now. Use the same number of devices, or one.")
        return tuple(map(keras.ops.convert_to_tensor, np.split(array, np.cumsum(sizes)[:-1])))

    def _all_placed(self, found: Any) -> Any:
        left = [path for path in self.arrays if path not in self._placed]
        if left:
            raise ReplayFailed(f"The step had the inputs {', '.join(left)}, which the script's step does not have.")
        return found
