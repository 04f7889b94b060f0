"""`barograph.tensorflow.step` and `evaluation`: have a training loop of one's own recorded, with `tf.GradientTape`.

A `fit` of Keras needs none of it: see `barograph.keras`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from barograph.capture.keras.tap import Evaluation, Loop, Loops, listening

_Function = TypeVar("_Function", bound=Callable[..., Any])


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
    known: list[tuple[Loops, Loop]] = []

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        tap = listening()
        if tap is None:
            known.clear()
            return function(*args, **kwargs)
        if not known or known[0][0] is not tap:
            known[:] = [(tap, tap.new_loop(function))]
        return known[0][1].call(args, kwargs)

    return cast("_Function", call)


def evaluation(function: _Function) -> _Function:
    """Return a function that makes a part of an evaluation each time that it is called, and has its numbers recorded.

    Calls between two steps are one evaluation, in the mode "eval", after the steps that were made; its numbers are the
    means of what the calls returned. Of several numbers the loss is the one called "loss", else the first without a
    name, else the first with "loss" in its name; others that have names are metrics.

    Args:
        function: Returns a number, several, or a dictionary of them: a `tf.function`, or a plain one.

    Example:
        @barograph.tensorflow.evaluation
        @tf.function
        def evaluate(x, y):
            return {"loss": loss_function(y, model(x, training=False))}
    """
    known: list[tuple[Loops, Evaluation]] = []

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        result, tap = function(*args, **kwargs), listening()
        if tap is None:
            known.clear()
            return result
        if not known or known[0][0] is not tap:
            known[:] = [(tap, tap.new_evaluation())]
        known[0][1].take(result)
        return result

    return cast("_Function", call)
