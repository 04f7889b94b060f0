"""Records Optax losses while an observed step is traced: their names and arguments.

The wrapped functions are those below, as `optax.NAME` and `optax.losses.NAME`. Each returns the original's result, and
only calls it outside observed steps. A script that imported a function before (`from optax import l2_loss`) calls the
original, which is not recorded.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from barograph.capture.jax.marks import Mark, mark, mark_rows, observing
from barograph.capture.label_counts import LEFT_OUT, MOST_CLASSES
from barograph.model.key import Kind

OF_CLASSES = ("softmax_cross_entropy", "softmax_cross_entropy_with_integer_labels", "safe_softmax_cross_entropy")
OF_YES_OR_NO = ("sigmoid_binary_cross_entropy",)
OF_DISTANCES = ("squared_error", "l2_loss", "huber_loss", "log_cosh")
VALUE = Mark(Kind.LOSS, "total", role="number")
"""Mark of the differentiated value."""

HEARD = (*OF_CLASSES, *OF_YES_OR_NO, *OF_DISTANCES)


def heard(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """Return an Optax loss function that marks values in observed steps."""
    parameters = inspect.signature(original)

    @functools.wraps(original)
    def loss(*args: Any, **kwargs: Any) -> Any:
        values = original(*args, **kwargs)
        if not observing.depth or observing.hearing:
            return values
        # A loss function called by another one is not a separate loss.
        observing.hearing = True
        try:
            given = parameters.bind(*args, **kwargs).arguments
            _mark_given(name, given)
            mark_rows(name, given.get("logits", given.get("predictions")), given.get("labels", given.get("targets")))
        finally:
            observing.hearing = False
        return mark(values, Mark(Kind.LOSS, name))

    return loss


def watched_value_and_grad(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a `jax.value_and_grad` that marks the value in observed steps.

    So the loss is known for steps that do not return it, such as those of Flax NNX with metric objects.
    """

    @functools.wraps(original)
    def value_and_grad(fun: Any, argnums: Any = 0, has_aux: bool = False, *args: Any, **kwargs: Any) -> Any:
        made = original(fun, argnums, has_aux, *args, **kwargs)

        @functools.wraps(made)
        def call(*given: Any, **named: Any) -> Any:
            if not observing.depth or observing.updating or observing.differentiating:
                return made(*given, **named)
            observing.differentiating += 1
            try:
                value, gradients = made(*given, **named)
            finally:
                observing.differentiating -= 1
            if has_aux:
                return (mark(value[0], VALUE), value[1]), gradients
            return mark(value, VALUE), gradients

        return call

    return value_and_grad


def _mark_given(name: str, given: dict[str, Any]) -> None:
    if name in OF_DISTANCES:
        if given.get("targets") is not None:
            mark(jnp.asarray(given["targets"]), Mark(Kind.TARGET, name))
        return
    scores, labels = jnp.asarray(given["logits"]), jnp.asarray(given["labels"])
    if name in OF_YES_OR_NO:
        # Other labels are ignored.
        target = jnp.where(labels == 0, 0, jnp.where(labels == 1, 1, LEFT_OUT))
        _mark_codes(name, target, (scores > 0).astype(jnp.int32), 2)
    elif given.get("axis", -1) in (-1, scores.ndim - 1) and given.get("where") is None:
        target = labels if jnp.issubdtype(labels.dtype, jnp.integer) else labels.argmax(-1)
        if target.ndim == scores.ndim - 1:
            _mark_codes(name, target, scores.argmax(-1), scores.shape[-1])


def _mark_codes(name: str, target: Any, predictions: Any, classes: int) -> None:
    code = target if classes > MOST_CLASSES else target * classes + predictions
    mark(jnp.where(target < 0, LEFT_OUT, code), Mark(Kind.CONFUSION, name, role="codes", classes=classes))
