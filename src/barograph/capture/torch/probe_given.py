"""Samples for the probe that a script gives to `attach`: a tensor, inputs and targets, or a loader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch

from barograph.capture.torch.generators import generators_of, put_states, states_of
from barograph.capture.torch.random import random_states
from barograph.errors import SettingsError

_BATCH = 128


class GivenSamples:
    """Inputs and, if given, targets.

    Args:
        inputs: Samples along the first axis.
        targets: One per sample; None: unknown.
    """

    def __init__(self, inputs: torch.Tensor, targets: torch.Tensor | None) -> None:
        self._inputs = inputs
        self._targets = targets

    def __len__(self) -> int:
        return len(self._inputs)

    def batches(self, device: torch.device) -> Iterator[tuple[torch.Tensor, torch.Tensor | None]]:
        """Yield parts of the samples on a device."""
        for start in range(0, len(self._inputs), _BATCH):
            part = slice(start, start + _BATCH)
            yield (self._inputs[part].to(device),
                   None if self._targets is None else self._targets[part].to(device))


def given_samples(value: Any, most: int) -> GivenSamples:
    """Return the first samples of a tensor, of a pair of inputs and targets, or of a loader's batches.

    Random generators are left as they were.

    Raises:
        SettingsError: It is none of these.
    """
    if isinstance(value, torch.Tensor):
        return _checked(value[:most], None)
    if isinstance(value, tuple | list) and len(value) == 2 and all(isinstance(item, torch.Tensor) for item in value):
        return _checked(value[0][:most], value[1][:most])
    if not isinstance(value, Iterable):
        raise _wrong(value)
    states, generators = random_states(), generators_of(value)
    own = states_of(generators)
    inputs: list[torch.Tensor] = []
    targets: list[torch.Tensor] = []
    try:
        for batch in value:
            x, y = batch if isinstance(batch, tuple | list) and len(batch) == 2 else (batch, None)
            if not isinstance(x, torch.Tensor):
                raise _wrong(value)
            inputs.append(x)
            targets += [y] if isinstance(y, torch.Tensor) else []
            if sum(map(len, inputs)) >= most:
                break
    finally:
        states.put_back()
        put_states(generators, own)
    if not inputs:
        raise _wrong(value)
    whole = torch.cat(targets)[:most] if len(targets) == len(inputs) else None
    return _checked(torch.cat(inputs)[:most], whole)


def _checked(inputs: torch.Tensor, targets: torch.Tensor | None) -> GivenSamples:
    if not inputs.dim() or not len(inputs) or (targets is not None and len(targets) != len(inputs)):
        raise SettingsError(f"probe has inputs of shape {tuple(inputs.shape)}"
                            + (f" and targets of shape {tuple(targets.shape)}" if targets is not None else "")
                            + "; pass one row, and one target, per sample.")
    return GivenSamples(inputs.detach().clone(), None if targets is None else targets.detach().clone())


def _wrong(value: Any) -> SettingsError:
    return SettingsError(f"probe is {type(value).__name__}; it must be a number of samples, a table, a tensor, a pair "
                         "(inputs, targets), or a loader of such pairs.")
