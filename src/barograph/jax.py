"""Recording of JAX trainings: `observe` around the compiled step, and marks within it.

JAX hands a training to the device as one program, so what goes on inside must come out of that program: `observe` has a
second program made of the step, which returns statistics, and calls it at those steps at which something is due. The
step itself is made by the user's own compiled function, unchanged.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

import jax.numpy as jnp

from barograph.capture.jax.listener import called_instead, recording_now, shared
from barograph.capture.jax.marks import Mark, mark
from barograph.capture.jax.optax import mark_tree
from barograph.capture.jax.program import Compiled
from barograph.capture.jax.step import ObservedStep, Options
from barograph.model.key import Kind, kind_from_name

__all__ = ["gradients", "observe", "predictions", "record"]

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
    """Return a compiled training step that is recorded, wherever a recording goes on; without one it is as before.

    Each call is a step of the optimizer; of a call that runs a `scan` over steps, each turn is one. Gradients, updates,
    weights and what the optimizer keeps are seen where Optax is used; the layers of Flax and Equinox likewise. The loss
    is the first plain number among the results, or that which is called "loss"; other numbers with names are metrics.

    Args:
        step: What `jax.jit`, `jax.pmap`, `nnx.jit` or `equinox.filter_jit` returned. None: a decorator is returned.
        name: Of the series of steps, where a training has several (a GAN has two).
        loss: Returns the loss of what the step returns, where it is not found.
        steps: Optimizer steps that one call makes, where no loop around Optax tells.
        evaluation: A call is no step, but a part of an evaluation.
        together: Whether statistics are computed in one program with the step, for a small part of its time; the
            compiler may then round its results otherwise. False: never; the user's own compiled function makes every
            step, and a second program computes the statistics, which takes about as long as the step once more. None:
            on a CPU, where that program has made some steps with the same bits as the user's own; else never.

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
    """Return a value as it is, and have it recorded under a name where the step that computes it is observed.

    Args:
        name: Path under which it is recorded; of a tree, what each path begins with.
        value: An array or a tree of arrays, within a compiled step: under `grad`, `vmap`, `scan` too.
        kind: What it is: "output", "input", "custom", …
        layer: Class of the layer it belongs to, by which rules know what they look at: "relu", …

    Raises:
        UnknownName: There is no such kind.
    """
    marked: _Tree = mark_tree(kind_from_name(kind), value, name, layer)
    return marked


def gradients(value: _Tree) -> _Tree:
    """Return gradients as they are, and have them recorded; for steps that update without Optax."""
    marked: _Tree = mark_tree(Kind.GRADIENT, value)
    return marked


def predictions(labels: Any, answers: Any, name: str = "predictions") -> None:
    """Have labels and answers counted, within a compiled step.

    Args:
        labels: Class numbers, or one-hot rows.
        answers: Class numbers, or one row of scores each, whose greatest counts.
        name: Under which they are recorded, as in `label:NAME[3]` and `confusion:NAME[3,5]`.
    """
    for array, what in ((labels, Mark(Kind.LABEL, name, role="labels")),
                        (answers, Mark(Kind.CONFUSION, name, role="answers"))):
        in_rows = jnp.ndim(array) > min(jnp.ndim(labels), jnp.ndim(answers))
        in_rows = in_rows or jnp.issubdtype(array.dtype, jnp.floating)
        mark(array.argmax(-1) if in_rows and jnp.ndim(array) else array, what)


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
        # They hold for JAX as well, in the way that docs/reference/jax.md tells.
        recording.session.seen.reasons.pop("the flight recorder", None)
        return ObservedStep(series, self._compiled, self._options, *own.wrappers())

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return self if owner is None else functools.partial(self, owner)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compiled.step, name)
