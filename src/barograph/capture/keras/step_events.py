"""Records events inside a Keras step in its collector, and withholds an unfit update."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import keras

from barograph.capture.keras.collector import Collector
from barograph.capture.keras.replicas import SharedStep


class StepEvents:
    """Receives the wrappers' calls inside a step.

    Replicas of a step take turns, each in its own thread, so each thread has its own collector.
    """

    def __init__(self) -> None:
        self._of_thread = threading.local()
        self._shared: SharedStep | None = None

    # Overridable

    def catching_errors(self, doing: str) -> Any:
        """Return a context that catches errors of ours."""
        return contextlib.nullcontext()

    def may_pass(self, collector: Collector, fits: bool) -> bool:
        """Return whether gradients with known values may be used."""
        return fits

    def values_unknown(self) -> None:
        """Note that a step is compiled, so gradients cannot be checked with Python code."""

    # Events from the wrappers

    def batch_called(self, method: Callable[..., Any], model: Any, args: Any, kwargs: Any) -> Any:
        """Call `train_on_batch`, `test_on_batch` or `predict_on_batch`."""
        return method(model, *args, **kwargs)

    def applied(self, apply: Callable[..., Any], optimizer: Any, args: Any, kwargs: Any) -> Any:
        """Pass the gradients to the collector before an optimizer uses them."""
        collector = self._collector
        if collector is None or collector.applying:
            return apply(optimizer, *args, **kwargs)
        given = {**dict(zip(("grads", "trainable_variables"), args, strict=False)), **kwargs}
        gradients, variables = list(given["grads"]), given.get("trainable_variables")
        variables = list(_variables_of(optimizer) if variables is None else variables)
        if not optimizer.built:
            optimizer.build(variables)
        fits = None
        with self.catching_errors("reading gradients"):
            fits = collector.applied(optimizer, gradients, variables)
        with collector.using_gradients():
            if collector.shared is not None and collector.wanted.gate:
                return collector.shared.apply(lambda: apply(optimizer, gradients, variables), self)
            if fits is None:
                return apply(optimizer, gradients, variables)
            if not collector.reach.is_known(fits):
                self.values_unknown()
                return keras.ops.cond(fits, lambda: apply(optimizer, gradients, variables), lambda: None)
            if self.may_pass(collector, bool(fits)):
                return apply(optimizer, gradients, variables)
        return None

    def applied_stateless(self, apply: Callable[..., Any], optimizer: Any, args: Any, kwargs: Any) -> Any:
        """As `applied`, with variables as arguments and results."""
        collector = self._collector
        if collector is None or collector.applying:
            return apply(optimizer, *args, **kwargs)
        names = ("optimizer_variables", "grads", "trainable_variables")
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        mapping = [*zip(optimizer.variables, given["optimizer_variables"], strict=False)]
        fits = None
        with self.catching_errors("reading gradients"), keras.StatelessScope(state_mapping=mapping):
            fits = collector.applied(optimizer, given["grads"], _variables_of(optimizer))
        with collector.using_gradients():
            if fits is None:
                return apply(optimizer, *args, **kwargs)
            self.values_unknown()
            return keras.ops.cond(fits, lambda: _as_lists(apply(optimizer, *args, **kwargs)),
                                  lambda: _as_lists((given["trainable_variables"], given["optimizer_variables"])))

    def gradient_asked(self, gradient: Callable[..., Any], tape: Any, args: Any, kwargs: Any) -> Any:
        """Pass target and sources of a tape's gradients to the collector."""
        result = gradient(tape, *args, **kwargs)
        collector = self._collector
        if collector is not None:
            given = {**dict(zip(("target", "sources"), args, strict=False)), **kwargs}
            with self.catching_errors("reading a gradient tape"):
                collector.gradient_asked(given["target"], given["sources"], result)
        return result

    def layer_called(self, call: Callable[..., Any], layer: Any, args: Any, kwargs: Any) -> Any:
        """Pass the inputs and the output of a layer to the collector."""
        collector = self._collector
        if collector is None:
            return call(layer, *args, **kwargs)
        with self.catching_errors("reading a layer"):
            collector.layer_begins(layer, kwargs)
        try:
            result = call(layer, *args, **kwargs)
        finally:
            collector.layer_ends()
        if collector is self._collector:
            with self.catching_errors("reading a layer"):
                collector.layer_called(layer, args, kwargs, result)
        return result

    def loss_called(self, call: Callable[..., Any], loss: Any, args: Any, kwargs: Any) -> Any:
        """Pass the arguments of a loss to the collector."""
        result = call(loss, *args, **kwargs)
        collector = self._collector
        if collector is not None:
            given = {**dict(zip(("y_true", "y_pred"), args, strict=False)), **kwargs}
            with self.catching_errors("reading a loss function's arguments"):
                collector.loss_called(loss, given["y_true"], given["y_pred"], result)
        return result

    @contextlib.contextmanager
    def collecting(self, collector: Collector) -> Iterator[None]:
        """Use a collector within a `with` block."""
        here = self._of_thread
        before, here.collector = getattr(here, "collector", None), collector
        try:
            yield
        finally:
            here.collector = before

    @contextlib.contextmanager
    def collecting_of_replicas(self, shared: SharedStep) -> Iterator[None]:
        """Use the collectors of the replicas that the step starts itself, within a `with` block."""
        before, self._shared = self._shared, shared
        try:
            with self.collecting(shared.whole):
                yield
        finally:
            self._shared = before

    @property
    def _collector(self) -> Collector | None:
        """The collector of this thread."""
        found: Collector | None = getattr(self._of_thread, "collector", None)
        return self._shared.mine() if found is None and self._shared is not None else found


def _as_lists(state: Any) -> tuple[list[Any], list[Any]]:
    """Return both lists of variables in one structure, as required for the two ends of a branch."""
    trainable, of_optimizer = state
    return list(trainable), list(of_optimizer)


def _variables_of(optimizer: Any) -> Any:
    """Return the variables of an optimizer: before 3.11, a loss-scaling one does not have them itself."""
    scales = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
    return (optimizer.inner_optimizer if scales else optimizer)._trainable_variables
