"""The integration of scikit-learn's multi-layer perceptrons: each optimizer update is a step."""

from __future__ import annotations

import inspect
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import sklearn
from sklearn import neural_network

from barograph.capture.integrations import report_missing
from barograph.model.facts import Fact
from barograph.model.key import Kind

if TYPE_CHECKING:
    from barograph.capture.array_integration import ArrayIntegration
    from barograph.capture.integration_pool import IntegrationPool
    from barograph.capture.patches import Patches
    from barograph.capture.session import Session

_NETWORK = "neural_network._multilayer_perceptron.BaseMultilayerPerceptron"
_OPTIMIZER = "neural_network._stochastic_optimizers.BaseOptimizer.update_params"
_NEEDS = {
    f"{_NETWORK}._fit_stochastic": "the start of a training", f"{_NETWORK}._backprop": "losses and gradients",
    f"{_NETWORK}._update_no_improvement_count": "epochs", _OPTIMIZER: "steps",
}
_LAYERS = {"relu": "ReLU", "tanh": "Tanh", "logistic": "Sigmoid", "softmax": "Softmax"}
_STATES = {"ms": "m", "vs": "v", "velocities": "velocity"}


def wrap_networks(patches: Patches, integrations: IntegrationPool, session: Session) -> None:
    """Wrap the methods of both perceptrons; with the solver "lbfgs" there are no observable steps."""
    if report_missing(session, sklearn, _NEEDS):
        return
    network = neural_network._multilayer_perceptron.BaseMultilayerPerceptron
    listener = _Networks(integrations, list(inspect.signature(network._backprop).parameters).index("activations"))
    patches.wrap(network, "_fit_stochastic", listener.fits)
    patches.wrap(network, "_backprop", listener.backward)
    patches.wrap(network, "_update_no_improvement_count", listener.ends_epoch)
    patches.wrap(neural_network._stochastic_optimizers.BaseOptimizer, "update_params", listener.updates)


class _Networks:
    """Tracks the network that trains in this thread, and each network's series of steps.

    Args:
        integrations: Provides integrations.
        activations_at: Index of the activations in `_backprop`'s arguments: since 1.7, sample weights precede them.
    """

    def __init__(self, integrations: IntegrationPool, activations_at: int) -> None:
        self._integrations = integrations
        self._activations_at = activations_at
        self._here = threading.local()
        self._known: weakref.WeakKeyDictionary[Any, ArrayIntegration] = weakref.WeakKeyDictionary()

    def fits(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Train; `partial_fit` continues the series that it started."""
        network = args[0]
        incremental = kwargs["incremental"] if "incremental" in kwargs else args[-1]
        integration = self._known.get(network)
        if integration is None or not (incremental or network.warm_start):
            if integration is None:
                integration = self._known[network] = self._integrations.take()
                weakref.finalize(network, self._integrations.give_back, integration).atexit = False
            integration.begin_training()
        outer, self._here.network = getattr(self._here, "network", None), (network, integration)
        try:
            return original(*args, **kwargs)
        finally:
            self._here.network = outer

    def backward(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Record the loss, the layer outputs and the gradients of one batch."""
        result = original(*args, **kwargs)
        network, integration = self._trained(args[0])
        if integration is None:
            return result
        with integration.guarded("reading a batch of a perceptron"):
            loss, coefficients, intercepts = result
            integration.loss(float(loss))
            integration.fact(Fact.BATCH_SIZE, float(args[1].shape[0]))
            if integration.due():
                batch, labels, activations = args[1], args[2], args[self._activations_at]
                _take_outputs(integration, network, activations)
                if isinstance(batch, np.ndarray):
                    integration.take(Kind.BATCH, {"model[0]": batch})
                if network.out_activation_ == "softmax" or (network.out_activation_ == "logistic"
                                                            and np.ndim(labels) == 2 and labels.shape[1] == 1):
                    integration.predictions(labels, activations[-1], network.loss)
                integration.take(Kind.GRADIENT, _named(coefficients, intercepts))
        return result

    def updates(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Record the weights before and after their update, which ends the step."""
        network, integration = self._trained(None)
        if integration is None or network is None or getattr(network, "_optimizer", None) is not args[0]:
            return original(*args, **kwargs)
        weights, optimizer = _named(network.coefs_, network.intercepts_), network._optimizer
        integration.learning_rate(float(optimizer.learning_rate))
        integration.before_update(weights)
        result = original(*args, **kwargs)
        integration.after_update(weights)
        if integration.due(Kind.OPTIMIZER_STATE):
            with integration.guarded("reading the state of an optimizer"):
                _take_state(integration, optimizer, len(network.coefs_))
        integration.declare(parameters=weights, modules=_outputs_of(network))
        integration.end_step()
        return result

    def ends_epoch(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Record the validation score of the epoch, if there is one."""
        result = original(*args, **kwargs)
        network, integration = self._trained(args[0])
        scores = getattr(network, "validation_scores_", None)
        if integration is not None and scores:
            integration.begin_evaluation()
            integration.metrics({"validation_score": float(scores[-1])})
            integration.end_evaluation()
        return result

    def _trained(self, network: Any) -> tuple[Any, ArrayIntegration | None]:
        """Return the network that trains in this thread, if it is this one (None: any), and its integration."""
        known, integration = getattr(self._here, "network", None) or (None, None)
        return known, integration if network is None or known is network else None


def _named(coefficients: Any, intercepts: Any) -> dict[str, Any]:
    return {f"{name}.{number}": value for name, values in (("coefs", coefficients), ("intercepts", intercepts))
            for number, value in enumerate(values)}


def _outputs_of(network: Any) -> list[str]:
    return [*(f"hidden.{number}" for number in range(len(network.coefs_) - 1)), "output"]


def _take_outputs(integration: ArrayIntegration, network: Any, activations: Any) -> None:
    names = _outputs_of(network)
    layers = dict.fromkeys(names, _LAYERS.get(network.activation, ""))
    layers["output"] = _LAYERS.get(network.out_activation_, "")
    integration.take(Kind.OUTPUT, dict(zip(names, activations[1:], strict=True)), layers=layers)


def _take_state(integration: ArrayIntegration, optimizer: Any, layers: int) -> None:
    found = {}
    for attribute, name in _STATES.items():
        values = getattr(optimizer, attribute, None)
        if values is not None:
            found.update({f"{path}[{name}]": value
                          for path, value in _named(values[:layers], values[layers:]).items()})
    integration.take(Kind.OPTIMIZER_STATE, found)
