"""Listens to scikit-learn's multi-layer perceptrons: every update of their own optimizers is a step."""

from __future__ import annotations

import inspect
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import sklearn
from sklearn import neural_network

from barograph.capture.doors import say_missing
from barograph.model.facts import Fact
from barograph.model.key import Kind

if TYPE_CHECKING:
    from barograph.capture.array_tap import ArrayTap
    from barograph.capture.patches import Patches
    from barograph.capture.session import Session
    from barograph.capture.tap_pool import TapPool

_NETWORK = "neural_network._multilayer_perceptron.BaseMultilayerPerceptron"
_OPTIMIZER = "neural_network._stochastic_optimizers.BaseOptimizer.update_params"
_NEEDS = {
    f"{_NETWORK}._fit_stochastic": "the beginning of a training", f"{_NETWORK}._backprop": "losses and gradients",
    f"{_NETWORK}._update_no_improvement_count": "epochs", _OPTIMIZER: "steps",
}
_LAYERS = {"relu": "ReLU", "tanh": "Tanh", "logistic": "Sigmoid", "softmax": "Softmax"}
_STATES = {"ms": "m", "vs": "v", "velocities": "velocity"}


def wrap_networks(patches: Patches, taps: TapPool, session: Session) -> None:
    """Wrap what both perceptrons go through; with the solver "lbfgs" there are no steps that could be heard."""
    if say_missing(session, sklearn, _NEEDS):
        return
    network = neural_network._multilayer_perceptron.BaseMultilayerPerceptron
    listener = _Networks(taps, list(inspect.signature(network._backprop).parameters).index("activations"))
    patches.wrap(network, "_fit_stochastic", listener.fits)
    patches.wrap(network, "_backprop", listener.backward)
    patches.wrap(network, "_update_no_improvement_count", listener.ends_epoch)
    patches.wrap(neural_network._stochastic_optimizers.BaseOptimizer, "update_params", listener.updates)


class _Networks:
    """Knows which network trains in this thread, and each network's series of steps.

    Args:
        taps: For the series.
        activations_at: Which argument of `_backprop` they are: since 1.7 weights of the samples stand before them.
    """

    def __init__(self, taps: TapPool, activations_at: int) -> None:
        self._taps = taps
        self._activations_at = activations_at
        self._here = threading.local()
        self._known: weakref.WeakKeyDictionary[Any, ArrayTap] = weakref.WeakKeyDictionary()

    def fits(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Train; what `partial_fit` goes on with is the series that it began."""
        network = args[0]
        incremental = kwargs["incremental"] if "incremental" in kwargs else args[-1]
        tap = self._known.get(network)
        if tap is None or not (incremental or network.warm_start):
            if tap is None:
                tap = self._known[network] = self._taps.take()
                weakref.finalize(network, self._taps.give_back, tap).atexit = False
            tap.begin_training()
        outer, self._here.network = getattr(self._here, "network", None), (network, tap)
        try:
            return original(*args, **kwargs)
        finally:
            self._here.network = outer

    def backward(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Take what one batch has shown: the loss, what the layers put out, the gradients."""
        result = original(*args, **kwargs)
        network, tap = self._trained(args[0])
        if tap is None:
            return result
        with tap.guarded("reading a batch of a perceptron"):
            loss, coefficients, intercepts = result
            tap.loss(float(loss))
            tap.fact(Fact.BATCH_SIZE, float(args[1].shape[0]))
            if tap.due():
                batch, labels, activations = args[1], args[2], args[self._activations_at]
                _take_outputs(tap, network, activations)
                if isinstance(batch, np.ndarray):
                    tap.take(Kind.BATCH, {"model[0]": batch})
                if network.out_activation_ == "softmax" or (network.out_activation_ == "logistic"
                                                            and np.ndim(labels) == 2 and labels.shape[1] == 1):
                    tap.predictions(labels, activations[-1], network.loss)
                tap.take(Kind.GRADIENT, _named(coefficients, intercepts))
        return result

    def updates(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Take the weights around their update, which ends the step."""
        network, tap = self._trained(None)
        if tap is None or network is None or getattr(network, "_optimizer", None) is not args[0]:
            return original(*args, **kwargs)
        weights, optimizer = _named(network.coefs_, network.intercepts_), network._optimizer
        tap.learning_rate(float(optimizer.learning_rate))
        tap.before_update(weights)
        result = original(*args, **kwargs)
        tap.after_update(weights)
        if tap.due(Kind.OPTIMIZER_STATE):
            with tap.guarded("reading the state of an optimizer"):
                _take_state(tap, optimizer, len(network.coefs_))
        tap.declare(parameters=weights, modules=_outputs_of(network))
        tap.end_step()
        return result

    def ends_epoch(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Take the score of the epoch, where some samples were kept back for it."""
        result = original(*args, **kwargs)
        network, tap = self._trained(args[0])
        scores = getattr(network, "validation_scores_", None)
        if tap is not None and scores:
            tap.begin_evaluation()
            tap.metrics({"validation_score": float(scores[-1])})
            tap.end_evaluation()
        return result

    def _trained(self, network: Any) -> tuple[Any, ArrayTap | None]:
        """Return the network that trains in this thread, if it is this one (None: any), and its tap."""
        known, tap = getattr(self._here, "network", None) or (None, None)
        return known, tap if network is None or known is network else None


def _named(coefficients: Any, intercepts: Any) -> dict[str, Any]:
    return {f"{name}.{number}": value for name, values in (("coefs", coefficients), ("intercepts", intercepts))
            for number, value in enumerate(values)}


def _outputs_of(network: Any) -> list[str]:
    return [*(f"hidden.{number}" for number in range(len(network.coefs_) - 1)), "output"]


def _take_outputs(tap: ArrayTap, network: Any, activations: Any) -> None:
    names = _outputs_of(network)
    layers = dict.fromkeys(names, _LAYERS.get(network.activation, ""))
    layers["output"] = _LAYERS.get(network.out_activation_, "")
    tap.take(Kind.OUTPUT, dict(zip(names, activations[1:], strict=True)), layers=layers)


def _take_state(tap: ArrayTap, optimizer: Any, layers: int) -> None:
    found = {}
    for attribute, name in _STATES.items():
        values = getattr(optimizer, attribute, None)
        if values is not None:
            found.update({f"{path}[{name}]": value
                          for path, value in _named(values[:layers], values[layers:]).items()})
    tap.take(Kind.OPTIMIZER_STATE, found)
