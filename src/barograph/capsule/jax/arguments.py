"""The arguments of a saved JAX step, arranged like those of the script's step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from barograph.capsule.arrays import samples_in
from barograph.capture.jax.program import Program
from barograph.errors import ReplayFailed

_NAMED = 6


class CapturedArguments:
    """The arguments in a capsule.

    Args:
        program: The script's step, traced with the script's arguments.
        leaves: Flattened arguments of the script.
        arrays: Original inputs of the step, by name.
        missing: Inputs that the capsule lacks.

    Attributes:
        notes: Arguments of the script that could not be replaced.
        batch: Arrays with one row per sample that the step does not carry over, by name.

    Raises:
        ReplayFailed: The script's step carries over other arrays; the message names the difference.
    """

    def __init__(self, program: Program, leaves: Sequence[Any], arrays: Mapping[str, NDArray[Any]],
                 missing: Sequence[str]) -> None:
        self._leaves, self._arrays, self._names = leaves, arrays, program.names
        carried = {self._names[number] for number in program.carried.values()}
        self._check(carried, missing)
        self.notes = [f"{name} is not in the capsule: the script's own value was used." for name in missing]
        fed = {name: array for name, array in arrays.items() if name not in carried and array.ndim
               and not _is_key(self._own(name))}
        self.samples = samples_in(list(fed.values())) if program.steps == 1 else 0
        self.batch = fed if self.samples > 1 else {}
        self.carried = {name: array for name, array in arrays.items() if name in carried}

    def leaves(self, rows: Sequence[int] = ()) -> list[Any]:
        """Return new flattened arguments, with the whole batch or only some rows."""
        return [self._leaf(name, own, rows) for name, own in zip(self._names, self._leaves, strict=True)]

    def _leaf(self, name: str, own: Any, rows: Sequence[int]) -> Any:
        array = self._arrays.get(name)
        if array is None:
            return own
        array = array[list(rows)] if rows and name in self.batch else np.array(array)
        if isinstance(own, bool | int | float):
            return type(own)(array.item())
        if isinstance(own, np.ndarray | np.generic):
            return array
        if _is_key(own):
            return jax.random.wrap_key_data(jnp.asarray(array), impl=jax.random.key_impl(own))
        # A weakly typed number takes part in type promotion differently.
        made = jnp.asarray(array.item()) if own.weak_type and not array.ndim else jnp.asarray(array)
        return jax.device_put(made, own.sharding) if len(own.sharding.device_set) > 1 else made

    def _own(self, name: str) -> Any:
        return self._leaves[self._names.index(name)] if name in self._names else None

    def _check(self, carried: set[str], missing: Sequence[str]) -> None:
        wrong = []
        for name, own in zip(self._names, self._leaves, strict=True):
            there = self._arrays.get(name)
            if there is None:
                wrong += [] if name in missing else [f"{name} was not there"]
            elif name in carried and not _is_key(own) and tuple(np.shape(own)) != there.shape:
                wrong.append(f"{name} is {list(np.shape(own))} and was {list(there.shape)}")
        wrong += [f"{name} is not there" for name in self._arrays if name not in self._names]
        if wrong:
            more = f"; and {len(wrong) - _NAMED} more" if len(wrong) > _NAMED else ""
            raise ReplayFailed(f"The script's step has other arguments than the capsule's: "
                               f"{'; '.join(wrong[:_NAMED])}{more}.")


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and bool(jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key))
