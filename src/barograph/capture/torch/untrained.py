"""Finds frozen parameters that still have their initial values."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable
from typing import Any

import torch

from barograph.measures.drawn import LEAST, is_as_drawn, usual_bounds

_LOOKED_AT = (4096, 2**20)
"""Numbers of elements to compare; more elements show more changes. The first comparison usually suffices."""

_MOST_LOOKED_AT = 64
"""Maximum number of parameters to check in a model frozen except for an adapter: it was trained as a whole."""

_ELEMENTS = 16


class Untrained:
    """Tracks the frozen parameters that had their initial values when first checked."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[torch.Tensor], list[Any] | None]] = {}
        self._looked_at = 0

    def found(self, frozen: Iterable[tuple[torch.Tensor, str]]) -> list[str]:
        """Return the paths of parameters with initial values that have not changed since the previous call.

        Frozen parameters that change in other ways, such as the average of another model, are excluded.

        Args:
            frozen: Parameters that require no gradient, with their paths.
        """
        return [path for parameter, path in frozen if self._is_untrained(parameter)]

    def _is_untrained(self, parameter: torch.Tensor) -> bool:
        reference, likeness = self._known.get(id(parameter), (None, None))
        if reference is not None and reference() is parameter:
            if likeness is not None and likeness != likeness_of(parameter):
                self._known[id(parameter)] = reference, None
                return False
            return likeness is not None
        if self._looked_at < _MOST_LOOKED_AT and parameter.numel() >= LEAST:
            self._looked_at += 1
            self._known[id(parameter)] = (weakref.ref(parameter),
                                          likeness_of(parameter) if _is_as_drawn(parameter) else None)
        return False


def likeness_of(parameter: torch.Tensor) -> list[Any]:
    """Return values that change with any modification of a parameter."""
    # Changes through `.data` are not counted, so a few elements are compared as well.
    return [parameter._version, *_first(parameter, _ELEMENTS).tolist()]


def _is_as_drawn(parameter: torch.Tensor) -> bool:
    if hasattr(parameter, "to_local"):
        return False  # reading part of a distributed parameter would involve all workers
    bounds = usual_bounds(parameter.shape, outputs_first=True)
    if not bounds or not parameter.is_floating_point() or parameter.layout is not torch.strided:
        return False
    precision = 2 * torch.finfo(parameter.dtype).eps
    return all(is_as_drawn(_first(parameter, count).float().cpu().numpy(), bounds, precision=precision)
               for count in _LOOKED_AT)


def _first(parameter: torch.Tensor, count: int) -> torch.Tensor:
    """Return the first elements, without reading or copying gigabytes."""
    values = parameter.detach()
    if values.ndim > 1 and values.numel():
        values = values[:math.ceil(count / (values.numel() // values.shape[0]))]
    return values.flatten()[:count]
