"""A saved Keras step inside the replaying script: a step of a model's `fit`, or of a custom loop."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, Protocol

from barograph.capsule.keras.backends import Hand
from barograph.capsule.keras.batch import CapturedBatch
from barograph.capsule.keras.state import CapturedState, Values, assign
from barograph.capture.keras.collector import Collector, Seen, Wanted
from barograph.capture.keras.functions import Functions
from barograph.capture.keras.loop_functions import LoopFunctions
from barograph.capture.keras.names import KerasNames, Names
from barograph.capture.keras.random import put_back
from barograph.errors import ReplayFailed

_BUILDS = Wanted(gate=True, norm_above=-1.0)
"""Every norm exceeds this bound, so the update is always rejected, and all variables exist afterwards."""


class Step(Protocol):
    """A step that can run repeatedly from the same state."""

    @property
    def names(self) -> Names:
        """Names of its variables and layers."""

    def prepare(self) -> None:
        """Check that everything in the capsule has a counterpart.

        Raises:
            ReplayFailed: Something has none.
        """

    def make(self, wanted: Wanted, rows: Sequence[int] = ()) -> tuple[Seen, list[str]]:
        """Run the step with the whole batch or only some rows; return its outputs and their paths."""

    def passes(self, collector: Collector) -> None:
        """Run it eagerly, observed by the collector."""


class FitStep:
    """A step of a model's `fit`.

    Args:
        functions: Builds its variants.
        model: The model.
        hand: Access to the backend.
        args: Arguments of the function.
        state, batch: State and batch of the capsule.
    """

    def __init__(self, functions: Functions, model: Any, hand: Hand, args: tuple[Any, ...], state: CapturedState,
                 batch: CapturedBatch) -> None:
        self._functions, self._model, self._hand, self._args = functions, model, hand, args
        self._state, self._batch = state, batch
        self._own = hand.batch(args)
        self._values: Values = []
        self.names = KerasNames(model)

    def prepare(self) -> None:
        model = self._model
        # Of several steps per call, only the last was saved.
        model.steps_per_execution = 1
        if not all(layer.built for layer in model._flatten_layers()):
            self._call(_BUILDS, ())
            self.names = KerasNames(model)
        if not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
        self._values = self._state.values(self.names, model.optimizer)

    def make(self, wanted: Wanted, rows: Sequence[int] = ()) -> tuple[Seen, list[str]]:
        seen = self._call(wanted, rows)
        if "norms" not in seen:
            raise ReplayFailed("The script's step applies its gradients without a Keras optimizer: none are recorded.")
        return seen, self._functions.paths

    def passes(self, collector: Collector) -> None:
        assign(self._values)
        put_back(self._state.random)
        self._hand.passes(self._model, self._batch.in_place_of_data(self._own), collector)

    def _call(self, wanted: Wanted, rows: Sequence[int]) -> Seen:
        batch = self._batch.in_place_of_data(self._own, rows)
        put_back(self._state.random)
        args = self._hand.arguments(self._model, self._args, batch, self._values)
        seen: Seen = self._functions.call(self.names, wanted, args)[1]
        return seen


class LoopStep:
    """A step of a custom loop with a TensorFlow gradient tape.

    Args:
        functions: Builds its variants.
        args, kwargs: Arguments of the step.
        state, batch: State and batch of the capsule.
    """

    def __init__(self, functions: LoopFunctions, args: tuple[Any, ...], kwargs: dict[str, Any], state: CapturedState,
                 batch: CapturedBatch) -> None:
        self._functions, self._args, self._kwargs = functions, args, kwargs
        self._state, self._batch = state, batch
        self._values: Values = []
        self.names = functions.names

    def prepare(self) -> None:
        # The step's models and optimizer are unknown until it is called.
        self._functions.call(_BUILDS, self._args, self._kwargs)
        if self._functions.optimizer is None:
            raise ReplayFailed("The script's step applies its gradients without a Keras optimizer.")
        self._values = self._state.values(self.names, self._functions.optimizer)

    def make(self, wanted: Wanted, rows: Sequence[int] = ()) -> tuple[Seen, list[str]]:
        assign(self._values)
        put_back(self._state.random)
        args, kwargs = self._arguments(rows)
        _, seen = self._functions.call(wanted, args, kwargs)
        return seen, self._functions.paths

    def passes(self, collector: Collector) -> None:
        tensorflow: Any = importlib.import_module("tensorflow")
        assign(self._values)
        put_back(self._state.random)
        args, kwargs = self._arguments(())
        # Nested functions are compiled differently.
        tensorflow.config.run_functions_eagerly(True)
        self._functions.plain(*args, **kwargs)

    def _arguments(self, rows: Sequence[int]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        found = self._batch.in_place_of_arguments((*self._args, *self._kwargs.values()), rows)
        return found[:len(self._args)], dict(zip(self._kwargs, found[len(self._args):], strict=True))
