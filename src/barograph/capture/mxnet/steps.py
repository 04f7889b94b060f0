"""Reads one Trainer step: gradients before the update, weights before and after, optimizer state.

A Trainer first reduces the gradients of its contexts, then updates. If its key-value store makes updates
(`update_on_kvstore`), both are one operation, and gradients stay separate in their contexts: they are summed here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from mxnet.ndarray import NDArray

from barograph.capture.mxnet.arrays import array_of, wait_for
from barograph.capture.mxnet.names import GluonNames
from barograph.capture.mxnet.trainers import Entry, Slot, TrainerBook
from barograph.model.facts import Fact
from barograph.model.key import Kind

if TYPE_CHECKING:
    from barograph.capture.array_integration import ArrayIntegration

_STATES: dict[str, tuple[str, ...]] = {
    "SGD": ("momentum_buffer",), "NAG": ("momentum_buffer",), "Signum": ("momentum_buffer",),
    "LARS": ("momentum_buffer",), "Adam": ("exp_avg", "exp_avg_sq"), "LAMB": ("exp_avg", "exp_avg_sq"),
    "Nadam": ("exp_avg", "exp_avg_sq"), "Adamax": ("exp_avg", "exp_inf"), "AdaGrad": ("sum",),
    "RMSProp": ("square_avg", "grad_avg", "momentum_buffer"), "AdaDelta": ("square_avg", "acc_delta"),
}
"""Optimizer states with the names that rules use: those of torch's optimizers."""


class StepUnderWay:
    """The current step of one Trainer.

    Args:
        trainer: The Trainer.
        entry: Its entry.
        slots: Returns its Parameters.
        names: Names of the models.
    """

    def __init__(self, trainer: Any, entry: Entry, slots: Callable[[], list[Slot]], names: GluonNames) -> None:
        self.trainer = trainer
        self.integration: ArrayIntegration = entry.integration
        self._find_slots = slots
        self._names = names

    @functools.cached_property
    def _slots(self) -> list[Slot]:
        return [slot for slot in self._find_slots() if slot.parameter._data is not None]

    @functools.cached_property
    def _layers(self) -> dict[str, str]:
        return {slot.path: slot.layer for slot in self._slots}

    def before(self, kept: Mapping[int, Any]) -> None:
        """Record gradients, and keep weights before their update, if due.

        Args:
            kept: Gradients before clipping, by the ID of the first context's array.
        """
        integration = self.integration
        if integration.due(Kind.GRADIENT, Kind.GRADIENT_CLIPPED):
            grads: dict[str, list[Any]] = {}
            with integration.guarded("finding gradients"):
                grads = {slot.path: self._grads(slot) for slot in self._slots if _is_fresh(slot.parameter)}
                integration.declare(parameters=self._layers, modules=self._names.leaves())
            wait_for(item for items in grads.values() for item in items)
            scale = self.trainer._optimizer.rescale_grad
            first = {path: kept.get(id(items[0])) for path, items in grads.items()}
            integration.take(Kind.GRADIENT, {path: _sum_of(items, first[path], scale) for path, items in grads.items()},
                     layers=self._layers)
            integration.take(Kind.GRADIENT_CLIPPED, {path: _sum_of(items, None, scale) for path, items in grads.items()
                                             if first[path] is not None}, layers=self._layers)
        if integration.taking(Kind.FACT, Fact.FROZEN.value) is not None:
            integration.fact(
                Fact.PARAMETERS, len(self.trainer._params) - self._count(lambda item: not item._differentiable)
            )
            integration.fact(Fact.FROZEN, self._count(lambda item: item._differentiable and item.grad_req == "null"))
        if integration.due(Kind.UPDATE):
            weights = self._weights()
            wait_for(weights.values())
            # The result of `asnumpy` is already a copy.
            integration.before_update(_lazily(weights), layers=self._layers, copy=False)

    def after(self, rate: float | None) -> None:
        """Record weights and optimizer state, and end the step.

        Args:
            rate: The learning rate; None: unknown here.

        Raises:
            TrainingStopped: A finding stopped the training.
        """
        integration = self.integration
        if rate is not None:
            integration.learning_rate(rate)
        if integration.due(Kind.WEIGHT, Kind.UPDATE):
            weights = self._weights()
            wait_for(weights.values())
            integration.after_update(_lazily(weights), layers=self._layers)
        if integration.due(Kind.OPTIMIZER_STATE):
            states: dict[str, Any] = {}
            with integration.guarded("reading the state of an optimizer"):
                states = dict(self._states())
            wait_for(states.values())
            integration.take(Kind.OPTIMIZER_STATE, _lazily(states))
        skipped = False
        with integration.guarded("ending a step"):
            skipped = self._was_skipped()
        integration.end_step(skipped=skipped)

    def _count(self, which: Callable[[Any], bool]) -> int:
        """Return the number of matching Parameters of the Trainer. Moving averages of batch normalization do not
        count."""
        return sum(map(which, self.trainer._params))

    def _grads(self, slot: Slot) -> list[Any]:
        grads: list[Any] = slot.parameter._grad or []
        return grads if updates_on_store(self.trainer) else grads[:1]

    def _weights(self) -> dict[str, Any]:
        """Return the weights of the first context: those of the others are the same."""
        weights: dict[str, Any] = {}
        with self.integration.guarded("finding weights"):
            weights = {slot.path: slot.parameter._data[0] for slot in self._slots}
        return weights

    def _states(self) -> Iterator[tuple[str, Any]]:
        trainer = self.trainer
        updater = getattr(trainer._kvstore, "_updater", None) if updates_on_store(trainer) else trainer._updaters[0]
        names = _STATES.get(type(trainer._optimizer).__name__, ())
        for slot in self._slots:
            # For a half-precision weight, the optimizer also keeps a full-precision copy.
            is_half = trainer._optimizer.multi_precision and slot.parameter._data[0].dtype == np.float16
            state = None if updater is None or is_half else updater.states.get(slot.index)
            parts = state if isinstance(state, list | tuple) else [state]
            for number, part in enumerate(parts):
                if isinstance(part, NDArray):
                    yield f"{slot.path}[{names[number] if number < len(names) else f'state{number}'}]", part

    def _was_skipped(self) -> bool:
        """Return whether gradients overflowed in mixed precision: then they are still the earlier ones."""
        scaler = getattr(self.trainer, "_amp_loss_scaler", None)
        if scaler is None or updates_on_store(self.trainer):
            return False
        self.integration.fact(Fact.LOSS_SCALE, float(scaler.loss_scale))
        return any(_is_fresh(slot.parameter) for slot in self._slots)


class Steps:
    """The steps of all Trainers.

    Args:
        trainers: Trainers of the script.
        names: Names of the models.
    """

    def __init__(self, trainers: TrainerBook, names: GluonNames) -> None:
        self._trainers = trainers
        self._names = names
        self._kept: dict[int, Any] = {}
        self._seen: set[int] = set()
        self._reduced: set[int] = set()

    def begin(self, trainer: Any) -> StepUnderWay:
        """Return the step that a Trainer is about to make."""
        entry = self._trainers.entry(trainer)
        return StepUnderWay(trainer, entry, functools.partial(self._trainers.slots, trainer), self._names)

    def reduced(self, trainer: Any) -> None:
        """Note that a Trainer has reduced the gradients of its contexts: each has the sum now."""
        self._reduced.add(id(trainer))

    def found_before_clipping(self, arrays: Iterable[Any]) -> list[tuple[int, Any]]:
        """Return the arrays that are gradients of a recorded step and are clipped for the first time.

        Each comes with the ID of its Parameter's array in the first context.
        """
        given = {id(array): array for array in arrays}
        found: list[tuple[int, Any]] = []
        for entry in self._trainers.entries():
            trainer = entry.trainer()
            if trainer is None or not entry.integration.due(Kind.GRADIENT):
                continue
            for slot in self._trainers.slots(trainer):
                grads = slot.parameter._grad or []
                parts = grads[:1] if id(trainer) in self._reduced else grads
                found += [(id(grads[0]), part) for part in parts if id(part) in given and id(part) not in self._seen]
        return found

    def keep(self, found: Iterable[tuple[int, Any]]) -> None:
        """Keep gradients before clipping; those of several contexts are summed."""
        for first, array in found:
            self._seen.add(id(array))
            value = array_of(array)
            self._kept[first] = self._kept[first] + value if first in self._kept else value

    def take_kept(self, trainer: Any) -> Mapping[int, Any]:
        """Return the kept gradients of a Trainer's current step."""
        self._reduced.discard(id(trainer))
        self._seen.clear()
        kept, self._kept = self._kept, {}
        return kept


def updates_on_store(trainer: Any) -> bool:
    """Return whether the key-value store of a Trainer makes its updates."""
    return bool(trainer._kvstore and trainer._update_on_kvstore)


def _is_fresh(parameter: Any) -> bool:
    """Return whether a backward pass has reached a Parameter since its last update."""
    return parameter._grad is not None and any(array._fresh_grad for array in parameter._data)


def _sum_of(grads: Sequence[Any], kept: Any, scale: float) -> Callable[[], Any]:
    """Return a function that returns a gradient as used by the optimizer: the kept one, or the sum."""

    def whole() -> Any:
        total = kept
        for array in grads if kept is None else ():
            total = array_of(array) if total is None else total + array_of(array)
        return total if scale == 1.0 else total * total.dtype.type(scale)

    return whole


def _lazily(arrays: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    return {path: _reading(array) for path, array in arrays.items()}


def _reading(array: Any) -> Callable[[], Any]:
    return lambda: array_of(array)
