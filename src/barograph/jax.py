"""Recording of JAX trainings: `observe` wraps the compiled step; the other functions mark values inside it.

JAX runs a step on the device as one program, so values inside it must be results of that program. `observe` builds a
second program from the step, which also returns statistics, and calls it at the steps that are due for recording. All
other steps run the user's compiled function unchanged.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

import jax.numpy as jnp

from barograph.capture.jax.listener import called_instead, recording_now, shared
from barograph.capture.jax.marks import Mark, mark, mark_rows
from barograph.capture.jax.optax import mark_tree
from barograph.capture.jax.program import Compiled
from barograph.capture.jax.step import ObservedStep, Options
from barograph.model.key import Kind, kind_from_name

__all__ = ["gradients", "observe", "predictions", "probe", "record"]

_Tree = TypeVar("_Tree")


def observe(
    step: Callable[..., Any] | None = None,
    *,
    name: str = "",
    loss: Callable[[Any], Any] | None = None,
    steps: int | None = None,
    evaluation: bool = False,
    together: bool | None = None,
) -> Any:
    """Return a compiled training step that is recorded while a run is active, and is unchanged otherwise.

    Each call is one optimizer step; if a call scans over steps, each iteration is one. With Optax, gradients, updates,
    weights and optimizer state are recorded; with Flax and Equinox, layers. The loss is the result named "loss", or
    else the first scalar among the results. Other named scalars are metrics.

    Args:
        step: Result of `jax.jit`, `jax.pmap`, `nnx.jit` or `equinox.filter_jit`. None: return a decorator.
        name: Name of the series of steps, if the training has several (a GAN has two).
        loss: Extracts the loss from the step's result, if it is not found automatically.
        steps: Optimizer steps per call, if they cannot be counted from a loop around Optax.
        evaluation: A call is part of an evaluation, not a step. With `--probe`, its samples are found automatically.
        together: Compute statistics in the same program as the step. This costs a small part of a step, but the
            compiler may round the results differently. False: never; the user's compiled function makes every step, and
            a second program computes the statistics, which takes about as long as the step. None: on a CPU, once that
            program has made some steps with bit-identical results; else never.

    Raises:
        UnsupportedCapture: `step` is not compiled.

    Example:
        >>> import jax, jax.numpy as jnp, optax, barograph
        >>> tx = optax.sgd(0.1)
        >>> @observe
        ... @jax.jit
        ... def step(params, state, x):
        ...     loss, grads = jax.value_and_grad(lambda w: jnp.mean((x @ w) ** 2))(params)
        ...     updates, state = tx.update(grads, state, params)
        ...     return optax.apply_updates(params, updates), state, loss
        >>> params = jnp.ones(3)
        >>> state = tx.init(params)
        >>> with barograph.attach(to="memory://observe", watch=False):
        ...     for _ in range(3):
        ...         params, state, loss = step(params, state, jnp.ones((4, 3)))
        >>> barograph.open("memory://observe").series("gradient:parameter", "l2").steps
        array([0, 1, 2])
    """
    if step is None:
        return functools.partial(observe, name=name, loss=loss, steps=steps, evaluation=evaluation, together=together)
    return _Observed(step, name, Options(loss, steps, evaluation, together))


def record(name: str, value: _Tree, *, kind: str = "output", layer: str = "") -> _Tree:
    """Return a value unchanged, and record it if the step that computes it is observed.

    Args:
        name: Path in the record. For a tree, the prefix of each path.
        value: An array or a tree of arrays inside a compiled step; `grad`, `vmap` and `scan` are supported.
        kind: Kind of data: "output", "input", "custom", …
        layer: Class of the layer, such as "relu"; rules select layers by it.

    Raises:
        UnknownName: No such kind.
    """
    marked: _Tree = mark_tree(kind_from_name(kind), value, name, layer)
    return marked


def gradients(value: _Tree) -> _Tree:
    """Return gradients unchanged, and record them; for steps that update without Optax."""
    marked: _Tree = mark_tree(Kind.GRADIENT, value)
    return marked


def predictions(labels: Any, predictions: Any, name: str = "predictions") -> None:
    """Count labels and predictions inside a compiled step.

    Args:
        labels: Class numbers, or one-hot rows.
        predictions: Class numbers, or one row of scores per sample, of which the highest counts.
        name: Name in the record, as in `label:NAME[3]` and `confusion:NAME[3,5]`.
    """
    for array, what in ((labels, Mark(Kind.LABEL, name, role="labels")),
                        (predictions, Mark(Kind.CONFUSION, name, role="predictions"))):
        in_rows = jnp.ndim(array) > min(jnp.ndim(labels), jnp.ndim(predictions))
        in_rows = in_rows or jnp.issubdtype(array.dtype, jnp.floating)
        mark(array.argmax(-1) if in_rows and jnp.ndim(array) else array, what)
    mark_rows(name, predictions, labels)


def probe(model: Callable[[Any], Any], inputs: Any, targets: Any = None) -> None:
    """Record outputs of a model for a fixed set of samples. Call it at each evaluation, with the same samples.

    Latent space, saliency maps and results of single samples come from it. Without an active run it does nothing.

    Args:
        model: Takes inputs and returns a score per class, without softmax, or one number: for example
            `lambda x: net.apply(params, x)`. It may return a pair: the scores, and a row of features per sample, which
            is stored instead of the scores.
        inputs: Samples, along the first axis. The first 500 different ones are used, or the number of `[probe]`.
        targets: One class number, one-hot row or number per sample; None: unknown.

    Raises:
        SettingsError: The inputs are not an array with a row per sample.
    """
    recording = recording_now()
    if recording is not None:
        shared(recording).probe(recording, model, inputs, targets)


class _Observed:
    """A compiled step that is recorded."""

    def __init__(self, step: Callable[..., Any], name: str, options: Options) -> None:
        self._compiled = Compiled(step)
        self._name, self._options = name, options
        self._recorded: Callable[[], Any] = lambda: None
        self._step: ObservedStep | None = None
        functools.update_wrapper(self, step)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        recording = recording_now()
        if recording is None:
            instead = called_instead()
            return self._compiled.step(*args, **kwargs) if instead is None else instead.call(
                self._compiled, loss=self._options.loss, evaluation=self._options.evaluation, args=args, kwargs=kwargs)
        if self._recorded() is not recording:
            self._recorded, self._step = weakref.ref(recording), self._begin(recording)
        return self._step.call(args, kwargs) if self._step is not None else self._compiled.step(*args, **kwargs)

    def _begin(self, recording: Any) -> ObservedStep:
        own = shared(recording)
        if self._name:
            series = recording.array_integration(self._name)
        elif own.series is None:
            series = own.series = recording.array_integration()
        else:
            series = own.series if self._options.evaluation else recording.new_array_integration()
        # It applies to JAX as well, as docs/reference/jax.md describes.
        recording.session.seen.reasons.pop("the flight recorder", None)
        probe = own.automatic_probe(recording) if self._options.evaluation else None
        return ObservedStep(series, self._compiled, self._options, *own.wrappers(), probe)

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return self if owner is None else functools.partial(self, owner)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compiled.step, name)
