"""Dotted paths of the leaves of JAX trees, the same for every library."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

_BOXES = frozenset({"value", "raw_value", "get_value"})
"""Attributes of parameter boxes (Flax NNX), which are not part of names."""

_COLLECTION = "params"
"""Linen's collection of parameters."""


def path_of(keys: Iterable[Any]) -> str:
    """Return the dotted name of a leaf of a tree from its keys.

    Example:
        >>> from jax.tree_util import DictKey, GetAttrKey, SequenceKey
        >>> path_of([DictKey("params"), DictKey("Dense_0"), DictKey("kernel")])
        'Dense_0.kernel'
        >>> path_of([GetAttrKey("layers"), SequenceKey(0), DictKey("kernel"), GetAttrKey("value")])
        'layers.0.kernel'
    """
    parts = _parts(keys)
    if len(parts) > 1 and parts[0] == _COLLECTION:
        parts = parts[1:]
    return ".".join(parts)


def named_leaves(tree: Any) -> dict[str, Any]:
    """Return the numeric arrays in a tree by name; a tree that is one array has the name "parameter"."""
    found = {}
    for keys, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        if is_number_array(leaf):
            found[path_of(keys) or "parameter"] = leaf
    return found


def named_state(tree: Any, parameters: Iterable[str]) -> dict[str, Any]:
    """Return an optimizer's state arrays of parameters, as `fc1.weight[mu]`.

    Args:
        tree: The optimizer's state.
        parameters: Names of the parameters.

    Example:
        >>> named_state(({"mu": {"fc": {"w": jnp.ones(2)}}, "count": jnp.zeros(())},), ["fc.w"]).keys()
        dict_keys(['fc.w[mu]'])
    """
    known = {tuple(name.split(".")): name for name in parameters}
    found: dict[str, Any] = {}
    for keys, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        parts = _parts(keys)
        for length in range(1, len(parts)):
            name = known.get(tuple(parts[-length:]))
            if name is not None and is_number_array(leaf):
                kept = [part for part in parts[:-length] if not part.isdigit() and part != _COLLECTION]
                found.setdefault(f"{name}[{kept[-1] if kept else 'state'}]", leaf)
                break
    return found


def learning_rates(tree: Any) -> dict[str, Any]:
    """Return the learning rates in an optimizer's state: those that Optax injects as hyperparameters."""
    found: dict[str, Any] = {}
    for keys, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        parts = _parts(keys)
        if parts[-2:] == ["hyperparams", "learning_rate"] and jnp.ndim(leaf) == 0:
            found[f"group{len(found)}"] = leaf
    return found


def is_number_array(leaf: Any) -> bool:
    """Return whether a leaf is a numeric array rather than a random key or an object."""
    dtype = getattr(leaf, "dtype", None)
    return dtype is not None and hasattr(leaf, "shape") and (
        jnp.issubdtype(dtype, jnp.number) or jnp.issubdtype(dtype, jnp.bool_))


def scalars_of(tree: Any, shape: tuple[int, ...]) -> Mapping[str, Any]:
    """Return the plain numbers of a tree by name, if it contains nothing else: "" for a single one.

    Args:
        tree: Results of a step, or a part of them.
        shape: Shape of a number: () or, for a call with several steps, their number.
    """
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    if not leaves or any(not is_number_array(leaf) or tuple(leaf.shape) != shape for _, leaf in leaves):
        return {}
    return {".".join(part for part in _parts(keys) if not part.isdigit()): leaf for keys, leaf in reversed(leaves)}


def _parts(keys: Iterable[Any]) -> list[str]:
    parts = [_part(key) for key in keys]
    while parts and parts[-1] in _BOXES:
        parts = parts[:-1]
    return parts


def _part(key: Any) -> str:
    for attribute in ("name", "key", "idx"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key).strip(".[]'\"")
