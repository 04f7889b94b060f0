"""Marks the inputs and results of an Optax optimizer while an observed step is traced.

The wrappers: `optax.GradientTransformation.update`, read as an attribute; `optax.apply_updates`;
`equinox.apply_updates`; the loss functions and `jax.value_and_grad` in `losses.py`. Each only calls the original
outside observed steps, and all are removed at the end.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from barograph.capture.jax.losses import HEARD, heard, watched_value_and_grad
from barograph.capture.jax.marks import Mark, mark, mark_number, observing
from barograph.capture.jax.names import is_number_array, learning_rates, named_leaves, named_state, path_of
from barograph.capture.jax.rates import hyperparameters
from barograph.model.facts import Fact, fact
from barograph.model.key import Kind


class Wrappers:
    """The installed wrappers, and their removal."""

    def __init__(self) -> None:
        self._undo: dict[str, Callable[[], None]] = {}

    def install(self) -> None:
        """Install the wrappers of libraries imported since the last call."""
        optax, equinox = sys.modules.get("optax"), sys.modules.get("equinox")
        self._replace("jax.value_and_grad", jax, "value_and_grad", watched_value_and_grad)
        if optax is not None and hasattr(optax, "apply_updates"):
            self._replace("optax.update", optax.GradientTransformation, "update", _watched_update)
            self._replace("optax.apply", optax, "apply_updates", _watched_apply)
            for owner in filter(None, (optax, getattr(optax, "losses", None))):
                for name in (name for name in HEARD if name in vars(owner)):
                    self._replace(f"{owner.__name__}.{name}", owner, name, functools.partial(heard, name))
        if equinox is not None and hasattr(equinox, "apply_updates"):
            self._replace("equinox.apply", equinox, "apply_updates", _watched_apply)

    def remove(self) -> None:
        """Remove all wrappers."""
        while self._undo:
            self._undo.popitem()[1]()

    def _replace(self, name: str, owner: Any, attribute: str, watched: Callable[[Any], Any]) -> None:
        if name in self._undo:
            return
        original = vars(owner)[attribute]
        setattr(owner, attribute, watched(original))
        self._undo[name] = functools.partial(setattr, owner, attribute, original)


def _watched_update(original: Any) -> property:
    """Return the field `update` of an optimizer as a property that marks values in observed steps."""

    def update_of(self: Any) -> Any:
        update = original.__get__(self, type(self))
        return functools.partial(_update, update) if observing.depth and not observing.updating else update

    return property(update_of, doc="Of the optimizer.")


def _update(update: Callable[..., Any], gradients: Any, state: Any, params: Any = None, **extra: Any) -> Any:
    gradients = mark_tree(Kind.GRADIENT, gradients)
    observing.updating = True
    try:
        updates, new_state = update(gradients, state, params, **extra)
        known = hyperparameters(update, state)
    finally:
        observing.updating = False
    kept, rates = named_state(new_state, named_leaves(gradients)), learning_rates(new_state)
    if not rates and known.rate is not None:
        mark_number(known.rate, Mark(Kind.LEARNING_RATE, "group0", role="number"))
    if known.momentum is not None:
        mark_number(known.momentum, Mark(Kind.FACT, fact(Fact.MOMENTUM, "group0").path, role="number"))
    new_state = _mark_leaves(new_state, {id(leaf): Mark(Kind.OPTIMIZER_STATE, name) for name, leaf in kept.items()} | {
        id(leaf): Mark(Kind.LEARNING_RATE, name, role="number") for name, leaf in rates.items()})
    return mark_tree(Kind.UPDATE, updates), new_state


def _watched_apply(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def apply_updates(*args: Any, **kwargs: Any) -> Any:
        weights = original(*args, **kwargs)
        if not observing.depth or observing.updating:
            return weights
        # Called this way by Optax and by Equinox.
        before = args[0] if args else kwargs.get("params", kwargs.get("model"))
        is_known = jax.tree.structure(before) == jax.tree.structure(weights)
        return mark_tree(Kind.WEIGHT, weights, before=before if is_known else None)

    return apply_updates


def mark_tree(kind: Kind, tree: Any, prefix: str = "", layer: str = "", before: Any = None) -> Any:
    """Return a tree with its arrays marked by name.

    Args:
        kind: Kind of the arrays.
        tree: Any tree.
        prefix: Prefix of each name; the name if the tree is one array.
        layer: Class of their layer.
        before: Tree of earlier values with the same structure; None: unknown.
    """

    def marked(keys: Any, leaf: Any, stood: Any = None) -> Any:
        if not is_number_array(leaf):
            return leaf
        name = ".".join(filter(None, (prefix, path_of(keys))))
        return mark(leaf, Mark(kind, name or "parameter", layer), stood if _is_alike(stood, leaf) else None)

    return jax.tree_util.tree_map_with_path(marked, tree, *(() if before is None else (before,)))


def _is_alike(stood: Any, leaf: Any) -> bool:
    return (is_number_array(stood) and stood.shape == leaf.shape and stood.dtype == leaf.dtype
            and jnp.issubdtype(leaf.dtype, jnp.inexact))


def _mark_leaves(tree: Any, marks: Mapping[int, Mark]) -> Any:
    return jax.tree.map(lambda leaf: mark(leaf, marks[id(leaf)]) if id(leaf) in marks else leaf, tree)
