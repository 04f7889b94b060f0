"""Merges what replicas collected in one step, as a single device would have collected it.

Parts of a batch, and their layer outputs, are concatenated; gradients are summed, as the strategy does before they are
used. Both happen when they are read, in host memory, so a step with nothing due costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barograph.capture.keras.arrays import array_of
from barograph.capture.keras.collector import Seen
from barograph.capture.keras.leaving import come_out

_OF_SAMPLES = ("outputs", "inputs", "data", "fed", "batch")
_ADDED_UP = ("gradients", "given")
_REPLICATED = ("learning_rate", "finite", "before", "broadcast", "penalty")


class Joined:
    """Tensors concatenated along the first axis.

    Args:
        parts: Part of each replica, in order.

    Attributes:
        sizes: Their lengths.
    """

    def __init__(self, parts: Sequence[Any]) -> None:
        self._parts = parts
        self.sizes = tuple(int(part.shape[0]) for part in parts)
        self.shape = (sum(self.sizes), *parts[0].shape[1:])

    def numpy(self) -> NDArray[Any]:
        """Return the elements."""
        return np.concatenate([array_of(part) for part in self._parts])


class Sum:
    """The sum of tensors of one shape.

    Args:
        parts: Part of each replica.
    """

    def __init__(self, parts: Sequence[Any]) -> None:
        self._parts = parts

    def numpy(self) -> NDArray[Any]:
        """Return the elements, in the type of the parts."""
        found = array_of(self._parts[0])
        for part in self._parts[1:]:
            found = found + array_of(part)
        return np.asarray(found)


class Least:
    """The minimum of several numbers.

    Args:
        parts: Part of each replica.
    """

    def __init__(self, parts: Sequence[Any]) -> None:
        self._parts = parts

    def numpy(self) -> NDArray[Any]:
        """Return the minimum."""
        return np.asarray(np.min([array_of(part) for part in self._parts], axis=0))


class Norms:
    """The norm of each of several gradients.

    Args:
        gradients: The gradients, in order.
        scale: Scale of the loss; None: not scaled.
    """

    def __init__(self, gradients: Sequence[Any], scale: Any) -> None:
        self._gradients = gradients
        self._scale = scale

    def numpy(self) -> NDArray[Any]:
        """Return them."""
        norms = np.array([np.linalg.norm(array_of(item).astype(np.float32)) for item in self._gradients])
        return norms if self._scale is None else norms / array_of(self._scale)


def merged(left: Seen, paths: Sequence[str]) -> Seen:
    """Return the values collected by replicas as those of one step.

    Args:
        left: Result of `SharedStep.leave`.
        paths: Paths of the variables whose gradients a gate checks, in order.
    """
    whole, parts = come_out(left["whole"]), [come_out(part) for part in left["replicas"]]
    found: Seen = {name: parts[0][name] for name in _REPLICATED if parts and name in parts[0]}
    for name in _ADDED_UP:
        groups = [part[name] for part in parts if name in part]
        if groups:
            every = dict.fromkeys(path for group in groups for path in group)
            found[name] = {path: Sum([group[path] for group in groups if path in group]) for path in every}
    for name in _OF_SAMPLES:
        groups = [part[name] for part in parts if name in part]
        if groups:
            found[name] = _calls(groups)
    logarithms = [part["least_logarithm"] for part in parts if "least_logarithm" in part]
    if logarithms:
        found["least_logarithm"] = Least(logarithms)
    if "given" in found and "norms" not in whole:
        found["norms"] = Norms([found["given"][path] for path in paths], parts[0].get("scale"))
    if "batch" in whole:
        # The arguments of a custom loop's step are known before its replicas start.
        found["batch"] = {path: joined(items) for path, items in whole["batch"].items()}
    return {**whole, **found}


def joined(parts: Sequence[Any]) -> list[Any]:
    """Return tensors of several replicas as one; if shapes differ beyond the first axis, unchanged."""
    if len(parts) == 1 or any(not part.shape or part.shape[1:] != parts[0].shape[1:] for part in parts):
        return list(parts)
    return [Joined(parts)]


def _calls(groups: Sequence[Mapping[str, Sequence[Any]]]) -> dict[str, list[Any]]:
    """Return for each path the values of each call, over all replicas."""
    found: dict[str, list[Any]] = {}
    for path in dict.fromkeys(path for group in groups for path in group):
        calls = [group[path] for group in groups if path in group]
        found[path] = [item for number in range(max(map(len, calls)))
                       for item in joined([call[number] for call in calls if number < len(call)])]
    return found
