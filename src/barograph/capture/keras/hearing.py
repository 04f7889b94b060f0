"""Hears what Keras does in a step, tells the collector of that step, and withholds an update that it finds unfit."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import keras

from barograph.capture.keras.collector import Collector


class Hearing:
    """What the wrappers tell of the inside of a step; whoever hears says beside that how a step is begun."""

    def __init__(self) -> None:
        self._collector: Collector | None = None
        self._depth = 0

    # What whoever hears may say otherwise

    def told_of(self, doing: str) -> Any:
        """Return a context in which errors of ours are dealt with."""
        return contextlib.nullcontext()

    def may_pass(self, collector: Collector, fits: bool) -> bool:
        """Return whether gradients whose values are known may be used."""
        return fits

    def values_unknown(self) -> None:
        """Note that a step is compiled: nobody is asked about its gradients."""

    # What the wrappers tell

    def applied(self, apply: Callable[..., Any], optimizer: Any, args: Any, kwargs: Any) -> Any:
        """Tell the collector of the gradients that an optimizer is about to use."""
        collector = self._collector
        if collector is None or self._depth:
            return apply(optimizer, *args, **kwargs)
        given = {**dict(zip(("grads", "trainable_variables"), args, strict=False)), **kwargs}
        gradients, variables = list(given["grads"]), given.get("trainable_variables")
        variables = list(optimizer._trainable_variables if variables is None else variables)
        if not optimizer.built:
            optimizer.build(variables)
        fits = None
        with self.told_of("reading gradients"):
            fits = collector.applied(optimizer, gradients, variables)
        with self._within():
            if fits is None:
                return apply(optimizer, gradients, variables)
            if not collector.reach.is_known(fits):
                self.values_unknown()
                return keras.ops.cond(fits, lambda: apply(optimizer, gradients, variables), lambda: None)
            if self.may_pass(collector, bool(fits)):
                return apply(optimizer, gradients, variables)
        return None

    def applied_stateless(self, apply: Callable[..., Any], optimizer: Any, args: Any, kwargs: Any) -> Any:
        """Do likewise, where the variables are handed over."""
        collector = self._collector
        if collector is None or self._depth:
            return apply(optimizer, *args, **kwargs)
        names = ("optimizer_variables", "grads", "trainable_variables")
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        mapping = [*zip(optimizer.variables, given["optimizer_variables"], strict=False)]
        fits = None
        with self.told_of("reading gradients"), keras.StatelessScope(state_mapping=mapping):
            fits = collector.applied(optimizer, given["grads"], optimizer._trainable_variables)
        with self._within():
            if fits is None:
                return apply(optimizer, *args, **kwargs)
            self.values_unknown()
            return keras.ops.cond(fits, lambda: _as_lists(apply(optimizer, *args, **kwargs)),
                                  lambda: _as_lists((given["trainable_variables"], given["optimizer_variables"])))

    def gradient_asked(self, gradient: Callable[..., Any], tape: Any, args: Any, kwargs: Any) -> Any:
        """Tell the collector what gradients are computed of, and of which variables."""
        result = gradient(tape, *args, **kwargs)
        collector = self._collector
        if collector is not None:
            given = {**dict(zip(("target", "sources"), args, strict=False)), **kwargs}
            with self.told_of("reading a tape"):
                collector.gradient_asked(given["target"], given["sources"], result)
        return result

    def layer_called(self, call: Callable[..., Any], layer: Any, args: Any, kwargs: Any) -> Any:
        """Tell the collector what a layer was called with and what it returned."""
        collector = self._collector
        if collector is None:
            return call(layer, *args, **kwargs)
        with self.told_of("reading a layer"):
            collector.layer_begins(layer)
        try:
            result = call(layer, *args, **kwargs)
        finally:
            collector.layer_ends()
        if collector is self._collector:
            with self.told_of("reading a layer"):
                collector.layer_called(layer, args, kwargs, result)
        return result

    @contextlib.contextmanager
    def collecting(self, collector: Collector) -> Iterator[None]:
        """Have a collector told, within a `with` block."""
        before, self._collector = self._collector, collector
        try:
            yield
        finally:
            self._collector = before

    @contextlib.contextmanager
    def _within(self) -> Iterator[None]:
        """Tell nothing of what an optimizer calls itself in turn."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1


def _as_lists(state: Any) -> tuple[list[Any], list[Any]]:
    """Return both lists of variables in one shape: the two ends of a branch must be alike."""
    trainable, of_optimizer = state
    return list(trainable), list(of_optimizer)
