"""The reversible wrappers on Keras: the only places where Barograph replaces something of it.

Keras has callbacks, but none with access to a gradient, a layer's output or the loss of one batch. These are wrapped:

- `keras.Model.make_train_function` and `keras.Model.make_test_function`: they make the steps of `fit`, `evaluate` and
  similar.
- `keras.Model.fit`, `keras.Model.evaluate`, `keras.Model.predict`: an evaluation ends; with the torch backend, the
  integration
  of torch stands aside meanwhile, as it does in `train_on_batch`, `test_on_batch` and `predict_on_batch`.
- `keras.optimizers.Optimizer.apply` and `keras.optimizers.Optimizer.stateless_apply`, and those of
  `keras.optimizers.LossScaleOptimizer`: gradients before their use.
- `keras.layers.Layer.__call__`: inputs and output of a layer.
- with the TensorFlow backend, `tensorflow.GradientTape.gradient`: target and sources of gradients; and
  `keras.losses.Loss.__call__`: arguments of a loss in a custom loop.

Each calls the original with its arguments and returns its result, unless a step is withheld. `undo` restores the
originals; if someone has wrapped ours meanwhile, ours stays but does nothing.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any, Protocol

import keras


class Listener(Protocol):
    """Receives the wrappers' calls, and calls the original."""

    def function_made(self, make: Callable[..., Any], model: Any, args: Any, kwargs: Any, what: str) -> Any:
        """Let Keras make a function of its model's step, "train" or "test"."""

    def training_called(self, method: Callable[..., Any], model: Any, args: Any, kwargs: Any) -> Any:
        """Call `fit`, `evaluate` or `predict`."""

    def batch_called(self, method: Callable[..., Any], model: Any, args: Any, kwargs: Any) -> Any:
        """Call `train_on_batch`, `test_on_batch` or `predict_on_batch`."""

    def applied(self, apply: Callable[..., Any], optimizer: Any, args: Any, kwargs: Any) -> Any:
        """Let an optimizer use gradients."""

    def applied_stateless(self, apply: Callable[..., Any], optimizer: Any, args: Any, kwargs: Any) -> Any:
        """Let an optimizer use gradients, with variables as arguments and results."""

    def gradient_asked(self, gradient: Callable[..., Any], tape: Any, args: Any, kwargs: Any) -> Any:
        """Let a tape compute gradients."""

    def layer_called(self, call: Callable[..., Any], layer: Any, args: Any, kwargs: Any) -> Any:
        """Call a layer."""

    def loss_called(self, call: Callable[..., Any], loss: Any, args: Any, kwargs: Any) -> Any:
        """Call a loss."""


class Wrappers:
    """The wrappers of one recording.

    Args:
        listener: Receives the events.
    """

    def __init__(self, listener: Listener) -> None:
        self._listener: Listener | None = listener
        self._undo: list[Callable[[], None]] = []

    def install(self, *, tapes: bool) -> None:
        """Install the wrappers; `tapes`: also those of TensorFlow."""
        for name, what in (("make_train_function", "train"), ("make_test_function", "test")):
            self._wrap(keras.Model, name, functools.partial(_make, what=what))
        for name in ("fit", "evaluate", "predict"):
            self._wrap(keras.Model, name, _train)
        for name in ("train_on_batch", "test_on_batch", "predict_on_batch"):
            self._wrap(keras.Model, name, _batch)
        for owner in (keras.optimizers.Optimizer, keras.optimizers.LossScaleOptimizer):
            self._wrap(owner, "apply", _apply)
            self._wrap(owner, "stateless_apply", _stateless_apply)
        self._wrap(keras.layers.Layer, "__call__", _call)
        if tapes:
            tensorflow: Any = importlib.import_module("tensorflow")
            self._wrap(tensorflow.GradientTape, "gradient", _gradient)
            self._wrap(keras.losses.Loss, "__call__", _loss)

    def undo(self) -> None:
        """Put the originals back."""
        self._listener = None
        for put_back in reversed(self._undo):
            put_back()
        self._undo.clear()

    def _wrap(self, owner: Any, name: str, around: Callable[..., Any]) -> None:
        """Replace a method where it is defined: in `owner`, or in a base class."""
        holder = next(kind for kind in owner.__mro__ if name in vars(kind))
        original = vars(holder)[name]
        if getattr(original, "of_barograph", None) is self:
            return

        @functools.wraps(original)
        def wrapper(self_: Any, *args: Any, **kwargs: Any) -> Any:
            listener = self._listener
            if listener is None:
                return original(self_, *args, **kwargs)
            return around(listener, original, self_, args, kwargs)

        wrapper.of_barograph = self  # type: ignore[attr-defined]
        setattr(holder, name, wrapper)

        def put_back() -> None:
            if vars(holder).get(name) is wrapper:
                setattr(holder, name, original)

        self._undo.append(put_back)


def _make(listener: Listener, original: Callable[..., Any], model: Any, args: Any, kwargs: Any, *, what: str) -> Any:
    return listener.function_made(original, model, args, kwargs, what)


def _train(listener: Listener, original: Callable[..., Any], model: Any, args: Any, kwargs: Any) -> Any:
    return listener.training_called(original, model, args, kwargs)


def _batch(listener: Listener, original: Callable[..., Any], model: Any, args: Any, kwargs: Any) -> Any:
    return listener.batch_called(original, model, args, kwargs)


def _apply(listener: Listener, original: Callable[..., Any], optimizer: Any, args: Any, kwargs: Any) -> Any:
    return listener.applied(original, optimizer, args, kwargs)


def _stateless_apply(listener: Listener, original: Callable[..., Any], optimizer: Any, args: Any, kwargs: Any) -> Any:
    return listener.applied_stateless(original, optimizer, args, kwargs)


def _gradient(listener: Listener, original: Callable[..., Any], tape: Any, args: Any, kwargs: Any) -> Any:
    return listener.gradient_asked(original, tape, args, kwargs)


def _call(listener: Listener, original: Callable[..., Any], layer: Any, args: Any, kwargs: Any) -> Any:
    return listener.layer_called(original, layer, args, kwargs)


def _loss(listener: Listener, original: Callable[..., Any], loss: Any, args: Any, kwargs: Any) -> Any:
    return listener.loss_called(original, loss, args, kwargs)
