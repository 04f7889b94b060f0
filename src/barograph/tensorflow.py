"""`barograph.tensorflow.step` and `evaluation`: record custom training loops with `tf.GradientTape`.

Keras's `fit` does not need them: see `barograph.keras`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

from barograph.capture.keras.integration import Loops, listening

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Made = TypeVar("_Made")


def step(function: _Function) -> _Function:
    """Decorate a training step, so that each call is recorded as one step.

    The loss is the target of the tape's gradients. The gradients are those passed to a Keras optimizer, or else those
    of the tape. Put the decorator above `tf.function`, never below: values leave a graph only as results. Without a
    recording, the function is called unchanged.

    Args:
        function: Runs one step; a `tf.function` or a plain function.

    Example:
        @barograph.tensorflow.step
        @tf.function
        def train_step(x, y):
            with tf.GradientTape() as tape:
                loss = loss_function(y, model(x, training=True))
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))
            return loss
    """
    kept = _Kept(lambda loops: loops.new_loop(function))

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        loop = kept.now()
        return function(*args, **kwargs) if loop is None else loop.call(args, kwargs)

    return cast("_Function", call)


def evaluation(function: _Function) -> _Function:
    """Decorate an evaluation function, so that its calls are recorded in mode "eval".

    Calls between two training steps form one evaluation; the means of their results are recorded. If a call returns
    several numbers, the loss is the one named "loss", else the first unnamed one, else the first with "loss" in its
    name. Other named numbers are metrics. Labels, predictions and targets are taken from calls of Keras losses. Put the
    decorator above `tf.function`.

    Args:
        function: Returns a number, several numbers, or a dictionary of them; a `tf.function` or a plain function.

    Example:
        @barograph.tensorflow.evaluation
        @tf.function
        def evaluate(x, y):
            return {"loss": loss_function(y, model(x, training=False))}
    """
    kept = _Kept(lambda loops: loops.new_evaluation(function))

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        made = kept.now()
        return function(*args, **kwargs) if made is None else made.call(args, kwargs)

    return cast("_Function", call)


class _Kept(Generic[_Made]):
    """An object that belongs to the current recording; created again for each recording."""

    def __init__(self, make: Callable[[Loops], _Made]) -> None:
        self._make = make
        self._known: tuple[Loops, _Made] | None = None

    def now(self) -> _Made | None:
        """Return the object; None while nothing is recorded."""
        loops = listening()
        if loops is None:
            self._known = None
            return None
        if self._known is None or self._known[0] is not loops:
            self._known = loops, self._make(loops)
        return self._known[1]
