"""`barograph.tensorflow.step` and `evaluation`: have a training loop of one's own recorded, with `tf.GradientTape`.

A `fit` of Keras needs none of it: see `barograph.keras`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

from barograph.capture.keras.integration import Loops, listening

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Made = TypeVar("_Made")


def step(function: _Function) -> _Function:
    """Return a function that makes one step of the training each time that it is called, and has it recorded.

    Its loss is what its tape computes gradients of; its gradients are those that an optimizer of Keras is given, or
    those of the tape. It stands above `tf.function`, never below: what a graph computes can be had only as its result.
    While nothing is recorded, the function is called as it is.

    Args:
        function: Makes one step: a `tf.function`, or a plain one.

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
    """Return a function that makes a part of an evaluation each time that it is called, and has its numbers recorded.

    Calls between two steps are one evaluation, in the mode "eval", after the steps that were made; its numbers are the
    means of what the calls returned. Of several numbers the loss is the one called "loss", else the first without a
    name, else the first with "loss" in its name; others that have names are metrics. Labels, answers and targets are
    those that losses of Keras are called with in it. It stands above `tf.function`, as a step does.

    Args:
        function: Returns a number, several, or a dictionary of them: a `tf.function`, or a plain one.

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
    """What a function has of the recording that listens; of another recording it is made anew.

    Args:
        make: Makes it.
    """

    def __init__(self, make: Callable[[Loops], _Made]) -> None:
        self._make = make
        self._known: tuple[Loops, _Made] | None = None

    def now(self) -> _Made | None:
        """Return it; None while nothing is recorded."""
        loops = listening()
        if loops is None:
            self._known = None
            return None
        if self._known is None or self._known[0] is not loops:
            self._known = loops, self._make(loops)
        return self._known[1]
