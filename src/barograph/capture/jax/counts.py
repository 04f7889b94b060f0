"""The number of updates an Optax optimizer has made, from the counts in its state; it survives a restore."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np


def updates_before(tree: Any) -> int:
    """Return the number of updates made with the optimizer state in a tree; 0 without a counter.

    Plain SGD has no counter. `optax.MultiSteps` is ignored, because it counts updates, while each call is a step.

    Args:
        tree: Arguments of a step, with their arrays.

    Example:
        >>> import optax
        >>> updates_before(optax.adam(1e-3).init({"w": np.ones(2)}))
        0
    """
    states = [leaf for leaf in jax.tree.leaves(tree, is_leaf=_is_state) if _is_state(leaf)]
    if any("count" not in state._fields for state in states):
        return 0
    # Flax NNX wraps each count in a box.
    counts = [np.asarray(count) for state in states for count in jax.tree.leaves(state.count)]
    # With several devices or parallel models, all have made the same number.
    return max((int(count.max()) for count in counts if count.size and count.dtype.kind in "iu"), default=0)


def _is_state(leaf: Any) -> bool:
    fields = getattr(type(leaf), "_fields", ())
    return type(leaf).__module__.partition(".")[0] == "optax" and ("count" in fields or "gradient_step" in fields)
