"""How a Keras step gets its batch and its variables on each backend."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import keras
import numpy as np

from barograph.capsule.keras.state import Values, assign
from barograph.capture.keras.arrays import array_of
from barograph.capture.keras.collector import Collector
from barograph.capture.keras.replicas import values_of


class Hand(Protocol):
    """Calls a step on one backend."""

    def batch(self, args: tuple[Any, ...]) -> Any:
        """Return the batch that the function was called with."""

    def arguments(self, model: Any, args: tuple[Any, ...], batch: Any, values: Values) -> tuple[Any, ...]:
        """Return the function's arguments with another batch, and set the variables to other values."""

    def passes(self, model: Any, batch: Any, collector: Collector) -> None:
        """Run the step eagerly up to the gradients, without an update."""


class _Same:
    """An iterator that repeats one batch."""

    def __init__(self, batch: Any) -> None:
        self._batch = batch

    def __iter__(self) -> _Same:
        return self

    def __next__(self) -> Any:
        return self._batch


class TensorFlowHand:
    """Calls the function with an iterator."""

    def __init__(self) -> None:
        self._tensorflow: Any = importlib.import_module("tensorflow")

    def batch(self, args: tuple[Any, ...]) -> Any:
        return next(args[0])

    def arguments(self, model: Any, args: tuple[Any, ...], batch: Any, values: Values) -> tuple[Any, ...]:
        assign(values)
        if not isinstance(args[0], self._tensorflow.data.Iterator):
            return (_Same(batch),)
        # Not a plain iterator, whose values would be constants of the graph.
        return (iter(self._tensorflow.data.Dataset.from_tensors(batch).repeat()),)

    def passes(self, model: Any, batch: Any, collector: Collector) -> None:
        # Without a strategy, which would run each replica separately.
        whole = keras.tree.map_structure(self._joined, batch)
        with collector.listening_to(model):
            model.train_step(whole)

    def _joined(self, value: Any) -> Any:
        parts = values_of(value)
        return self._tensorflow.concat(parts, 0) if parts else value


class TorchHand:
    """Calls the function with a batch."""

    def batch(self, args: tuple[Any, ...]) -> Any:
        return args[0][0]

    def arguments(self, model: Any, args: tuple[Any, ...], batch: Any, values: Values) -> tuple[Any, ...]:
        assign(values)
        return ((batch,),)

    def passes(self, model: Any, batch: Any, collector: Collector) -> None:
        with collector.listening_to(model):
            model.train_step(batch)


class JaxHand:
    """Calls the function with the values of all variables, which it may donate, and an iterator."""

    def __init__(self) -> None:
        self._own: list[list[Any]] = []

    def batch(self, args: tuple[Any, ...]) -> Any:
        return next(args[1])

    def arguments(self, model: Any, args: tuple[Any, ...], batch: Any, values: Values) -> tuple[Any, ...]:
        if not self._own:
            self._own = [[np.array(array_of(value)) for value in group] for group in args[0]]
        held = {id(variable): array for variable, array in values}
        owners = (model.trainable_variables, model.non_trainable_variables, model.optimizer.variables,
                  model.metrics_variables)
        state = tuple([keras.ops.convert_to_tensor(np.array(held.get(id(variable), own)))
                       for variable, own in zip(variables, group, strict=True)]
                      for variables, group in zip(owners, self._own, strict=True))
        return state, _Same(batch)

    def passes(self, model: Any, batch: Any, collector: Collector) -> None:
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(batch)
        # Gradients are a function within a trace here, so only Keras's own way from x to the loss can run.
        training = {"training": True} if model._call_has_training_arg else {}
        with collector.listening_to(model):
            model.compute_loss(x=x, y=y, y_pred=model(x, **training), sample_weight=sample_weight, training=True)


HANDS: Mapping[str, Callable[[], Hand]] = {"tensorflow": TensorFlowHand, "torch": TorchHand, "jax": JaxHand}
