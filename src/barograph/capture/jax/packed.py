"""A saved JAX step as plain data: its inputs and results."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from barograph.capture.array_read import raw_array
from barograph.capture.held_steps import Packed
from barograph.capture.jax.names import is_number_array
from barograph.capture.jax.numbers import losses_in
from barograph.capture.jax.program import Harvested, Program
from barograph.model.tensor import RawTensor
from barograph.runs.format.proof import checksum_of


def packed_call(harvested: Harvested, name: str) -> Packed:
    """Return the inputs of a call as plain data.

    Args:
        harvested: The call.
        name: Name of the user's function.
    """
    tensors, lost = _tensors_of(harvested)
    return Packed({"framework": "jax", "step": name, "missing": lost,
                   "arguments": {name: list(tensor.shape) for name, tensor in tensors.items()}}, tensors)


def copied_arguments(harvested: Harvested) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return copies of a call's arguments, which may be donated again."""
    program = harvested.version.program
    leaves = [leaf if leaf is None or not donated else jnp.copy(leaf)
              for leaf, donated in zip(_given(harvested), program.donated, strict=True)]
    return program.arguments(leaves)


def seen_of(program: Program, found: Any, loss: Callable[[Any], Any] | None) -> dict[str, Any]:
    """Return the values that identify a step bit for bit: the losses, and all its results.

    Args:
        program: Has the names of the results.
        found: Results of the step.
        loss: Finds the loss; None: search.
    """
    results = zip(program.result_names, jax.tree.leaves(found), strict=True)
    losses = losses_in(found, program.steps, loss, mapped=program.is_mapped)
    return {
        "losses": [value.hex() for value in losses], "gradients": {},
        "results": {name: _described(host_array(leaf)) for name, leaf in results},
    }


def host_array(leaf: Any) -> NDArray[Any]:
    """Return the elements of an array, or the data of a random key."""
    if isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return np.asarray(leaf, order="C")


def _described(array: NDArray[Any]) -> dict[str, Any]:
    norm = float(np.linalg.norm(array.astype(np.complex128 if array.dtype.kind == "c" else np.float64).ravel()))
    return {"digest": checksum_of(array.tobytes()), "norm": norm if math.isfinite(norm) else None}


def _tensors_of(harvested: Harvested) -> tuple[dict[str, RawTensor], list[str]]:
    """Return the inputs of a call by name, and the names of those that are gone or not arrays."""
    tensors, lost = {}, []
    for name, leaf in zip(harvested.version.program.names, _given(harvested), strict=True):
        is_key = isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        if leaf is None or not (is_key or is_number_array(leaf) or isinstance(leaf, bool | int | float)):
            lost.append(name)
        else:
            tensors[name] = raw_array(host_array(leaf))
    return tensors, lost


def _given(harvested: Harvested) -> list[Any]:
    """Return each original argument; None: it is gone.

    If the update was withheld within the call, its results contain the original carried values.
    """
    results = {source: place for place, source in harvested.version.program.carried.items()}
    return [leaf if number not in harvested.version.donated else
            harvested.outs[results[number]] if number in results else None
            for number, leaf in enumerate(harvested.given)]
