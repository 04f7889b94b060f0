"""Passes the results of a Keras or TensorFlow step to an `ArrayIntegration`."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from barograph.capture.keras.arrays import array_of
from barograph.capture.keras.collector import Seen
from barograph.capture.keras.fetching import Fetching, Reader
from barograph.capture.keras.likeness import record_likeness
from barograph.capture.keras.loss_terms import Losses
from barograph.capture.keras.modes import Modes
from barograph.capture.keras.names import LayerClasses, Names, optimizer_states
from barograph.capture.keras.untrained import untrained_in
from barograph.model.facts import Fact, fact
from barograph.model.key import Key, Kind

if TYPE_CHECKING:
    from barograph.capture.array_integration import ArrayIntegration
    from barograph.capture.keras.backends import ValueOf


_MOST_NAMED = 10
PENALTY = "regularization"
"""Path of losses added by Keras: penalties on weights, and `add_loss`."""


class ResultRecorder:
    """Passes results to one integration.

    Args:
        integration: Receives the results.
        waits: Reading a number blocks the training; numbers are then read when the step is published.
        reader: See `Fetching`.
    """

    def __init__(self, integration: ArrayIntegration, *, waits: bool, reader: Reader | None = None) -> None:
        self._integration = integration
        self._fetching = Fetching(reader, integration.session.startup.apart_from_training)
        self._waits = waits
        self._has_blamed = False
        self._trained_before: Names | None = None
        self._states: Mapping[str, Any] = {}
        self._states_of: tuple[Names, Any] | None = None

    def tensors(self, seen: Seen, names: Names, losses: Losses, but: Container[Kind] = ()) -> None:
        """Record gradients, inputs and outputs of layers, and the inputs of the loss.

        Args:
            seen: Results of the step.
            names: Names of the variables.
            losses: Losses of the compiled model.
            but: Kinds of tensors to leave out because they are incomplete.
        """
        integration = self._integration
        if "read" in seen:
            integration.take_readings(seen["read"], but)
        if "statistics" in seen:
            seen["statistics"].hand_over(integration, 0, but)
        if "gradients" in seen and Kind.GRADIENT not in but:
            integration.take(Kind.GRADIENT, {path: _lazily(item) for path, item in seen["gradients"].items()},
                     layers=names.owners)
        calls = {kind: seen.get(group, {}) for group, kind in (("outputs", Kind.OUTPUT), ("inputs", Kind.INPUT))}
        layers = LayerClasses(names)
        most = max((len(items) for group in calls.values() for items in group.values()), default=0)
        for number in range(most):
            integration.take_together({kind: {path: _lazily(items[number]) for path, items in group.items()
                                      if number < len(items)} for kind, group in calls.items()}, layers=layers)
        if "broadcast" in seen:
            integration.fact(Fact.BROADCAST, lambda: float(array_of(seen["broadcast"])))
        data = {name: items[-1] for name, items in seen.get("data", {}).items()}
        if data:
            self._data(data, losses)
            if not _fed(data):
                # A custom step may compute its loss from labels and predictions alone.
                self.fed(seen)

    def lost(self, paths: Iterable[str]) -> None:
        """Report layers and losses whose inputs and outputs cannot be recorded."""
        for path in paths:
            self._integration.session.seen.reasons[f"keras within {path}"] = (
                f"{path} is called inside a loop, a branch or a nested tf.function, so its inputs and "
                "outputs were not recorded")

    def fed(self, seen: Seen) -> None:
        """Record the inputs of a step if due, which includes steps with a loss out of range."""
        if self._integration.due(Kind.BATCH):
            fed = _fed({name: items[-1] for name, items in seen.get("fed", {}).items()})
            self._integration.take(Kind.BATCH, {f"model{item}": _lazily(value) for item, value in fed.items()})

    def _data(self, data: Mapping[str, Any], losses: Losses) -> None:
        integration = self._integration
        fed = _fed(data)
        integration.take(Kind.BATCH, {f"model{item}": _lazily(value) for item, value in fed.items()})
        if fed:
            integration.fact(Fact.BATCH_SIZE, float(next(iter(fed.values())).shape[0]))
        weights = data.get("sample_weight")
        if weights is not None and integration.taking(Kind.FACT, Fact.LOSS_WEIGHTED.value) is not None:
            integration.fact(Fact.LOSS_WEIGHTED, float(np.ptp(array_of(weights)) > 0))
        handed = list(losses.over(data))
        for item in handed:
            if not item.of_classes:
                integration.take(Kind.TARGET, {item.path: _lazily(item.target)})
            elif integration.due(Kind.LABEL, Kind.CONFUSION):
                integration.predictions(
                    array_of(item.target), _scores(array_of(item.predictions), item.from_logits), item.path
                )
        if len(handed) == 1 and not integration.evaluating:
            record_likeness(integration, handed[0].function, handed[0].predictions, handed[0].from_logits)

    def loss(self, value: Any, alone: str = "") -> None:
        """Record the loss of a step or of an evaluation batch.

        Args:
            value: The loss.
            alone: Name of the loss function if nothing is added to its result; otherwise "".
        """
        given = self._given(value)
        self._integration.loss(given)
        if alone:
            self._integration.loss(given, alone)

    def penalty(self, seen: Seen) -> None:
        """Record the part of the loss that is a penalty on weights or outputs."""
        if "penalty" in seen:
            self._integration.loss(self._given(seen["penalty"]), PENALTY)

    def parameters(self, names: Names, modes: Modes | None, value: ValueOf) -> None:
        """Record facts about parameters and about the modes in which layers were called, if due."""
        if not self._integration.due(Kind.FACT):
            return
        facts: dict[Key, float] = {
            fact(Fact.PARAMETERS): len(names.trainable) + len(names.frozen), fact(Fact.FROZEN): len(names.frozen)}
        if names.frozen:
            facts.update(self._untrained(names, value))
        if modes is not None:
            facts[fact(Fact.LAYERS_IN_EVAL)] = modes.in_eval / modes.layers if modes.layers else 0.0
            facts[fact(Fact.MODEL_IN_EVAL)] = modes.whole_in_eval
        self._integration.numbers({key: float(value) for key, value in facts.items()})

    def evaluated(self, modes: Modes | None) -> None:
        """Record the modes in which an evaluation called its layers, if due."""
        if modes is not None:
            in_train = modes.layers - modes.in_eval
            self._integration.fact(Fact.LAYERS_IN_TRAIN, in_train / modes.layers if modes.layers else 0.0)

    def _untrained(self, names: Names, value: ValueOf) -> dict[Key, float]:
        """Return facts about frozen layers that never learned; none once one has changed."""
        if self._trained_before is not names:
            layers = untrained_in(names, value)
            if layers:
                return {fact(Fact.UNTRAINED): len(layers), **{fact(Fact.UNTRAINED, path): 1.0
                                                              for path in layers[:_MOST_NAMED]}}
            self._trained_before = names
        return {fact(Fact.UNTRAINED): 0.0}

    def _given(self, value: Any) -> float | Callable[[], float]:
        return _number(value) if self._waits else float(array_of(value))

    def blame(self, seen: Seen) -> None:
        """Record once that a logarithm made the loss non-finite."""
        if self._has_blamed or "least_logarithm" not in seen or np.isfinite(array_of(seen["loss"])):
            return
        self._has_blamed = True
        least = float(array_of(seen["least_logarithm"]))
        if least <= 0:
            self._integration.fact(Fact.BAD_OPERATION, 1.0)
            self._integration.fact(Fact.BAD_OPERATION, 1.0, "log_of_negative" if least < 0 else "log")

    def metrics(self, logs: Any, *, always: bool = False) -> None:
        """Record the metrics that Keras logs; at every step only if reading them does not block."""
        if isinstance(logs, Mapping) and (always or not self._waits or self._integration.due()):
            self._integration.metrics(_metrics(logs))

    def learning_rate(self, seen: Seen) -> None:
        """Record the learning rate that the optimizer used."""
        if "learning_rate" in seen:
            self._integration.learning_rate(self._given(seen["learning_rate"]))

    def before(self, names: Names, value: ValueOf) -> None:
        """Keep the weights before their update, if due."""
        if self._integration.due(Kind.UPDATE):
            self._integration.before_update(self._fetching.arrays("weights", names.trainable, value))

    def after(self, names: Names, optimizer: Any, value: ValueOf) -> None:
        """Record weights and optimizer states."""
        integration = self._integration
        if integration.due(Kind.WEIGHT, Kind.UPDATE):
            integration.after_update(self._fetching.arrays("weights", names.trainable, value), layers=names.owners)
        if optimizer is not None and integration.due(Kind.OPTIMIZER_STATE):
            if self._states_of != (names, optimizer):
                self._states, self._states_of = optimizer_states(optimizer, names), (names, optimizer)
            integration.take(
                Kind.OPTIMIZER_STATE, self._fetching.arrays("states", self._states, value), layers=names.owners
            )


def _fed(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the model inputs among the data of a step, by argument item."""
    return {name[1:]: item for name, item in data.items() if name == "x" or name.startswith("x[")}


def _lazily(value: Any) -> Callable[[], Any]:
    return lambda: array_of(value)


def _number(value: Any) -> Callable[[], float]:
    return lambda: float(np.mean(array_of(value)))


def _metrics(logs: Mapping[str, Any]) -> dict[str, Callable[[], float]]:
    """Return the metrics that Keras logs, except the loss; nested ones under their own names."""
    found: dict[str, Callable[[], float]] = {}
    for name, value in logs.items():
        if isinstance(value, Mapping):
            found.update(_metrics(value))
        elif name != "loss":
            found[str(name)] = _number(value)
    return found


def _scores(predictions: Any, from_logits: bool) -> Any:
    """Return scores for `ArrayIntegration.predictions`; a single logit becomes 0 or 1."""
    return (predictions > 0).astype(np.float32) if from_logits and predictions.shape[-1:] == (1,) else predictions
